//! Thresholds of each shortage, and the relief that helps. docs/guard.md has the same table for operators.

use observe::Shortage;

use super::LEVELS;

/// Consecutive samples well below the threshold of a level before it falls.
pub(super) const FALL_SAMPLES: u8 = 5;
/// A measurement is well below a threshold under this part of it, in thousandths.
const FALL_PERMILLE: u32 = 800;
/// A threshold that no measurement reaches.
const NEVER: u16 = u16::MAX;

/// Thresholds and relief of a shortage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// Threshold of each level, in thousandths.
    pub(super) levels: [u16; LEVELS as usize],
    /// Consecutive samples before a level rises.
    pub(super) rise_samples: u8,
    pub(super) measures: Measures,
}

/// Relief that helps from the first level on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) shortens_keep_alive: bool,
    pub(super) lowers_compression: bool,
    pub(super) paces_handshakes: bool,
}

/// For shortages of time: idle connections cost none, and new ones do.
const FOR_TIME: Measures =
    Measures { shortens_keep_alive: false, lowers_compression: true, paces_handshakes: true };
/// For shortages of room: each connection takes some.
const FOR_ROOM: Measures =
    Measures { shortens_keep_alive: true, lowers_compression: false, paces_handshakes: true };
/// For shortages that only fewer requests relieve.
const FOR_NEITHER: Measures =
    Measures { shortens_keep_alive: false, lowers_compression: false, paces_handshakes: false };

/// One burst is no shortage of time, hence several samples. A shortage that ends the process, or makes it
/// refuse connections, counts at once.
const SOON: u8 = 3;
const AT_ONCE: u8 = 1;

/// The thresholds of each shortage.
pub(super) fn thresholds(of: Shortage) -> &'static Thresholds {
    match of {
        Shortage::CpuThrottled => {
            &Thresholds { levels: [250, 600, 900], rise_samples: SOON, measures: FOR_TIME }
        }
        // Several threads on a CPU wait for each other even in good health: a wait alone is not lateness.
        Shortage::CpuStalled => {
            &Thresholds { levels: [500, 800, NEVER], rise_samples: SOON, measures: FOR_TIME }
        }
        Shortage::Memory => {
            &Thresholds { levels: [800, 900, 950], rise_samples: AT_ONCE, measures: FOR_ROOM }
        }
        Shortage::Descriptors => {
            &Thresholds { levels: [800, 900, 970], rise_samples: AT_ONCE, measures: FOR_ROOM }
        }
        // One endpoint is concerned, and requests for the others must not suffer.
        Shortage::Ports => {
            &Thresholds { levels: [800, NEVER, NEVER], rise_samples: AT_ONCE, measures: FOR_NEITHER }
        }
        Shortage::AcceptQueue => {
            &Thresholds { levels: [500, 800, 950], rise_samples: SOON, measures: FOR_TIME }
        }
        Shortage::LoopLag => &Thresholds { levels: [50, 200, 500], rise_samples: SOON, measures: FOR_TIME },
    }
}

impl Thresholds {
    /// The level for a measurement.
    pub(super) fn level(&self, permille: u16) -> u8 {
        self.levels.iter().filter(|threshold| permille >= **threshold).count() as u8
    }

    /// Whether a measurement is so far below the threshold of a level that the level may fall.
    pub(super) fn is_well_below(&self, level: u8, permille: u16) -> bool {
        let threshold = self.levels[usize::from(level - 1)];
        u32::from(permille) * 1000 < u32::from(threshold) * FALL_PERMILLE
    }
}
