//! Who waits for a place at an endpoint, and who gets the next one.
//!
//! First in, first out while all get their turn soon; once the queue has not been empty for a while, last in, first out: who came first will
//! hardly make it then, and to serve everybody late helps nobody. This is Facebook's adaptive LIFO ("Fail at Scale", ACM Queue 13 (8),
//! 2015); that a queue which never becomes empty is the sign of overload it has from `CoDel` (RFC 8289). Once it has not been empty for as long
//! as one may wait, some would not be served in any order: from then on nobody waits for longer than a part of that, so that those who are
//! refused know it soon, and no old requests are left to be served when the rush is over.
//!
//! Never in here: a clock, wakers, and why there is no place.

use std::collections::VecDeque;

use model::overload::Priority;

use super::fair::{EXCESSES, Excess};
use crate::clock::Moment;
use crate::limits::{QUEUE_BYTES_MAX, QUEUE_OVERFULL_SHARE, QUEUE_REQUESTS_MAX, QUEUE_STRESS_AFTER};

/// Those who wait for places at the endpoints of a cluster.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// By priority, and by what their clients ask for beside others; the first that came in front.
    lanes: [VecDeque<Waiting<T>>; LANES],
    len: usize,
    bytes: usize,
    /// When each lane and those before it were last empty: who is served after others does not make these wait.
    empty_at: [Moment; LANES],
    last_ticket: u64,
}

/// Each priority has one for each excess.
const LANES: usize = 3 * EXCESSES;

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    ticket: Ticket,
    since: Moment,
    /// When it gives up.
    until: Moment,
    /// Bytes that it holds while it waits.
    bytes: usize,
}

/// One that waits, by lane and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    lane: usize,
    number: u64,
}

/// Whoever asks to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) priority: Priority,
    /// What its client asks for beside others.
    pub(crate) excess: Excess,
    /// Bytes that it holds while it waits.
    pub(crate) bytes: usize,
    /// When it gives up.
    pub(crate) until: Moment,
}

impl<T> Queue<T> {
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

    /// Whether a lane in which somebody waits, or those before it, have not been empty for a while.
    fn is_stressed(&self, lane: usize, now: Moment) -> bool {
        now.since(self.empty_at[lane]) >= QUEUE_STRESS_AFTER
    }

    /// Has somebody wait. Where there is no room, those have to go who would have been served last, and `dropped` is told of each; none
    /// where that would be the newcomer, who does not wait then.
    pub(crate) fn push(
        &mut self,
        item: T,
        asking: Asking,
        now: Moment,
        mut dropped: impl FnMut(T),
    ) -> Option<Ticket> {
        let lane = asking.priority as usize * EXCESSES + asking.excess as usize;
        if asking.bytes > QUEUE_BYTES_MAX {
            return None;
        }
        if self.lanes[..lane].iter().all(VecDeque::is_empty) {
            let is_empty = |lane: &&VecDeque<_>| lane.is_empty();
            let empty = self.lanes[lane..].iter().take_while(is_empty).count();
            self.empty_at[lane..lane + empty].fill(now);
        }
        while self.len >= QUEUE_REQUESTS_MAX || self.bytes + asking.bytes > QUEUE_BYTES_MAX {
            let last = (lane..LANES).rev().find(|&lane| !self.lanes[lane].is_empty())?;
            // Who came first has least of its time left.
            let gone = self.lanes[last].pop_front().expect("the lane is not empty");
            dropped(self.leave(gone));
        }
        self.last_ticket += 1;
        let ticket = Ticket { lane, number: self.last_ticket };
        self.lanes[lane].push_back(Waiting {
            item,
            ticket,
            since: now,
            until: asking.until,
            bytes: asking.bytes,
        });
        self.len += 1;
        self.bytes += asking.bytes;
        Some(ticket)
    }

    /// Takes the one out who is served next, of those for whom `suits` is true. `dropped` is told of each who was to be served before, and
    /// whose time is up.
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
                let place = if is_stressed { waiting.len() - 1 - at } else { at };
                let is_late = self.is_late(lane, &waiting[place], now);
                if !is_late && !suits(&waiting[place].item) {
                    at += 1;
                    continue;
                }
                let gone = self.lanes[lane].remove(place).expect("the place is within the lane");
                let item = self.leave(gone);
                if !is_late {
                    return Some(item);
                }
                dropped(item);
            }
        }
        None
    }

    /// Takes somebody out who waits no longer; none who has been taken out already.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let lane = &mut self.lanes[ticket.lane];
        let place = lane.binary_search_by_key(&ticket.number, |waiting| waiting.ticket.number).ok()?;
        let gone = lane.remove(place).expect("it has just been found there");
        Some(self.leave(gone))
    }

    /// Takes those out whose time is up.
    pub(crate) fn expire(&mut self, now: Moment, mut dropped: impl FnMut(T)) {
        for lane in 0..LANES {
            let mut place = 0;
            while place < self.lanes[lane].len() {
                if !self.is_late(lane, &self.lanes[lane][place], now) {
                    place += 1;
                    continue;
                }
                let gone = self.lanes[lane].remove(place).expect("the place is within the lane");
                dropped(self.leave(gone));
            }
        }
    }

    /// Whether one has waited for long enough.
    fn is_late(&self, lane: usize, waiting: &Waiting<T>, now: Moment) -> bool {
        let (patience, waited) = (waiting.until.since(waiting.since), now.since(waiting.since));
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

    use super::*;
    use crate::clock::Clock;

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
            self.push_asking(item, priority, Excess::None, bytes)
        }

        fn push_asking(
            &mut self,
            item: u32,
            priority: Priority,
            excess: Excess,
            bytes: usize,
        ) -> Option<Ticket> {
            let asking = Asking { priority, excess, bytes, until: self.now.after(SECOND) };
            self.queue.push(item, asking, self.now, |gone| self.dropped.push(gone))
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
        // Empty: all is calm again.
        (3..5).for_each(|item| _ = world.push(item, Priority::Normal));
        assert_eq!(world.pop(), Some(3));
    }

    #[test]
    fn who_is_served_last_makes_no_stress_for_those_before() {
        let mut world = World::new();
        world.push(0, Priority::Sheddable);
        world.wait(SECOND);
        world.push(1, Priority::Critical);
        world.push(2, Priority::Critical);
        world.push(3, Priority::Sheddable);
        world.wait(SECOND / 5);
        world.queue.expire(world.now, |gone| world.dropped.push(gone));
        assert_eq!(world.dropped, [0, 3], "there has been somebody to shed for longer than one may wait");
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
    fn of_the_same_priority_who_asks_for_least_is_served_first_and_refused_last() {
        let mut world = World::new();
        world.push_asking(0, Priority::Normal, Excess::Far, 1);
        world.push_asking(1, Priority::Normal, Excess::Much, 1);
        world.push_asking(2, Priority::Normal, Excess::None, 1);
        world.push_asking(3, Priority::Sheddable, Excess::None, 1);
        world.push_asking(4, Priority::Critical, Excess::Far, 1);
        let order: Vec<_> = std::iter::from_fn(|| world.pop()).collect();
        assert_eq!(order, [4, 2, 1, 0, 3]);
        (0..QUEUE_REQUESTS_MAX as u32).for_each(|item| _ = world.push(item, Priority::Normal));
        assert!(world.push_asking(9000, Priority::Normal, Excess::Far, 1).is_none(), "it asks for most");
        assert!(world.push_asking(9001, Priority::Critical, Excess::Far, 1).is_some());
    }

    #[test]
    fn who_is_late_is_not_served() {
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
    fn nobody_waits_for_long_once_the_queue_has_been_full_for_long() {
        let mut world = World::new();
        for item in 0..100 {
            world.push(item, Priority::Normal);
            world.push(1000 + item, Priority::Normal);
            assert!(world.pop().is_some());
            world.wait(SECOND / 50);
            world.queue.expire(world.now, |gone| world.dropped.push(gone));
        }
        // One in two is served; the others have waited for a second at first, and for a tenth of that later on.
        assert_eq!(world.queue.len(), 4);
        let served_at_last = world.pop();
        assert_eq!(served_at_last, Some(99), "{:?}", world.dropped);
    }

    #[test]
    fn who_has_left_is_gone_and_left_once() {
        let mut world = World::new();
        let tickets: Vec<_> = (0..4).filter_map(|item| world.push(item, Priority::Normal)).collect();
        assert_eq!(world.queue.remove(tickets[2]), Some(2));
        assert_eq!(world.queue.remove(tickets[2]), None);
        assert_eq!(world.pop(), Some(0));
        assert_eq!(world.queue.remove(tickets[0]), None, "it was served");
        assert_eq!((world.pop(), world.pop(), world.pop()), (Some(1), Some(3), None));
    }

    #[test]
    fn who_waits_for_another_place_keeps_nobody_back() {
        let mut world = World::new();
        (0..4).for_each(|item| _ = world.push(item, Priority::Normal));
        assert_eq!(world.pop_if(|item| item % 2 == 1), Some(1));
        assert_eq!(world.pop_if(|item| *item > 9), None);
        assert_eq!(world.pop(), Some(0));
    }

    #[test]
    fn a_full_queue_drops_the_least_important_and_of_them_the_oldest() {
        let mut world = World::new();
        world.push(0, Priority::Critical);
        world.push(1, Priority::Sheddable);
        world.push(2, Priority::Sheddable);
        (3..QUEUE_REQUESTS_MAX as u32).for_each(|item| _ = world.push(item, Priority::Normal));
        assert!(world.push(9000, Priority::Sheddable).is_some());
        assert!(world.push(9001, Priority::Normal).is_some());
        assert!(world.push(9002, Priority::Critical).is_some());
        assert_eq!(world.dropped, [1, 2, 9000]);
        assert!(world.push(9003, Priority::Sheddable).is_none(), "all others are more important");
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
