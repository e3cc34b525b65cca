//! Wakers of tasks: the number of the task in place of a pointer. The only module with unsafe code.
#![expect(unsafe_code, reason = "safe wakers own a reference count, which is changed with every clone")]

use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::core;
use crate::home::wake_elsewhere;
use crate::id::TaskId;

const TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, forget);
static WAKER: RawWakerVTable = TABLE;

/// The waker of a task. It may outlive the task and its reactor.
pub(crate) fn of(task: TaskId) -> Waker {
    // SAFETY: the functions of the table take the pointer as a number, never as an address: a clone is a
    // copy, nothing is freed, and each of them may be called on any thread at any time.
    unsafe { Waker::new(ptr::without_provenance(task.to_bits()), &WAKER) }
}

/// The task that a waker wakes; none if it is not one of ours.
#[inline]
pub(crate) fn task_of(waker: &Waker) -> Option<TaskId> {
    ptr::eq(waker.vtable(), &raw const WAKER).then(|| TaskId::from_bits(waker.data().addr()))
}

fn clone(task: *const ()) -> RawWaker {
    RawWaker::new(task, &WAKER)
}

fn wake(task: *const ()) {
    let task = TaskId::from_bits(task.addr());
    let is_here = core::try_with(|core| {
        let is_here = core.is_number(task.reactor);
        if is_here {
            core.wake(task);
        }
        is_here
    });
    if is_here != Some(true) {
        wake_elsewhere(task);
    }
}

fn forget(_: *const ()) {}
