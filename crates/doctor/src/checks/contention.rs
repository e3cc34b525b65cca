//! Whether the CPUs of the machine were contended between two samples: by the time in which threads waited
//! for one (`/proc/pressure/cpu`, the kernel's `accounting/psi.rst`), or, from a kernel that does not tell,
//! by the time in which CPUs were idle (`/proc/stat`).
//!
//! Must not be in here: verdicts.

use crate::finding::Outcome;
use crate::format::percent;
use crate::read::processes;
use crate::sample::Sample;
use crate::samples::Samples;
use crate::text::{Text, say};

/// Share of the time in which some thread waited for a CPU, from which on they count as contended. A machine
/// with CPUs to spare has some percent.
const WAITING: f64 = 0.2;
/// Share of the CPUs' time that is used, from which on they do.
const BUSY: f64 = 0.95;

/// CPUs that were contended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Contention {
    /// The share of the time in which some thread waited for one.
    Waiting(f64),
    /// The share of their time that was used.
    Busy(f64),
}

/// The contention between the samples; none where there was none, or the machine does not tell.
pub(crate) fn contention(samples: &Samples) -> Option<Contention> {
    let seconds = samples.seconds().ok()?;
    let (first, last) = samples.ends().ok()?;
    if let (Some(before), Some(now)) = (waiting_us(first), waiting_us(last)) {
        let share = (now.saturating_sub(before) as f64 / 1e6 / seconds).min(1.0);
        return (share >= WAITING).then_some(Contention::Waiting(share));
    }
    let idle = processes::idle_ticks(last)?.checked_sub(processes::idle_ticks(first)?)?;
    let cpus = processes::online_cpus(last)?.len() as f64;
    let share = (1.0 - idle as f64 / 100.0 / seconds / cpus).clamp(0.0, 1.0);
    (share >= BUSY).then_some(Contention::Busy(share))
}

/// The time of `some` since the machine's start, in microseconds.
fn waiting_us(sample: &Sample) -> Option<u64> {
    let text = sample.text("proc/pressure/cpu").ok()?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

impl Contention {
    /// A message with the contention beside it.
    pub(crate) fn beside(self, message: &Text) -> Text {
        match self {
            Self::Waiting(share) => {
                say!(
                    "{}, while threads of this machine waited for a CPU {} of the time",
                    message,
                    percent(share)
                )
            }
            Self::Busy(share) => {
                say!("{}, while the CPUs of this machine were busy {} of the time", message, percent(share))
            }
        }
    }

    /// The remedy against it.
    pub(crate) fn remedy() -> Text {
        say!(
            "more CPUs on this node, or fewer threads that want them; reserve CPUs for the proxy and its \
             upstreams (requests, cpuset); a CPU quota that is too low counts here too: --pods examines all \
             Pods on this node"
        )
    }

    /// Adds the figure.
    pub(crate) fn evident(self, outcome: Outcome) -> Outcome {
        match self {
            Self::Waiting(share) => outcome.with("cpu_waiting_percent", share * 100.0),
            Self::Busy(share) => outcome.with("cpu_busy_percent", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    const PRESSURE: &str = "proc/pressure/cpu";

    fn pressure(total: u64) -> String {
        format!("some avg10=1.00 avg60=0.50 avg300=0.10 total={total}\nfull avg10=0.00 total=0\n")
    }

    fn stat(idle: u64) -> String {
        format!("cpu 1 0 1 {idle} 0 0\ncpu0 1 0 1 1 0 0\ncpu1 0 0 0 1 0 0\nintr 7\n")
    }

    #[test]
    fn the_kernel_says_that_threads_wait() {
        // Of ten seconds.
        let of = |total| contention(&scene().grows(PRESSURE, &pressure(5_000), &pressure(total)).samples());
        assert_eq!(of(1_005_000), None);
        assert_eq!(of(2_505_000), Some(Contention::Waiting(0.25)));
        assert_eq!(of(99_000_000), Some(Contention::Waiting(1.0)));
    }

    #[test]
    fn without_pressure_idle_cpus_say_it() {
        let of = |idle: u64| {
            contention(&scene().lacks(PRESSURE).grows("proc/stat", &stat(100), &stat(100 + idle)).samples())
        };
        // Of two CPUs' ten seconds in ticks of 10 ms.
        assert_eq!(of(500), None);
        assert_eq!(of(50), Some(Contention::Busy(0.975)));
        assert_eq!(contention(&scene().lacks(PRESSURE).lacks("proc/stat").samples()), None);
    }
}
