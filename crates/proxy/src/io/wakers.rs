//! Wakers of tasks that wait for a part of something: each is cloned only where another task waits.

use std::task::{Context, Waker};

/// Remembers the task that waits.
pub(crate) fn remember(place: &mut Option<Waker>, cx: &Context<'_>) {
    if !place.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *place = Some(cx.waker().clone());
    }
}

/// Wakes the task that waits, if there is one.
pub(crate) fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
