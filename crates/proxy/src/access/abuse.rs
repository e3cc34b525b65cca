//! Whom a request is counted for, and what becomes of it where that client is far off the others.

use std::task::Poll;

use model::overload::Mode;
use model::{Abuse, AbuseKey};
use observe::{Counter, Reason};

use crate::admission;
use crate::clients::abuse::{ClientKey, Signal, Verdict, retry_after};
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::limits::ABUSE_DELAY;
use crate::reply::Answer;
use crate::report::Excuse;
use crate::values;

/// Counts a request that is over. Refusals for want of room are held against nobody.
#[inline]
pub(crate) fn count(exchange: &Exchange<'_>) {
    let Some(client) = client(exchange) else { return };
    let report = &exchange.report;
    let is_error = report.status.get() >= 400 && report.excuse.get().is_none();
    let (abuse, conn) = (&exchange.worker.abuse, exchange.conn);
    if conn.requests.get() > 1 {
        abuse.count_request(&conn.tally, client, is_error);
    } else {
        // There may be no other one that it could be counted with, however long the connection stays.
        abuse.count_requests(client, [1, is_error.into()]);
    }
}

/// Notes that a client was too slow, if that is the reason of a fault.
#[cold]
pub(crate) fn note_fault(exchange: &Exchange<'_>, reason: Reason) {
    if admission::is_slowness(reason)
        && let Some(client) = client(exchange)
    {
        exchange.worker.abuse.count(client, Signal::Slow);
    }
}

/// Has the request wait, or refuses it, where its client is far off the others and its route does anything about that. Entered only while
/// something is held against anybody.
pub(crate) async fn check(exchange: &Exchange<'_>) -> FilterResult {
    let worker = exchange.worker;
    let Some(client) = client(exchange) else { return FilterResult::Continue };
    let Some(verdict) = worker.abuse.verdict(client) else { return FilterResult::Continue };
    let abuse = in_force(exchange);
    if let Some(key) = abuse.key.as_deref().filter(|_| client.is_of_value()) {
        worker.abuse.note_value(client, &values::expand_as_sent(exchange, &key.template));
    }
    let count = |counter| worker.recorder.borrow().count(counter);
    let is_enforced = abuse.mode == Mode::Enforce;
    match (verdict, is_enforced) {
        (Verdict::Slow, false) => count(Counter::AbuseWouldSlow),
        (Verdict::Refuse { .. }, false) => count(Counter::AbuseWouldRefuse),
        (Verdict::Slow, true) => {
            let Some(_place) = worker.abuse.delay() else { return refuse(exchange, 0) };
            count(Counter::AbuseSlowed);
            let pause = exchange.deadline.another();
            // Nothing else can end this wait.
            let _ = pause.within(ABUSE_DELAY, |_| Poll::<()>::Pending).await;
        }
        (Verdict::Refuse { until_s, .. }, true) => return refuse(exchange, until_s),
    }
    FilterResult::Continue
}

/// What the route says, or what holds where no route takes the request.
fn in_force<'e>(exchange: &Exchange<'e>) -> &'e Abuse {
    exchange.route.get().map_or(&exchange.config.settings().abuse.general, |route| &route.abuse)
}

/// Whom a request is counted for; none where it is counted for nobody.
#[inline]
fn client(exchange: &Exchange<'_>) -> Option<ClientKey> {
    let Abuse { mode, key } = in_force(exchange);
    // What another replica asks for has been counted there.
    if *mode == Mode::Off || exchange.guest.get().is_some() {
        return None;
    }
    match key {
        None => of_address(exchange),
        Some(key) => of_value(exchange, key),
    }
}

#[inline]
fn of_address(exchange: &Exchange<'_>) -> Option<ClientKey> {
    admission::of_request(exchange.config.settings(), exchange.forwarded.client, exchange.conn.counted_peer())
}

/// Who sends the value that tells clients apart. Without one, a request is its address's.
#[cold]
fn of_value(exchange: &Exchange<'_>, key: &AbuseKey) -> Option<ClientKey> {
    if admission::is_allowed(exchange.config.settings(), exchange.forwarded.client) {
        return None;
    }
    match values::expand_as_sent(exchange, &key.template).as_slice() {
        [] => of_address(exchange),
        value => Some(exchange.worker.abuse.with_value(key.zone, value)),
    }
}

fn refuse(exchange: &Exchange<'_>, until_s: u32) -> FilterResult {
    let worker = exchange.worker;
    let recorder = worker.recorder.borrow();
    recorder.count(Counter::AbuseRefused);
    recorder.reason(Reason::AbusiveClient);
    exchange.report.excuse.set(Some(Excuse::KnownAbuse));
    let seconds = retry_after(until_s, worker.clock.now(), worker.random.next());
    FilterResult::Answer(Answer::to(Reason::AbusiveClient).retry_after(seconds))
}
