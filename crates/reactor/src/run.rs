//! The loop itself: turns of tasks, and polls of the sockets between them. Never in here: their state.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event};
use rustix::io::Errno;

use crate::core::{self, Core};
use crate::home::{BELL, Home, Order, key_of};
use crate::id::ROOT;
use crate::limits::{EVENTS_MAX, TASKS_PER_POLL_MAX};
use crate::ready::Ready;
use crate::waker;

/// The event loop of the thread that has made it. A second one on the same thread stands for the same loop;
/// tasks are dropped with the last.
pub struct Reactor {
    after_poll: Option<Box<dyn Fn()>>,
    lists: RefCell<Lists>,
    /// It stands for something of its thread.
    here: PhantomData<Rc<()>>,
}

/// Lists that are empty between two polls of the sockets, and keep their memory.
struct Lists {
    events: Vec<Event>,
    orders: Vec<Order>,
    due: Vec<Waker>,
}

/// The loop is left even by a panic.
struct Running<'a>(&'a Core);

impl Reactor {
    /// The reactor of this thread, which is made if there is none.
    ///
    /// # Errors
    ///
    /// When no descriptor is left, or the process has too many reactors.
    pub fn new() -> io::Result<Self> {
        core::with(Core::open)?;
        let lists = Lists { events: Vec::with_capacity(EVENTS_MAX), orders: Vec::new(), due: Vec::new() };
        Ok(Self { after_poll: None, lists: RefCell::new(lists), here: PhantomData })
    }

    /// Has a function called each time the sockets have been polled, before tasks run again.
    pub fn set_after_poll(&mut self, act: impl Fn() + 'static) {
        self.after_poll = Some(Box::new(act));
    }

    /// Runs a future to its end, and the tasks of the thread beside it. Tasks that are left then go on in
    /// the next call.
    ///
    /// # Panics
    ///
    /// If the future panics, the reactor runs already, or its set of sockets cannot be polled.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        core::with(|core| self.run_in(core, pin!(future)))
    }

    fn run_in<F: Future>(&self, core: &Core, mut future: Pin<&mut F>) -> F::Output {
        let home = core.home();
        let _running = Running::begin(core);
        let waker = waker::of(core.root());
        core.wake(core.root());
        let mut run = 0;
        loop {
            // A task that is woken in this turn runs in the next one.
            for _ in 0..core.ready_len() {
                let Some(slot) = core.next_ready() else { break };
                core::renew_budget();
                run += 1;
                if slot != ROOT {
                    run_task(core, slot);
                    continue;
                }
                core.begin_root();
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return output;
                }
            }
            if core.ready_len() == 0 || run >= TASKS_PER_POLL_MAX {
                self.poll(core, &home);
                run = 0;
            }
        }
    }

    /// Polls the sockets, for as long as no task is ready and no timer is due.
    fn poll(&self, core: &Core, home: &Home) {
        let lists = &mut *self.lists.borrow_mut();
        let timeout = if core.ready_len() > 0 || core.has_deferred() || core.has_late() {
            Some(Duration::ZERO)
        } else {
            wait_for_timers(core)
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        lists.events.clear();
        match epoll::wait(&home.epoll, spare_capacity(&mut lists.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("the sockets cannot be polled: {error}"),
        }
        if let Some(act) = &self.after_poll {
            act();
        }
        for event in &lists.events {
            let (data, flags) = (event.data.u64(), event.flags);
            if data != BELL {
                core.note(key_of(data), Ready::from(flags));
            }
        }
        if home.has_orders() {
            home.take_orders(&mut lists.orders);
            for order in lists.orders.drain(..) {
                core.obey(order);
            }
        }
        if !core.wheel.borrow().is_empty() {
            fire_timers(core, &mut lists.due);
        }
        if core.has_deferred() {
            core.resume_deferred();
        }
        if core.has_late() {
            core.release_late();
        }
    }
}

/// The time until a timer is due; none without timers, which then cost no look at the clock.
fn wait_for_timers(core: &Core) -> Option<Duration> {
    let wheel = core.wheel.borrow();
    if wheel.is_empty() {
        return None;
    }
    wheel.wait(core.elapsed().as_millis() as u64).map(Duration::from_millis)
}

fn fire_timers(core: &Core, due: &mut Vec<Waker>) {
    let mut wheel = core.wheel.borrow_mut();
    wheel.advance(core.elapsed().as_millis() as u64, due);
    drop(wheel);
    for waker in due.drain(..) {
        waker.wake();
    }
}

/// Polls a task. A panic ends that task alone.
#[inline]
fn run_task(core: &Core, slot: u32) {
    let Some((key, mut future)) = core.begin(slot) else { return };
    let waker = waker::of(core.id(key));
    let mut cx = Context::from_waker(&waker);
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))) {
        Ok(Poll::Pending) => core.put_back(key, future),
        Ok(Poll::Ready(())) | Err(_) => core.end(key, future),
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        core::try_with(Core::leave);
    }
}

impl<'a> Running<'a> {
    fn begin(core: &'a Core) -> Self {
        assert!(!core.is_running.replace(true), "a reactor is not run by its own tasks");
        Self(core)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.is_running.set(false);
    }
}
