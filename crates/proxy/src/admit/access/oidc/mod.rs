//! Clients that sign in at a provider (`forebay.io/auth-oidc-issuer`): the session in their cookies, its
//! renewal, and the way to the provider for those without one.
//!
//! A request with a session costs a look-up of its cookies. Only a session that ends soon waits for the
//! provider, and the control plane asks it (`identity::oidc::provider`).

mod body;
mod cookies;
pub(super) mod endpoints;
mod here;
mod pages;
mod question;
mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use identity::claims::header_value;
use identity::oidc::provider::Ask;
use identity::oidc::relay::{Message, Renewed};
use identity::oidc::session::{Session, Standing};
use identity::oidc::tokens::{Failure, Granted};
use model::{Access, Oidc, OidcClient};

use crate::admit::Targeted;
use crate::limits::{OIDC_RENEWAL_TIME_MAX, OIDC_RENEWAL_TIME_MAX_WHILE_GOOD};
use crate::replicas;
use crate::request::decision::Decision;
use crate::request::reply::Answer;
use crate::request::stage::Watch;
use crate::route::filters::FilterResult;
use cookies::{find, set_session, take_cookies};
pub(super) use cookies::{has_any as has_cookies, hide as hide_cookies};
use here::now;
use question::ask;

/// The client of a request, with its session, before it is let in.
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
    forget_headers(oidc, decision);
    let parts = take_cookies(targeted, &oidc.client, decision);
    let session = find(targeted, &oidc.client, &parts);
    let now = now(targeted);
    let standing = session.as_ref().map_or(Standing::Over, |session| {
        let knows_all = oidc.client.wanted.iter().all(|claim| session.knows(claim));
        if knows_all { session.standing(now, oidc.client.lifetime) } else { Standing::Over }
    });
    let session = session.filter(|_| standing != Standing::Over);
    if let Some(session) = &session {
        know(oidc, session, decision);
        if standing == Standing::Good {
            tell(oidc, session, decision);
        }
    }
    Visitor { session, standing, sent: parts.sent() }
}

/// Lets a client in whose session counts and needs no renewal, if the rules allow the request. None for all
/// others.
pub(super) fn let_in_at_once(targeted: &Targeted<'_>, oidc: &Oidc, decision: &mut Decision) -> Option<()> {
    if oidc.has_path(targeted.client_path()) {
        return None;
    }
    let visitor = identify(targeted, oidc, decision);
    let session = visitor.session.filter(|_| visitor.standing == Standing::Good)?;
    is_allowed(targeted, oidc, &session).then_some(())
}

/// Whether the rules allow the request of a client with a session.
fn is_allowed(targeted: &Targeted<'_>, oidc: &Oidc, session: &Session) -> bool {
    let (method, path) = (targeted.method(), targeted.client_path());
    oidc.rules.as_ref().is_none_or(|rules| rules.allow(method, path, &session.claims))
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
                Arc::new(renewed)
            }
            Ok(None) => session,
            Err(Failure::Away(_) | Failure::Wrong(_)) => return FilterResult::Answer(pages::away()),
            Err(Failure::Refused(_)) => return sign_in::require(targeted, &oidc.client, watch).await,
        },
    };
    if visitor.standing != Standing::Good {
        know(oidc, &session, decision);
        tell(oidc, &session, decision);
    }
    if is_allowed(targeted, oidc, &session) {
        FilterResult::Continue
    } else {
        FilterResult::Answer(Answer::refusal(403, &[]))
    }
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
    // Other routes of the host may need the other claims.
    let mut wanted = client.wanted.clone();
    wanted.extend(session.claims.keys().filter(|name| !client.wanted.contains(name)).cloned());
    let asked = if let Some(answer) = renew_elsewhere(targeted, client, session, &wanted, time).await {
        answer
    } else {
        let question = Ask::Renew { session: Box::new(session.clone()), wanted: wanted.clone() };
        ask(targeted, &client.provider, question, time).await
    };
    match asked {
        Ok(granted) => Ok(Some(session.renew(&granted, &wanted))),
        // Another replica may have renewed it: the client has the new cookie then.
        Err(_) if standing == Standing::EndsSoon => Ok(None),
        Err(Failure::Away(_) | Failure::Wrong(_)) if standing == Standing::Grace => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Has the replica renew a session that is its home. None where that is here or cannot be reached.
async fn renew_elsewhere(
    targeted: &Targeted<'_>,
    client: &OidcClient,
    session: &Session,
    wanted: &[String],
    time: Duration,
) -> Option<Result<Arc<Granted>, Failure>> {
    targeted.config.settings().replicas.as_ref()?;
    let message = Message::Renew {
        provider: *client.provider.digest(),
        session: Renewed::of(session),
        wanted: wanted.to_vec(),
    };
    let (worker, config) = (targeted.worker, targeted.config);
    let deadline = targeted.deadline.another();
    deadline.cap_sooner(worker.clock.now().after(time));
    replicas::renew_at_home(worker, config, &session.id, &message, time, &deadline).await
}

/// Has the endpoint get no header of a claim, unless another check has set it.
fn forget_headers(oidc: &Oidc, decision: &mut Decision) {
    for (name, _) in &oidc.headers {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        if !decision.upstream.iter().any(|(known, value)| is_it(known) && value.is_some()) {
            decision.tell(name, None);
        }
    }
}

/// Notes who the client is, for limits and logs.
fn know(oidc: &Oidc, session: &Arc<Session>, decision: &mut Decision) {
    decision.session = Some(Arc::clone(session));
    if let (None, Some(name)) = (&decision.user, oidc.user.find(&session.claims).and_then(header_value)) {
        decision.user = Some(name.into());
    }
}

/// Tells the endpoint who the client is. A session that is to be renewed may soon say something else.
fn tell(oidc: &Oidc, session: &Session, decision: &mut Decision) {
    for (name, claim) in &oidc.headers {
        if let Some(value) = claim.find(&session.claims).and_then(header_value) {
            decision.tell(name, Some(value.into_bytes()));
        }
    }
}
