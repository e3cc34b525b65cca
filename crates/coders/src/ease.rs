//! Compression levels that fall while the worker is short of CPU, and rise again: less compression is better
//! than latency for everybody.
//!
//! Pure: measurements are arguments.

use crate::limits::{
    EASE_LATE_MAX_MS, EASE_STEPS_MAX, EASE_TICKS_DOWN, EASE_TICKS_UP, LOAD_PERMILLE_HIGH, LOAD_PERMILLE_LOW,
};

/// Load of a worker between two ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Thousandths of the time during which its thread ran.
    pub busy_permille: u16,
    /// How late the second tick was handled. A thread that gets no CPU is late without being busy.
    pub late_ms: u32,
}

/// How far levels are below those that routes configure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ease {
    steps: u8,
    /// Smoothed load, in thousandths.
    load: u16,
    /// Ticks since the steps changed.
    ticks: u8,
}

impl Ease {
    /// The state after one more tick.
    #[must_use]
    pub fn after(self, load: Load) -> Self {
        let now = if load.late_ms > EASE_LATE_MAX_MS { 1000 } else { load.busy_permille.min(1000) };
        let load = (self.load * 3 + now).div_ceil(4);
        let ticks = self.ticks.saturating_add(1);
        let steps = match self.steps {
            steps if load >= LOAD_PERMILLE_HIGH && ticks >= EASE_TICKS_DOWN => {
                (steps + 1).min(EASE_STEPS_MAX)
            }
            steps if load < LOAD_PERMILLE_LOW && ticks >= EASE_TICKS_UP => steps.saturating_sub(1),
            steps => steps,
        };
        Self { steps, load, ticks: if steps == self.steps { ticks } else { 0 } }
    }

    /// Steps from the configured level down to the lowest one.
    pub fn steps(self) -> u8 {
        self.steps
    }

    /// The level that replaces a configured one. Level 1 is the lowest that compresses, with every coding.
    pub fn level(self, level: u8) -> u8 {
        let above = u16::from(level.saturating_sub(1));
        let fall = (above * u16::from(self.steps)).div_ceil(u16::from(EASE_STEPS_MAX));
        level - fall as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ease: Ease, ticks: usize, mut load: impl FnMut() -> Load) -> (Ease, usize) {
        let mut changes = 0;
        let last = (0..ticks).fold(ease, |ease, _| {
            let next = ease.after(load());
            changes += usize::from(next.steps != ease.steps);
            next
        });
        (last, changes)
    }

    fn busy(permille: u16) -> Load {
        Load { busy_permille: permille, late_ms: 0 }
    }

    /// Random loads around a mean, the same for the same seed.
    fn seeded(mut seed: u64, mean: u16, spread: u16) -> impl FnMut() -> Load {
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            busy(mean - spread + ((seed >> 33) % (2 * u64::from(spread))) as u16)
        }
    }

    #[test]
    fn levels_fall_under_load_and_come_back() {
        let (pressed, changes) = run(Ease::default(), 100, || busy(990));
        assert_eq!((pressed.steps, changes), (EASE_STEPS_MAX, usize::from(EASE_STEPS_MAX)));
        let (after, changes) = run(pressed, 200, || busy(200));
        assert_eq!((after.steps, changes), (0, usize::from(EASE_STEPS_MAX)));
    }

    #[test]
    fn a_thread_that_gets_no_cpu_is_short_of_it() {
        let late = || Load { busy_permille: 100, late_ms: EASE_LATE_MAX_MS + 1 };
        assert_eq!(run(Ease::default(), 100, late).0.steps, EASE_STEPS_MAX);
    }

    #[test]
    fn one_burst_changes_nothing() {
        let (ease, _) = run(Ease::default(), 50, || busy(300));
        assert_eq!(run(ease, 3, || busy(1000)).0.steps, 0);
    }

    #[test]
    fn what_wavers_around_a_bound_does_not_make_levels_waver() {
        for seed in 0..100 {
            for mean in [450, 700, 800] {
                let (_, changes) = run(Ease::default(), 1000, seeded(seed, mean, 45));
                assert_eq!(changes, 0, "seed {seed}, mean {mean}");
            }
            let (ease, changes) = run(Ease::default(), 1000, seeded(seed, 950, 45));
            assert_eq!((ease.steps, changes), (EASE_STEPS_MAX, usize::from(EASE_STEPS_MAX)), "seed {seed}");
        }
    }

    #[test]
    fn the_last_step_is_the_lowest_level() {
        let at = |steps| Ease { steps, ..Ease::default() };
        let levels = |level| (0..=EASE_STEPS_MAX).map(|steps| at(steps).level(level)).collect::<Vec<_>>();
        assert_eq!(levels(9), [9, 7, 5, 3, 1]);
        assert_eq!(levels(4), [4, 3, 2, 1, 1]);
        assert_eq!((levels(1), levels(0)), (vec![1; 5], vec![0; 5]));
    }
}
