//! The progress of a running plan, for another thread to watch.
//!
//! Must not be in here: printing.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Outcome;

/// Counters that grow while a plan runs. Workers update them once in a turn of their loop, not for each
/// request.
#[derive(Debug, Default)]
pub struct Progress {
    answered: AtomicU64,
    failed: AtomicU64,
    connections_opened: AtomicU64,
    body_bytes: AtomicU64,
}

/// The values of [`Progress`] at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Responses as expected.
    pub answered: u64,
    /// Errors of all kinds.
    pub failed: u64,
    /// Number of connections opened.
    pub connections_opened: u64,
    /// Bytes of bodies received.
    pub body_bytes: u64,
}

impl Progress {
    /// The current values.
    pub fn read(&self) -> SoFar {
        SoFar {
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            connections_opened: self.connections_opened.load(Ordering::Relaxed),
            body_bytes: self.body_bytes.load(Ordering::Relaxed),
        }
    }

    /// Adds the growth of a worker's `outcome` since `told`.
    pub(super) fn tell(&self, outcome: &Outcome, told: &mut SoFar) {
        let now = SoFar {
            answered: outcome.answered,
            failed: outcome.errors.total(),
            connections_opened: outcome.connections_opened,
            body_bytes: outcome.body_bytes,
        };
        if now != *told {
            self.answered.fetch_add(now.answered - told.answered, Ordering::Relaxed);
            self.failed.fetch_add(now.failed - told.failed, Ordering::Relaxed);
            let opened = now.connections_opened - told.connections_opened;
            self.connections_opened.fetch_add(opened, Ordering::Relaxed);
            self.body_bytes.fetch_add(now.body_bytes - told.body_bytes, Ordering::Relaxed);
            *told = now;
        }
    }
}
