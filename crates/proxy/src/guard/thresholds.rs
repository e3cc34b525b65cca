//! From which pressure on something is short, and what helps then. docs/guard.md has the same table for operators.

use observe::Shortage;

use super::LEVELS;

/// Samples in a row that are well below the threshold of a level, before it falls.
pub(super) const FALL_SAMPLES: u8 = 5;
/// What is well below a threshold: this part of it, in thousandths.
const FALL_PERMILLE: u32 = 800;
/// No pressure is that high.
const NEVER: u16 = u16::MAX;

/// From when on something is short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// Thousandths for each level.
    pub(super) levels: [u16; LEVELS as usize],
    /// Samples in a row for a level to rise.
    pub(super) rise_samples: u8,
    pub(super) measures: Measures,
}

/// What helps from the first level on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) shortens_keep_alive: bool,
    pub(super) lowers_compression: bool,
    pub(super) paces_handshakes: bool,
}

/// Where time is short: connections that are kept cost none, and new ones do.
const FOR_TIME: Measures =
    Measures { shortens_keep_alive: false, lowers_compression: true, paces_handshakes: true };
/// Where room is short: each connection takes some.
const FOR_ROOM: Measures =
    Measures { shortens_keep_alive: true, lowers_compression: false, paces_handshakes: true };
/// Where nothing but fewer requests helps.
const FOR_NEITHER: Measures =
    Measures { shortens_keep_alive: false, lowers_compression: false, paces_handshakes: false };

/// One burst is no shortage of time. What ends a process, or has it refuse connections, is one at once.
const SOON: u8 = 3;
const AT_ONCE: u8 = 1;

/// Of each shortage.
pub(super) fn thresholds(of: Shortage) -> &'static Thresholds {
    match of {
        Shortage::CpuThrottled => {
            &Thresholds { levels: [250, 600, 900], rise_samples: SOON, measures: FOR_TIME }
        }
        // Several threads on a CPU wait for each other though all is well; to wait is not yet to be late.
        Shortage::CpuStalled => {
            &Thresholds { levels: [500, 800, NEVER], rise_samples: SOON, measures: FOR_TIME }
        }
        Shortage::Memory => {
            &Thresholds { levels: [800, 900, 950], rise_samples: AT_ONCE, measures: FOR_ROOM }
        }
        Shortage::Descriptors => {
            &Thresholds { levels: [800, 900, 970], rise_samples: AT_ONCE, measures: FOR_ROOM }
        }
        // One endpoint is concerned, and requests for the others are not to suffer.
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
    /// The level that a pressure asks for.
    pub(super) fn level(&self, permille: u16) -> u8 {
        self.levels.iter().filter(|threshold| permille >= **threshold).count() as u8
    }

    /// Whether a pressure is so far below the threshold of a level that it may fall.
    pub(super) fn is_well_below(&self, level: u8, permille: u16) -> bool {
        let threshold = self.levels[usize::from(level - 1)];
        u32::from(permille) * 1000 < u32::from(threshold) * FALL_PERMILLE
    }
}
