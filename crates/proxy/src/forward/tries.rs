//! Tries endpoints until one answers or no other try is allowed.

use std::rc::Rc;

use model::{ClusterId, Forward};
use observe::Reason;

use crate::admit::errors;
use crate::admit::{Admitted, ErrorPage};
use crate::answer::attempted::Attempted;
use crate::answer::passed::Passed;
use crate::cache;
use crate::forward::attempt::Tried;
use crate::forward::error_backend;
use crate::forward::failover;
use crate::forward::flight::{Flight, Landed};
use crate::forward::mirror;
use crate::forward::outbound::Outbound;
use crate::forward::pick::{Picked, why_none_is_picked};
use crate::forward::processed;
use crate::forward::retry;
use crate::forward::selected::Selected;
use crate::io::boxed::boxed;
use crate::io::buffer::Buffer;
use crate::request::AfterRequest;
use crate::request::stop::Stop;
use crate::upstream::fault::Fault;
use crate::upstream::{Cluster, Member};

/// The end of a request's tries.
enum Ended {
    Answered(AfterRequest),
    /// An error backend answers in place of an endpoint's response.
    Replaced(Box<ErrorPage>),
    Failed(Reason),
    /// The request goes on to a cluster that its route falls back to.
    Elsewhere(ClusterId),
}

/// Forwards a request to an endpoint of its cluster. `rest` holds what has been read after the head.
#[inline]
pub(crate) async fn forward<'a>(
    admitted: &Admitted<'a>,
    forwarding: &Forward,
    cluster: &Cluster,
    rest: &mut Buffer,
) -> Passed<'a> {
    let mut outbound = match Outbound::new(admitted, forwarding, rest) {
        Ok(outbound) => outbound,
        Err(reason) => return Stop::from(reason).into(),
    };
    if let Err(stop) = admitted.check_steps() {
        return Stop::from(stop).into();
    }
    if outbound.has_to_be_prepared()
        && let Err(reason) = Box::pin(prepare(admitted, forwarding, &mut outbound)).await
    {
        return Stop::from(reason).into();
    }
    if forwarding.overload.is_some() {
        cluster.state().retries.note_request(admitted.worker.clock.now());
    }
    let mut attempted = Attempted::new(admitted);
    let first = match attempted.pick(cluster, forwarding) {
        Picked::Member(selected) => selected,
        other => return boxed(|| go_on(attempted, cluster, outbound, Begun::Picked(other))).await,
    };
    let (member, is_last) = (first.member, accept(&mut attempted, cluster, forwarding, first));
    let Some(mut flight) = Flight::on_idle(&attempted, &outbound, member, is_last) else {
        let begun = Begun::Selected { member: Rc::clone(member), is_last };
        return boxed(|| go_on(attempted, cluster, outbound, begun)).await;
    };
    let flown = flight.fly(&attempted, &outbound).await;
    let begun = match flight.end(&attempted, &outbound, flown) {
        Landed::Tried(Ok(Tried::Answered(next))) => return Ok(next).into(),
        Landed::Tried(tried) => Begun::Tried { tried, is_last },
        Landed::Dead => Begun::Dead { member: Rc::clone(member), is_last },
    };
    boxed(|| go_on(attempted, cluster, outbound, begun)).await
}

/// The part of the first try of a request that has been done.
pub(super) enum Begun<'c> {
    /// No endpoint could be selected.
    Picked(Picked<'c>),
    Selected {
        member: Rc<Member>,
        is_last: bool,
    },
    /// The idle connection was dead.
    Dead {
        member: Rc<Member>,
        is_last: bool,
    },
    Tried {
        tried: Result<Tried, Fault>,
        is_last: bool,
    },
}

/// Waits for the body as far as the route asks for that, and sends copies.
pub(super) async fn prepare(
    admitted: &Admitted<'_>,
    forwarding: &Forward,
    outbound: &mut Outbound<'_, '_>,
) -> Result<(), Reason> {
    outbound.await_body().await?;
    if admitted.config.logs_request_bodies {
        outbound.note_body_for_log();
    }
    if forwarding.transfer.mirrors.is_some() || admitted.backend.is_some() {
        mirror::send_all(admitted, forwarding, outbound);
    }
    Ok(())
}

/// Notes the endpoint of the next try. Returns whether it is the last one.
#[inline]
fn accept(
    attempted: &mut Attempted<'_, '_>,
    cluster: &Cluster,
    forwarding: &Forward,
    selected: Selected<'_>,
) -> bool {
    attempted.place.set(selected.place);
    if selected.cookie.is_some() {
        attempted.cookie = selected.cookie;
    }
    bound_try(attempted, cluster, forwarding)
}

/// Bounds the next try's time. Returns whether it is the last one.
#[inline]
fn bound_try(attempted: &Attempted<'_, '_>, cluster: &Cluster, forwarding: &Forward) -> bool {
    if let Some(time) = forwarding.timeouts.backend_request {
        retry::cap_try(attempted, forwarding, time);
    }
    !retry::has_another(attempted, cluster, forwarding)
}

/// Tries endpoints from where a request stands.
pub(super) async fn go_on<'a>(
    mut attempted: Attempted<'_, 'a>,
    cluster: &Cluster,
    mut outbound: Outbound<'_, '_>,
    begun: Begun<'_>,
) -> Passed<'a> {
    let forwarding = outbound.forward;
    match tries(&mut attempted, cluster, &mut outbound, begun).await {
        Ended::Answered(next) => Ok(next).into(),
        ended => give_other(attempted, forwarding, outbound, ended).await,
    }
}

async fn tries(
    attempted: &mut Attempted<'_, '_>,
    cluster: &Cluster,
    outbound: &mut Outbound<'_, '_>,
    begun: Begun<'_>,
) -> Ended {
    let forwarding = outbound.forward;
    let (mut tried, mut is_last) = match begin(attempted, cluster, outbound, begun).await {
        Ok(first) => first,
        Err(reason) => return Ended::Failed(reason),
    };
    loop {
        drop(attempted.place.take());
        let fault = match tried {
            Ok(Tried::Answered(next)) => return Ended::Answered(next),
            Ok(Tried::Replaced(page)) => return Ended::Replaced(page),
            Err(fault) => fault,
        };
        let may_be_tried = (!is_last || failover::has_other_cluster(attempted, forwarding))
            && retry::may_retry(attempted, fault, forwarding);
        if !may_be_tried {
            return Ended::Failed(fault.reason);
        }
        if let Some(reason) = retry::refusal(attempted, fault, forwarding) {
            return Ended::Failed(reason);
        }
        if let Err(reason) = retry::back_off(attempted, forwarding).await {
            return Ended::Failed(reason);
        }
        if let Some(id) = failover::next(attempted, cluster, outbound) {
            return Ended::Elsewhere(id);
        }
        let picked = attempted.pick(cluster, forwarding);
        let member = match select(attempted, cluster, outbound, picked, Some(fault.reason)).await {
            Ok(member) => member,
            Err(reason) => return Ended::Failed(reason),
        };
        is_last = bound_try(attempted, cluster, forwarding);
        tried = outbound.attempt(attempted, &member, is_last).await;
    }
}

/// Ends the first try, of which a part has been done.
async fn begin(
    attempted: &mut Attempted<'_, '_>,
    cluster: &Cluster,
    outbound: &mut Outbound<'_, '_>,
    begun: Begun<'_>,
) -> Result<(Result<Tried, Fault>, bool), Reason> {
    Ok(match begun {
        Begun::Tried { tried, is_last } => (tried, is_last),
        Begun::Selected { member, is_last } => (outbound.attempt(attempted, &member, is_last).await, is_last),
        Begun::Dead { member, is_last } => {
            (outbound.attempt_again(attempted, &member, is_last, 1).await, is_last)
        }
        Begun::Picked(picked) => {
            let member = select(attempted, cluster, outbound, picked, None).await?;
            let is_last = bound_try(attempted, cluster, outbound.forward);
            (outbound.attempt(attempted, &member, is_last).await, is_last)
        }
    })
}

/// Takes what was picked for the next try, or waits for a slot.
async fn select(
    attempted: &mut Attempted<'_, '_>,
    cluster: &Cluster,
    outbound: &Outbound<'_, '_>,
    picked: Picked<'_>,
    last_reason: Option<Reason>,
) -> Result<Rc<Member>, Reason> {
    match picked {
        Picked::Member(selected) => {
            attempted.place.set(selected.place);
            if selected.cookie.is_some() {
                attempted.cookie = selected.cookie;
            }
            Ok(Rc::clone(selected.member))
        }
        Picked::None => Err(last_reason.unwrap_or_else(|| why_none_is_picked(cluster))),
        Picked::Full { only, cookie } => {
            if cookie.is_some() {
                attempted.cookie = cookie;
            }
            let (member, place) = attempted.await_place(cluster, outbound.forward, only, outbound).await?;
            attempted.place.set(Some(place));
            Ok(member)
        }
    }
}

/// Gives the client another response than that of an endpoint of the cluster: that of a cluster that the
/// route falls back to, a stale one of the cache, or an error backend's.
async fn give_other<'a>(
    mut attempted: Attempted<'_, 'a>,
    forwarding: &Forward,
    outbound: Outbound<'_, '_>,
    ended: Ended,
) -> Passed<'a> {
    let (reason, page) = match ended {
        Ended::Answered(next) => return Ok(next).into(),
        Ended::Replaced(page) => (Reason::UpstreamStatus, Some(*page)),
        Ended::Failed(reason) => (reason, None),
        Ended::Elsewhere(id) => return failover::go_on(attempted, outbound, id).await,
    };
    if reason == Reason::ProcessorAnswered {
        let result = Err(processed::stop(&attempted, reason));
        return Passed { result, cookie: attempted.cookie.take(), elsewhere: None };
    }
    if attempted.miss().is_some() {
        match cache::rescue(&attempted, forwarding, reason).await {
            Ok(Some(next)) => return Ok(next).into(),
            Ok(None) => {}
            Err(fault) => return Stop::from(fault.reason).into(),
        }
    }
    if let Some(page) = page.or_else(|| errors::page_for_fault(&attempted, reason)) {
        return error_backend::take_over(attempted, page, outbound).await;
    }
    Passed { result: Err(reason.into()), cookie: attempted.cookie.take(), elsewhere: None }
}
