//! The disturbances in progress and those that are just over: an answer that would be wrong otherwise may be
//! excused by it.
//!
//! Must not be in here: what is excused.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The kinds of disturbances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `kill -9` of the proxy, which is then started anew.
    Kill,
    /// SIGUSR2: a successor gets the listening sockets.
    Restart,
    /// The whole process stands still, as a virtual machine does that is moved.
    Pause,
    /// The wall clock of the proxy jumps.
    Clock,
    /// The proxy may have few more descriptors than it has.
    Descriptors,
    /// The memory of the proxy's cgroup is nearly used up.
    Memory,
    /// The API server is away.
    Api,
    /// The auth service is away.
    Auth,
    /// Redis is away.
    Redis,
    /// The name server is away.
    Names,
    /// The file system of the cache on disk and of buffered bodies is full.
    Disk,
}

/// Time after a disturbance in which its effects may still be seen: what was refused meanwhile is tried again
/// by then. Long, since a busy machine is slow.
const AFTERMATH: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug)]
struct Window {
    kind: Kind,
    until: Option<Instant>,
}

/// The disturbances so far. Old ones are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<Vec<Window>>);

impl Windows {
    /// Notes that a disturbance begins.
    pub(crate) fn open(&self, kind: Kind) {
        let now = Instant::now();
        let mut windows = self.all();
        windows.retain(|window| window.until.is_none_or(|until| now.duration_since(until) < AFTERMATH * 60));
        windows.push(Window { kind, until: None });
    }

    /// Notes that it is over.
    pub(crate) fn close(&self, kind: Kind) {
        for window in self.all().iter_mut().filter(|window| window.kind == kind) {
            window.until.get_or_insert_with(Instant::now);
        }
    }

    /// Whether a disturbance of this kind, or its aftermath, overlaps the time from `since` until now.
    pub(crate) fn overlaps(&self, kind: Kind, since: Instant) -> bool {
        self.all()
            .iter()
            .any(|window| window.kind == kind && window.until.is_none_or(|until| until + AFTERMATH >= since))
    }

    /// Whether a disturbance of this kind is in progress.
    pub(crate) fn is_open(&self, kind: Kind) -> bool {
        self.all().iter().any(|window| window.kind == kind && window.until.is_none())
    }

    fn all(&self) -> MutexGuard<'_, Vec<Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_excuses_what_overlaps_it_and_nothing_else() {
        let (windows, before) = (Windows::default(), Instant::now());
        assert!(!windows.overlaps(Kind::Kill, before));
        windows.open(Kind::Kill);
        assert!(windows.overlaps(Kind::Kill, before) && windows.is_open(Kind::Kill));
        assert!(!windows.overlaps(Kind::Api, before));
        windows.close(Kind::Kill);
        assert!(windows.overlaps(Kind::Kill, Instant::now()) && !windows.is_open(Kind::Kill));
        assert!(!windows.overlaps(Kind::Kill, Instant::now() + AFTERMATH * 2));
    }
}
