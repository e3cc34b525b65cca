//! Whom a request is counted for, and what becomes of it where that client is far off the others.

use std::task::Poll;

use model::overload::Mode;
use model::{Abuse, AbuseKey};
use observe::{Counter, Reason};

use super::key::{self, KeyTexts};
use crate::admission;
use crate::clients::abuse::{ClientKey, Signal, Verdict, retry_after};
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::limits::ABUSE_DELAY;
use crate::reply::Answer;
use crate::report::Excuse;

/// Counts a request that is over. Refusals for want of room are held against nobody.
#[inline]
pub(crate) fn count(exchange: &Exchange<'_>) {
    let report = &exchange.report;
    let is_error = report.status.get() >= 400 && report.excuse.get().is_none();
    let (abuse, conn) = (&exchange.worker.abuse, exchange.conn);
    each_client(exchange, |client| {
        if conn.requests.get() > 1 {
            abuse.count_request(&conn.tally, client, is_error);
        } else {
            // There may be no other one that it could be counted with, however long the connection stays.
            abuse.count_requests(client, [1, is_error.into()]);
        }
    });
}

/// Notes that a client was too slow, if that is the reason of a fault.
#[cold]
pub(crate) fn note_fault(exchange: &Exchange<'_>, reason: Reason) {
    if admission::is_slowness(reason) {
        each_client(exchange, |client| exchange.worker.abuse.count(client, Signal::Slow));
    }
}

/// Has the request wait, or refuses it, where its client is far off the others and its route does anything about that. Entered only while
/// something is held against anybody.
pub(crate) async fn check(exchange: &Exchange<'_>) -> FilterResult {
    let worker = exchange.worker;
    let Some(verdict) = verdict(exchange) else { return FilterResult::Continue };
    let abuse = in_force(exchange);
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

/// The worst abuse level of the clients of a request.
fn verdict(exchange: &Exchange<'_>) -> Option<Verdict> {
    let (abuse, mut worst) = (&exchange.worker.abuse, None);
    each_client(exchange, |client| match (worst, abuse.verdict(client)) {
        (Some(Verdict::Refuse { .. }), _) | (_, None) => {}
        (_, verdict) => worst = verdict,
    });
    if let Some(key) = in_force(exchange).key.as_deref() {
        let KeyTexts { texts, are_too_many } = key::expand_as_sent(exchange, &key.template);
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

/// What the route says, or what holds where no route takes the request.
fn in_force<'e>(exchange: &Exchange<'e>) -> &'e Abuse {
    exchange.route.get().map_or(&exchange.config.settings().abuse.general, |route| &route.abuse)
}

/// Gives the clients that a request is counted for to `act`: none where it is counted for nobody, and several
/// where it has several values of the key.
#[inline]
fn each_client(exchange: &Exchange<'_>, mut act: impl FnMut(ClientKey)) {
    let Abuse { mode, key } = in_force(exchange);
    // What another replica asks for has been counted there.
    if *mode == Mode::Off || exchange.guest.get().is_some() {
        return;
    }
    match key {
        None => of_address(exchange).into_iter().for_each(act),
        Some(key) => of_values(exchange, key, &mut act),
    }
}

#[inline]
fn of_address(exchange: &Exchange<'_>) -> Option<ClientKey> {
    admission::of_request(exchange.config.settings(), exchange.forwarded.client, exchange.conn.counted_peer())
}

/// The senders of the values that tell clients apart. A request without a value, or with more values than are
/// looked at, is its address's too.
#[cold]
fn of_values(exchange: &Exchange<'_>, key: &AbuseKey, act: &mut dyn FnMut(ClientKey)) {
    if admission::is_allowed(exchange.config.settings(), exchange.forwarded.client) {
        return;
    }
    let KeyTexts { texts, are_too_many } = key::expand_as_sent(exchange, &key.template);
    if texts.is_empty() || are_too_many {
        of_address(exchange).into_iter().for_each(&mut *act);
    }
    texts.iter().for_each(|value| act(exchange.worker.abuse.with_value(key.zone, value)));
}

fn refuse(exchange: &Exchange<'_>, until_s: u32) -> FilterResult {
    let worker = exchange.worker;
    worker.recorder.borrow().count(Counter::AbuseRefused);
    exchange.note_reason(Reason::AbusiveClient);
    exchange.report.excuse.set(Some(Excuse::KnownAbuse));
    let seconds = retry_after(until_s, worker.clock.now(), worker.random.next());
    FilterResult::Answer(Answer::to(Reason::AbusiveClient).retry_after(seconds))
}
