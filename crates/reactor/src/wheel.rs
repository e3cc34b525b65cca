//! Timers by their millisecond. Never in here: a clock.

use std::task::Waker;

use crate::limits::WHEEL_SLOTS;
use crate::slab::{Key, Slab};

/// The timers of a reactor. Times are milliseconds since its begin.
pub(crate) struct Wheel {
    timers: Slab<Entry>,
    /// The timers that are due at each millisecond of a round, and those of later rounds with them. A timer
    /// that is gone leaves its key, which the next pass removes.
    slots: Vec<Vec<Key>>,
    /// Keys in all slots.
    keys: usize,
    /// The time up to which timers have fired.
    passed: u64,
}

struct Entry {
    due: u64,
    waker: Option<Waker>,
}

impl Wheel {
    pub(crate) const fn new() -> Self {
        Self { timers: Slab::new(), slots: Vec::new(), keys: 0, passed: 0 }
    }

    /// Whether the time is of no interest.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Adds a timer, which is due after `now` at the earliest.
    pub(crate) fn add(&mut self, due: u64, now: u64) -> Key {
        if self.slots.is_empty() {
            self.slots.resize_with(WHEEL_SLOTS, Vec::new);
        }
        if self.is_empty() {
            self.passed = now;
        }
        let due = due.max(self.passed + 1);
        let key = self.timers.insert(Entry { due, waker: None });
        self.slots[due as usize % WHEEL_SLOTS].push(key);
        self.keys += 1;
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
        self.timers.remove(key);
    }

    /// Milliseconds from `now` until the next look is needed; none without timers.
    pub(crate) fn wait(&self, now: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let round = self.passed + 1..=self.passed + WHEEL_SLOTS as u64;
        let next = round.into_iter().find(|tick| !self.slots[*tick as usize % WHEEL_SLOTS].is_empty());
        next.map(|tick| tick.saturating_sub(now))
    }

    /// Takes the wakers of the timers that are due.
    pub(crate) fn advance(&mut self, now: u64, due: &mut Vec<Waker>) {
        if self.is_empty() {
            return;
        }
        // After a whole round every slot has been looked at.
        let end = now.min(self.passed + WHEEL_SLOTS as u64);
        for tick in self.passed + 1..=end {
            let slot = &mut self.slots[tick as usize % WHEEL_SLOTS];
            let timers = &mut self.timers;
            let before = slot.len();
            slot.retain(|&key| match timers.get_mut(key) {
                None => false,
                Some(entry) if entry.due > now => true,
                Some(_) => {
                    due.extend(timers.remove(key).and_then(|entry| entry.waker));
                    false
                }
            });
            self.keys -= before - slot.len();
        }
        self.passed = self.passed.max(now);
    }
}
