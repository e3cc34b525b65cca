//! A line of tasks that wait for permission to go on, in the order in which they came.
//!
//! Must not be in here: when one of them may pass.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The tasks that wait.
#[derive(Default)]
pub(crate) struct Line(RefCell<VecDeque<Rc<Waiter>>>);

#[derive(Default)]
struct Waiter {
    waker: RefCell<Option<Waker>>,
    may_pass: Cell<bool>,
    /// The task was dropped while it waited.
    is_gone: Cell<bool>,
}

/// A position in the line. It is skipped once it has been dropped.
struct Waiting(Rc<Waiter>);

impl Line {
    /// Joins the line at once; the future ends with the permission to pass.
    pub(crate) fn join(&self) -> impl Future<Output = ()> + use<> {
        let waiting = Waiting(Rc::default());
        self.0.borrow_mut().push_back(Rc::clone(&waiting.0));
        poll_fn(move |cx| {
            if waiting.0.may_pass.get() {
                return Poll::Ready(());
            }
            *waiting.0.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Lets the first task pass. False where none waits.
    pub(crate) fn let_one_pass(&self) -> bool {
        let next = std::iter::from_fn(|| self.0.borrow_mut().pop_front()).find(|one| !one.is_gone.get());
        let Some(waiter) = next else { return false };
        waiter.may_pass.set(true);
        if let Some(waker) = waiter.waker.take() {
            waker.wake();
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Tasks in the line, with those that have gone and whose turn has not come.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.is_gone.set(true);
    }
}
