//! The queue of requests that wait for a slot at an endpoint, and the order in which they are served.
//!
//! First in, first out while the queue becomes empty now and then; once it has not been empty for a while,
//! last in, first out: the oldest requests will hardly be served in time then, and to serve all of them late
//! helps nobody. This is Facebook's adaptive LIFO ("Fail at Scale", ACM Queue 13 (8), 2015), which takes the
//! sign of overload, a queue that never becomes empty, from `CoDel` (RFC 8289). Once the queue has not been
//! empty for the whole queue timeout, some requests would not be served in any order: from then on each waits
//! for a fraction of its timeout only, so that a refusal comes soon, and no old requests are left when the
//! rush is over.
//!
//! Must not be in here: a clock, wakers, and the reason why there is no slot.

use std::collections::VecDeque;

use clock::Moment;
use model::overload::Priority;

use super::fair::{EXCESSES, Overuse};
use crate::limits::{QUEUE_BYTES_MAX, QUEUE_OVERFULL_SHARE, QUEUE_REQUESTS_MAX, QUEUE_STRESS_AFTER};

/// The requests that wait for slots at the endpoints of a cluster.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// One for each priority and overuse, the most urgent first; in a lane, the oldest request is in front.
    lanes: [VecDeque<Waiting<T>>; LANES],
    len: usize,
    bytes: usize,
    /// When each lane and the more urgent ones were last empty together: less urgent requests are no sign of
    /// overload for these.
    empty_at: [Moment; LANES],
    last_ticket: u64,
}

/// Lanes: one for each overuse within each priority.
const LANES: usize = 3 * EXCESSES;

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    ticket: Ticket,
    since: Moment,
    /// End of its queue timeout.
    deadline: Moment,
    /// Bytes of memory that it holds while it waits.
    bytes: usize,
}

/// Identifies a request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    lane: usize,
    number: u64,
}

/// The properties by which a request is queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) priority: Priority,
    /// Its client's load compared with the other clients'.
    pub(crate) overuse: Overuse,
    /// Bytes of memory that it holds while it waits.
    pub(crate) bytes: usize,
    /// End of its queue timeout.
    pub(crate) deadline: Moment,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub(crate) fn new(now: Moment) -> Self {
        let lanes = [const { VecDeque::new() }; LANES];
        Self { lanes, len: 0, bytes: 0, empty_at: [now; LANES], last_ticket: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a lane and the more urgent ones have not been empty for so long that the newest request is
    /// served first.
    fn is_stressed(&self, lane: usize, now: Moment) -> bool {
        now.since(self.empty_at[lane]) >= QUEUE_STRESS_AFTER
    }

    /// Queues a request. Where there is no room, requests that would have been served later are removed, and
    /// `dropped` gets each. None where the new request itself would be served last: it is not queued then.
    pub(crate) fn push(
        &mut self,
        item: T,
        entry: Entry,
        now: Moment,
        mut dropped: impl FnMut(T),
    ) -> Option<Ticket> {
        let lane = entry.priority as usize * EXCESSES + entry.overuse as usize;
        if entry.bytes > QUEUE_BYTES_MAX {
            return None;
        }
        if self.lanes[..lane].iter().all(VecDeque::is_empty) {
            let is_empty = |lane: &&VecDeque<_>| lane.is_empty();
            let empty = self.lanes[lane..].iter().take_while(is_empty).count();
            self.empty_at[lane..lane + empty].fill(now);
        }
        while self.len >= QUEUE_REQUESTS_MAX || self.bytes + entry.bytes > QUEUE_BYTES_MAX {
            let last = (lane..LANES).rev().find(|&lane| !self.lanes[lane].is_empty())?;
            // The oldest request has least of its timeout left.
            let gone = self.lanes[last].pop_front().expect("the lane is not empty");
            dropped(self.leave(gone));
        }
        self.last_ticket += 1;
        let ticket = Ticket { lane, number: self.last_ticket };
        self.lanes[lane].push_back(Waiting {
            item,
            ticket,
            since: now,
            deadline: entry.deadline,
            bytes: entry.bytes,
        });
        self.len += 1;
        self.bytes += entry.bytes;
        Some(ticket)
    }

    /// Removes the request that is served next, of those for which `suits` is true. Requests before it that
    /// have timed out are removed too, and `dropped` gets each.
    pub(crate) fn pop(
        &mut self,
        now: Moment,
        suits: impl Fn(&T) -> bool,
        mut dropped: impl FnMut(T),
    ) -> Option<T> {
        for lane in 0..LANES {
            let is_stressed = self.is_stressed(lane, now);
            let mut at = 0;
            while at < self.lanes[lane].len() {
                let waiting = &self.lanes[lane];
                let index = if is_stressed { waiting.len() - 1 - at } else { at };
                let is_late = self.is_late(lane, &waiting[index], now);
                if !is_late && !suits(&waiting[index].item) {
                    at += 1;
                    continue;
                }
                let gone = self.lanes[lane].remove(index).expect("the index is within the lane");
                let item = self.leave(gone);
                if !is_late {
                    return Some(item);
                }
                dropped(item);
            }
        }
        None
    }

    /// Removes a request that waits no longer; none if it has been removed already.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let lane = &mut self.lanes[ticket.lane];
        let index = lane.binary_search_by_key(&ticket.number, |waiting| waiting.ticket.number).ok()?;
        let gone = lane.remove(index).expect("it has just been found there");
        Some(self.leave(gone))
    }

    /// Removes the requests that have timed out, and `dropped` gets each.
    pub(crate) fn expire(&mut self, now: Moment, mut dropped: impl FnMut(T)) {
        for lane in 0..LANES {
            let mut index = 0;
            while index < self.lanes[lane].len() {
                if !self.is_late(lane, &self.lanes[lane][index], now) {
                    index += 1;
                    continue;
                }
                let gone = self.lanes[lane].remove(index).expect("the index is within the lane");
                dropped(self.leave(gone));
            }
        }
    }

    /// Whether a request has timed out, which it does early where the queue has not been empty for its whole
    /// timeout.
    fn is_late(&self, lane: usize, waiting: &Waiting<T>, now: Moment) -> bool {
        let (patience, waited) = (waiting.deadline.since(waiting.since), now.since(waiting.since));
        let is_overfull = now.since(self.empty_at[lane]) >= patience;
        waited >= if is_overfull { patience / QUEUE_OVERFULL_SHARE } else { patience }
    }

    fn leave(&mut self, waiting: Waiting<T>) -> T {
        self.len -= 1;
        self.bytes -= waiting.bytes;
        waiting.item
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clock::Clock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct World {
        queue: Queue<u32>,
        now: Moment,
        dropped: Vec<u32>,
    }

    impl World {
        fn new() -> Self {
            let now = Clock::new(Clock::begin()).now();
            Self { queue: Queue::new(now), now, dropped: Vec::new() }
        }

        fn push(&mut self, item: u32, priority: Priority) -> Option<Ticket> {
            self.push_bytes(item, priority, 1)
        }

        fn push_bytes(&mut self, item: u32, priority: Priority, bytes: usize) -> Option<Ticket> {
            self.push_entry(item, priority, Overuse::None, bytes)
        }

        fn push_entry(
            &mut self,
            item: u32,
            priority: Priority,
            overuse: Overuse,
            bytes: usize,
        ) -> Option<Ticket> {
            let entry = Entry { priority, overuse, bytes, deadline: self.now.after(SECOND) };
            self.queue.push(item, entry, self.now, |gone| self.dropped.push(gone))
        }

        fn pop(&mut self) -> Option<u32> {
            self.pop_if(|_| true)
        }

        fn pop_if(&mut self, suits: impl Fn(&u32) -> bool) -> Option<u32> {
            self.queue.pop(self.now, suits, |gone| self.dropped.push(gone))
        }

        fn wait(&mut self, time: Duration) {
            self.now = self.now.after(time);
        }
    }

    #[test]
    fn the_first_is_served_first_while_all_get_their_turn() {
        let mut world = World::new();
        (0..3).for_each(|item| _ = world.push(item, Priority::Normal));
        assert_eq!((world.pop(), world.pop(), world.pop()), (Some(0), Some(1), Some(2)));
    }

    #[test]
    fn the_last_is_served_first_once_the_queue_has_not_been_empty_for_a_while() {
        let mut world = World::new();
        world.push(0, Priority::Normal);
        world.wait(QUEUE_STRESS_AFTER);
        (1..3).for_each(|item| _ = world.push(item, Priority::Normal));
        assert_eq!((world.pop(), world.pop(), world.pop()), (Some(2), Some(1), Some(0)));
        // The queue has been empty: first in, first out again.
        (3..5).for_each(|item| _ = world.push(item, Priority::Normal));
        assert_eq!(world.pop(), Some(3));
    }

    #[test]
    fn less_urgent_requests_are_no_stress_for_more_urgent_ones() {
        let mut world = World::new();
        world.push(0, Priority::Sheddable);
        world.wait(SECOND);
        world.push(1, Priority::Critical);
        world.push(2, Priority::Critical);
        world.push(3, Priority::Sheddable);
        world.wait(SECOND / 5);
        world.queue.expire(world.now, |gone| world.dropped.push(gone));
        assert_eq!(world.dropped, [0, 3], "the sheddable lane has not been empty for a whole timeout");
        assert_eq!((world.pop(), world.pop()), (Some(2), Some(1)), "for a fifth of a second");
        world.push(4, Priority::Critical);
        world.push(5, Priority::Critical);
        assert_eq!((world.pop(), world.pop()), (Some(4), Some(5)));
    }

    #[test]
    fn priority_comes_before_time() {
        let mut world = World::new();
        world.push(0, Priority::Sheddable);
        world.push(1, Priority::Normal);
        world.push(2, Priority::Critical);
        let order: Vec<_> = std::iter::from_fn(|| world.pop()).collect();
        assert_eq!(order, [2, 1, 0]);
    }

    #[test]
    fn within_a_priority_the_clients_with_the_least_load_are_served_first_and_refused_last() {
        let mut world = World::new();
        world.push_entry(0, Priority::Normal, Overuse::Far, 1);
        world.push_entry(1, Priority::Normal, Overuse::Much, 1);
        world.push_entry(2, Priority::Normal, Overuse::None, 1);
        world.push_entry(3, Priority::Sheddable, Overuse::None, 1);
        world.push_entry(4, Priority::Critical, Overuse::Far, 1);
        let order: Vec<_> = std::iter::from_fn(|| world.pop()).collect();
        assert_eq!(order, [4, 2, 1, 0, 3]);
        (0..QUEUE_REQUESTS_MAX as u32).for_each(|item| _ = world.push(item, Priority::Normal));
        assert!(
            world.push_entry(9000, Priority::Normal, Overuse::Far, 1).is_none(),
            "its client has the highest load"
        );
        assert!(world.push_entry(9001, Priority::Critical, Overuse::Far, 1).is_some());
    }

    #[test]
    fn a_request_that_has_timed_out_is_not_served() {
        let mut world = World::new();
        world.push(0, Priority::Normal);
        world.wait(SECOND / 20 * 19);
        world.push(1, Priority::Normal);
        world.wait(SECOND / 20);
        world.queue.expire(world.now, |gone| world.dropped.push(gone));
        assert_eq!((world.dropped.as_slice(), world.queue.len()), (&[0][..], 1));
        world.wait(SECOND);
        assert_eq!((world.pop(), world.dropped.as_slice()), (None, &[0, 1][..]));
        assert!(world.queue.is_empty() && world.queue.bytes == 0);
    }

    #[test]
    fn timeouts_are_short_once_the_queue_has_not_been_empty_for_long() {
        let mut world = World::new();
        for item in 0..100 {
            world.push(item, Priority::Normal);
            world.push(1000 + item, Priority::Normal);
            assert!(world.pop().is_some());
            world.wait(SECOND / 50);
            world.queue.expire(world.now, |gone| world.dropped.push(gone));
        }
        // One in two is served; the others wait for a second at first, and for a tenth of that later on.
        assert_eq!(world.queue.len(), 4);
        let served_at_last = world.pop();
        assert_eq!(served_at_last, Some(99), "{:?}", world.dropped);
    }

    #[test]
    fn a_request_is_removed_once() {
        let mut world = World::new();
        let tickets: Vec<_> = (0..4).filter_map(|item| world.push(item, Priority::Normal)).collect();
        assert_eq!(world.queue.remove(tickets[2]), Some(2));
        assert_eq!(world.queue.remove(tickets[2]), None);
        assert_eq!(world.pop(), Some(0));
        assert_eq!(world.queue.remove(tickets[0]), None, "it was served");
        assert_eq!((world.pop(), world.pop(), world.pop()), (Some(1), Some(3), None));
    }

    #[test]
    fn requests_that_no_slot_suits_are_passed_over() {
        let mut world = World::new();
        (0..4).for_each(|item| _ = world.push(item, Priority::Normal));
        assert_eq!(world.pop_if(|item| item % 2 == 1), Some(1));
        assert_eq!(world.pop_if(|item| *item > 9), None);
        assert_eq!(world.pop(), Some(0));
    }

    #[test]
    fn a_full_queue_drops_the_least_urgent_and_of_them_the_oldest() {
        let mut world = World::new();
        world.push(0, Priority::Critical);
        world.push(1, Priority::Sheddable);
        world.push(2, Priority::Sheddable);
        (3..QUEUE_REQUESTS_MAX as u32).for_each(|item| _ = world.push(item, Priority::Normal));
        assert!(world.push(9000, Priority::Sheddable).is_some());
        assert!(world.push(9001, Priority::Normal).is_some());
        assert!(world.push(9002, Priority::Critical).is_some());
        assert_eq!(world.dropped, [1, 2, 9000]);
        assert!(world.push(9003, Priority::Sheddable).is_none(), "all others are more urgent");
        assert!(world.push(9004, Priority::Normal).is_some());
        assert_eq!(world.dropped, [1, 2, 9000, 3]);
        assert_eq!(world.queue.len(), QUEUE_REQUESTS_MAX);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut world = World::new();
        assert!(world.push_bytes(0, Priority::Normal, QUEUE_BYTES_MAX + 1).is_none());
        assert!(world.push_bytes(1, Priority::Normal, QUEUE_BYTES_MAX).is_some());
        assert!(world.push_bytes(2, Priority::Sheddable, 1).is_none());
        assert!(world.push_bytes(3, Priority::Normal, 1).is_some());
        assert_eq!((world.dropped.as_slice(), world.queue.len()), (&[1][..], 1));
    }
}
