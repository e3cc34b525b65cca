//! What becomes of a request whose client is far off the others. Entered only while there is such a client.

use std::task::Poll;

use model::AbuseMode;
use observe::{Counter, Reason};

use crate::clients::abuse::{Verdict, retry_after};
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::limits::ABUSE_DELAY;
use crate::reply::Answer;

/// Has the request wait, or refuses it, where its client is far off the others and its route does anything about that.
pub(crate) async fn check(exchange: &Exchange<'_>, mode: AbuseMode) -> FilterResult {
    let worker = exchange.worker;
    let Some(client) = exchange.counted_client(mode) else { return FilterResult::Continue };
    let Some(verdict) = worker.abuse.verdict(client) else { return FilterResult::Continue };
    let count = |counter| worker.recorder.borrow().count(counter);
    let is_enforced = mode == AbuseMode::Enforce;
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

fn refuse(exchange: &Exchange<'_>, until_s: u32) -> FilterResult {
    let worker = exchange.worker;
    let recorder = worker.recorder.borrow();
    recorder.count(Counter::AbuseRefused);
    recorder.reason(Reason::AbusiveClient);
    exchange.report.is_refused_for_abuse.set(true);
    let seconds = retry_after(until_s, worker.clock.now(), worker.random.next());
    FilterResult::Answer(Answer::to(Reason::AbusiveClient).retry_after(seconds))
}
