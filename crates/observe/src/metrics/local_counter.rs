use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and others read.
///
/// Adding is a load and a store, not a locked read-modify-write: with a second writer, additions would be
/// lost.
#[derive(Debug, Default)]
pub struct LocalCounter(AtomicU64);

impl LocalCounter {
    /// Adds one to the counter.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Subtracts one, for things that come and go. The number of one worker may be negative, if another
    /// worker has counted the beginning; the sum over all workers is not.
    pub fn dec(&self) {
        self.add(u64::MAX);
    }

    /// Replaces the number, where it is no count.
    pub(super) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Adds `n` to the counter.
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// The current number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
