//! Reads a machine into samples, live or from files that were captured elsewhere.
//!
//! It only reads: `/proc`, `/sys`, and netlink sockets. To examine another network namespace, it starts a
//! thread that enters it. Must not be in here: the meaning of what is read.

mod capture;
mod cgroups;
mod contents;
mod fdb;
pub(crate) mod files;
mod holders;
mod kept;
mod machine;
mod namespace;
mod netlink;
mod processes;
mod sock_diag;
mod sockets;
mod ticker;
mod usage;

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use capture::{load, write};
use machine::Machine;
pub use machine::cpu_quota;
use ticker::Ticker;
pub use usage::UsageReader;

use crate::read::metrics::METRICS_READ;
use crate::read::prometheus;
use crate::sample::{Absence, Sample};
use crate::samples::Samples;

/// The subject of an examination.
#[derive(Default)]
pub struct Scope {
    /// A process, which is examined with its descendants in its network namespace; none for the processes
    /// that listen in the caller's namespace.
    pub pid: Option<u32>,
    /// Whether the cgroups of all Pods are read too.
    pub pods: bool,
    /// Kernel parameters to compare with, as `sysctl -a` prints them; none to compare with the host's
    /// namespace.
    pub reference: Option<String>,
    /// Fetches the metrics of the proxy; none if there are none.
    pub metrics: Option<Metrics>,
}

/// Fetches a page of metrics, or returns why there is none.
pub type Metrics = Box<dyn FnMut() -> Result<String, String> + Send>;

/// The lines of a page of metrics that checks read. Each check goes over the whole page, of which these are a
/// small part.
pub fn metrics_read(page: &str) -> String {
    prometheus::only(page, METRICS_READ)
}

/// Why nothing was collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The network namespace of the process cannot be entered, for lack of rights as a rule.
    #[error("cannot enter the network namespace of process {pid}: {source}")]
    Namespace {
        /// Id of the process.
        pid: u32,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A captured file or folder cannot be read as one.
    #[error("cannot read {path}: {why}")]
    Captured {
        /// Path of the file.
        path: String,
        /// Text of the error.
        why: String,
    },
}

/// Takes samples in the calling thread.
pub struct Collector {
    scope: Scope,
    machine: Machine,
    start: Instant,
}

/// A thread that takes a sample at its start and one at its end, and readings many times a second in between.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Samples>,
}

impl Collector {
    /// Enters the network namespace of the process in `scope`. This moves the calling thread for good: if the
    /// namespace is another one, use a thread for nothing else, as [`Watch`] does.
    ///
    /// # Errors
    ///
    /// When the process does not exist, or its namespace cannot be entered.
    pub fn new(scope: Scope) -> Result<Collector, CollectError> {
        let machine = Machine::enter(scope.pid)?;
        Ok(Collector { scope, machine, start: Instant::now() })
    }

    /// Reads files that hardly change, such as kernel parameters, only once in six samples from now on, and a
    /// list of sockets that takes long less often: for samples that are taken for ever.
    #[must_use]
    pub fn sparing(mut self) -> Collector {
        self.machine.spare();
        self
    }

    /// Reads the machine now.
    pub fn sample(&mut self) -> Sample {
        let mut sample = Sample::default();
        sample.taken.seconds = self.start.elapsed().as_secs_f64();
        sample.taken.pid = self.scope.pid;
        self.machine.read(self.scope.pods, &mut sample);
        if let Some(reference) = &self.scope.reference {
            sample.put("host/sysctl.conf", Ok(reference.clone()));
        }
        if let Some(metrics) = &mut self.scope.metrics {
            // Of thousands of services there are megabytes, of which the checks read a little.
            let read = metrics().map(|page| metrics_read(&page));
            sample.put("forebay/metrics", read.map_err(Absence::Unreadable));
        }
        sample
    }
}

impl Watch {
    /// Starts a watch, and returns when the first sample has been taken.
    ///
    /// # Errors
    ///
    /// When no thread can be started, and for the errors of [`Collector::new`].
    pub fn start(scope: Scope) -> Result<Watch, CollectError> {
        let (stop, stopped) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let work = move || {
            let mut collector = match Collector::new(scope) {
                Ok(collector) => collector,
                Err(error) => {
                    let _ = begin.send(Err(error));
                    return Samples::default();
                }
            };
            let first = collector.sample();
            let mut ticker = Ticker::new(&first, collector.start);
            let _ = begin.send(Ok(()));
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(ticker.pause()) {
                ticker.tick();
            }
            let mut last = collector.sample();
            let ticks = serde_json::to_string(&ticker.finish()).map_err(|error| error.to_string());
            last.put("forebay/ticks.json", ticks.map_err(Absence::Unreadable));
            Samples { all: vec![first, last], ..Samples::default() }
        };
        let thread =
            thread::Builder::new().name("doctor".into()).spawn(work).map_err(CollectError::Thread)?;
        // A thread that ended without a message has panicked, which `join` reports.
        begun.recv().unwrap_or(Ok(()))?;
        Ok(Watch { stop, thread })
    }

    /// Takes the last sample and ends the watch.
    pub fn finish(self) -> Samples {
        let _ = self.stop.send(());
        match self.thread.join() {
            Ok(samples) => samples,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Watches for this time.
    ///
    /// # Errors
    ///
    /// The same as those of [`start`](Self::start).
    pub fn over(scope: Scope, duration: Duration) -> Result<Samples, CollectError> {
        let watch = Watch::start(scope)?;
        thread::sleep(duration);
        Ok(watch.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::sockets::Direction;

    #[test]
    fn a_watch_sees_the_connections_of_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let scope = Scope { pid: Some(std::process::id()), ..Scope::default() };
        let watch = Watch::start(scope).expect("our own process");
        let _client = TcpStream::connect(address).expect("it listens");
        let samples = watch.finish();
        let sockets = samples.sockets().expect("sockets");
        let outgoing =
            sockets.iter().find(|group| group.remote == address.to_string()).expect("the client's");
        assert_eq!((outgoing.direction, outgoing.count), (Direction::Outgoing, 1));
        assert_eq!(outgoing.owner.as_ref().map(|owner| owner.pid), Some(std::process::id()));
        assert!(samples.seconds().expect("two samples") > 0.0);
        let (_, last) = samples.ends().expect("two samples");
        assert!(last.taken.pids.contains(&std::process::id()));
        assert!(last.text(&format!("proc/{}/limits", std::process::id())).is_ok());
        assert!(last.text("forebay/ticks.json").is_ok());
    }

    #[test]
    fn a_process_that_is_not_there_is_told() {
        // One more than the greatest process id (proc_sys_kernel(5), pid_max).
        let scope = Scope { pid: Some(4_194_305), ..Scope::default() };
        let error = Watch::start(scope).map(|_| ()).expect_err("no such process").to_string();
        assert_eq!(error, "there is no process 4194305");
    }

    #[test]
    fn a_sparing_collector_has_the_same_files() {
        let scope = || Scope { pid: Some(std::process::id()), pods: true, ..Scope::default() };
        let whole = Collector::new(scope()).expect("our own process").sample();
        let mut collector = Collector::new(scope()).expect("our own process").sparing();
        let names = |sample: &Sample| -> Vec<String> {
            // Other tests start and end threads.
            let lasting = sample.files().filter(|(path, _)| !path.contains("/task/"));
            lasting.map(|(path, _)| path.to_owned()).collect()
        };
        for _ in 0..8 {
            let sample = collector.sample();
            assert_eq!(names(&sample), names(&whole));
            assert_eq!(sample.taken.pids, whole.taken.pids);
        }
    }

    #[test]
    fn nothing_private_is_read() {
        let mut collector = Collector::new(Scope::default()).expect("our own namespace");
        let sample = collector.sample();
        assert!(sample.files().count() > 30);
        for (path, _) in sample.files() {
            let name = path.rsplit('/').next().unwrap_or_default();
            assert!(!["environ", "cmdline", "maps", "mem"].contains(&name), "{path}");
        }
    }
}
