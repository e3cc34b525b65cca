//! What a worker has in flight at an endpoint, and the limit that it has found.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use model::overload::Concurrency;

use super::limiter::{Limiter, Peers, Window};
use crate::clock::Moment;
use crate::limits::LIMIT_PART_OF_OTHERS;

/// What a worker has in flight at an endpoint.
pub(crate) struct EndpointLimit {
    in_flight: Cell<u32>,
    /// The limit that was found; [`NONE`] as long as there is none.
    found: Cell<u32>,
    window: Cell<Window>,
    limiter: RefCell<Limiter>,
    /// Somebody may wait for a place.
    is_awaited: Cell<bool>,
    /// Who is told of free places then: the clusters that it is part of.
    clusters: RefCell<Vec<Weak<dyn Served>>>,
}

/// Gives free places to those who wait.
pub(super) trait Served {
    /// An endpoint has a free place. False if nobody waits any more.
    fn serve_at(self: Rc<Self>, address: SocketAddr) -> bool;
}

/// The part of a worker in what is for all workers together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Its number, from 0.
    pub(crate) worker: u32,
    pub(crate) workers: u32,
}

const NONE: u32 = u32::MAX;

impl EndpointLimit {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            in_flight: Cell::new(0),
            found: Cell::new(NONE),
            window: Cell::default(),
            limiter: RefCell::new(Limiter::new(now)),
            is_awaited: Cell::new(false),
            clusters: RefCell::default(),
        }
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// The limit that was found; none as long as nothing is known of the endpoint.
    pub(crate) fn found(&self) -> Option<u32> {
        Some(self.found.get()).filter(|&found| found != NONE)
    }

    /// Whether it has as many requests as it may, or more. `is_last` is asked where that depends on whether the request is of those that are
    /// served last.
    #[inline]
    pub(crate) fn is_full(
        &self,
        concurrency: Concurrency,
        share: Share,
        is_last: impl FnOnce() -> bool,
    ) -> bool {
        match concurrency {
            Concurrency::Auto => {
                let (in_flight, found) = (self.in_flight.get(), self.found.get());
                in_flight >= found || (in_flight >= for_last(found) && is_last())
            }
            Concurrency::Fixed(limit) => self.in_flight.get() >= share.of(limit.get()),
            Concurrency::Off => false,
        }
    }

    /// Notes a response for the limit.
    pub(crate) fn note_response(&self, latency: Duration) {
        let in_flight = self.in_flight.get();
        self.change_window(|window| window.note_response(latency, in_flight));
    }

    /// Notes for the limit that a request was not answered in time.
    pub(crate) fn note_timeout(&self) {
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
        let clusters: Vec<_> = self.clusters.borrow().iter().filter_map(Weak::upgrade).collect();
        let mut is_awaited = false;
        for cluster in clusters {
            is_awaited |= cluster.serve_at(address);
        }
        self.is_awaited.set(is_awaited);
    }

    /// Tells a cluster of free places from now on.
    pub(super) fn join(&self, cluster: Weak<dyn Served>) {
        let mut clusters = self.clusters.borrow_mut();
        clusters.retain(|one| one.strong_count() > 0 && !Weak::ptr_eq(one, &cluster));
        clusters.push(cluster);
    }

    /// Notes that somebody waits.
    pub(super) fn note_awaited(&self) {
        self.is_awaited.set(true);
    }

    /// The limit and the latency without load, once they are known.
    pub(super) fn known(&self) -> Option<(f64, f64)> {
        self.limiter.borrow().known()
    }

    /// Decides on the limit, by what has been seen since the last time.
    pub(super) fn look(&self, peers: Peers, is_enforced: bool, now: Moment) {
        let window = self.window.take();
        let mut limiter = self.limiter.borrow_mut();
        limiter.look(window, peers, is_enforced, now);
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

/// Places of those that are served last, of so many. The others find one at once, beside few who are before them at the endpoint.
fn for_last(found: u32) -> u32 {
    found - found / LIMIT_PART_OF_OTHERS
}

impl Share {
    /// This worker's part of a number: the first workers have the rest, and nobody has nothing.
    fn of(self, number: u32) -> u32 {
        let rest = u32::from(self.worker < number % self.workers);
        (number / self.workers + rest).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shared_out_among_workers_and_nobody_has_nothing() {
        let shares = |number, workers| {
            (0..workers).map(|worker| Share { worker, workers }.of(number)).collect::<Vec<_>>()
        };
        assert_eq!(shares(10, 4), [3, 3, 2, 2]);
        assert_eq!(shares(8, 4), [2, 2, 2, 2]);
        assert_eq!(shares(1, 3), [1, 1, 1], "a worker without a place could serve nobody");
    }

    #[test]
    fn some_places_of_a_limit_that_is_found_are_not_for_those_that_are_served_last() {
        let (limit, share) = (EndpointLimit::new(Moment::BEGIN), Share { worker: 0, workers: 1 });
        limit.found.set(10);
        let full_at = |concurrency, is_last| {
            let is_full = |&count: &u32| {
                limit.in_flight.set(count);
                limit.is_full(concurrency, share, || is_last)
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
