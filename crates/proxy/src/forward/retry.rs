//! Whether a request may be tried again, and when.
//!
//! Never in here: which endpoint is tried, which is `pick`'s.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use model::Forward;
use model::overload::Mode;
use observe::Reason;

use crate::admit::Admitted;
use crate::upstream::Cluster;
use crate::upstream::fault::{Fault, Retry};

/// Whether the request can be sent again after a fault.
pub(crate) fn is_repeatable(admitted: &Admitted<'_>, forward: &Forward, retry: Retry) -> bool {
    let progress = &admitted.progress;
    let is_at_hand = progress.can_send_again() || (admitted.is_bodiless() && !progress.is_answered());
    is_at_hand && admitted.may_repeat(forward, retry)
}

/// Whether the policy leaves room for a try after the next one. Where all endpoints have been tried, they
/// are tried again, as in ingress-nginx; a policy without a number tries each of them once.
pub(crate) fn has_another(admitted: &Admitted<'_>, cluster: &Cluster, forward: &Forward) -> bool {
    let tries = admitted.report.tries_len() as u32 + 1;
    let elapsed = admitted.worker.clock.now().since(admitted.report.begin);
    forward.retry.tries.map_or_else(|| (tries as usize) < cluster.len(), |max| tries < max)
        && forward.retry.timeout.is_none_or(|max| elapsed < max)
}

/// Has the next try end after this time, or when the time of the whole request is up.
#[cold]
pub(crate) fn cap_try(admitted: &Admitted<'_>, forward: &Forward, time: Duration) {
    let of_try = admitted.worker.clock.now().after(time);
    let of_request = forward.timeouts.request.map(|time| admitted.report.begin.after(time));
    admitted.deadline.cap(of_request.map_or(of_try, |of_request| of_request.min(of_try)));
}

/// Waits before another try where the route asks for that. It fails where the time of the whole request is
/// up meanwhile, or the client has gone away.
pub(crate) async fn back_off(admitted: &Admitted<'_>, forward: &Forward) -> Result<(), Reason> {
    match forward.retry.backoff {
        Some(time) => Box::pin(wait_for(admitted, time, forward)).await,
        None => Ok(()),
    }
}

async fn wait_for(admitted: &Admitted<'_>, time: Duration, forward: &Forward) -> Result<(), Reason> {
    match forward.timeouts.request {
        Some(time) => admitted.deadline.cap(admitted.report.begin.after(time)),
        None => admitted.deadline.uncap(),
    }
    let mut waited = pin!(admitted.deadline.within(time, |_| Poll::<()>::Pending));
    let mut gone = pin!(admitted.client_gone());
    let is_gone = poll_fn(|cx| match gone.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => waited.as_mut().poll(cx).map(|_| false),
    });
    if is_gone.await {
        return Err(Reason::ClientAborted);
    }
    if admitted.is_late() { Err(Reason::UpstreamReadTimeout) } else { Ok(()) }
}

/// nginx's `proxy_next_upstream`: whether the fault counts, and whether to repeat the request does no harm.
/// There is no other try once the time of the whole request is up.
pub(crate) fn may_retry(admitted: &Admitted<'_>, fault: Fault, forward: &Forward) -> bool {
    let on = &forward.retry.on;
    let counts = match fault.reason {
        Reason::ConnectTimeout | Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => on.timeout,
        Reason::UpstreamBadResponse | Reason::UpstreamBadCoding | Reason::UpstreamHeadTooLarge => {
            on.invalid_header
        }
        Reason::UpstreamStatus => true,
        _ => on.error,
    };
    let is_in_time = |timeout| admitted.worker.clock.now().since(admitted.report.begin) < timeout;
    counts && forward.timeouts.request.is_none_or(is_in_time) && is_repeatable(admitted, forward, fault.retry)
}

/// An answer about one more try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// The try may be made, and is counted.
    Allowed,
    /// The route's budget is spent: the failed try is the response.
    Spent,
    /// The bound of the Service is reached: the response is 503, as the Gateway API requires.
    Constrained,
}

/// The reason with which a request ends after a fault although its policy allows another try; none where it
/// is tried again, which is counted then. Because of a status, the budget has been asked before the response
/// was given up.
pub(crate) fn refusal(admitted: &Admitted<'_>, fault: Fault, forward: &Forward) -> Option<Reason> {
    if fault.reason == Reason::UpstreamStatus {
        return None;
    }
    match take_retry(admitted, forward) {
        Allowance::Allowed => None,
        Allowance::Spent => Some(fault.reason),
        Allowance::Constrained => Some(Reason::RetryBudget),
    }
}

/// Whether one more try is allowed, which is counted then. The bound of the Service replaces the route's
/// budget.
pub(crate) fn take_retry(admitted: &Admitted<'_>, forward: &Forward) -> Allowance {
    let Some(id) = admitted.cluster else { return Allowance::Allowed };
    let (cluster, now) = (admitted.cluster_of(id), admitted.worker.clock.now());
    let retries = &cluster.state().retries;
    match retries.take_shared(now) {
        None => {}
        Some(true) => return Allowance::Allowed,
        Some(false) => {
            cluster.limits().count_denied_retry();
            return Allowance::Constrained;
        }
    }
    let Some(overload) = forward.overload.as_deref() else { return Allowance::Allowed };
    let Some(percent) = overload.retry_budget else { return Allowance::Allowed };
    if !retries.allows(percent, now) {
        cluster.limits().count_denied_retry();
        if overload.mode == Mode::Enforce {
            return Allowance::Spent;
        }
    }
    retries.note_retry(now);
    Allowance::Allowed
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::rc::Rc;
    use std::sync::Arc;

    use model::overload::Overload;
    use model::{RetryOn, RetryPolicy, Timeouts};

    use super::*;
    use crate::admit::ErrorPage;
    use crate::testing::{TWO, World, forward, route_to};

    fn with(retry: RetryPolicy) -> Forward {
        Forward { retry: retry.into(), ..forward(TWO) }
    }

    fn note_try(admitted: &Admitted<'_>) {
        let address = SocketAddr::from(([10, 0, 0, 1], 8080));
        admitted.report.begin_try(address, admitted.worker.clock.now());
    }

    #[test]
    fn a_fault_is_tried_again_by_its_reason_and_the_method() {
        let world = World::of(route_to(TWO));
        let usual = forward(TWO);
        for (method, fault, expected) in [
            ("GET", Fault::sent(Reason::UpstreamReset), true),
            ("GET", Fault::sent(Reason::UpstreamReadTimeout), true),
            ("GET", Fault::sent(Reason::UpstreamBadResponse), false),
            ("GET", Fault::sent(Reason::UpstreamStatus), true),
            ("GET", Fault::never(Reason::UpstreamReset), false),
            ("POST", Fault::sent(Reason::UpstreamReset), false),
            ("POST", Fault::unsent(Reason::ConnectRefused), true),
        ] {
            world.admitted(&format!("{method} /"), |admitted, _| {
                assert_eq!(may_retry(&admitted, fault, &usual), expected, "{method} {fault:?}");
            });
        }
    }

    #[test]
    fn the_policy_says_which_faults_count() {
        let on = |on| with(RetryPolicy { on, ..RetryPolicy::default() });
        let nothing = RetryOn { error: false, timeout: false, ..RetryOn::default() };
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            for (reason, counting) in [
                (Reason::ConnectRefused, RetryOn { error: true, ..nothing.clone() }),
                (Reason::ConnectTimeout, RetryOn { timeout: true, ..nothing.clone() }),
                (Reason::UpstreamHeadTooLarge, RetryOn { invalid_header: true, ..nothing.clone() }),
            ] {
                assert!(may_retry(&admitted, Fault::sent(reason), &on(counting)), "{reason:?}");
                assert!(!may_retry(&admitted, Fault::sent(reason), &on(nothing.clone())), "{reason:?}");
            }
        });
    }

    #[test]
    fn no_try_begins_when_the_time_is_up_or_the_client_has_seen_a_response() {
        let fault = Fault::unsent(Reason::ConnectRefused);
        let timeouts = Timeouts { request: Some(Duration::ZERO), ..Timeouts::default() };
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            assert!(!may_retry(&admitted, fault, &Forward { timeouts: timeouts.into(), ..forward(TWO) }));
            assert!(may_retry(&admitted, fault, &forward(TWO)));
            admitted.progress.note_answered();
            assert!(!may_retry(&admitted, fault, &forward(TWO)));
        });
    }

    #[test]
    fn a_body_that_is_gone_is_missed_only_where_it_is_sent() {
        World::of(route_to(TWO)).admitted("PUT /\nContent-Length: 9", |admitted, _| {
            admitted.progress.note_body_begun();
            assert!(is_repeatable(&admitted, &forward(TWO), Retry::Sent), "it is kept so far");
            admitted.progress.note_body_streaming();
            assert!(!is_repeatable(&admitted, &forward(TWO), Retry::Sent));
            let page = ErrorPage { status: 503, challenges: Vec::new(), is_bodiless: true };
            let admitted = Admitted { error_page: Some(Rc::new(page)), ..admitted };
            assert!(is_repeatable(&admitted, &forward(TWO), Retry::Sent));
        });
    }

    #[test]
    fn there_are_as_many_tries_as_the_policy_or_the_cluster_says() {
        let numbered = |tries| with(RetryPolicy { tries, ..RetryPolicy::default() });
        let late =
            with(RetryPolicy { timeout: Some(Duration::ZERO), tries: Some(9), ..RetryPolicy::default() });
        for (forward, tries) in
            [(numbered(None), 2), (numbered(Some(1)), 1), (numbered(Some(3)), 3), (late, 1)]
        {
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let mut counted = 1;
                while has_another(&admitted, admitted.cluster_of(TWO), &forward) {
                    note_try(&admitted);
                    counted += 1;
                }
                assert_eq!(counted, tries, "{:?}", forward.retry);
            });
        }
    }

    #[test]
    fn the_budget_is_spent_and_is_a_limit_where_it_is_enforced() {
        const FREE: usize = 30;
        for (mode, retry_budget, expected) in [
            (Mode::Enforce, Some(20), Allowance::Spent),
            (Mode::Watch, Some(20), Allowance::Allowed),
            (Mode::Enforce, None, Allowance::Allowed),
        ] {
            let overload = Overload { mode, retry_budget, ..Overload::default() };
            let forward = Forward { overload: Some(Arc::new(overload)), ..forward(TWO) };
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                assert!((0..FREE).all(|_| take_retry(&admitted, &forward) == Allowance::Allowed));
                assert_eq!(take_retry(&admitted, &forward), expected, "{mode:?}");
                let by_status = Fault::sent(Reason::UpstreamStatus);
                assert_eq!(refusal(&admitted, by_status, &forward), None, "it was counted before");
            });
        }
    }
}
