//! The path of a request: route -> admit -> cache -> tries -> answer -> record. A fault or our own answer
//! ends it.

mod behaviour;
mod cached;
mod home;
mod shed;
mod sign_ins;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use observe::Reason;
use wire::h1::Request as ParsedRequest;

use crate::admit::access;
use crate::admit::errors;
use crate::admit::{Admitted, Target, let_in};
use crate::answer::answered::Answered;
use crate::answer::attempted::Attempted;
use crate::answer::folder;
use crate::answer::own_answer::{answer, refuse};
use crate::answer::passed::Passed;
use crate::answer::record;
use crate::forward::error_backend;
use crate::forward::forward;
use crate::forward::processed;
use crate::io::boxed::boxed;
use crate::io::buffer::Buffer;
use crate::io::pace::Direction;
use crate::request::stage::Unwatched;
use crate::request::stop::Stop;
use crate::request::{AfterRequest, Request, RequestStart};
use crate::route::route;
use crate::worker::Worker;
use behaviour::check_behaviour;
pub(crate) use shed::check_guard;

/// Serves a request. `rest` holds what has been read after its head.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    start: RequestStart<'_>,
    parsed: &ParsedRequest,
    rest: &mut Buffer,
) -> AfterRequest {
    let Some(request) = Request::new(worker, start, parsed) else {
        return Box::pin(refuse(worker, start, Reason::BadTarget)).await;
    };
    if let Some(replica) = home::admit_replica(&request) {
        return Box::pin(cached::serve_replica(&request, replica, rest)).await;
    }
    let refused = if worker.abuse.is_quiet() { None } else { Box::pin(check_behaviour(&request)).await };
    let (routed, result) = match refused {
        None => route(&request, Unwatched),
        Some((routed, stop)) => (routed, Err(stop)),
    };
    let (mut admitted, target) = let_in(&routed, result, Some(&mut *rest), Unwatched).await;
    let passed = match target {
        Ok(Target::Endpoints(forwarding, cluster)) if forwarding.cache.is_none() => {
            match check_guard(&admitted, forwarding) {
                Ok(()) => forward(&admitted, forwarding, cluster, rest).await,
                Err(stop) => stop.into(),
            }
        }
        Ok(target) => boxed(|| pass(&mut admitted, target, rest)).await,
        Err(stop) => stop.into(),
    };
    conclude(&admitted, passed, rest).await
}

/// Has an admitted request answered by the cache, by a file, or by an endpoint behind a cache.
async fn pass<'a>(admitted: &mut Admitted<'a>, target: Target<'a>, rest: &mut Buffer) -> Passed<'a> {
    let (forwarding, cluster) = match target {
        Target::Endpoints(forwarding, cluster) => (forwarding, cluster),
        Target::Processed(forwarding, cluster) => {
            if let Err(stop) = check_guard(admitted, forwarding) {
                return stop.into();
            }
            return processed::forward(admitted, forwarding, cluster, rest).await;
        }
        Target::Cached(forwarding, policy) => {
            return Box::pin(cached::without_endpoint(admitted, forwarding, policy)).await.into();
        }
        Target::Files(files) => {
            return Box::pin(folder::serve(&Attempted::new(admitted), files, rest)).await.into();
        }
    };
    if let Some(policy) = &forwarding.cache {
        match cached::answer(admitted, forwarding, policy).await {
            Ok(None) => {}
            Ok(Some(next)) => return Ok(next).into(),
            Err(stop) => return stop.into(),
        }
    }
    if let Err(stop) = check_guard(admitted, forwarding) {
        return stop.into();
    }
    forward(admitted, forwarding, cluster, rest).await
}

/// Answers a request that was stopped, and records it.
async fn conclude(admitted: &Admitted<'_>, passed: Passed<'_>, rest: &mut Buffer) -> AfterRequest {
    // An answer of our own may be sent though the time is up.
    admitted.deadline.uncap();
    let Passed { result, cookie, elsewhere } = passed;
    let admitted = elsewhere.as_deref().unwrap_or(admitted);
    let (next, elsewhere) = match result {
        Ok(next) => (next, None),
        Err(stop) => {
            let attempted = Attempted { cookie, ..Attempted::new(admitted) };
            let stop = by_firewall(admitted, stop);
            boxed(|| answer_stop(attempted, stop, rest)).await
        }
    };
    if admitted.config.settings().client.bounds.read_rate_min.is_some() {
        // The least rate was for this response.
        admitted.deadline.pace(Direction::Write, None);
    }
    let answered = Answered { admitted: elsewhere.as_deref().unwrap_or(admitted) };
    record::record(&answered);
    access::abuse::count(&answered, answered.peer_request.is_some());
    next
}

/// The answer of the firewall's rules, where they have stopped the request.
#[cold]
pub(super) fn by_firewall(admitted: &Admitted<'_>, stop: Stop) -> Stop {
    if !matches!(stop, Stop::Fault(Reason::FirewallDenied)) || admitted.progress.is_answered() {
        return stop;
    }
    let Some(inspection) = admitted.inspection() else { return stop };
    let Some(answer) = inspection.answer() else { return stop };
    admitted.note_reason(if inspection.is_exhausted() {
        Reason::FirewallExhausted
    } else {
        Reason::FirewallDenied
    });
    answer.into()
}

/// Answers a request that goes no further, or has an error backend answer it. Returns the request as that
/// backend was asked for it.
async fn answer_stop<'a>(
    mut attempted: Attempted<'_, 'a>,
    mut stop: Stop,
    rest: &mut Buffer,
) -> (AfterRequest, Option<Box<Admitted<'a>>>) {
    // The rest of a body that is too long, or has begun to be read in vain, is of no use.
    let is_spoilt = matches!(stop, Stop::Fault(Reason::BodyTooLarge)) || attempted.progress.has_body_begun();
    let Some(page) = errors::page_for_stop(&attempted, &stop, is_spoilt) else {
        return (answer(&attempted, stop, rest).await, None);
    };
    let passed = error_backend::ask(&attempted, page, rest).await;
    let Some(elsewhere) = passed.elsewhere else { unreachable!("the error backend says how it was asked") };
    stop = match passed.result {
        Ok(next) => return (next, Some(elsewhere)),
        Err(stop) => stop,
    };
    let cookie = attempted.cookie.take();
    let attempted = Attempted { cookie, ..Attempted::new(&elsewhere) };
    let next = answer(&attempted, stop, rest).await;
    drop(attempted);
    (next, Some(elsewhere))
}
