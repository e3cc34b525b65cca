//! Deadlines of connections, checked lazily: setting one stores a number; a sweep per tick wakes the tasks
//! that are due.
//!
//! Nothing is armed or re-armed per request. The price is that a deadline fires up to a tick late.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clock::{Clock, Moment};
use model::MinRate;

use crate::io::pace::{Direction, Pace};
use crate::io::ticker::Tick;
use crate::io::turn;

/// The deadlines of a worker.
pub(crate) struct Deadlines {
    pub(crate) clock: Clock,
    /// The tick that triggers sweeps.
    tick: Arc<Tick>,
    slots: RefCell<Slots>,
}

/// One vector per field, so that a sweep over ten thousand connections reads nothing but their due times.
#[derive(Default)]
struct Slots {
    /// When each deadline is due; [`Moment::NEVER`] for none.
    due: Vec<Moment>,
    state: Vec<State>,
    free: Vec<usize>,
    /// Owners and their slots, so that those of one owner are found among ten thousand others.
    owned: BTreeSet<(u64, usize)>,
}

struct State {
    waker: Option<Waker>,
    fired: bool,
    /// The wait ends when the worker drains: no I/O would wake it.
    idle: bool,
    /// The connection only waits for a request: it may be woken to make room.
    has_nothing_to_do: bool,
    /// Upper bound for the end of each wait; [`Moment::NEVER`] for none.
    cap: Moment,
    /// Number of the client that the connection is counted for; none where it is not needed.
    owner: Option<u64>,
    /// The peer's minimum rate, where there is one.
    pace: Option<Box<Pace>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            waker: None,
            fired: false,
            idle: false,
            has_nothing_to_do: false,
            cap: Moment::NEVER,
            owner: None,
            pace: None,
        }
    }
}

/// A deadline has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// One deadline of a connection; it can be set again and again.
pub(crate) struct Deadline {
    deadlines: Rc<Deadlines>,
    index: usize,
}

impl Deadlines {
    /// The deadlines of a worker with this tick.
    pub(crate) fn new(clock: Clock, tick: Arc<Tick>) -> Rc<Self> {
        Rc::new(Self { clock, tick, slots: RefCell::default() })
    }

    /// Whether there is no deadline.
    pub(crate) fn are_none(&self) -> bool {
        self.slots.borrow().are_none()
    }

    /// Wakes the tasks whose deadlines are due.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        self.fire(|slots, index| slots.due[index] <= now);
    }

    /// Wakes all tasks that wait for a next request.
    pub(crate) fn fire_idle(&self) {
        self.fire(|slots, index| slots.state[index].idle);
    }

    /// Bounds the waits for a next request by this time from now on.
    pub(crate) fn hasten_idle(&self, time: Duration) {
        let latest = self.clock.now().after(time);
        let Slots { due, state, .. } = &mut *self.slots.borrow_mut();
        let idle = due.iter_mut().zip(state).filter(|(due, state)| state.may_make_room(**due));
        idle.for_each(|(due, _)| *due = latest.min(*due));
    }

    /// Wakes some of the tasks that wait for a next request, the earliest due first. Returns how many.
    pub(crate) fn fire_idlest(&self, count: usize) -> usize {
        let mut idle: Vec<(Moment, usize)> = {
            let slots = self.slots.borrow();
            let due = slots.due.iter().zip(&slots.state).enumerate();
            due.filter(|(_, (due, state))| state.may_make_room(**due))
                .map(|(index, (due, _))| (*due, index))
                .collect()
        };
        if idle.len() > count {
            idle.select_nth_unstable(count);
            idle.truncate(count);
        }
        let mut slots = self.slots.borrow_mut();
        for &(_, index) in &idle {
            slots.fire(index);
        }
        idle.len()
    }

    /// Wakes the task of this owner that waits for a next request and is due first. False where there is
    /// none.
    pub(crate) fn fire_idlest_of(&self, owner: u64) -> bool {
        let mut slots = self.slots.borrow_mut();
        let Slots { due, state, owned, .. } = &*slots;
        let of_owner = owned.range((owner, 0)..=(owner, usize::MAX)).map(|(_, index)| *index);
        let waiting = of_owner.filter(|&index| state[index].may_make_room(due[index]));
        let idlest = waiting.min_by_key(|&index| due[index]);
        if let Some(index) = idlest {
            slots.fire(index);
        }
        idlest.is_some()
    }

    /// Wakes the task with the deadline in a [slot](Deadline::slot), as if it were due.
    pub(crate) fn expire(&self, slot: usize) {
        self.slots.borrow_mut().fire(slot);
    }

    fn fire(&self, is_due: impl Fn(&Slots, usize) -> bool) {
        let mut slots = self.slots.borrow_mut();
        for index in 0..slots.due.len() {
            if is_due(&slots, index) {
                slots.fire(index);
            }
        }
    }
}

impl State {
    /// Whether the task may be woken to make room, given its due time: one that was woken already is about
    /// to end.
    fn may_make_room(&self, due: Moment) -> bool {
        self.has_nothing_to_do && due != Moment::NEVER
    }
}

impl Slots {
    fn are_none(&self) -> bool {
        self.free.len() == self.due.len()
    }

    fn forget_owner(&mut self, index: usize) {
        if let Some(owner) = self.state[index].owner.take() {
            self.owned.remove(&(owner, index));
        }
    }

    fn fire(&mut self, index: usize) {
        self.due[index] = Moment::NEVER;
        self.state[index].fired = true;
        // A waker only queues its task; none of our code runs inside.
        if let Some(waker) = self.state[index].waker.take() {
            waker.wake();
        }
    }
}

impl Deadline {
    pub(crate) fn new(deadlines: &Rc<Deadlines>) -> Self {
        let mut slots = deadlines.slots.borrow_mut();
        if slots.are_none() {
            deadlines.tick.note_idle(false);
        }
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.due.push(Moment::NEVER);
            slots.state.push(State::default());
            slots.due.len() - 1
        });
        slots.state[index] = State::default();
        Self { deadlines: Rc::clone(deadlines), index }
    }

    /// Another deadline, for a wait at the same time. It has the same cap.
    pub(crate) fn another(&self) -> Self {
        let another = Self::new(&self.deadlines);
        let mut slots = self.deadlines.slots.borrow_mut();
        slots.state[another.index].cap = slots.state[self.index].cap;
        drop(slots);
        another
    }

    /// Index among the worker's deadlines, for as long as the deadline lives.
    pub(crate) fn slot(&self) -> usize {
        self.index
    }

    /// The present time.
    pub(crate) fn now(&self) -> Moment {
        self.deadlines.clock.now()
    }

    /// Lets other tasks run.
    pub(crate) async fn yield_now(&self) {
        turn::yield_now(&self.deadlines.clock).await;
    }

    /// Bounds the end of all waits from now on, whatever their own times.
    pub(crate) fn cap(&self, latest: Moment) {
        self.deadlines.slots.borrow_mut().state[self.index].cap = latest;
    }

    /// The same, unless there is an earlier bound already.
    pub(crate) fn cap_sooner(&self, latest: Moment) {
        let cap = &mut self.deadlines.slots.borrow_mut().state[self.index].cap;
        *cap = latest.min(*cap);
    }

    /// Removes the bound that [`cap`](Self::cap) has set.
    pub(crate) fn uncap(&self) {
        self.cap(Moment::NEVER);
    }

    /// Polls for at most `timeout`. A poll that is ready at once sets no deadline. The argument is a
    /// function, not a future: one more future around each read and write would be moved and resumed for
    /// every request.
    pub(crate) fn within<T>(
        &self,
        timeout: Duration,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> impl Future<Output = Result<T, Elapsed>> {
        let mut is_set = false;
        poll_fn(move |cx| match poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => {
                if !std::mem::replace(&mut is_set, true) {
                    self.set(timeout, false);
                }
                self.poll_elapsed(cx).map(|()| Err(Elapsed))
            }
        })
    }

    /// As [`within`](Self::within), and ends when the worker drains.
    pub(crate) async fn within_idle<T>(
        &self,
        timeout: Duration,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Elapsed> {
        self.set(timeout, true);
        let output = self.guard(poll).await;
        let state = &mut self.deadlines.slots.borrow_mut().state[self.index];
        (state.idle, state.has_nothing_to_do) = (false, false);
        output
    }

    /// Polls until the deadline that was last set.
    pub(crate) fn guard<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> impl Future<Output = Result<T, Elapsed>> {
        poll_fn(move |cx| match poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll_elapsed(cx).map(|()| Err(Elapsed)),
        })
    }

    /// Ready when the time has come or the worker drains; otherwise waits until `due`, or only for the
    /// drain. A task that only waits for a request may be woken to make room.
    pub(crate) fn poll_idle(
        &self,
        due: Option<Moment>,
        has_nothing_to_do: bool,
        cx: &Context<'_>,
    ) -> Poll<()> {
        {
            let mut slots = self.deadlines.slots.borrow_mut();
            if std::mem::take(&mut slots.state[self.index].fired) {
                return Poll::Ready(());
            }
            let state = &mut slots.state[self.index];
            (state.idle, state.has_nothing_to_do) = (true, has_nothing_to_do);
            slots.due[self.index] = due.unwrap_or(Moment::NEVER);
        }
        self.poll_elapsed(cx)
    }

    /// As [`within`](Self::within), for a peer that may have a minimum rate; `bytes` is the number of bytes
    /// transferred by a result.
    pub(crate) fn within_paced<T>(
        &self,
        direction: Direction,
        timeout: Duration,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        bytes: impl Fn(&T) -> usize,
    ) -> impl Future<Output = Result<T, Elapsed>> {
        let mut is_set = false;
        poll_fn(move |cx| match poll(cx) {
            Poll::Ready(output) => {
                self.note_passed(direction, bytes(&output));
                Poll::Ready(Ok(output))
            }
            Poll::Pending => {
                if !std::mem::replace(&mut is_set, true) {
                    self.start_paced(direction, timeout);
                }
                self.poll_elapsed(cx).map(|()| Err(Elapsed))
            }
        })
    }

    /// Sets the deadline for a wait of at most this time, or of the rest of the minimum rate's allowance.
    pub(crate) fn start_paced(&self, direction: Direction, timeout: Duration) {
        let now = self.now();
        let mut slots = self.deadlines.slots.borrow_mut();
        let pace = slots.state[self.index].pace.as_mut().filter(|pace| pace.direction == direction);
        let timeout = pace.map_or(timeout, |pace| pace.wait(timeout, now));
        drop(slots);
        self.set(timeout, false);
    }

    /// Notes that this many bytes have been transferred.
    pub(crate) fn note_passed(&self, direction: Direction, bytes: usize) {
        let now = self.now();
        let mut slots = self.deadlines.slots.borrow_mut();
        if let Some(pace) = slots.state[self.index].pace.as_mut().filter(|pace| pace.direction == direction) {
            pace.pass(bytes, now);
        }
    }

    /// Sets the peer's minimum rate; none for no such rate.
    pub(crate) fn pace(&self, direction: Direction, rate: Option<MinRate>) {
        let pace = rate.map(|rate| Box::new(Pace::new(direction, rate)));
        self.deadlines.slots.borrow_mut().state[self.index].pace = pace;
    }

    /// Whether the last wait in this direction, if it has expired, was ended by the minimum rate.
    pub(crate) fn is_too_slow(&self, direction: Direction) -> bool {
        let slots = self.deadlines.slots.borrow();
        let pace = slots.state[self.index].pace.as_ref();
        pace.is_some_and(|pace| pace.direction == direction && pace.is_decisive)
    }

    /// Sets the number of the client that the connection is counted for.
    pub(crate) fn set_owner(&self, owner: u64) {
        let mut slots = self.deadlines.slots.borrow_mut();
        slots.forget_owner(self.index);
        slots.state[self.index].owner = Some(owner);
        slots.owned.insert((owner, self.index));
    }

    /// Sets the deadline without waiting for anything.
    pub(crate) fn start(&self, timeout: Duration) {
        self.set(timeout, false);
    }

    /// Removes the deadline: waits are unbounded until it is set again.
    pub(crate) fn stop(&self) {
        self.start(Duration::MAX);
    }

    fn set(&self, timeout: Duration, idle: bool) {
        let mut slots = self.deadlines.slots.borrow_mut();
        let due = self.deadlines.clock.now().after(timeout);
        slots.due[self.index] = due.min(slots.state[self.index].cap);
        let state = &mut slots.state[self.index];
        state.fired = false;
        (state.idle, state.has_nothing_to_do) = (idle, idle);
    }

    fn poll_elapsed(&self, cx: &Context<'_>) -> Poll<()> {
        let mut slots = self.deadlines.slots.borrow_mut();
        let state = &mut slots.state[self.index];
        if state.fired {
            return Poll::Ready(());
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let mut slots = self.deadlines.slots.borrow_mut();
        slots.due[self.index] = Moment::NEVER;
        slots.forget_owner(self.index);
        slots.state[self.index] = State::default();
        slots.free.push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn never(_: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn poll<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_deadline_fires_at_the_sweep_after_it_is_due() {
        let deadlines = Deadlines::new(Clock::new(Clock::begin()), Arc::default());
        let deadline = Deadline::new(&deadlines);
        let mut waiting = pin!(deadline.within(Duration::ZERO, never));
        assert_eq!(poll(&mut waiting), Poll::Pending);
        deadlines.sweep();
        assert_eq!(poll(&mut waiting), Poll::Ready(Err(Elapsed)));
    }

    #[test]
    fn a_later_deadline_does_not_fire() {
        let deadlines = Deadlines::new(Clock::new(Clock::begin()), Arc::default());
        let deadline = Deadline::new(&deadlines);
        let mut waiting = pin!(deadline.within(Duration::from_secs(60), never));
        assert_eq!(poll(&mut waiting), Poll::Pending);
        deadlines.sweep();
        deadlines.fire_idle();
        assert_eq!(poll(&mut waiting), Poll::Pending);
    }

    #[test]
    fn a_deadline_that_was_stopped_begins_when_it_is_set_again() {
        let clock = Clock::new(Clock::begin());
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let deadline = Deadline::new(&deadlines);
        deadline.stop();
        let mut waiting = pin!(deadline.guard(never));
        clock.advance(Duration::from_secs(3600));
        deadlines.sweep();
        assert_eq!(poll(&mut waiting), Poll::Pending);
        deadline.start(Duration::from_secs(1));
        clock.advance(Duration::from_secs(1));
        deadlines.sweep();
        assert_eq!(poll(&mut waiting), Poll::Ready(Err(Elapsed)));
    }

    #[test]
    fn who_has_been_idle_for_longest_makes_room() {
        let clock = Clock::new(Clock::begin());
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let all: Vec<_> = (0..4).map(|_| Deadline::new(&deadlines)).collect();
        let mut waiting: Vec<_> = all
            .iter()
            .map(|deadline| {
                clock.advance(Duration::from_secs(1));
                Box::pin(deadline.within_idle(Duration::from_secs(60), never))
            })
            .collect();
        let busy = Deadline::new(&deadlines);
        let mut working = pin!(busy.within(Duration::ZERO, never));
        assert!(waiting.iter_mut().all(|waiting| poll(&mut waiting.as_mut()).is_pending()));
        assert!(poll(&mut working).is_pending());
        assert_eq!(deadlines.fire_idlest(2), 2);
        let gone: Vec<_> = waiting.iter_mut().map(|waiting| poll(&mut waiting.as_mut()).is_ready()).collect();
        assert_eq!(gone, [true, true, false, false]);
        assert!(poll(&mut working).is_pending());
        assert_eq!(deadlines.fire_idlest(9), 2);
    }

    #[test]
    fn who_has_streams_makes_no_room_though_it_is_to_hear_of_a_drain() {
        let clock = Clock::new(Clock::begin());
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let (busy, waiting) = (Deadline::new(&deadlines), Deadline::new(&deadlines));
        let cx = Context::from_waker(Waker::noop());
        let due = Some(clock.now().after(Duration::from_secs(60)));
        for (deadline, has_nothing_to_do) in [(&busy, false), (&waiting, true)] {
            deadline.set_owner(7);
            assert!(deadline.poll_idle(due, has_nothing_to_do, &cx).is_pending());
        }
        deadlines.hasten_idle(Duration::from_secs(1));
        clock.advance(Duration::from_secs(2));
        deadlines.sweep();
        assert!(busy.poll_elapsed(&cx).is_pending() && waiting.poll_elapsed(&cx).is_ready());
        assert!(!deadlines.fire_idlest_of(7) && deadlines.fire_idlest(9) == 0);
        deadlines.fire_idle();
        assert!(busy.poll_elapsed(&cx).is_ready());
    }

    #[test]
    fn draining_wakes_the_idle_only() {
        let deadlines = Deadlines::new(Clock::new(Clock::begin()), Arc::default());
        let (idle, busy) = (Deadline::new(&deadlines), Deadline::new(&deadlines));
        let forever = Duration::MAX;
        let mut waiting = pin!(idle.within_idle(forever, never));
        let mut working = pin!(busy.within(forever, never));
        assert!(poll(&mut waiting).is_pending() && poll(&mut working).is_pending());
        deadlines.fire_idle();
        assert_eq!(poll(&mut waiting), Poll::Ready(Err(Elapsed)));
        assert_eq!(poll(&mut working), Poll::Pending);
    }

    #[test]
    fn no_wait_lasts_longer_than_the_cap() {
        let clock = Clock::new(Clock::begin());
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let deadline = Deadline::new(&deadlines);
        deadline.cap(clock.now().after(Duration::from_secs(3)));
        let another = deadline.another();
        let cx = Context::from_waker(Waker::noop());
        let is_over = |deadline: &Deadline| deadline.poll_elapsed(&cx).is_ready();
        for one in [&deadline, &another] {
            one.start(Duration::from_secs(60));
        }
        clock.advance(Duration::from_secs(2));
        deadlines.sweep();
        assert!(!is_over(&deadline) && !is_over(&another));
        deadline.start(Duration::from_secs(60));
        clock.advance(Duration::from_secs(1));
        deadlines.sweep();
        assert!(is_over(&deadline) && is_over(&another), "each wait ends with the cap");
        deadline.uncap();
        deadline.start(Duration::from_secs(60));
        deadlines.sweep();
        assert!(!is_over(&deadline));
    }
}
