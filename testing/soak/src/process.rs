//! The proxy's process: started, killed, replaced by its successor, and what it writes.
//!
//! Must not be in here: when that happens.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::Network;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::lock::locked;
use crate::report::moment;
use crate::shared::Shared;
use crate::windows::Kind;

/// Longest wait for the process to serve, or to end. On CPUs that others keep busy the thread that obeys
/// signals gives way to requests, and may stand still for minutes.
const PATIENCE: Duration = Duration::from_mins(10);

/// The command line of the process.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) binary: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

/// The lines of the access log by process, Ingress and status.
pub(crate) type Lines = BTreeMap<(i32, String, u16), u64>;

/// The process that serves.
pub(crate) struct Proxy {
    network: Arc<Network>,
    shared: Arc<Shared>,
    plan: Plan,
    /// Of the processes so far, the last one; none before the start.
    current: Mutex<Option<Current>>,
    output: Arc<Output>,
    kills: Mutex<Vec<Instant>>,
}

struct Current {
    pid: Pid,
    /// None where it is a successor.
    child: Option<Child>,
}

/// The output of all processes.
struct Output {
    shared: Arc<Shared>,
    log: Mutex<File>,
    lines: Mutex<Lines>,
    events: Mutex<Events>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Events {
    /// Times that a process has said that it serves.
    serving: u64,
    /// The successor that was started last, and how many have taken over.
    successor: Option<i32>,
    taken_over: u64,
}

impl Proxy {
    pub(crate) fn new(network: Arc<Network>, shared: Arc<Shared>, plan: Plan) -> Result<Proxy> {
        let path = shared.report.folder().join("forebay.log");
        let log = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let output = Arc::new(Output {
            shared: Arc::clone(&shared),
            log: Mutex::new(log),
            lines: Mutex::default(),
            events: Mutex::default(),
            changed: Condvar::new(),
        });
        let current = Mutex::default();
        Ok(Proxy { network, shared, plan, current, output, kills: Mutex::default() })
    }

    /// Starts a process, and waits until it serves.
    pub(crate) fn start(&self) -> Result<()> {
        let before = locked(&self.output.events).serving;
        let mut command = Command::new(&self.plan.binary);
        command.args(&self.plan.arguments).envs(self.plan.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.network.proxy.enter(|| command.spawn().context("the binary does not run"))?;
        let (out, error) = (child.stdout.take(), child.stderr.take());
        for (stream, is_log) in [(out.map(boxed), false), (error.map(boxed), true)] {
            let (stream, output) = (stream.context("no pipe")?, Arc::clone(&self.output));
            thread::spawn(move || output.read(stream, is_log));
        }
        *locked(&self.current) = Some(Current { pid: Pid::from_child(&child), child: Some(child) });
        self.output.wait("it to serve", |events| events.serving > before)
    }

    /// The id of the process that serves.
    pub(crate) fn pid(&self) -> Option<Pid> {
        locked(&self.current).as_ref().map(|current| current.pid)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid().context("no process")?;
        kill_process(pid, signal).with_context(|| format!("cannot send {signal:?} to {pid:?}"))
    }

    /// Kills the process, and starts another one.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.reap()?;
        self.start()
    }

    /// Has a successor take over, and waits until the process has ended.
    pub(crate) fn restart(&self) -> Result<()> {
        let before = locked(&self.output.events).taken_over;
        self.signal(Signal::USR2)?;
        self.output.wait("the successor to serve", |events| events.taken_over > before)?;
        let successor = locked(&self.output.events).successor.and_then(Pid::from_raw);
        let successor = Current { pid: successor.context("the successor is not named")?, child: None };
        let old = locked(&self.current).replace(successor).context("no process")?;
        let ended = thread::spawn(move || reap(old));
        let end = Instant::now() + PATIENCE;
        while !ended.is_finished() {
            ensure!(Instant::now() < end, "the predecessor does not end");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn reap(&self) -> Result<()> {
        let current = locked(&self.current).take().context("no process")?;
        reap(current);
        locked(&self.kills).push(Instant::now());
        Ok(())
    }

    /// Stops the process in order, and waits for its end.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let Some(mut current) = locked(&self.current).take() else { return Ok(()) };
        if let Some(child) = &mut current.child {
            ensure!(child.wait()?.success(), "it does not end in order");
        } else {
            let waited = waitpid(Some(current.pid), WaitOptions::empty())?;
            let status = waited.and_then(|(_, status)| status.exit_status());
            ensure!(status == Some(0), "it ends with {status:?}");
        }
        Ok(())
    }

    /// Notes a fault if the process has ended by itself.
    pub(crate) fn check(&self) {
        let Some(pid) = self.pid() else { return };
        if self.shared.is_interrupted.load(Ordering::Relaxed) {
            return;
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("", |(_, rest)| &rest[..1]);
        // A process that was killed or replaced meanwhile is another one now.
        let ends = [Kind::Kill, Kind::Restart].iter().any(|kind| self.shared.windows.is_open(*kind));
        if matches!(state, "" | "Z" | "X") && self.pid() == Some(pid) && !ends {
            self.shared
                .report
                .fault(format!("process {} has ended by itself: see forebay.log", pid.as_raw_nonzero()));
            self.shared.windows.open(Kind::Kill);
            if let Err(error) = self.reap().and_then(|()| self.start()) {
                self.shared.report.fault(format!("it does not start again: {error:#}"));
                self.shared.has_given_up.store(true, Ordering::Relaxed);
            }
            self.shared.windows.close(Kind::Kill);
        }
    }

    /// The time that the thread of the configuration, the first one of the process, has waited for a CPU so
    /// far. Zero where the kernel does not say so.
    pub(crate) fn wait_for_cpu(&self) -> Duration {
        let Some(pid) = self.pid() else { return Duration::ZERO };
        let text = fs::read_to_string(format!("/proc/{}/schedstat", pid.as_raw_nonzero()));
        waited(&text.unwrap_or_default())
    }

    /// When processes had ended that were killed.
    pub(crate) fn kills(&self) -> Vec<Instant> {
        locked(&self.kills).clone()
    }

    /// The lines of the access log of a process, by Ingress and status.
    pub(crate) fn lines_of(&self, pid: Pid) -> BTreeMap<(String, u16), u64> {
        let lines = locked(&self.output.lines);
        let own = lines.iter().filter(|((of, ..), _)| *of == pid.as_raw_nonzero().get());
        own.map(|((_, ingress, status), count)| ((ingress.clone(), *status), *count)).collect()
    }

    /// All lines of the access log.
    pub(crate) fn line_count(&self) -> u64 {
        locked(&self.output.lines).values().sum()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(current) = locked(&self.current).take() {
            // It may have ended already.
            let _ = kill_process(current.pid, Signal::KILL);
            reap(current);
        }
    }
}

fn boxed(stream: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(stream)
}

/// The second number of a thread's `schedstat`: nanoseconds in which it could run, and did not.
fn waited(schedstat: &str) -> Duration {
    let nanoseconds = schedstat.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Waits for the end of a process. A successor becomes a child of this program, the first one of its
/// namespace, when its predecessor has ended.
fn reap(current: Current) {
    match current.child {
        Some(mut child) => drop(child.wait()),
        None => drop(waitpid(Some(current.pid), WaitOptions::empty())),
    }
}

// === impl Output ===

impl Output {
    fn read(&self, stream: Box<dyn Read + Send>, is_log: bool) {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line);
            if is_log {
                self.note(text.trim_end());
            } else {
                self.record(text.trim_end());
            }
            line.clear();
        }
    }

    /// A line of the log.
    fn note(&self, line: &str) {
        let report = &self.shared.report;
        // The log is for people; a full disk of theirs is not what is tested.
        let _ = writeln!(locked(&self.log), "{} {line}", moment(report.elapsed()));
        if line.contains("panicked at") {
            report.fault(format!("the proxy says: {line}"));
        }
        let mut events = locked(&self.events);
        if line.contains(" serving http=") {
            events.serving += 1;
        } else if let Some((_, successor)) = line.split_once(" successor=") {
            let digits: String = successor.chars().take_while(char::is_ascii_digit).collect();
            events.successor = digits.parse().ok();
        } else if line.contains("the successor serves") {
            events.taken_over += 1;
        }
        self.changed.notify_all();
    }

    /// A line of the access log: `soak PID STATUS id=ID ingress=NAME`.
    fn record(&self, line: &str) {
        let Some((pid, status, id, ingress)) = parse(line) else { return };
        if let Some(id) = id {
            self.shared.ledger.record(id, status);
        }
        if !ingress.is_empty() {
            *locked(&self.lines).entry((pid, ingress.to_owned(), status)).or_default() += 1;
        }
    }

    fn wait(&self, what: &str, holds: impl Fn(&Events) -> bool) -> Result<()> {
        let events = locked(&self.events);
        let waited = self.changed.wait_timeout_while(events, PATIENCE, |events| !holds(events));
        let in_time = waited.is_ok_and(|(_, waited)| !waited.timed_out());
        ensure!(in_time, "waited in vain for {what}");
        Ok(())
    }
}

fn parse(line: &str) -> Option<(i32, u16, Option<u64>, &str)> {
    let mut words = line.strip_prefix("soak ")?.splitn(4, ' ');
    let pid = words.next()?.parse().ok()?;
    let status = words.next()?.parse().ok()?;
    let id = words.next()?.strip_prefix("id=")?;
    let ingress = words.next()?.strip_prefix("ingress=")?;
    Some((pid, status, id.parse().ok(), if ingress == "-" { "" } else { ingress }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_without_a_cpu_is_read() {
        assert_eq!(waited("6901022006 571714902008 6472\n"), Duration::from_nanos(571_714_902_008));
        assert_eq!(waited(""), Duration::ZERO);
    }

    #[test]
    fn a_line_names_process_status_request_and_ingress() {
        assert_eq!(parse("soak 12 200 id=7 ingress=calm"), Some((12, 200, Some(7), "calm")));
        assert_eq!(parse("soak 12 400 id=- ingress=-"), Some((12, 400, None, "")));
        assert_eq!(parse("[date] TCP 200"), None);
    }
}
