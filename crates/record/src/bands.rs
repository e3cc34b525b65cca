//! Bands that values are learned to stay in, by the hour of day, and what is recorded finer when one leaves.
//!
//! A band holds what is usual for a value: how high it is and how far it strays, for all times and for each
//! hour of a day. Values are learned slowly, and those outside the band hardly at all, so that a band does
//! not follow what it should notice. Must not be in here: clocks, where values come from.

/// Hours that are learned one by one.
const HOURS: usize = 24;

/// The share of a new value in what is learned, when enough values are known. A value comes every ten
/// seconds: an hour has 360 of them.
const SHARE: f64 = 1.0 / 180.0;

/// The share of a value that is outside the band.
const SHARE_OUTSIDE: f64 = SHARE / 10.0;

/// Values after which a band, or an hour of it, counts as known: ten minutes.
const KNOWN_AFTER: u32 = 60;

/// A value is outside beyond so many mean deviations from what is usual.
const DEVIATIONS: f64 = 12.0;

/// So many values in a row have to be outside.
const IN_A_ROW: u32 = 2;

/// The name of a value, and how it is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The value's name, in events.
    pub name: &'static str,
    /// Values up to this one are never outside, whatever was learned: quiet machines have narrow bands.
    pub floor: f64,
    /// A value is only outside if it is so many times what is usual.
    pub times: f64,
}

/// Bands of several values, which are learned together.
#[derive(Clone, Debug)]
pub struct Bands {
    bands: &'static [Band],
    learned: Vec<Learned>,
}

/// A value that left its band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// The value's name.
    pub name: &'static str,
    /// The value that is outside.
    pub value: f64,
    /// The mean of this hour, or of all hours.
    pub usual: f64,
}

#[derive(Clone, Debug, Default)]
struct Learned {
    always: Usual,
    hours: [Usual; HOURS],
    /// Values in a row that were outside.
    outside: u32,
}

/// The mean of values, and the mean deviation from it.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    mean: f64,
    deviation: f64,
    values: u32,
}

impl Bands {
    /// Bands that nothing is known of.
    pub fn new(bands: &'static [Band]) -> Self {
        Self { bands, learned: vec![Learned::default(); bands.len()] }
    }

    /// Learns values in the order of the bands; none for a value that is not known at this time. Returns
    /// those that have left their band just now. `hour` is that of the day, in whatever zone, from 0.
    pub fn note(&mut self, hour: usize, values: &[Option<f64>]) -> Vec<Left> {
        let all = self.bands.iter().zip(&mut self.learned).zip(values);
        all.filter_map(|((band, learned), value)| learned.note(band, hour % HOURS, (*value)?)).collect()
    }
}

impl Learned {
    fn note(&mut self, band: &Band, hour: usize, value: f64) -> Option<Left> {
        if !value.is_finite() {
            return None;
        }
        // A value is inside if it is usual at this hour, or has been of late: a level that stays is told
        // once, and not again in each hour. An hour that is not known yet is like all the others.
        let known: Vec<Usual> =
            [self.hours[hour], self.always].into_iter().filter(|usual| usual.values >= KNOWN_AFTER).collect();
        let is_outside = !known.is_empty() && known.iter().all(|usual| usual.excludes(band, value));
        let share = if is_outside { SHARE_OUTSIDE } else { SHARE };
        self.always.learn(value, share);
        self.hours[hour].learn(value, share);
        self.outside = if is_outside { self.outside.saturating_add(1) } else { 0 };
        let usual = known.first()?.mean;
        (self.outside == IN_A_ROW).then_some(Left { name: band.name, value, usual })
    }
}

impl Usual {
    fn excludes(&self, band: &Band, value: f64) -> bool {
        value > band.floor
            && value > self.mean * band.times
            && value > self.mean + DEVIATIONS * self.deviation
    }

    fn learn(&mut self, value: f64, share: f64) {
        self.values = self.values.saturating_add(1);
        // The first values count equally.
        let share = if self.values < KNOWN_AFTER { share.max(1.0 / f64::from(self.values)) } else { share };
        let deviation = (value - self.mean).abs();
        // The first value is not a deviation from anything.
        if self.values > 1 {
            self.deviation += (deviation - self.deviation) * share;
        }
        self.mean += (value - self.mean) * share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDS: &[Band] = &[Band { name: "p99", floor: 0.005, times: 2.0 }];

    /// Numbers from 0 to 1 that are always the same.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f64 / (1_u64 << 24) as f64
        }
    }

    /// Values each ten seconds, and how often one left the band.
    fn left(bands: &mut Bands, frames: std::ops::Range<usize>, value: impl Fn(usize) -> f64) -> usize {
        frames.map(|frame| bands.note(frame / 360, &[Some(value(frame))]).len()).sum()
    }

    #[test]
    fn quiet_noise_stays_in_its_band_for_a_week() {
        for seed in 0..20 {
            let mut noise = Noise(seed);
            // Times scatter upwards: some are thrice the usual one.
            let values: Vec<f64> =
                (0..8640 * 7).map(|_| 0.01 - 0.003 * noise.next().max(1e-6).ln()).collect();
            let mut bands = Bands::new(BANDS);
            assert_eq!(left(&mut bands, 0..8640 * 7, |frame| values[frame]), 0, "seed {seed}");
        }
    }

    #[test]
    fn a_day_that_has_hours_stays_in_its_band() {
        let mut bands = Bands::new(BANDS);
        let mut noise = Noise(1);
        let values: Vec<f64> = (0..8640 * 3)
            .map(|frame| {
                let hour = f64::from(frame % 8640) / 360.0;
                let busy = 1.0 + (hour / 24.0 * std::f64::consts::TAU).sin();
                0.01 + 0.03 * busy + 0.004 * noise.next()
            })
            .collect();
        assert_eq!(left(&mut bands, 0..8640 * 3, |frame| values[frame]), 0);
    }

    #[test]
    fn a_step_leaves_the_band_once_and_soon() {
        let mut bands = Bands::new(BANDS);
        let mut noise = Noise(7);
        let mut value = |usual: f64| usual + 0.002 * noise.next();
        for frame in 0..8640 {
            assert_eq!(bands.note(frame / 360, &[Some(value(0.01))]), []);
        }
        let mut told = Vec::new();
        for frame in 0..30 {
            told.extend(bands.note(0, &[Some(value(0.05))]).into_iter().map(|left| (frame, left)));
        }
        assert_eq!(told.len(), 1, "{told:?}");
        let (frame, left) = told[0];
        assert!(frame < 3 && left.name == "p99" && left.usual < 0.013 && left.value > 0.05, "{told:?}");
    }

    #[test]
    fn small_values_and_unknown_ones_are_never_outside() {
        let mut bands = Bands::new(BANDS);
        for _ in 0..1000 {
            assert_eq!(bands.note(0, &[Some(0.0001)]), []);
        }
        for value in [Some(0.004), None, Some(f64::NAN), Some(f64::INFINITY), Some(0.004)] {
            assert_eq!(bands.note(0, &[value]), []);
        }
    }

    #[test]
    fn one_outlier_is_nothing() {
        let mut bands = Bands::new(BANDS);
        let told = left(&mut bands, 0..5000, |frame| if frame % 500 == 499 { 1.0 } else { 0.01 });
        assert_eq!(told, 0);
    }

    #[test]
    fn another_level_becomes_usual() {
        let mut bands = Bands::new(BANDS);
        assert_eq!(left(&mut bands, 0..8640, |_| 0.01), 0);
        assert_eq!(left(&mut bands, 8640..8640 * 4, |_| 0.1), 1, "it is told once");
        // Three days later the old level is nothing, and neither is the new one.
        assert_eq!(left(&mut bands, 8640 * 4..8640 * 5, |_| 0.1), 0);
    }
}
