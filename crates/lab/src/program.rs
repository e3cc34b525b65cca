//! Programs that are started for a while: logged to a file, and gone when dropped.
//!
//! Must not be in here: what they are told.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cpu;

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
const LOG_LINES: usize = 20;

/// A program that runs in a process group of its own, which ends with this value.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `command` in the namespace that the thread is in, with its output in `folder`.
    pub fn start(name: &str, mut command: Command, folder: &Path) -> Result<Program> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Program { name: name.into(), child, log })
    }

    /// Waits until it listens at `address`, as seen from the namespace that the thread is in.
    pub fn wait_for(&mut self, address: SocketAddr) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while probe(address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", self.name, self.log_tail());
            }
            if Instant::now() > end {
                bail!("{} does not listen at {address}:\n{}", self.name, self.log_tail());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits until it ends by itself; how, and what it printed.
    pub fn ending(mut self, limit: Duration) -> Result<(ExitStatus, String)> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status, self.output()?));
            }
            thread::sleep(LOOK);
        }
        bail!("{} does not end:\n{}", self.name, self.log_tail())
    }

    /// How it has ended; none while it runs.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// What it was called when it was started.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has printed so far.
    pub fn output(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Time on a CPU that its processes have used.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu::time_of_group(self.pid())
    }

    fn log_tail(&self) -> String {
        let log = self.output().unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        // Fails only where nobody is left.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let end = Instant::now() + STOP_LIMIT;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        // Whoever is left of the group, workers included.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Connects and resets, so that no `TIME_WAIT` stays.
fn probe(address: SocketAddr) -> Result<()> {
    let stream = TcpStream::connect(address)?;
    Ok(set_socket_linger(&stream, Some(Duration::ZERO))?)
}
