//! The disturbances in progress and those that are just over: an answer that would be wrong otherwise may be
//! excused by it.
//!
//! Must not be in here: what is excused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::locked;

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
/// by then.
const AFTERMATH: Duration = Duration::from_secs(4);
/// On a busy machine it is longer, by so many times what threads of this program were late of late.
const LATENESSES: u32 = 20;
/// The lateness from which on the machine is called busy.
const BUSY: Duration = Duration::from_millis(100);
/// The share of the last ten seconds in which threads waited for a CPU, in percent, from which on it is.
const PRESSED_PERCENT: f64 = 60.0;
/// On a busy machine the aftermath is so many times as long.
const BUSY_TIMES: u32 = 3;
/// The share of that lateness which is forgotten at each measurement.
const FORGOTTEN: f64 = 0.004;

#[derive(Clone, Copy, Debug)]
struct Window {
    kind: Kind,
    until: Option<Instant>,
}

/// The disturbances so far. Old ones are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    all: Mutex<Vec<Window>>,
    /// Moments so far at which the process ended, or a new one took over.
    lives: AtomicU64,
    lateness: Mutex<Lateness>,
}

/// By how much threads of this program were late.
#[derive(Clone, Copy, Debug, Default)]
struct Lateness {
    of_late: Duration,
    worst: Duration,
    /// The share of time in which threads wait for a CPU, in percent, as the kernel has it.
    pressure: f64,
}

impl Windows {
    /// Notes that a disturbance begins.
    pub(crate) fn open(&self, kind: Kind) {
        self.note_end_of_life(kind);
        let (now, kept) = (Instant::now(), self.aftermath() * 60);
        let mut windows = self.all();
        windows.retain(|window| window.until.is_none_or(|until| now.duration_since(until) < kept));
        windows.push(Window { kind, until: None });
    }

    /// Notes that it is over.
    pub(crate) fn close(&self, kind: Kind) {
        self.note_end_of_life(kind);
        for window in self.all().iter_mut().filter(|window| window.kind == kind) {
            window.until.get_or_insert_with(Instant::now);
        }
    }

    /// Whether a disturbance of this kind, or its aftermath, overlaps the time from `since` until now.
    pub(crate) fn overlaps(&self, kind: Kind, since: Instant) -> bool {
        let aftermath = self.aftermath();
        self.all()
            .iter()
            .any(|window| window.kind == kind && window.until.is_none_or(|until| until + aftermath >= since))
    }

    /// Whether a disturbance of this kind was in progress at any time from `since` until now.
    pub(crate) fn touches(&self, kind: Kind, since: Instant) -> bool {
        self.all().iter().any(|window| window.kind == kind && window.until.is_none_or(|until| until >= since))
    }

    /// Changes whenever the process ends, or another one takes over.
    pub(crate) fn life(&self) -> u64 {
        self.lives.load(Ordering::SeqCst)
    }

    fn note_end_of_life(&self, kind: Kind) {
        if matches!(kind, Kind::Kill | Kind::Restart) {
            self.lives.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Notes by how much a thread was late that wanted to sleep for a moment only.
    pub(crate) fn note_lateness(&self, late: Duration) {
        let mut lateness = locked(&self.lateness);
        lateness.of_late = lateness.of_late.mul_f64(1.0 - FORGOTTEN).max(late);
        lateness.worst = lateness.worst.max(late);
    }

    /// Notes the percentage of time in which threads waited for a CPU. A thread that sleeps most of the time
    /// is preferred by the kernel, and may not be late where others wait for minutes.
    pub(crate) fn note_pressure(&self, percent: f64) {
        locked(&self.lateness).pressure = percent;
    }

    /// The most that a thread was late.
    pub(crate) fn worst_lateness(&self) -> Duration {
        locked(&self.lateness).worst
    }

    /// Whether threads are so late that what is done at once elsewhere may take seconds.
    pub(crate) fn is_machine_busy(&self) -> bool {
        locked(&self.lateness).is_busy()
    }

    fn aftermath(&self) -> Duration {
        let lateness = *locked(&self.lateness);
        let times = if lateness.is_busy() { BUSY_TIMES } else { 1 };
        AFTERMATH * times + lateness.of_late * LATENESSES
    }

    /// Whether a disturbance of this kind is in progress.
    pub(crate) fn is_open(&self, kind: Kind) -> bool {
        self.all().iter().any(|window| window.kind == kind && window.until.is_none())
    }

    fn all(&self) -> MutexGuard<'_, Vec<Window>> {
        locked(&self.all)
    }
}

impl Lateness {
    fn is_busy(&self) -> bool {
        self.of_late > BUSY || self.pressure > PRESSED_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_busy_machine_a_disturbance_excuses_for_longer() {
        let windows = Windows::default();
        windows.open(Kind::Auth);
        windows.close(Kind::Auth);
        let later = Instant::now() + AFTERMATH * 2;
        assert!(!windows.overlaps(Kind::Auth, later));
        windows.note_lateness(AFTERMATH / 10);
        windows.note_lateness(Duration::ZERO);
        assert!(windows.overlaps(Kind::Auth, later) && windows.worst_lateness() == AFTERMATH / 10);
        for _ in 0..1000 {
            windows.note_lateness(Duration::ZERO);
        }
        assert!(!windows.overlaps(Kind::Auth, later));
        windows.note_pressure(90.0);
        assert!(windows.overlaps(Kind::Auth, later) && windows.is_machine_busy());
        windows.note_pressure(10.0);
        assert!(!windows.overlaps(Kind::Auth, later) && !windows.is_machine_busy());
    }

    #[test]
    fn a_kill_and_a_restart_begin_a_life() {
        let windows = Windows::default();
        windows.open(Kind::Pause);
        windows.close(Kind::Pause);
        assert_eq!(windows.life(), 0);
        windows.open(Kind::Kill);
        windows.close(Kind::Kill);
        assert_eq!(windows.life(), 2);
    }

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
        assert!(windows.touches(Kind::Kill, before) && !windows.touches(Kind::Api, before));
        assert!(!windows.touches(Kind::Kill, Instant::now()));
    }
}
