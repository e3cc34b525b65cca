//! What a plan that is being carried out has come to so far, for whoever watches it from another thread.
//!
//! Must not be in here: printing.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Outcome;

/// Counters that grow while a plan is carried out, by turns of the workers' loops and not by requests.
#[derive(Debug, Default)]
pub struct Progress {
    answered: AtomicU64,
    failed: AtomicU64,
    connections_opened: AtomicU64,
    body_bytes: AtomicU64,
}

/// [`Progress`] at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Answers that were as expected.
    pub answered: u64,
    /// Errors of all kinds.
    pub failed: u64,
    /// Connections that the server took.
    pub connections_opened: u64,
    /// Bytes of bodies received.
    pub body_bytes: u64,
}

impl Progress {
    /// The state now.
    pub fn read(&self) -> SoFar {
        SoFar {
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            connections_opened: self.connections_opened.load(Ordering::Relaxed),
            body_bytes: self.body_bytes.load(Ordering::Relaxed),
        }
    }

    /// Adds what a worker's `outcome` has more than it had at `told`.
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
