//! What this process has too little of: one writer, which measures once a second.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Shortage;

/// What was measured of a shortage, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardFigure {
    /// Thousandths of what there is; none where nothing is measured.
    pub permille: Option<u16>,
    /// 0 where it is no shortage.
    pub level: u8,
}

#[derive(Debug, Default)]
pub(super) struct GuardCells([ShortageCells; Shortage::ALL.len()]);

/// Of one shortage.
#[derive(Debug, Default)]
pub(super) struct ShortageCells {
    /// Thousandths, and one more, so that 0 is for what is not measured.
    permille: AtomicU64,
    pub(super) level: AtomicU64,
    pub(super) turned_on: AtomicU64,
}

impl GuardCells {
    /// Sets what was found out. A shortage that begins is counted.
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
    /// What was measured; none where nothing was.
    pub(super) fn permille(&self) -> Option<u64> {
        self.permille.load(Ordering::Relaxed).checked_sub(1)
    }
}
