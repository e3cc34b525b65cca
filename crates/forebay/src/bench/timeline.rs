//! Observes the machine while load is made, ten times per second: CPU, sockets, responses.
//!
//! Must not be in here: the meaning of the readings, and how they are shown.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The interval of readings: short enough to show changes within a second, long enough to cost nothing.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// A thread that takes readings until it is stopped.
pub(crate) struct Timeline {
    start: Instant,
    stop: Sender<()>,
    thread: JoinHandle<Vec<Reading>>,
}

/// The readings of one moment. Times are in seconds; counters may begin before the first reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Time since the timeline's start.
    pub(crate) at: f64,
    /// CPU time of the whole machine.
    pub(crate) machine_cpu: f64,
    /// CPU time of this process, which is the generator.
    pub(crate) own_cpu: f64,
    /// TCP sockets of the network namespace, without those in `TIME_WAIT`.
    pub(crate) connections: f64,
    /// Sockets in `TIME_WAIT`.
    pub(crate) time_wait: f64,
    /// Counters of the caller, such as responses.
    pub(crate) counts: [f64; 2],
}

impl Timeline {
    /// Starts to take readings, in the network namespace of `pid` if one is given. `counts` is called for
    /// each reading.
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

    /// Takes the last reading and ends.
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
            // The first file counts the sockets of both address families.
            time_wait: sockets(&v4, "TCP:", "tw"),
            counts: [0.0; 2],
        }
    }
}

/// A figure in `/proc/net/sockstat`; 0 if it is missing.
fn sockets(text: &str, protocol: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(protocol)).unwrap_or_default();
    let mut words = line.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Seconds that all CPUs together were busy, from `/proc/stat`: not idle, waiting for a disk, or stolen by
/// the hypervisor.
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
