//! Notices for the log, limited to one in a while for all workers together.

use std::sync::atomic::{AtomicU64, Ordering};

use clock::Moment;

use crate::limits::SHORTAGE_TOLD_INTERVAL;

/// Notices of all workers together.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// There are too few descriptors to accept connections.
    pub(crate) descriptors: Notice,
    /// The limit of connections is reached, and idle ones are closed to make room.
    pub(crate) connections: Notice,
    /// The same, and there is no idle one.
    pub(crate) connections_refused: Notice,
    /// A client has reached its limit of connections.
    pub(crate) client_connections: Notice,
}

/// When the notice was last logged, in nanoseconds since the proxy began; 0 where it never was.
#[derive(Debug, Default)]
pub(crate) struct Notice(AtomicU64);

impl Notice {
    /// Whether the notice is due: true once a minute at most, for one of all workers.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        let now = (now.since_begin().as_nanos() as u64).max(1);
        let told = self.0.load(Ordering::Relaxed);
        let is_due = told == 0 || now.saturating_sub(told) >= SHORTAGE_TOLD_INTERVAL.as_nanos() as u64;
        is_due && self.0.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_all_tells_and_again_after_a_while() {
        let notice = Notice::default();
        let is_due = |time| notice.is_due(Moment::BEGIN.after(time));
        let second = std::time::Duration::from_secs(1);
        assert_eq!([0, 0, 30].map(|time| is_due(second * time)), [true, false, false]);
        assert!(is_due(SHORTAGE_TOLD_INTERVAL + second) && !is_due(SHORTAGE_TOLD_INTERVAL + second * 2));
    }
}
