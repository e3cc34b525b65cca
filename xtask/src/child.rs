//! Programs that are started for a while: pinned, logged to a file, and gone when dropped.
//!
//! Must not be in here: what is measured on them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bench::cpu::CpuTime;
use bench::h2c::H2c;
use bench::payload::Payload;
use bench::relay::Relay;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::interrupt::Interrupt;

const START_LIMIT: Duration = Duration::from_secs(10);
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// A program that runs in a process group of its own, which ends with this value.
pub(crate) struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `command` on `cpus` (empty: any), with its output in `folder`.
    pub(crate) fn start(name: &str, mut command: Command, cpus: &[usize], folder: &Path) -> Result<Program> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = on_cpus(cpus, || command.spawn())?
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Program { name: name.into(), child, log })
    }

    /// Waits until it listens at `address`.
    pub(crate) fn wait_for(&mut self, address: SocketAddr, interrupt: &Interrupt) -> Result<()> {
        let listens = interrupt.poll(START_LIMIT, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", self.name, self.log_tail());
            }
            Ok(probe(address).ok())
        })?;
        listens
            .map(drop)
            .ok_or_else(|| anyhow!("{} does not listen at {address}:\n{}", self.name, self.log_tail()))
    }

    /// Waits until it ends by itself; what it printed.
    pub(crate) fn output(self, limit: Duration, interrupt: &Interrupt) -> Result<String> {
        let name = self.name.clone();
        match self.ending(limit, interrupt)? {
            (status, output) if status.success() => Ok(output),
            (status, output) => bail!("{name} ended with {status}:\n{output}"),
        }
    }

    /// Waits until it ends by itself; how, and what it printed.
    pub(crate) fn ending(mut self, limit: Duration, interrupt: &Interrupt) -> Result<(ExitStatus, String)> {
        let status = interrupt.poll(limit, || Ok(self.child.try_wait()?))?;
        let output = fs::read_to_string(&self.log)?;
        match status {
            Some(status) => Ok((status, output)),
            None => bail!("{} does not end:\n{output}", self.name),
        }
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time of all its processes so far: nginx has a master and workers.
    pub(crate) fn cpu_time(&self) -> Result<CpuTime> {
        self.pids()?.into_iter().try_fold(CpuTime::default(), |sum, pid| Ok(sum + CpuTime::of_process(pid)?))
    }

    /// The resident memory of all its processes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.pids()?.into_iter().map(resident_bytes).sum()
    }

    fn pids(&self) -> Result<Vec<u32>> {
        let mut pids = vec![self.pid()];
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if parent(pid) == Some(self.pid()) {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // Fails only where nobody is left.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let end = Instant::now() + STOP_LIMIT;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        // Whoever is left of the group, workers included.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// This program, with another task.
pub(crate) fn this_program<A: AsRef<OsStr>>(
    task: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(task).args(arguments);
    Ok(command)
}

/// The `payload` task.
pub(crate) fn serve_payload(listen: SocketAddr) -> Result<()> {
    end_with_parent()?;
    Payload::bind(listen, 1)?.serve_forever();
    Ok(())
}

/// The `h2c` task.
pub(crate) fn serve_h2c(listen: SocketAddr) -> Result<()> {
    end_with_parent()?;
    H2c::bind(listen)?.serve_forever();
    Ok(())
}

/// The `relay` task.
pub(crate) fn serve_relay(listen: SocketAddr, upstream: SocketAddr) -> Result<()> {
    end_with_parent()?;
    Relay::bind(listen, upstream)?.serve_forever();
    Ok(())
}

/// A driver that is killed outright must not leave its servers behind; and a server of many clients needs descriptors.
pub(crate) fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    crate::machine::raise_descriptor_limit();
    Ok(())
}

/// An address on loopback where nothing listens now.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Connects and resets: a connection that is closed would stay in `TIME_WAIT` and be counted against the proxy.
fn probe(address: SocketAddr) -> Result<()> {
    let stream = TcpStream::connect(address)?;
    Ok(set_socket_linger(&stream, Some(Duration::ZERO))?)
}

/// Runs `spawn` on those CPUs, which what it spawns inherits.
pub(crate) fn on_cpus<T>(cpus: &[usize], spawn: impl FnOnce() -> T) -> Result<T> {
    let before = sched_getaffinity(None)?;
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu);
        }
        sched_setaffinity(None, &set)?;
    }
    let result = spawn();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}
