//! Shortages of this process: one writer, which measures once a second.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Shortage;

/// The measurement of a shortage, and its consequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardFigure {
    /// Use in thousandths of the limit; none without a measurement.
    pub permille: Option<u16>,
    /// Level of the shortage; 0 without a shortage.
    pub level: u8,
}

#[derive(Debug, Default)]
pub(super) struct GuardCells([ShortageCells; Shortage::ALL.len()]);

/// The cells of one shortage.
#[derive(Debug, Default)]
pub(super) struct ShortageCells {
    /// Thousandths plus one; 0 means that nothing is measured.
    permille: AtomicU64,
    pub(super) level: AtomicU64,
    pub(super) turned_on: AtomicU64,
}

impl GuardCells {
    /// Sets a measurement. The beginning of a shortage is counted.
    pub(super) fn set(&self, of: Shortage, figure: GuardFigure) {
        let ShortageCells { permille, level, turned_on } = &self.0[of as usize];
        permille.store(figure.permille.map_or(0, |permille| u64::from(permille) + 1), Ordering::Relaxed);
        let before = level.swap(figure.level.into(), Ordering::Relaxed);
        if before == 0 && figure.level > 0 {
            turned_on.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Shortage, &ShortageCells)> {
        Shortage::ALL.iter().copied().zip(&self.0)
    }
}

impl ShortageCells {
    /// The measured value; none without a measurement.
    pub(super) fn permille(&self) -> Option<u64> {
        self.permille.load(Ordering::Relaxed).checked_sub(1)
    }
}
