//! Overload guard: relief when the process is short of CPU time, memory, descriptors, ports, or time to
//! accept and to turn.
//!
//! [`Guard`] decides, purely, from measurements to [`Relief`], which workers store in a plain cell. Never in
//! here: measuring, clocks, requests.

mod handle;
mod thresholds;

use model::overload::Priority;
use observe::Shortage;

pub use handle::GuardHandle;
use thresholds::{FALL_SAMPLES, Thresholds, thresholds};

/// Number of levels above zero.
const LEVELS: u8 = 3;
/// From this level on sheddable requests are refused, and from the next one on normal ones too.
const SHEDS_SHEDDABLE: u8 = 2;
const SHEDS_NORMAL: u8 = 3;

/// Measurements by [`Shortage`], in thousandths of the limit (of a second for the lag of loops). None where
/// there is no limit, or nothing to measure it by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure([Option<u16>; Shortage::ALL.len()]);

/// Relief from shortages, as workers apply it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relief {
    /// The worst level of all shortages; 0 for none. From 2 on sheddable requests are refused, at 3 normal
    /// ones too; critical ones never are.
    pub level: u8,
    /// Observe mode: nothing is refused, and would-be refusals are counted.
    pub only_watches: bool,
    /// Idle client connections are closed early, and windows of HTTP/2 stay small.
    pub shortens_keep_alive: bool,
    /// Compression levels are lowered.
    pub lowers_compression: bool,
    /// TLS handshakes get only a part of the time.
    pub paces_handshakes: bool,
}

/// The level of a shortage has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The resource that is short.
    pub of: Shortage,
    /// The level before.
    pub from: u8,
    /// The level now.
    pub to: u8,
    /// The measurement that caused the change.
    pub permille: u16,
}

/// The levels of all shortages: each rises when its measurement is above a threshold, and falls when it has
/// been well below for a while.
#[derive(Clone, Debug, Default)]
pub struct Guard([State; Shortage::ALL.len()]);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    level: u8,
    /// Consecutive samples that ask for a higher level, and for a lower one.
    above: u8,
    below: u8,
}

// === impl Pressure ===

impl Pressure {
    /// Sets the measurement of a shortage.
    pub fn set(&mut self, of: Shortage, permille: Option<u16>) {
        self.0[of as usize] = permille;
    }

    /// The measurement of a shortage.
    pub fn of(&self, of: Shortage) -> Option<u16> {
        self.0[of as usize]
    }
}

// === impl Relief ===

impl Relief {
    /// The same relief in observe mode.
    #[must_use]
    pub fn watched(self) -> Self {
        Self { level: self.level, only_watches: true, ..Self::default() }
    }

    /// Whether requests of this priority are refused, or would be.
    #[inline]
    pub(crate) fn sheds(self, priority: Priority) -> bool {
        match priority {
            Priority::Critical => false,
            Priority::Normal => self.level >= SHEDS_NORMAL,
            Priority::Sheddable => self.level >= SHEDS_SHEDDABLE,
        }
    }
}

// === impl Guard ===

impl Guard {
    /// Takes the measurements of a second. Returns the levels that have changed.
    pub fn note(&mut self, pressure: &Pressure) -> Vec<Change> {
        let mut changes = Vec::new();
        for &of in Shortage::ALL {
            // A resource that is not measured any more is not short.
            let permille = pressure.of(of).unwrap_or(0);
            let state = &mut self.0[of as usize];
            let from = state.level;
            state.note(thresholds(of), permille);
            if state.level != from {
                changes.push(Change { of, from, to: state.level, permille });
            }
        }
        changes
    }

    /// The level of a shortage.
    pub fn level(&self, of: Shortage) -> u8 {
        self.0[of as usize].level
    }

    /// The relief for all shortages together.
    pub fn relief(&self) -> Relief {
        let mut relief = Relief::default();
        for &of in Shortage::ALL {
            let (level, measures) = (self.level(of), thresholds(of).measures);
            relief.level = relief.level.max(level);
            relief.shortens_keep_alive |= level > 0 && measures.shortens_keep_alive;
            relief.lowers_compression |= level > 0 && measures.lowers_compression;
            relief.paces_handshakes |= level > 0 && measures.paces_handshakes;
        }
        relief
    }
}

impl State {
    /// A level may be skipped on the way up, since a resource may run out at once; on the way down it goes
    /// step by step.
    fn note(&mut self, thresholds: &Thresholds, permille: u16) {
        let asked = thresholds.level(permille);
        self.above = if asked > self.level { self.above + 1 } else { 0 };
        let is_below = self.level > 0 && thresholds.is_well_below(self.level, permille);
        self.below = if is_below { self.below + 1 } else { 0 };
        if self.above >= thresholds.rise_samples {
            *self = Self { level: asked, ..Self::default() };
        } else if self.below >= FALL_SAMPLES {
            *self = Self { level: self.level - 1, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressure(of: Shortage, permille: u16) -> Pressure {
        let mut pressure = Pressure::default();
        pressure.set(of, Some(permille));
        pressure
    }

    fn run(guard: &mut Guard, of: Shortage, permille: u16, samples: usize) -> Vec<(u8, u8)> {
        let changes = (0..samples).flat_map(|_| guard.note(&pressure(of, permille))).collect::<Vec<_>>();
        assert!(changes.iter().all(|change| change.of == of && change.permille == permille));
        changes.iter().map(|change| (change.from, change.to)).collect()
    }

    #[test]
    fn each_shortage_rises_to_its_levels_and_falls_step_by_step() {
        for &of in Shortage::ALL {
            let Thresholds { levels, rise_samples, .. } = *thresholds(of);
            for (level, &threshold) in (1..).zip(&levels).filter(|(_, threshold)| **threshold <= 1000) {
                let mut guard = Guard::default();
                let rise = usize::from(rise_samples);
                assert_eq!(
                    run(&mut guard, of, threshold - 1, 10),
                    Vec::from_iter((level > 1).then_some((0, level - 1)))
                );
                assert_eq!(run(&mut guard, of, threshold, rise - 1), [], "{of:?}");
                assert_eq!(run(&mut guard, of, threshold, 1), [(level - 1, level)], "{of:?}");
                assert_eq!(guard.level(of), level);
                let fall = usize::from(FALL_SAMPLES);
                assert_eq!(run(&mut guard, of, 0, fall - 1), [], "{of:?}");
                let down: Vec<_> = (0..level).rev().map(|to| (to + 1, to)).collect();
                assert_eq!(run(&mut guard, of, 0, 1 + fall * 3), down, "{of:?}");
                assert_eq!(guard.relief(), Relief::default());
            }
        }
    }

    #[test]
    fn what_wavers_around_a_threshold_changes_nothing_twice() {
        for &of in Shortage::ALL {
            let threshold = thresholds(of).levels[0];
            let mut guard = Guard::default();
            let wavering = [threshold + 5, threshold - 5].repeat(50);
            let changes = wavering.iter().map(|permille| guard.note(&pressure(of, *permille)).len());
            assert!(changes.sum::<usize>() <= 1, "{of:?}");
        }
    }

    #[test]
    fn one_sample_is_no_shortage_but_of_what_ends_a_process() {
        let peak = |of| run(&mut Guard::default(), of, 1000, 1);
        assert_eq!(peak(Shortage::Memory), [(0, 3)]);
        assert_eq!(peak(Shortage::Descriptors), [(0, 3)]);
        assert_eq!(peak(Shortage::CpuThrottled), []);
        assert_eq!(peak(Shortage::LoopLag), []);
    }

    #[test]
    fn what_is_not_measured_any_more_is_over() {
        let mut guard = Guard::default();
        run(&mut guard, Shortage::Memory, 1000, 1);
        let changes: Vec<_> = (0..30).flat_map(|_| guard.note(&Pressure::default())).collect();
        assert_eq!((changes.len(), guard.level(Shortage::Memory)), (3, 0));
    }

    #[test]
    fn what_is_done_is_what_helps() {
        let relief = |of| {
            let mut guard = Guard::default();
            run(&mut guard, of, thresholds(of).levels[0], 5);
            guard.relief()
        };
        let of_cpu =
            Relief { level: 1, lowers_compression: true, paces_handshakes: true, ..Relief::default() };
        for of in [Shortage::CpuThrottled, Shortage::CpuStalled, Shortage::LoopLag, Shortage::AcceptQueue] {
            assert_eq!(relief(of), of_cpu, "{of:?}");
        }
        let of_room =
            Relief { level: 1, paces_handshakes: true, shortens_keep_alive: true, ..Relief::default() };
        assert_eq!((relief(Shortage::Memory), relief(Shortage::Descriptors)), (of_room, of_room));
        assert_eq!(relief(Shortage::Ports), Relief { level: 1, ..Relief::default() });
    }

    #[test]
    fn the_most_important_requests_are_served_at_any_level() {
        let shed = |level| {
            let relief = Relief { level, ..Relief::default() };
            [Priority::Critical, Priority::Normal, Priority::Sheddable].map(|one| relief.sheds(one))
        };
        assert_eq!(shed(0), [false, false, false]);
        assert_eq!(shed(1), [false, false, false]);
        assert_eq!(shed(SHEDS_SHEDDABLE), [false, false, true]);
        assert_eq!(shed(LEVELS), [false, true, true]);
        let watched = Relief { level: LEVELS, paces_handshakes: true, ..Relief::default() }.watched();
        assert_eq!(watched, Relief { level: LEVELS, only_watches: true, ..Relief::default() });
    }
}
