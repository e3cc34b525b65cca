//! A worker's requests in flight at one endpoint, and the limit that it has found for them.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use clock::Moment;
use model::overload::Concurrency;

use super::limiter::{Limiter, Peers, Window};
use crate::limits::LIMIT_SHEDDABLE_RESERVE;

/// A worker's requests in flight at an endpoint, and their adaptive limit. One endpoint may be part of
/// several clusters.
pub struct EndpointLimit {
    in_flight: Cell<u32>,
    /// The adaptive limit; [`NONE`] while it is unknown.
    found: Cell<u32>,
    window: Cell<Window>,
    limiter: RefCell<Limiter>,
    /// Requests may wait for a slot.
    is_awaited: Cell<bool>,
    /// The queues that get freed slots.
    waiters: RefCell<Vec<Weak<dyn FreedSlots>>>,
}

/// A queue of requests that takes freed slots.
pub(super) trait FreedSlots {
    /// Gives the free slots of an endpoint to requests that wait. False if none waits any more.
    fn serve_at(self: Rc<Self>, address: SocketAddr) -> bool;
}

/// A worker's share of the bounds that all workers have together.
#[derive(Clone, Copy, Debug)]
pub struct WorkerShare {
    /// The number of the worker, from 0.
    pub worker: u32,
    /// How many workers there are.
    pub workers: u32,
}

const NONE: u32 = u32::MAX;

impl EndpointLimit {
    /// Nothing is in flight, and no limit is known.
    pub fn new(now: Moment) -> Self {
        Self {
            in_flight: Cell::new(0),
            found: Cell::new(NONE),
            window: Cell::default(),
            limiter: RefCell::new(Limiter::new(now)),
            is_awaited: Cell::new(false),
            waiters: RefCell::default(),
        }
    }

    /// This worker's requests in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// The adaptive limit; none while it is unknown.
    pub fn found(&self) -> Option<u32> {
        Some(self.found.get()).filter(|&found| found != NONE)
    }

    /// Whether the requests in flight have reached the limit. `is_served_last` is called where that depends
    /// on whether the request is one of those that are served last.
    #[inline]
    pub(super) fn is_full(
        &self,
        concurrency: Concurrency,
        share: WorkerShare,
        is_served_last: impl FnOnce() -> bool,
    ) -> bool {
        match concurrency {
            Concurrency::Auto => {
                let (in_flight, found) = (self.in_flight.get(), self.found.get());
                in_flight >= found || (in_flight >= for_last(found) && is_served_last())
            }
            Concurrency::Fixed(limit) => self.in_flight.get() >= share.of(limit.get()),
            Concurrency::Off => false,
        }
    }

    /// Records a response's latency for the adaptive limit.
    #[inline]
    pub fn note_response(&self, latency: Duration) {
        let in_flight = self.in_flight.get();
        self.change_window(|window| window.note_response(latency, in_flight));
    }

    /// Records for the adaptive limit that a request was not answered in time.
    pub fn note_timeout(&self) {
        self.change_window(Window::note_timeout);
    }

    #[inline]
    pub(super) fn begin(&self) {
        let in_flight = self.in_flight.get() + 1;
        self.in_flight.set(in_flight);
        self.change_window(|window| window.note_in_flight(in_flight));
    }

    #[inline]
    pub(super) fn end(&self, address: SocketAddr) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.is_awaited.get() {
            self.serve(address);
        }
    }

    #[cold]
    fn serve(&self, address: SocketAddr) {
        let waiters: Vec<_> = self.waiters.borrow().iter().filter_map(Weak::upgrade).collect();
        let mut is_awaited = false;
        for waiter in waiters {
            is_awaited |= waiter.serve_at(address);
        }
        self.is_awaited.set(is_awaited);
    }

    /// Adds a queue that gets freed slots.
    pub(super) fn join(&self, waiter: Weak<dyn FreedSlots>) {
        let mut waiters = self.waiters.borrow_mut();
        waiters.retain(|one| one.strong_count() > 0 && !Weak::ptr_eq(one, &waiter));
        waiters.push(waiter);
    }

    /// Records that a request waits for a slot.
    pub(super) fn note_awaited(&self) {
        self.is_awaited.set(true);
    }

    /// The limit and the latency without load in seconds, once they are known.
    pub(super) fn known(&self) -> Option<(f64, f64)> {
        self.limiter.borrow().known()
    }

    /// Updates the limit by the observations since the last call.
    pub(super) fn update(&self, peers: Peers, is_enforced: bool, now: Moment) {
        let window = self.window.take();
        let mut limiter = self.limiter.borrow_mut();
        limiter.update(window, peers, is_enforced, now);
        self.found.set(limiter.limit().unwrap_or(NONE));
        let in_flight = self.in_flight.get();
        self.change_window(|window| window.note_in_flight(in_flight));
    }

    #[inline]
    fn change_window(&self, change: impl FnOnce(&mut Window)) {
        let mut window = self.window.get();
        change(&mut window);
        self.window.set(window);
    }
}

/// The part of an adaptive limit that requests which are served last may use. The others find a free slot at
/// once in the rest, unless there are many of them.
#[inline]
fn for_last(found: u32) -> u32 {
    found - found / LIMIT_SHEDDABLE_RESERVE
}

impl WorkerShare {
    /// This worker's part of a number: the first workers share the remainder, and each has one at least.
    #[inline]
    fn of(self, number: u32) -> u32 {
        let rest = u32::from(self.worker < number % self.workers);
        (number / self.workers + rest).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shared_out_among_workers_and_each_has_one_at_least() {
        let shares = |number, workers| {
            (0..workers).map(|worker| WorkerShare { worker, workers }.of(number)).collect::<Vec<_>>()
        };
        assert_eq!(shares(10, 4), [3, 3, 2, 2]);
        assert_eq!(shares(8, 4), [2, 2, 2, 2]);
        assert_eq!(shares(1, 3), [1, 1, 1], "a worker without a slot could serve no request");
    }

    #[test]
    fn part_of_an_adaptive_limit_is_reserved() {
        let (limit, share) = (EndpointLimit::new(Moment::BEGIN), WorkerShare { worker: 0, workers: 1 });
        limit.found.set(10);
        let full_at = |concurrency, is_served_last| {
            let is_full = |&count: &u32| {
                limit.in_flight.set(count);
                limit.is_full(concurrency, share, || is_served_last)
            };
            (0..20).find(is_full)
        };
        assert_eq!(
            (full_at(Concurrency::Auto, false), full_at(Concurrency::Auto, true)),
            (Some(10), Some(8))
        );
        let fixed = Concurrency::Fixed(std::num::NonZeroU32::new(10).expect("it is not zero"));
        assert_eq!((full_at(fixed, true), full_at(Concurrency::Off, true)), (Some(10), None));
        assert_eq!([1, 4, 5, NONE].map(for_last), [1, 4, 4, NONE - NONE / 5]);
    }
}
