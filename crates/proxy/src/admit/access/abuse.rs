//! The clients that a request is counted for, and the treatment of abusive ones.

use std::task::Poll;

use clients::abuse::{ClientKey, Signal, Verdict, retry_after};
use model::overload::Mode;
use model::{Abuse, AbuseKey};
use observe::{Counter, Reason};

use super::key::{self, KeyTexts};
use crate::admit::admission;
use crate::limits::ABUSE_DELAY;
use crate::request::reply::Answer;
use crate::request::report::Excuse;
use crate::route::Routed;
use crate::route::filters::FilterResult;

/// Counts a request that has ended. Refusals for lack of capacity are not counted as errors.
#[inline]
pub(crate) fn count(routed: &Routed<'_>, is_of_replica: bool) {
    let report = &routed.report;
    let is_error = report.status.get() >= 400 && report.excuse.get().is_none();
    let (abuse, conn) = (&routed.worker.abuse, routed.conn);
    if is_of_replica {
        // The replica that sent it has counted it.
        return;
    }
    each_client(routed, |client| {
        if conn.requests.get() > 1 {
            abuse.count_request(&conn.tally, client, is_error);
        } else {
            // Counted at once: this may stay the connection's only request for a long time.
            abuse.count_requests(client, [1, is_error.into()]);
        }
    });
}

/// Notes that a client was too slow, if that is the reason of a fault.
#[cold]
pub(crate) fn note_fault(routed: &Routed<'_>, is_of_replica: bool, reason: Reason) {
    if admission::is_slowness(reason) && !is_of_replica {
        each_client(routed, |client| routed.worker.abuse.count(client, Signal::Slow));
    }
}

/// Delays or refuses the request of an abusive client, as far as its route enforces that. Called only while
/// there are abusive clients.
pub(crate) async fn check(routed: &Routed<'_>) -> FilterResult {
    let worker = routed.worker;
    let Some(verdict) = verdict(routed) else { return FilterResult::Continue };
    let abuse = in_force(routed);
    let count = |counter| worker.recorder.borrow().count(counter);
    let is_enforced = abuse.mode == Mode::Enforce;
    match (verdict, is_enforced) {
        (Verdict::Slow, false) => count(Counter::AbuseWouldSlow),
        (Verdict::Refuse { .. }, false) => count(Counter::AbuseWouldRefuse),
        (Verdict::Slow, true) => {
            let Some(_place) = worker.delayed.take() else { return refuse(routed, 0) };
            count(Counter::AbuseSlowed);
            let pause = routed.deadline.another();
            // The future never completes: the pause always takes its whole time.
            let _ = pause.within(ABUSE_DELAY, |_| Poll::<()>::Pending).await;
        }
        (Verdict::Refuse { until_s, .. }, true) => return refuse(routed, until_s),
    }
    FilterResult::Continue
}

/// The worst verdict on the clients of a request.
fn verdict(routed: &Routed<'_>) -> Option<Verdict> {
    let (abuse, mut worst) = (&routed.worker.abuse, None);
    each_client(routed, |client| match (worst, abuse.verdict(client)) {
        (Some(Verdict::Refuse { .. }), _) | (_, None) => {}
        (_, verdict) => worst = verdict,
    });
    if let Some(key) = in_force(routed).key.as_deref() {
        let KeyTexts { texts, are_too_many } = key::expand_as_sent(routed, &key.template);
        for value in texts.iter().filter(|_| worst.is_some()) {
            let client = abuse.with_value(key.zone, value);
            if abuse.verdict(client).is_some() {
                abuse.note_value(client, value);
            }
        }
        if are_too_many {
            worst = Some(Verdict::Refuse { until_s: 0, closes_connections: false });
        }
    }
    worst
}

/// The rules of the route, or the general ones where no route matches.
fn in_force<'e>(routed: &Routed<'e>) -> &'e Abuse {
    routed.route.map_or(&routed.request.config.settings().abuse.general, |route| &route.abuse)
}

/// Calls `act` for each client that a request is counted for: none where it is not counted, and several
/// where it has several values of the key.
#[inline]
fn each_client(routed: &Routed<'_>, mut act: impl FnMut(ClientKey)) {
    let Abuse { mode, key } = in_force(routed);
    if *mode == Mode::Off {
        return;
    }
    match key {
        None => of_address(routed).into_iter().for_each(act),
        Some(key) => of_values(routed, key, &mut act),
    }
}

#[inline]
fn of_address(routed: &Routed<'_>) -> Option<ClientKey> {
    admission::of_request(routed.config.settings(), routed.forwarded.client, routed.conn.counted_peer())
}

/// Clients by the values of a key. A request without a value, or with more values than are read, is counted
/// for its address too.
#[cold]
fn of_values(routed: &Routed<'_>, key: &AbuseKey, act: &mut dyn FnMut(ClientKey)) {
    if admission::is_allowed(routed.config.settings(), routed.forwarded.client) {
        return;
    }
    let KeyTexts { texts, are_too_many } = key::expand_as_sent(routed, &key.template);
    if texts.is_empty() || are_too_many {
        of_address(routed).into_iter().for_each(&mut *act);
    }
    texts.iter().for_each(|value| act(routed.worker.abuse.with_value(key.zone, value)));
}

fn refuse(routed: &Routed<'_>, until_s: u32) -> FilterResult {
    let worker = routed.worker;
    worker.recorder.borrow().count(Counter::AbuseRefused);
    routed.note_reason(Reason::AbusiveClient);
    routed.report.excuse.set(Some(Excuse::KnownAbuse));
    let seconds = retry_after(until_s, worker.clock.now(), worker.random.next());
    FilterResult::Answer(Answer::to(Reason::AbusiveClient).retry_after(seconds))
}
