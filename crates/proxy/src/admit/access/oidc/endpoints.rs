//! The endpoints of sign-ins: where the provider sends users back, where users sign out, and where the
//! provider ends sessions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use identity::oidc::cookies::removed;
use identity::oidc::login::{self, Callback, Login, own_target};
use identity::oidc::logout;
use identity::oidc::provider::{self, Ask};
use identity::oidc::relay::{Ending, Message};
use identity::oidc::seal::Place;
use identity::oidc::session::Session;
use identity::oidc::tokens::Failure;
use identity::oidc::{CLOCK_DIFFERENCE_MAX, form};
use model::{Oidc, OidcClient};

use super::cookies::{find, parts, set_session};
use super::here::{host, now, origin};
use super::question::{ask, put};
use super::sign_in::{self, LOGIN};
use super::{body, pages};
use crate::admit::Targeted;
use crate::io::buffer::Buffer;
use crate::limits::OIDC_ANSWER_TIME_MAX;
use crate::replicas;
use crate::request::lookup;
use crate::request::reply::{Answer, Scope};
use crate::route::filters::FilterResult;

/// Answers a request for an endpoint. `rest` holds what has been read after the head; none for a request that
/// is only explained.
pub(in crate::admit::access) async fn answer(
    targeted: &Targeted<'_>,
    sign_ins: &[Arc<Oidc>],
    rest: Option<&mut Buffer>,
) -> FilterResult {
    let path = targeted.client_path();
    let has = |own: fn(&OidcClient) -> &str| sign_ins.iter().any(|one| own(&one.client).as_bytes() == path);
    let answer = match rest {
        None => pages::signed_out(),
        Some(_) if has(|client| &client.callback_path) => call_back(targeted, sign_ins).await,
        Some(_) if has(|client| &client.logout_path) => sign_out(targeted, sign_ins).await,
        Some(rest) => end_sessions(targeted, sign_ins, rest).await,
    };
    FilterResult::Answer(answer.of(Scope::Signin))
}

/// The client comes back from the provider.
async fn call_back(targeted: &Targeted<'_>, sign_ins: &[Arc<Oidc>]) -> Answer {
    if targeted.method() != b"GET" {
        return Answer::method_not_allowed("GET").setting_cookies([]);
    }
    let callback = match Callback::parse(query(targeted)) {
        Ok(callback) => callback,
        Err(why) => return pages::failed(400, &format!("{why}.")).setting_cookies([]),
    };
    let Some((client, login, cookie)) = login_of(targeted, sign_ins, &callback.state) else {
        let why =
            "it is not in progress here, or took too long. The browser has to accept cookies, and https.";
        return pages::failed(400, why).setting_cookies([]);
    };
    let counts = client.provider.counts();
    match finish(targeted, sign_ins, client, &login, callback).await {
        Ok(mut cookies) => {
            counts.signed_in.fetch_add(1, Ordering::Relaxed);
            cookies.push(removed(&cookie));
            // Relative to this host, whatever it is called: no target leads to another one.
            Answer::redirect(302, login.target).setting_cookies(cookies)
        }
        Err(page) => {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            page.setting_cookies([removed(&cookie)])
        }
    }
}

/// Has the code redeemed. Returns the cookies of the new session, or the page for the client.
async fn finish(
    targeted: &Targeted<'_>,
    sign_ins: &[Arc<Oidc>],
    client: &OidcClient,
    login: &Login,
    callback: Callback,
) -> Result<Vec<String>, Answer> {
    let issuer = &client.provider.settings().issuer;
    if callback.issuer.is_some_and(|told| told != *issuer) {
        return Err(pages::failed(400, "the answer is that of another provider."));
    }
    let code = callback.outcome.map_err(|error| {
        let text = error.description.as_ref().unwrap_or(&error.error);
        let status = if error.error == "access_denied" { 403 } else { 400 };
        pages::failed(status, &format!("the provider says: {text}."))
    })?;
    let wanted = wanted(sign_ins, client);
    let question = Ask::Redeem {
        code,
        verifier: login.verifier.clone(),
        nonce: login.nonce.clone(),
        redirect_uri: format!("{}{}", origin(targeted), client.callback_path),
        wanted: wanted.clone(),
    };
    let granted = ask(targeted, &client.provider, question, OIDC_ANSWER_TIME_MAX).await;
    let granted = granted.map_err(|failure| match failure {
        Failure::Refused(_) => pages::failed(400, "the provider does not accept its own code any more."),
        Failure::Wrong(_) => pages::failed(500, "the provider's answer cannot be used; the log says why."),
        Failure::Away(_) => pages::failed(503, "the provider cannot be reached."),
    })?;
    let session = Session::begin(&granted, &wanted);
    let set = set_session(targeted, client, &session, parts(targeted, client).sent());
    if set.is_empty() {
        tracing::warn!(%issuer, "the tokens of a session are too long for cookies");
        return Err(pages::failed(500, "the session is too long for cookies."));
    }
    Ok(set)
}

/// The claims that any route of this host needs from the provider.
fn wanted(sign_ins: &[Arc<Oidc>], client: &OidcClient) -> Vec<String> {
    let same = sign_ins.iter().filter(|one| one.client.provider.digest() == client.provider.digest());
    let mut wanted: Vec<_> = same.flat_map(|one| one.client.wanted.iter().cloned()).collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

/// The sign-in that a client has begun with this state, with its cookie.
fn login_of<'o>(
    targeted: &Targeted<'_>,
    sign_ins: &'o [Arc<Oidc>],
    state: &str,
) -> Option<(&'o OidcClient, Login, String)> {
    let (host, now) = (host(targeted), now(targeted));
    sign_ins.iter().find_map(|one| {
        let client = &*one.client;
        let name = client.provider.names().of_login(state);
        let sealed = lookup::cookie(targeted.head, targeted.parsed, name.as_bytes())?;
        let place = Place { purpose: LOGIN, provider: client.provider.digest(), host: &host, name: &name };
        let (begun, content) = client.keys.open(place, now, sealed)?;
        let login = Login::decode(&content)?;
        let is_in_time = now <= begun + login::TIME_MAX + CLOCK_DIFFERENCE_MAX;
        (login.state == state && is_in_time).then_some((client, login, name))
    })
}

/// The client signs out, here and at the provider.
async fn sign_out(targeted: &Targeted<'_>, sign_ins: &[Arc<Oidc>]) -> Answer {
    if !matches!(targeted.method(), b"GET" | b"POST") {
        return Answer::method_not_allowed("GET, POST").setting_cookies([]);
    }
    let mut cookies = Vec::new();
    let mut ended: Option<(&OidcClient, Arc<Session>)> = None;
    for client in sign_ins.iter().map(|one| &*one.client) {
        let parts = parts(targeted, client);
        if parts.sent() == 0 {
            continue;
        }
        cookies.extend(client.provider.names().remove_session(parts.sent()));
        if let Some(session) = find(targeted, client, &parts) {
            client.provider.end(&session, now(targeted));
            tell_replicas(targeted, client, Ending::Session(session.id)).await;
            ended.get_or_insert((client, session));
        }
    }
    let first = sign_ins.iter().find_map(|one| one.client.post_logout_redirect.as_deref());
    if let Some((client, session)) = ended
        && let Some(metadata) = sign_in::metadata(targeted, client).await
        && let Some(endpoint) = &metadata.end_session_endpoint
    {
        let back_to = client.post_logout_redirect.as_ref().map(|target| {
            if target.starts_with('/') { format!("{}{target}", origin(targeted)) } else { target.clone() }
        });
        let client_id = &client.provider.settings().client_id;
        let url = logout::url(endpoint, client_id, Some(&session), back_to.as_deref());
        return Answer::redirect(302, url).setting_cookies(cookies);
    }
    let pairs = form::parse(query(targeted)).unwrap_or_default();
    let named = pairs.iter().find(|(name, _)| name == "rd").map(|(_, target)| target.as_str());
    match named.and_then(|target| own_target(target.as_bytes())).or(first) {
        Some(target) => Answer::redirect(302, target.to_owned()).setting_cookies(cookies),
        None => pages::signed_out().setting_cookies(cookies),
    }
}

/// The provider ends sessions (`OpenID Connect` Back-Channel Logout 1.0 section 2.5).
async fn end_sessions(targeted: &Targeted<'_>, sign_ins: &[Arc<Oidc>], rest: &mut Buffer) -> Answer {
    if targeted.method() != b"POST" {
        return Answer::method_not_allowed("POST").setting_cookies([]);
    }
    let refused =
        |status, why: &str| Answer::text(status, "text/plain", format!("{why}\n")).setting_cookies([]);
    let Ok(content) = body::read(targeted, rest).await else {
        return refused(400, "the body cannot be read");
    };
    let pairs = form::parse(&content).unwrap_or_default();
    let mut tokens = pairs.into_iter().filter(|(name, _)| name == "logout_token");
    let (Some((_, token)), None) = (tokens.next(), tokens.next()) else {
        return refused(400, "there is no logout_token");
    };
    let path = targeted.client_path();
    let mut last = refused(400, "the logout_token is for nobody here");
    for client in sign_ins.iter().map(|one| &*one.client) {
        if client.back_channel_path.as_bytes() != path {
            continue;
        }
        let question = Ask::Logout(token.clone());
        match put(targeted, &client.provider, question, OIDC_ANSWER_TIME_MAX).await {
            Ok(answered) => {
                if let provider::Answer::Ended(token) = answered {
                    tell_replicas(targeted, client, Ending::Token(token)).await;
                }
                return Answer::text(200, "text/plain", String::new()).setting_cookies([]);
            }
            Err(Failure::Away(why)) => last = refused(503, &why),
            Err(Failure::Refused(why) | Failure::Wrong(why)) => last = refused(400, &why),
        }
    }
    last
}

/// Has all replicas know that sessions have ended.
async fn tell_replicas(targeted: &Targeted<'_>, client: &OidcClient, ending: Ending) {
    if targeted.config.settings().replicas.is_some() {
        let message = Message::Ended { provider: *client.provider.digest(), ending, at: now(targeted) };
        replicas::tell_sign_in(targeted.worker, targeted.config, &message).await;
    }
}

/// The query of the request, without the question mark.
fn query<'h>(targeted: &Targeted<'h>) -> &'h [u8] {
    let target = targeted.parsed.origin_target(targeted.head);
    let at = target.iter().position(|&byte| byte == b'?');
    at.map_or(&[], |at| &target[at + 1..])
}
