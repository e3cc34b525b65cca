//! The session in the cookies of a request.

use std::sync::Arc;

use identity::oidc::cookies::Parts;
use identity::oidc::seal::Place;
use identity::oidc::session::Session;
use model::OidcClient;

use super::here::{host, now};
use crate::admit::Targeted;
use crate::request::decision::Decision;
use crate::request::lookup;

/// The beginning of the names of all our cookies. Endpoints get none of them.
const OWN_COOKIES: &[u8] = b"__Host-forebay-";

/// The purpose of a session's cookie.
const SESSION: &str = "session";

/// The values of `Set-Cookie` for a session; none if it is too long for cookies.
pub(super) fn set_session(
    targeted: &Targeted<'_>,
    client: &OidcClient,
    session: &Session,
    sent: usize,
) -> Vec<String> {
    let now = now(targeted);
    let host = host(targeted);
    let sealed = client.keys.seal(place(client, &host), now, &session.encode());
    let seconds = session.seconds_left(now, client.lifetime);
    client.provider.names().set_session(&sealed, seconds, sent).unwrap_or_default()
}

/// Opens the session of a request. A cookie that was opened before is not decrypted again.
pub(super) fn find(targeted: &Targeted<'_>, client: &OidcClient, parts: &Parts<'_>) -> Option<Arc<Session>> {
    if parts.sent() == 0 {
        return None;
    }
    let (provider, host) = (&client.provider, host(targeted));
    let mut key = Vec::with_capacity(2048);
    for part in [&client.keys.digest()[..], provider.digest(), &host, b"\0"] {
        key.extend_from_slice(part);
    }
    let begin = key.len();
    if !parts.join(&mut key) {
        return None;
    }
    let known = &targeted.worker.clients.sessions;
    let session = known.get(&key).or_else(|| {
        let (_, content) = client.keys.open(place(client, &host), now(targeted), &key[begin..])?;
        let session = Arc::new(Session::decode(&content)?);
        known.put(&key, &session);
        Some(session)
    })?;
    (!provider.has_ended(&session)).then_some(session)
}

/// The place of a session's cookies: that of the first, whatever their number.
fn place<'p>(client: &'p OidcClient, host: &'p [u8]) -> Place<'p> {
    let (provider, name) = (client.provider.digest(), &client.provider.names().session);
    Place { purpose: SESSION, provider, host, name }
}

/// The cookies of the session. The endpoint gets all other cookies.
pub(super) fn take_cookies<'h>(
    targeted: &Targeted<'h>,
    client: &OidcClient,
    decision: &mut Decision,
) -> Parts<'h> {
    let (head, parsed) = (targeted.head, targeted.parsed);
    let mut parts = Parts::default();
    let mut has_own = false;
    for pair in lookup::cookies(head, parsed).filter(|pair| pair.starts_with(OWN_COOKIES)) {
        has_own = true;
        let (name, value) = split(pair);
        if let Some(number) = client.provider.names().part(name) {
            parts.note(number, value);
        }
    }
    if has_own {
        decision.keep_cookies(head, parsed, |pair| !pair.starts_with(OWN_COOKIES));
    }
    parts
}

/// Takes all our cookies out of those that the endpoint gets.
pub(crate) fn hide(targeted: &Targeted<'_>, decision: &mut Decision) {
    if has_any(targeted) {
        decision.keep_cookies(targeted.head, targeted.parsed, |pair| !pair.starts_with(OWN_COOKIES));
    }
}

/// Whether a request has any of our cookies.
pub(crate) fn has_any(targeted: &Targeted<'_>) -> bool {
    lookup::cookies(targeted.head, targeted.parsed).any(|pair| pair.starts_with(OWN_COOKIES))
}

/// Name and value of a cookie.
pub(super) fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
    (&pair[..at], pair.get(at + 1..).unwrap_or_default())
}

/// The cookies of a session.
pub(super) fn parts<'h>(targeted: &Targeted<'h>, client: &OidcClient) -> Parts<'h> {
    let mut parts = Parts::default();
    for (name, value) in lookup::cookies(targeted.head, targeted.parsed).map(split) {
        if let Some(number) = client.provider.names().part(name) {
            parts.note(number, value);
        }
    }
    parts
}
