//! What the machine did while load was made, ten times a second: CPU, sockets, answers.
//!
//! Must not be in here: what any of it means, and how it is shown.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Often enough to see a second's course, and rarely enough to cost nothing.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// A thread that reads until it is told to finish.
pub(crate) struct Timeline {
    start: Instant,
    stop: Sender<()>,
    thread: JoinHandle<Vec<Reading>>,
}

/// What there was at one moment. Times are seconds, and counters began some time before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Since the timeline's start.
    pub(crate) at: f64,
    /// CPU time of the whole machine.
    pub(crate) machine_cpu: f64,
    /// CPU time of this process: the generator.
    pub(crate) own_cpu: f64,
    /// TCP sockets of the network namespace, but for those in `TIME_WAIT`.
    pub(crate) connections: f64,
    /// Those in `TIME_WAIT`.
    pub(crate) time_wait: f64,
    /// What the caller counts, such as answers.
    pub(crate) counts: [f64; 2],
}

impl Timeline {
    /// Begins to read, in the network namespace of `pid` where one is named. `counts` is asked each time.
    pub(crate) fn start(
        pid: Option<u32>,
        counts: impl Fn() -> [f64; 2] + Send + 'static,
    ) -> std::io::Result<Timeline> {
        let start = Instant::now();
        let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let (stop, stopped) = mpsc::channel();
        let read = move || Reading { counts: counts(), ..Reading::now(&process, start) };
        let work = move || {
            let mut readings = vec![read()];
            let mut due = PERIOD;
            loop {
                let pause = due.saturating_sub(start.elapsed());
                let is_over = !matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout));
                readings.push(read());
                if is_over {
                    return readings;
                }
                due = (due + PERIOD).max(start.elapsed());
            }
        };
        let thread = thread::Builder::new().name("timeline".into()).spawn(work)?;
        Ok(Timeline { start, stop, thread })
    }

    /// Seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Reads once more and ends.
    pub(crate) fn finish(self) -> Vec<Reading> {
        let _ = self.stop.send(());
        self.thread.join().expect("reading files does not panic")
    }
}

impl Reading {
    fn now(process: &str, start: Instant) -> Reading {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let v4 = read(&format!("/proc/{process}/net/sockstat"));
        let v6 = read(&format!("/proc/{process}/net/sockstat6"));
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Reading {
            at: start.elapsed().as_secs_f64(),
            machine_cpu: busy(&read("/proc/stat")),
            own_cpu: own.tv_sec as f64 + own.tv_nsec as f64 / 1e9,
            connections: sockets(&v4, "TCP:", "inuse") + sockets(&v6, "TCP6:", "inuse"),
            // The kernel counts both families' in the first file.
            time_wait: sockets(&v4, "TCP:", "tw"),
            counts: [0.0; 2],
        }
    }
}

/// A figure of `/proc/net/sockstat`; 0 where there is none.
fn sockets(text: &str, protocol: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(protocol)).unwrap_or_default();
    let mut words = line.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Seconds that all CPUs together were busy, from `/proc/stat`: all but idle, waiting for a disk, and stolen by the host.
fn busy(text: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let fields: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let field = |index: usize| fields.get(index).copied().unwrap_or(0.0);
    // user, nice, system, idle, iowait, irq, softirq (proc_stat(5)).
    let ticks: f64 = [0, 1, 2, 5, 6].into_iter().map(field).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let text = "sockets: used 12\nTCP: inuse 5 orphan 0 tw 27900 alloc 6 mem 1\nUDP: inuse 0 mem 0\n";
        assert!((sockets(text, "TCP:", "inuse") - 5.0).abs() < 1e-9);
        assert!((sockets(text, "TCP:", "tw") - 27_900.0).abs() < 1e-9);
        assert!(sockets("", "TCP:", "tw").abs() < 1e-9);
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let stat = "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4\n";
        assert!((busy(stat) - 163.0 / per_second).abs() < 1e-9);
    }

    #[test]
    fn a_timeline_begins_and_ends_with_a_reading() {
        let timeline = Timeline::start(Some(std::process::id()), || [1.0, 2.0]).expect("a thread");
        let readings = timeline.finish();
        assert!(readings.len() >= 2);
        let (first, last) = (readings[0], readings[readings.len() - 1]);
        assert!(last.at > first.at && last.own_cpu >= first.own_cpu && last.machine_cpu >= first.machine_cpu);
        assert!(last.counts[0] > 0.9 && last.counts[1] > 1.9);
        assert!(last.machine_cpu > 0.0);
    }
}
