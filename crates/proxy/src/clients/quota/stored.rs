//! What is known of a count that is kept in Redis, for one window of one client.
//!
//! The window's numbers are those that Redis has said last, and what was admitted here since. Redis keeps one number for each fixed window, and
//! these begin and end by its clock, for all replicas at the same time.
//!
//! Never in here: how Redis is asked.

use std::time::Duration;

use super::window::Window;
use crate::clock::Moment;
use crate::limits::{LIMIT_REDIS_ANSWER_TIME, LIMIT_REDIS_INTERVAL, LIMIT_REDIS_WORD_AGE_MAX, REPLICAS_MAX};

/// A fixed window by the clock of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its number since 1970.
    pub(super) number: u64,
    /// When it has begun.
    pub(super) ago: Duration,
}

/// What goes beside the numbers of a [`Window`].
pub(super) struct StoredCount {
    /// The fixed window at work.
    slot: u64,
    /// Requests that were admitted here, and that Redis has not been told of.
    untold: Untold,
    /// How fast requests are admitted here, and by the other replicas.
    own: Pace,
    others: Pace,
    /// Requests that were admitted here since Redis was told what it has said something of last.
    since: u32,
    /// When Redis has said something of it last.
    heard: Option<Moment>,
    /// How old that was for the other replicas: they tell Redis with a delay, too.
    age: Duration,
    /// It is among those of the next exchange.
    pub(super) is_due: bool,
}

/// Of the fixed window at work, and of the one before.
#[derive(Clone, Copy, Default)]
struct Untold {
    current: u32,
    previous: u32,
}

/// Requests a second, as a mean of some exchanges: without that, all replicas would give way to each other at once, and then none.
#[derive(Clone, Copy, Default)]
struct Pace(f64);

/// Part of the last exchange in the mean.
const PACE_WEIGHT: f64 = 0.3;

impl Pace {
    fn note(&mut self, requests: u32, time: Duration) {
        self.0 += (f64::from(requests) / time.as_secs_f64() - self.0) * PACE_WEIGHT;
    }
}

/// What Redis is to be told of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) slot: u64,
    pub(super) add: u32,
    pub(super) known: u32,
}

/// What it has said of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) slot: u64,
    /// Requests in it.
    pub(super) count: u32,
    /// Requests in the one before.
    pub(super) before: u32,
}

impl Slot {
    /// The fixed window of a time since 1970.
    pub(super) fn at(time: Duration, length: Duration) -> Self {
        let (time, length) = (time.as_nanos(), length.as_nanos().max(1));
        let ago = Duration::from_nanos((time % length) as u64);
        Self { number: (time / length) as u64, ago }
    }
}

impl StoredCount {
    pub(super) fn new(window: &mut Window, slot: Slot, now: Moment) -> Self {
        window.follow(0, slot.ago, now);
        Self {
            slot: slot.number,
            untold: Untold::default(),
            own: Pace::default(),
            others: Pace::default(),
            since: 0,
            heard: None,
            age: Duration::ZERO,
            is_due: false,
        }
    }

    /// Goes on to the fixed window of this moment.
    pub(super) fn advance(&mut self, window: &mut Window, slot: Slot, now: Moment) {
        // Clocks of workers, and what is known of that of Redis, differ by a little; one that is set back by more begins anew.
        if slot.number.checked_add(1) == Some(self.slot) {
            return;
        }
        let windows = slot.number.checked_sub(self.slot).unwrap_or(u64::MAX);
        window.follow(windows, slot.ago, now);
        self.untold = match windows {
            0 => self.untold,
            1 => Untold { current: 0, previous: self.untold.current },
            _ => Untold::default(),
        };
        self.slot = slot.number;
    }

    /// Notes that so many requests were admitted.
    pub(super) fn admit(&mut self, requests: u32) {
        self.untold.current = self.untold.current.saturating_add(requests);
        self.since = self.since.saturating_add(requests);
    }

    /// What Redis is to be told, the fixed window before first where there is anything to tell of it. It counts as told from now on: what
    /// does not arrive is made good by the number that is known, and nothing counts twice.
    pub(super) fn owed(&mut self, window: &Window) -> impl Iterator<Item = Part> + use<> {
        let Untold { current, previous } = std::mem::take(&mut self.untold);
        let (known, known_before) = window.counts();
        let before = Part { slot: self.slot.wrapping_sub(1), add: previous, known: known_before };
        let at_work = Part { slot: self.slot, add: current, known };
        (previous > 0).then_some(before).into_iter().chain([at_work])
    }

    /// Takes what Redis says in an exchange that took so long.
    pub(super) fn hear(&mut self, window: &mut Window, said: Said, took: Duration, now: Moment) {
        let (current, previous) = window.counts();
        // What others have admitted: Redis counts all that it was told of.
        let news = |count: u32, known: u32, untold: u32| count.saturating_sub(known.saturating_sub(untold));
        let mut new = 0;
        let mut of_before = None;
        if said.slot == self.slot {
            new = news(said.count, current, self.untold.current);
            window.add(new);
            of_before = Some(said.before);
        } else if said.slot.checked_add(1) == Some(self.slot) {
            of_before = Some(said.count);
        }
        if let Some(count) = of_before {
            let late = news(count, previous, self.untold.previous);
            window.add_before(late);
            new = new.saturating_add(late);
        }
        if said.slot == self.slot {
            if let Some(before) = self.heard.replace(now) {
                let time = now.since(before).max(LIMIT_REDIS_INTERVAL / 2);
                self.others.note(new, time);
                self.own.note(self.since.saturating_sub(self.untold.current), time);
            }
            self.since = self.untold.current;
            // The others have told it half a period ago, on an average, and both ways took their time.
            self.age = (LIMIT_REDIS_INTERVAL + 3 * took) / 2;
        }
    }

    /// Requests that the other replicas have admitted since Redis has said something, if they go on as they did, or as we do: when something
    /// becomes free, they take their part of it as we take ours. Without it each of them gives away what is free on its own, again and again
    /// until it hears of the others.
    pub(super) fn ahead(&self, now: Moment) -> f64 {
        let silent = self.heard.map_or(Duration::MAX, |at| now.since(at));
        if silent >= LIMIT_REDIS_ANSWER_TIME || self.others.0 <= 0.0 {
            return 0.0;
        }
        let as_they_did = self.others.0 * (silent + self.age).as_secs_f64();
        let as_we_do = f64::from(self.since) * (self.others.0 / self.own.0).min(REPLICAS_MAX as f64);
        as_they_did.max(as_we_do)
    }

    /// Whether what Redis has said of it is still known.
    pub(super) fn is_known(&self, now: Moment) -> bool {
        self.heard.is_some_and(|at| now.since(at) < LIMIT_REDIS_WORD_AGE_MAX)
    }

    /// Whether Redis has said anything of it, however long ago.
    pub(super) fn was_heard(&self) -> bool {
        self.heard.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(10);
    const TOOK: Duration = Duration::from_millis(10);

    fn at(seconds: u64) -> (Moment, Slot) {
        let time = Duration::from_secs(seconds);
        (Moment::BEGIN.after(time), Slot::at(Duration::from_secs(1_800_000_000) + time, LENGTH))
    }

    fn count() -> (Window, StoredCount) {
        let (now, slot) = at(0);
        let mut window = Window::new(now);
        let stored = StoredCount::new(&mut window, slot, now);
        (window, stored)
    }

    fn admit(window: &mut Window, stored: &mut StoredCount, requests: u32) {
        window.add(requests);
        stored.admit(requests);
    }

    #[test]
    fn fixed_windows_are_those_of_the_clock_of_redis() {
        let slot = |seconds| Slot::at(Duration::from_secs(seconds), LENGTH);
        assert_eq!(slot(1_800_000_007), Slot { number: 180_000_000, ago: Duration::from_secs(7) });
        assert_eq!(slot(0), Slot { number: 0, ago: Duration::ZERO });
        // One that has begun before the proxy has.
        let (now, _) = at(0);
        let mut window = Window::new(now);
        StoredCount::new(&mut window, slot(1_800_000_007), now);
        assert_eq!(window.rest(LENGTH, now), Duration::from_secs(3));
    }

    #[test]
    fn what_redis_says_counts_beside_what_it_was_not_told() {
        let (mut window, mut stored) = count();
        let (now, slot) = at(1);
        admit(&mut window, &mut stored, 3);
        let told: Vec<_> = stored.owed(&window).collect();
        assert_eq!(told, [Part { slot: slot.number, add: 3, known: 3 }]);
        admit(&mut window, &mut stored, 2);
        stored.hear(&mut window, Said { slot: slot.number, count: 10, before: 4 }, TOOK, now);
        assert_eq!(window.counts(), (12, 4), "7 of others, and 2 that it does not know of");
        let told: Vec<_> = stored.owed(&window).collect();
        assert_eq!(told, [Part { slot: slot.number, add: 2, known: 12 }]);
        // It has forgotten, and is told what is known: the script keeps the larger number.
        stored.hear(&mut window, Said { slot: slot.number, count: 2, before: 0 }, TOOK, now);
        assert_eq!(window.counts(), (12, 4));
    }

    #[test]
    fn what_was_admitted_at_the_end_of_a_fixed_window_counts_there() {
        let (mut window, mut stored) = count();
        let (_, first) = at(9);
        admit(&mut window, &mut stored, 3);
        let (now, second) = at(10);
        stored.advance(&mut window, second, now);
        admit(&mut window, &mut stored, 1);
        let told: Vec<_> = stored.owed(&window).collect();
        let part = |slot: Slot, add| Part { slot: slot.number, add, known: add };
        assert_eq!(told, [part(first, 3), part(second, 1)]);
        // An answer that comes after the end of its fixed window.
        stored.hear(&mut window, Said { slot: first.number, count: 5, before: 7 }, TOOK, now);
        stored.hear(&mut window, Said { slot: second.number, count: 1, before: 6 }, TOOK, now);
        assert_eq!(window.counts(), (1, 6));
        stored.hear(&mut window, Said { slot: first.number - 1, count: 99, before: 99 }, TOOK, now);
        assert_eq!(window.counts(), (1, 6), "what was long ago");
    }

    #[test]
    fn clocks_that_jump_begin_anew_and_those_that_differ_by_little_do_not() {
        let (mut window, mut stored) = count();
        let (now, slot) = at(25);
        stored.advance(&mut window, slot, now);
        admit(&mut window, &mut stored, 5);
        let back = |number| Slot { number, ..slot };
        stored.advance(&mut window, back(slot.number - 1), now);
        assert_eq!(window.counts(), (5, 0));
        stored.advance(&mut window, back(slot.number - 100), now);
        assert_eq!(window.counts(), (0, 0), "set back");
        admit(&mut window, &mut stored, 5);
        stored.advance(&mut window, back(slot.number + 100), now);
        assert_eq!((window.counts(), stored.owed(&window).next().unwrap().add), ((0, 0), 0), "set ahead");
    }

    #[test]
    fn others_are_taken_to_go_on_as_long_as_redis_may_take_to_answer() {
        let (mut window, mut stored) = count();
        let (now, slot) = at(0);
        let later = |millis| now.after(Duration::from_millis(millis));
        let said = |count| Said { slot: slot.number, count, before: 0 };
        stored.hear(&mut window, said(100), TOOK, now);
        assert!(stored.ahead(later(50)) <= 0.0, "how fast they are is not known yet");
        stored.hear(&mut window, said(110), TOOK, later(100));
        // 30 a second, which is three tenths of what was new, since 60 ms, and for the 40 ms that it was old.
        assert!((stored.ahead(later(160)) - 3.0).abs() < 1e-6, "{}", stored.ahead(later(160)));
        admit(&mut window, &mut stored, 10);
        assert!((stored.ahead(later(160)) - 640.0).abs() < 1e-6, "they take far more than we did");
        assert!(stored.ahead(later(1100)) <= 0.0);
        assert!(stored.is_known(later(1000)) && !stored.is_known(later(1100)));
    }
}
