//! Timers by their millisecond. Never in here: a clock.
//!
//! Timers that are due within a round of the wheel are in slots of a millisecond each. Later ones are in
//! slots of a round each, and move to the first kind just before their round begins: so that a timer that is
//! due in seconds, and one that was cancelled, wake nobody.

use std::task::Waker;

use crate::limits::{CANCELLED_KEPT_MAX, WHEEL_ROUNDS, WHEEL_SLOTS};
use crate::slab::{Key, Slab};

/// Milliseconds of a round.
const ROUND: u64 = WHEEL_SLOTS as u64;
/// Bits of a word of the map of slots.
const WORD: usize = u64::BITS as usize;

/// The timers of a reactor. Times are milliseconds since its begin.
pub(crate) struct Wheel {
    timers: Slab<Entry>,
    /// The timers that are due within a round from `passed`, by millisecond.
    near: Vec<Slot>,
    /// A bit for each slot of `near` that is not empty: a look at the next timer reads one cache line.
    occupied: [u64; WHEEL_SLOTS / WORD],
    /// The timers that are due later, by round. Rounds that are [`WHEEL_ROUNDS`] apart share a slot.
    far: Vec<Slot>,
    /// Timers in `far`.
    far_live: usize,
    /// The time up to which timers have fired.
    passed: u64,
}

struct Entry {
    due: u64,
    is_far: bool,
    waker: Option<Waker>,
}

/// Timers in order of their addition. A timer that was cancelled leaves its key for a while.
#[derive(Default)]
struct Slot {
    keys: Vec<Key>,
    /// Timers that have not been cancelled.
    live: usize,
}

impl Wheel {
    pub(crate) const fn new() -> Self {
        let occupied = [0; WHEEL_SLOTS / WORD];
        Self { timers: Slab::new(), near: Vec::new(), occupied, far: Vec::new(), far_live: 0, passed: 0 }
    }

    /// Whether the time is of no interest.
    pub(crate) fn is_empty(&self) -> bool {
        self.timers.len() == 0
    }

    /// Adds a timer, which is due after `now` at the earliest.
    pub(crate) fn add(&mut self, due: u64, now: u64) -> Key {
        if self.near.is_empty() {
            self.near.resize_with(WHEEL_SLOTS, Slot::default);
            self.far.resize_with(WHEEL_ROUNDS, Slot::default);
        }
        if self.is_empty() {
            self.passed = now;
        }
        let due = due.max(self.passed + 1);
        // The round that begins after the next tick is in the slots of milliseconds already.
        let is_far = due > self.passed + ROUND;
        let key = self.timers.insert(Entry { due, is_far, waker: None });
        if is_far {
            self.far[far_slot(due)].add(key);
            self.far_live += 1;
        } else {
            self.add_near(due, key);
        }
        key
    }

    /// Has a timer wake this task; false where it has fired.
    pub(crate) fn watch(&mut self, key: Key, waker: &Waker) -> bool {
        let Some(entry) = self.timers.get_mut(key) else { return false };
        match &mut entry.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }

    pub(crate) fn cancel(&mut self, key: Key) {
        let Some(Entry { due, is_far, .. }) = self.timers.remove(key) else { return };
        if is_far {
            self.far_live -= 1;
            self.far[far_slot(due)].cancel(&mut self.timers);
        } else {
            let slot = near_slot(due);
            self.near[slot].cancel(&mut self.timers);
            self.note_emptiness(slot);
        }
    }

    /// Milliseconds from `now` until the next look is needed; none without timers.
    pub(crate) fn wait(&self, now: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let next = self.next_near(self.passed).into_iter().chain(self.next_move()).min();
        next.map(|tick| tick.saturating_sub(now))
    }

    /// The first tick within a round after this one whose slot is not empty.
    fn next_near(&self, after: u64) -> Option<u64> {
        let begin = near_slot(after + 1);
        let (first, bit) = (begin / WORD, begin % WORD);
        // The first word is looked at twice: from the bit on, and at the end up to it.
        let slot = (0..=self.occupied.len()).find_map(|step| {
            let word = (first + step) % self.occupied.len();
            let bits = if step == 0 { self.occupied[word] >> bit << bit } else { self.occupied[word] };
            (bits != 0).then(|| word * WORD + bits.trailing_zeros() as usize)
        })?;
        Some(after + 1 + (slot + WHEEL_SLOTS - begin) as u64 % ROUND)
    }

    /// The tick at which timers of a later round have to move; none without such timers.
    fn next_move(&self) -> Option<u64> {
        if self.far_live == 0 {
            return None;
        }
        let next = round_to_move(self.passed) + 1;
        let mut rounds = next..next + WHEEL_ROUNDS as u64;
        let round = rounds.find(|round| self.far[far_slot(round * ROUND)].live > 0);
        round.map(|round| round * ROUND - 1)
    }

    /// Takes the wakers of the timers that are due.
    pub(crate) fn advance(&mut self, now: u64, due: &mut Vec<Waker>) {
        if self.is_empty() {
            return;
        }
        // After a whole turn every slot has been looked at.
        let first = round_to_move(self.passed) + 1;
        let last = round_to_move(now).min(first + WHEEL_ROUNDS as u64 - 1);
        for round in first..=last {
            if self.far_live > 0 {
                self.bring_near(round, now);
            }
        }
        let (mut looked, end) = (self.passed, now.min(self.passed + ROUND));
        while let Some(tick) = self.next_near(looked).filter(|tick| *tick <= end) {
            self.fire(near_slot(tick), now, due);
            looked = tick;
        }
        self.passed = self.passed.max(now);
    }

    /// Moves the timers of a round, and of those that share its slot and have begun, to the slots of
    /// milliseconds.
    fn bring_near(&mut self, round: u64, now: u64) {
        let begun = round_to_move(now);
        let slot = far_slot(round * ROUND);
        let keys = std::mem::take(&mut self.far[slot]).keys;
        for key in keys {
            let Some(entry) = self.timers.get_mut(key) else { continue };
            let due = entry.due;
            if due / ROUND > begun {
                self.far[slot].add(key);
            } else {
                entry.is_far = false;
                self.far_live -= 1;
                self.add_near(due, key);
            }
        }
    }

    fn fire(&mut self, slot: usize, now: u64, due: &mut Vec<Waker>) {
        let Self { timers, near, .. } = self;
        let Slot { keys, live } = &mut near[slot];
        keys.retain(|&key| match timers.get_mut(key) {
            None => false,
            Some(entry) if entry.due > now => true,
            Some(_) => {
                due.extend(timers.remove(key).and_then(|entry| entry.waker));
                false
            }
        });
        *live = keys.len();
        self.note_emptiness(slot);
    }

    fn add_near(&mut self, due: u64, key: Key) {
        let slot = near_slot(due);
        self.near[slot].add(key);
        self.occupied[slot / WORD] |= 1 << (slot % WORD);
    }

    fn note_emptiness(&mut self, slot: usize) {
        if self.near[slot].live == 0 {
            self.occupied[slot / WORD] &= !(1 << (slot % WORD));
        }
    }
}

impl Slot {
    fn add(&mut self, key: Key) {
        self.keys.push(key);
        self.live += 1;
    }

    /// Counts one timer less, which is no longer among `timers`.
    fn cancel(&mut self, timers: &mut Slab<Entry>) {
        self.live -= 1;
        if self.live == 0 {
            self.keys.clear();
        } else if self.keys.len() > 2 * self.live + CANCELLED_KEPT_MAX {
            self.keys.retain(|&key| timers.get_mut(key).is_some());
        }
    }
}

/// The last round whose timers are in the slots of milliseconds when the time has passed this tick.
fn round_to_move(passed: u64) -> u64 {
    (passed + 1) / ROUND
}

fn near_slot(due: u64) -> usize {
    (due % ROUND) as usize
}

fn far_slot(due: u64) -> usize {
    (due / ROUND % WHEEL_ROUNDS as u64) as usize
}
