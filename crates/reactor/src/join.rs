//! The end of a task, as another one waits for it.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::core;
use crate::slab::Key;

/// Waits for the end of a task, and may abort it. The task goes on when this is dropped.
pub struct JoinHandle<T> {
    shared: Rc<RefCell<Shared<T>>>,
    serial: u64,
    key: Key,
}

/// Why a task has no result.
pub enum JoinError {
    /// The task was aborted, or its reactor has ended.
    Aborted,
    /// The task has panicked with this.
    Panicked(Box<dyn Any + Send>),
}

/// The result of a task on its way.
pub(crate) struct Shared<T> {
    result: Option<Result<T, JoinError>>,
    is_finished: bool,
    waker: Option<Waker>,
}

/// A task whose result is waited for.
pub(crate) struct Joined<F: Future> {
    future: Pin<Box<F>>,
    shared: Rc<RefCell<Shared<F::Output>>>,
}

impl<F: Future> Joined<F> {
    pub(crate) fn new(future: F) -> Self {
        let shared = Shared { result: None, is_finished: false, waker: None };
        Self { future: Box::pin(future), shared: Rc::new(RefCell::new(shared)) }
    }

    pub(crate) fn shared(&self) -> Rc<RefCell<Shared<F::Output>>> {
        Rc::clone(&self.shared)
    }
}

impl<F: Future> Future for Joined<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let future = self.future.as_mut();
        let result = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(JoinError::Panicked(panic)),
        };
        finish(&self.shared, result);
        Poll::Ready(())
    }
}

impl<F: Future> Drop for Joined<F> {
    fn drop(&mut self) {
        if !self.shared.borrow().is_finished {
            finish(&self.shared, Err(JoinError::Aborted));
        }
    }
}

fn finish<T>(shared: &RefCell<Shared<T>>, result: Result<T, JoinError>) {
    let waker = {
        let mut shared = shared.borrow_mut();
        shared.is_finished = true;
        shared.result = Some(result);
        shared.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(shared: Rc<RefCell<Shared<T>>>, serial: u64, key: Key) -> Self {
        Self { shared, serial, key }
    }

    /// Has the task dropped when it would run next. It does nothing where the task has ended.
    pub fn abort(&self) {
        core::with(|core| {
            if core.is_serial(self.serial) {
                core.abort(self.key);
            }
        });
    }

    /// Whether the task has ended or was dropped.
    pub fn is_finished(&self) -> bool {
        self.shared.borrow().is_finished
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.borrow_mut();
        if let Some(result) = shared.result.take() {
            return Poll::Ready(result);
        }
        let former = shared.waker.replace(cx.waker().clone());
        drop(shared);
        drop(former);
        Poll::Pending
    }
}

impl JoinError {
    /// Whether the task has panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_panic() { "Panicked" } else { "Aborted" })
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_panic() { "the task has panicked" } else { "the task was aborted" })
    }
}

impl std::error::Error for JoinError {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish_non_exhaustive()
    }
}
