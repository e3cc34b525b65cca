//! Programs that are started for a while: pinned, logged to a file, and gone when dropped.
//!
//! Must not be in here: what is measured on them.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::cpu::CpuTime;
use bench::h2c::H2c;
use bench::payload::Payload;
use bench::relay::Relay;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::interrupt::Interrupt;

pub(crate) const START_LIMIT: Duration = Duration::from_secs(10);
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// How long a command has to end after an interrupt.
const END_LIMIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

/// A program that runs on some CPUs, and ends with this value.
pub(crate) struct Program(lab::Program);

impl Program {
    /// Starts `command` on `cpus` (empty: any), with its output in `folder`.
    pub(crate) fn start(name: &str, command: Command, cpus: &[usize], folder: &Path) -> Result<Program> {
        on_cpus(cpus, || lab::Program::start(name, command, folder))?.map(Program)
    }

    /// Waits until it listens at `address`.
    pub(crate) fn wait_for(&mut self, address: SocketAddr, interrupt: &Interrupt) -> Result<()> {
        let listens = interrupt.poll(START_LIMIT, || self.0.listens(address).map(|it| it.then_some(())))?;
        listens.with_context(|| {
            format!("{} does not listen at {address}:\n{}", self.0.name(), self.0.log_tail())
        })
    }

    /// Waits until it ends by itself; what it printed.
    pub(crate) fn output(self, limit: Duration, interrupt: &Interrupt) -> Result<String> {
        let name = self.0.name().to_owned();
        match self.ending(limit, interrupt)? {
            (status, output) if status.success() => Ok(output),
            (status, output) => bail!("{name} ended with {status}:\n{output}"),
        }
    }

    /// Waits until it ends by itself; how, and what it printed.
    pub(crate) fn ending(mut self, limit: Duration, interrupt: &Interrupt) -> Result<(ExitStatus, String)> {
        let status = interrupt.poll(limit, || self.0.has_ended())?;
        let output = self.0.output()?;
        match status {
            Some(status) => Ok((status, output)),
            None => bail!("{} does not end:\n{output}", self.0.name()),
        }
    }

    /// Interrupts it, as a person would, and waits until it has ended.
    pub(crate) fn interrupted(self, interrupt: &Interrupt) -> Result<()> {
        self.0.signal(Signal::INT);
        self.ending(END_LIMIT, interrupt).map(drop)
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(self) {
        self.0.signal(Signal::KILL);
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// The CPU time of all its processes so far: nginx has a master and workers.
    pub(crate) fn cpu_time(&self) -> Result<CpuTime> {
        self.pids()?.into_iter().try_fold(CpuTime::default(), |sum, pid| Ok(sum + CpuTime::of_process(pid)?))
    }

    /// The resident memory of all its processes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.pids()?.into_iter().map(resident_bytes).sum()
    }

    /// The ids of all its processes.
    pub(crate) fn pids(&self) -> Result<Vec<u32>> {
        let mut pids = vec![self.pid()];
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if parent(pid) == Some(self.pid()) {
                pids.push(pid);
            }
        }
        Ok(pids)
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is in a folder of the workspace")
}

/// Runs a command to its end, which has to be a good one, with its output where ours goes.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Waits for a command, which an interrupt from the keyboard reaches by itself: it has some time to end then.
pub(crate) fn wait_for(command: &mut Command, interrupt: &Interrupt) -> Result<ExitStatus> {
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let ended = interrupt.poll(FOREVER, || Ok(child.try_wait()?));
    let end = Instant::now() + END_LIMIT;
    while ended.is_err() && Instant::now() < end && child.try_wait()?.is_none() {
        thread::sleep(LOOK);
    }
    ended?.context("nothing runs as long")
}

/// Runs a command to its end, which has to be a good one. Returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output =
        command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, errors.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether the path has a program of this name.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Cargo, as it was started to run this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
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

/// A driver that is killed outright must not leave its servers behind; and a server of many clients needs
/// descriptors.
pub(crate) fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    crate::machine::raise_descriptor_limit();
    Ok(())
}

/// An address on loopback where nothing listens now.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
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
