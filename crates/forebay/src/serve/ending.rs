//! Why `serve` ends, and how long it takes.
//!
//! Must not be in here: how connections are closed, which is the proxy's.

use std::time::Duration;

use proxy::WorkerEnds;

/// The time that a process serves on, unready, after one of its workers has ended by a fault: the others'
/// connections are closed with a response, one after the other.
const FAULT_GRACE: Duration = Duration::from_secs(1);

/// The longest time from that fault to the end of the process. While it lasts nothing can be started in the
/// place of the process, so that long requests do not have the time that an ordinary end gives them.
const FAULT_END_MAX: Duration = Duration::from_secs(5);

/// Why `serve` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By a signal.
    Told,
    /// A successor serves.
    HandedOver,
    /// The thread of a worker has ended by a fault. What it shared with the others may be in any state, and
    /// its share of the connections is gone: a process that is begun anew is sound, and whoever runs this one
    /// starts it (Kubernetes, systemd).
    WorkerEnded,
}

impl Ending {
    /// The reason, for the record.
    pub(super) fn why(self) -> &'static str {
        match self {
            Ending::Told => "told to stop",
            Ending::HandedOver => "a successor has taken over",
            Ending::WorkerEnded => "a worker has ended by a fault",
        }
    }

    /// The time over which client connections are closed, where `configured` is that of an ordinary end.
    pub(super) fn grace(self, configured: Duration) -> Duration {
        match self {
            Ending::WorkerEnded => FAULT_GRACE,
            _ => configured,
        }
    }

    /// Waits for as long as the end may take at most; for ever where requests have the time that the settings
    /// give them.
    pub(super) async fn is_too_long(self) {
        match self {
            Ending::WorkerEnded => tokio::time::sleep(FAULT_END_MAX).await,
            _ => std::future::pending().await,
        }
    }

    /// The exit status.
    pub(super) fn code(self) -> i32 {
        i32::from(self == Ending::WorkerEnded)
    }
}

/// Waits until a worker of the server has ended. Where there is no server, the worker has failed to start,
/// and the start says why.
pub(super) async fn worker_ended(ends: &WorkerEnds, has_started: impl FnOnce() -> bool) {
    let worker = ends.first().await;
    if !has_started() {
        std::future::pending::<()>().await;
    }
    tracing::error!(worker, "a worker has ended by a fault: this process finishes what it can, and ends");
}

/// The same, and has a worker panic at each SIGUSR1, so that a test can see what becomes of the others. The
/// signal does not end the process from the moment of the call.
#[cfg(debug_assertions)]
pub(super) fn with_panics_on_signal(
    ended: impl Future<Output = ()>,
    panic: impl Fn(),
) -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let wanted = signal(SignalKind::user_defined1());
    let panicking = async move {
        // Without the signal nobody can want it.
        if let Ok(mut wanted) = wanted {
            while wanted.recv().await.is_some() {
                panic();
            }
        }
        std::future::pending::<()>().await;
    };
    async {
        tokio::select! {
            () = ended => {}
            () = panicking => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_is_short_and_a_failure() {
        let minute = Duration::from_secs(60);
        for ending in [Ending::Told, Ending::HandedOver] {
            assert_eq!(ending.grace(minute), minute);
            assert_eq!(ending.code(), 0);
        }
        let fault = Ending::WorkerEnded;
        assert!(fault.grace(minute) < FAULT_END_MAX);
        assert_eq!(fault.code(), 1);
    }
}
