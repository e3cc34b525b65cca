//! Tasks: beginning them, and leaving a turn to the others.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::core;
use crate::join::{JoinHandle, Joined};
use crate::waker::task_of;

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

/// Has the running task run again when the others have, and the sockets have been polled.
pub fn wake_after_poll(cx: &Context<'_>) {
    core::with(|core| core.defer(cx.waker()));
}

/// Runs a future to its end with its task late: what wakes the task has it run behind all tasks that are not
/// late, and with few others of its kind between two polls of the sockets. A future that is dropped before
/// its end leaves the task late.
pub fn late<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let mut future = Box::pin(future);
    poll_fn(move |cx| {
        let polled = future.as_mut().poll(cx);
        set_late(cx, polled.is_pending());
        polled
    })
}

/// Has the running task be late from now on, or no more.
pub fn set_late(cx: &Context<'_>, is_late: bool) {
    if let Some(task) = task_of(cx.waker()) {
        core::with(|core| core.set_late(task, is_late));
    }
}

/// Lets the other tasks run, and the sockets be polled.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut has_yielded = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        wake_after_poll(cx);
        Poll::Pending
    })
}
