//! Programs that run for a while: logged to a file, and killed when dropped.
//!
//! Must not be in here: their arguments.

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

/// A program in a process group of its own, which is killed with this value.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `command` in the calling thread's namespace, with its output in `folder`.
    pub fn start(name: &str, mut command: Command, folder: &Path) -> Result<Program> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Program { name: name.into(), child, log })
    }

    /// Waits until the program listens at `address`, as seen from the calling thread's namespace.
    pub fn wait_for(&mut self, address: SocketAddr) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while !self.listens(address)? {
            if Instant::now() > end {
                bail!("{} does not listen at {address}:\n{}", self.name, self.log_tail());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether it listens at `address` already; an error where it has ended.
    pub fn listens(&mut self, address: SocketAddr) -> Result<bool> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended with {status}:\n{}", self.name, self.log_tail());
        }
        Ok(probe(address).is_ok())
    }

    /// Waits until the program ends by itself; returns its status and its output.
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

    /// The exit status; none while the program runs.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// The name that the program was started with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The output so far.
    pub fn output(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of the program's processes.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu::time_of_group(self.pid())
    }

    /// The end of what it has printed.
    pub fn log_tail(&self) -> String {
        let log = self.output().unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, signal: Signal) {
        // Fails only if no process of the group is left.
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
        // The rest of the group, workers included.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Connects and resets, so that no `TIME_WAIT` is left.
fn probe(address: SocketAddr) -> Result<()> {
    let stream = TcpStream::connect(address)?;
    Ok(set_socket_linger(&stream, Some(Duration::ZERO))?)
}
