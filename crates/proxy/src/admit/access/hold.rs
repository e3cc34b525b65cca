//! Holding back the refusals of clients that go on with wrong credentials.
//!
//! A connection whose request waits sends no other one, so that a flood over some connections becomes a few
//! requests a second of each, for the price of one wait. Must not be in here: which clients these are.

use std::pin::pin;
use std::time::Duration;

use crate::limits::{REFUSAL_DELAY, REFUSAL_JITTER_MS};
use crate::request::Request;

/// Waits before a request is refused, unless its client leaves. Where as many refusals wait as may, it waits
/// for the tasks that are ready.
#[cold]
pub(super) async fn hold_back(request: &Request<'_>) {
    let Some(_slot) = request.worker.fairness.held_back.take() else {
        return reactor::late(reactor::yield_now()).await;
    };
    let pause = request.deadline.another();
    let mut gone = pin!(request.client_gone());
    // Not all at once: each of them may be followed by the next request.
    let jitter = request.worker.random.below(REFUSAL_JITTER_MS);
    let delay = REFUSAL_DELAY + Duration::from_millis(jitter as u64);
    let _ = reactor::late(pause.within(delay, |cx| gone.as_mut().poll(cx))).await;
}
