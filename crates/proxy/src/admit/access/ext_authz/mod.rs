//! Services that authorize requests by Envoy's `ext_authz`, over gRPC or HTTP (`forebay.io/ext-authz-url`,
//! the Gateway API's `ExternalAuth`).
//!
//! A service that fails costs a client only time: the wait is bounded as a whole, the answer is bounded, and
//! without one the request is refused, unless the route says otherwise. An answer that is there and cannot be
//! obeyed lets no request in, whatever the route says.
//!
//! Never in here: the meaning of an answer in gRPC, which is `deciders`', and how a connection is made.

mod answer;
mod body;
mod conclusion;
mod question;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clients::{AuthKey, Fetch, Lookup, identity};
use clock::Moment;
use deciders::authz::{DENIED, Denial, Verdict};
use model::{ExtAuthz, Timeouts};
use observe::{AuthzResult, Reason};

use super::external;
use super::key::is_ambiguous;
use crate::admit::Targeted;
use crate::io::buffer::Buffer;
use crate::limits::{AUTH_TRIES_MAX, AUTHZ_ANSWER_BYTES_MAX};
use crate::request::decision::Decision;
use crate::request::stage::Watch;
use crate::route::filters::FilterResult;
use crate::route::values;
use crate::upstream::exchange::exchange;
use crate::upstream::fault::{Fault, Retry};
use answer::{Answered, NoVerdict};
use question::Question;

/// Requests a verdict from the service, and applies it. `rest` holds what has been read after the head; none
/// for a request that is only explained.
pub(super) async fn check(
    targeted: &Targeted<'_>,
    authz: &ExtAuthz,
    decision: &mut Decision,
    rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> FilterResult {
    let check = &*authz.check;
    if let Some(status) = watch.assumed() {
        let verdict = assumed(status);
        conclusion::forget_client_s(check, decision);
        return conclusion::apply(targeted, check, verdict.as_ref().map_err(|why| *why), decision);
    }
    let body = match (&check.body, rest) {
        (Some(limits), Some(rest)) => match body::read(targeted, *limits, decision, rest).await {
            Ok(body) => Some(body),
            Err(reason) => return FilterResult::Refuse(reason),
        },
        _ => None,
    };
    let question = Question::new(targeted, authz, decision, body.as_ref());
    conclusion::forget_client_s(check, decision);
    let looked = match &check.cache_key {
        Some(key) if !is_ambiguous(targeted, key) => {
            look(targeted, authz, &values::expand(targeted, key)).await
        }
        _ => Lookup::FetchAlone,
    };
    let asking = match looked {
        Lookup::Cached(verdict) => return conclusion::apply(targeted, check, Ok(&verdict), decision),
        Lookup::Fetch(asking) => Some(asking),
        Lookup::FetchAlone => None,
    };
    let (begin, mut asked) = (targeted.worker.clock.now(), None);
    let answered = ask(targeted, authz, &question, &mut asked).await;
    note(targeted, authz, asked, answered.as_ref(), begin);
    if let Some(asking) = asking {
        keep(asking, answered.as_ref().ok(), targeted.worker.clock.now());
    }
    match &answered {
        Err(_) if targeted.is_late() => FilterResult::Refuse(Reason::UpstreamReadTimeout),
        Err(why) => conclusion::apply(targeted, check, Err(*why), decision),
        Ok(answered) => conclusion::apply(targeted, check, Ok(&answered.verdict), decision),
    }
}

/// The verdict that is assumed for a request that is only explained.
fn assumed(status: u16) -> Result<Verdict, NoVerdict> {
    match status {
        200..300 => Ok(Verdict::Allowed(deciders::authz::Allowed::default())),
        401 | DENIED => Ok(Verdict::Denied(Denial { status: Some(status), ..Denial::default() })),
        _ => Err(NoVerdict::Missing),
    }
}

/// Looks for a cached verdict. A question in progress for the same key is awaited no longer than the service
/// itself would be.
async fn look<'e>(targeted: &Targeted<'e>, authz: &ExtAuthz, key: &[u8]) -> Lookup<'e, Verdict> {
    let (worker, route) = (targeted.worker, targeted.route);
    let host = route.map_or("", |route| route.labels.host());
    let path = route.map(|route| identity(&(route.path.kind(), route.path.path()))).unwrap_or_default();
    let cluster = &targeted.config.snapshot.cluster(authz.cluster).name;
    let key = AuthKey::of(&[host.as_bytes(), &path, key, cluster.as_bytes(), &identity(&authz.check)]);
    let mut looked = pin!(worker.clients.verdicts.look_up(&key, worker.clock.now()));
    let looked = targeted.deadline.within(authz.check.timeout, |cx| looked.as_mut().poll(cx)).await;
    looked.unwrap_or(Lookup::FetchAlone)
}

/// Caches the verdict for requests with the same key, for as long as the service says.
fn keep(asking: Fetch<'_, Verdict>, answered: Option<&Answered>, now: Moment) {
    match answered.and_then(|answered| Some((answered, answered.max_age?))) {
        Some((answered, time)) => asking.store(&Arc::new(answered.verdict.clone()), now.after(time), now),
        None => asking.store_none(now),
    }
}

/// Asks the service, and again where a connection fails or an endpoint refuses the question.
async fn ask(
    targeted: &Targeted<'_>,
    authz: &ExtAuthz,
    question: &Question,
    asked: &mut Option<SocketAddr>,
) -> Result<Answered, NoVerdict> {
    let (worker, check) = (targeted.worker, &*authz.check);
    let cluster = worker.cluster(targeted.config, authz.cluster);
    let time = check.timeout;
    let timeouts = Timeouts { request: None, backend_request: None, connect: time, read: time, send: time };
    let message = question.message(&timeouts);
    let deadline = targeted.deadline.another();
    deadline.cap_sooner(worker.clock.now().after(time));
    for _ in 0..AUTH_TRIES_MAX {
        let Some((member, _place)) = targeted.pick_beside(cluster, |_| true) else { break };
        let endpoint = &member.endpoint;
        *asked = Some(endpoint.address);
        let read = |whole: crate::upstream::exchange::Whole<'_>| answer::read(check, &whole);
        match exchange(worker, endpoint, &message, AUTHZ_ANSWER_BYTES_MAX, &deadline, read).await {
            Ok(answered) => return answered,
            Err(Fault { retry: Retry::Never, .. }) => return Err(NoVerdict::Invalid),
            Err(fault) if external::is_worth_another(fault.reason) => {}
            Err(_) => return Err(NoVerdict::Missing),
        }
    }
    Err(NoVerdict::Missing)
}

/// Counts the question, and logs it where that is configured.
fn note(
    targeted: &Targeted<'_>,
    authz: &ExtAuthz,
    asked: Option<SocketAddr>,
    answered: Result<&Answered, &NoVerdict>,
    begin: Moment,
) {
    let took: Duration = targeted.worker.clock.now().since(begin);
    let (result, status) = match answered {
        Ok(Answered { verdict: Verdict::Allowed(_), .. }) => (AuthzResult::Allowed, Some(200)),
        Ok(Answered { verdict: Verdict::Denied(denial), .. }) => (AuthzResult::Denied, denial.status),
        Ok(Answered { verdict: Verdict::Undecided(_), .. }) | Err(_) => (AuthzResult::Error, None),
    };
    targeted.worker.recorder.borrow().ext_authz(result, took);
    external::log(targeted, authz.cluster, asked, status, begin);
}
