//! Clients that sign in at a provider (`forebay.io/auth-oidc-issuer`): the session in their cookies, its
//! renewal, and the way to the provider for those without one.
//!
//! A request with a session costs a look-up of its cookies. Only a session that ends soon waits for the
//! provider, and the control plane asks it (`identity::oidc::provider`).

mod body;
pub(super) mod endpoints;
mod pages;
mod sign_in;

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use identity::claims::header_value;
use identity::oidc::cookies::Parts;
use identity::oidc::provider::{Answer as Told, Ask, Provider};
use identity::oidc::seal::Place;
use identity::oidc::session::{Session, Standing};
use identity::oidc::tokens::{Failure, Granted};
use model::{Access, HeaderNames, Oidc, OidcClient};

use crate::admit::Targeted;
use crate::io::deadline::Elapsed;
use crate::limits::{OIDC_RENEWAL_TIME_MAX, OIDC_RENEWAL_TIME_MAX_WHILE_GOOD};
use crate::request::decision::Decision;
use crate::request::lookup;
use crate::request::reply::Answer;
use crate::request::stage::Watch;
use crate::route::filters::FilterResult;

/// The beginning of the names of all our cookies. Endpoints get none of them.
const OWN_COOKIES: &[u8] = b"__Host-forebay-";

/// The purpose of a session's cookie.
const SESSION: &str = "session";

/// What is known of the client before it is let in.
pub(super) struct Visitor {
    session: Option<Arc<Session>>,
    standing: Standing,
    /// Cookies of a session that the client has sent.
    sent: usize,
}

/// The sign-ins whose endpoint a request asks for; none if it asks for something else.
pub(super) fn endpoints_of<'a>(targeted: &Targeted<'_>, access: &'a Access) -> Option<&'a [Arc<Oidc>]> {
    if let Some(endpoints) = &access.oidc_endpoints {
        return Some(endpoints);
    }
    let oidc = access.oidc.as_ref()?;
    oidc.has_path(targeted.client_path()).then(|| std::slice::from_ref(oidc))
}

/// Looks up the session of a request. The endpoint gets none of our cookies, and no header of a claim that
/// the client has made up.
pub(super) fn identify(targeted: &Targeted<'_>, oidc: &Oidc, decision: &mut Decision) -> Visitor {
    forget_headers(targeted, oidc, decision);
    let parts = take_cookies(targeted, &oidc.client, decision);
    let session = find(targeted, &oidc.client, &parts);
    let now = now(targeted);
    let standing = session.as_ref().map_or(Standing::Over, |session| {
        let knows_all = oidc.client.wanted.iter().all(|claim| session.knows(claim));
        if knows_all { session.standing(now, oidc.client.lifetime) } else { Standing::Over }
    });
    let session = session.filter(|_| standing != Standing::Over);
    if let Some(session) = &session {
        tell(oidc, session, decision);
    }
    Visitor { session, standing, sent: parts.sent() }
}

/// Lets a client with a session in. All others are sent to the provider, or refused.
pub(super) async fn check(
    targeted: &Targeted<'_>,
    oidc: &Oidc,
    visitor: Visitor,
    decision: &mut Decision,
    watch: impl Watch,
) -> FilterResult {
    let Some(session) = visitor.session else {
        return sign_in::require(targeted, &oidc.client, watch).await;
    };
    let session = match visitor.standing {
        Standing::Good => session,
        _ if watch.explains() => session,
        standing => match renew(targeted, &oidc.client, &session, standing).await {
            Ok(Some(renewed)) => {
                decision.session_cookies = set_session(targeted, &oidc.client, &renewed, visitor.sent);
                tell(oidc, &renewed, decision);
                Arc::new(renewed)
            }
            Ok(None) => session,
            Err(Failure::Away(_) | Failure::Wrong(_)) => return FilterResult::Answer(pages::away()),
            Err(Failure::Refused(_)) => return sign_in::require(targeted, &oidc.client, watch).await,
        },
    };
    let is_allowed = oidc.rules.as_ref().is_none_or(|rules| {
        rules.allow(targeted.method(), targeted.client_path(), &session.claims)
    });
    if is_allowed { FilterResult::Continue } else { FilterResult::Answer(Answer::refusal(403, &[])) }
}

/// Renews a session whose tokens have ended or end soon. None if it counts as it is.
async fn renew(
    targeted: &Targeted<'_>,
    client: &OidcClient,
    session: &Session,
    standing: Standing,
) -> Result<Option<Session>, Failure> {
    let time = match standing {
        Standing::EndsSoon => OIDC_RENEWAL_TIME_MAX_WHILE_GOOD,
        _ => OIDC_RENEWAL_TIME_MAX,
    };
    let asked = ask(targeted, &client.provider, Ask::Renew(Box::new(session.clone())), time).await;
    match asked {
        Ok(granted) => Ok(Some(session.renew(&granted, &client.wanted))),
        // Another replica may have renewed it: the client has the new cookie then.
        Err(_) if standing == Standing::EndsSoon => Ok(None),
        Err(Failure::Away(_) | Failure::Wrong(_)) if standing == Standing::Grace => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Puts a question to the provider, and waits for its answer for some time.
async fn ask(
    targeted: &Targeted<'_>,
    provider: &Provider,
    question: Ask,
    time: Duration,
) -> Result<Arc<Granted>, Failure> {
    let away = |why: &str| Failure::Away(why.to_owned());
    let mut answered = provider.ask(question)?;
    let mut gone = pin!(targeted.client_gone());
    let waited = targeted.deadline.within(time, |cx| match Pin::new(&mut answered).poll(cx) {
        Poll::Ready(answer) => Poll::Ready(answer.unwrap_or_else(|_| Err(away("the process ends")))),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(away("the client has gone away"))),
    });
    match waited.await.unwrap_or_else(|Elapsed| Err(away("there was no answer in time")))? {
        Told::Granted(granted) => Ok(granted),
        Told::Done => Ok(Arc::default()),
    }
}

/// The values of `Set-Cookie` for a session; none if it is too long for cookies.
fn set_session(targeted: &Targeted<'_>, client: &OidcClient, session: &Session, sent: usize) -> Vec<String> {
    let now = now(targeted);
    let host = host(targeted);
    let sealed = client.keys.seal(place(client, &host), now, &session.encode());
    let seconds = session.seconds_left(now, client.lifetime);
    client.provider.names().set_session(&sealed, seconds, sent).unwrap_or_default()
}

/// Opens the session of a request. A cookie that was opened before is not decrypted again.
fn find(targeted: &Targeted<'_>, client: &OidcClient, parts: &Parts<'_>) -> Option<Arc<Session>> {
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
fn take_cookies<'h>(
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
        let mut rest = Vec::new();
        for pair in lookup::cookies(head, parsed).filter(|pair| !pair.starts_with(OWN_COOKIES)) {
            if !rest.is_empty() {
                rest.extend_from_slice(b"; ");
            }
            rest.extend_from_slice(pair);
        }
        decision.tell("Cookie", Some(rest).filter(|rest| !rest.is_empty()));
    }
    parts
}

/// Name and value of a cookie.
fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
    (&pair[..at], pair.get(at + 1..).unwrap_or_default())
}

/// Has the endpoint get no header of a claim, in no spelling that it may take for the same, unless another
/// check has set it.
fn forget_headers(targeted: &Targeted<'_>, oidc: &Oidc, decision: &mut Decision) {
    for (name, _) in &oidc.headers {
        forget(name, decision);
        if targeted.config.settings().client.header_names == HeaderNames::Plain {
            continue;
        }
        let names = targeted.parsed.fields.iter().map(|field| field.name(targeted.head));
        for alike in names.filter(|own| lookup::is_alike(own, name.as_bytes())) {
            forget(&String::from_utf8_lossy(alike), decision);
        }
    }
}

fn forget(name: &str, decision: &mut Decision) {
    let is_set = |(known, value): &(String, Option<Vec<u8>>)| known.eq_ignore_ascii_case(name) && value.is_some();
    if !decision.upstream.iter().any(is_set) {
        decision.tell(name, None);
    }
}

/// Tells the endpoint and the log who the client is.
fn tell(oidc: &Oidc, session: &Session, decision: &mut Decision) {
    for (name, claim) in &oidc.headers {
        if let Some(value) = claim.find(&session.claims).and_then(header_value) {
            decision.tell(name, Some(value.into_bytes()));
        }
    }
    if let (None, Some(name)) = (&decision.user, oidc.user.find(&session.claims).and_then(header_value)) {
        decision.user = Some(name.into());
    }
}

/// The host that the client has asked for, with its port, in lower case.
fn host<'h>(targeted: &Targeted<'h>) -> Cow<'h, [u8]> {
    let host: &'h [u8] = targeted.forwarded.host;
    if host.iter().any(u8::is_ascii_uppercase) { host.to_ascii_lowercase().into() } else { host.into() }
}

/// Scheme and host of the URLs at which the client reaches this host.
fn origin(targeted: &Targeted<'_>) -> String {
    let scheme = if targeted.forwarded.scheme.eq_ignore_ascii_case(b"https") { "https" } else { "http" };
    format!("{scheme}://{}", String::from_utf8_lossy(&host(targeted)))
}

fn now(targeted: &Targeted<'_>) -> u64 {
    targeted.worker.clock.wall().as_secs()
}
