//! Tasks: beginning them, and leaving a turn to the others.

use std::future::poll_fn;
use std::task::Poll;

use crate::core;
use crate::join::{JoinHandle, Joined};

/// Begins a task on the reactor of this thread.
///
/// # Panics
///
/// If the thread has no reactor, or one with 16 million tasks.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
{
    let joined = Joined::new(future);
    let shared = joined.shared();
    core::with(|core| {
        let key = core.spawn(Box::pin(joined));
        JoinHandle::new(shared, core.serial(), key)
    })
}

/// Begins a task that nobody waits for: it takes one allocation, and no more memory than its future.
///
/// # Panics
///
/// If the thread has no reactor, or one with 16 million tasks.
pub fn spawn_detached(future: impl Future<Output = ()> + 'static) {
    // The box is made first: a task that has no room for it has begun nothing.
    let future = Box::pin(future);
    core::with(|core| core.spawn(future));
}

/// Lets the other tasks run, and the sockets be polled.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut has_yielded = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        core::with(|core| core.defer(cx.waker()));
        Poll::Pending
    })
}
