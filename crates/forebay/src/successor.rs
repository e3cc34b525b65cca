//! The upgrade of the binary without a lost connection: on SIGUSR2 a successor is started from the same path
//! with the same arguments, and gets the listening sockets. When it serves, this process accepts no more,
//! finishes what it has, and ends. If the successor ends before it serves, nothing has changed.
//!
//! Must not be in here: how the successor takes the sockets over, which is `service_manager`'s.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use proxy::{QuicLegacy, listening_sockets};
use rustix::io::dup;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::service_manager::{KEPT, PORTS, QUIC, READY, SOCKETS};

/// Time over which connections are closed with a response, one after the other, after the successor has
/// taken over, where `--shutdown-grace-period` does not say another one.
pub(crate) const PARTING: Duration = Duration::from_secs(5);

/// The folder with the descriptors of this process.
const DESCRIPTORS: &str = "/proc/self/fd";

/// Ending of the path of a program whose file was replaced (`proc_pid_exe(5)`).
const REPLACED: &str = " (deleted)";

/// A port that the kernel has chosen, and what it is for.
#[derive(Clone, Debug)]
pub(crate) struct ChosenPort {
    pub(crate) what: &'static str,
    pub(crate) port: u16,
}

/// Upgrades as they are asked for, by SIGUSR2.
pub(crate) struct Upgrades {
    signal: Signal,
    starter: Starter,
}

/// The thread that starts successors. It has the priority that this process began with, which the main thread
/// gives up ([`machine::give_way`](crate::machine::give_way)) and cannot have again: the threads of a
/// successor have that of the thread that starts it.
struct Starter(mpsc::Sender<Order>);

/// A program to be started, and where the result is awaited.
struct Order {
    command: Command,
    started: mpsc::Sender<io::Result<Child>>,
}

/// A successor that has been started.
#[derive(Debug)]
pub(crate) struct Successor {
    child: Child,
    ready: OwnedFd,
}

impl Upgrades {
    /// To be called before this thread has given its priority up.
    ///
    /// # Errors
    /// The signal cannot be followed, or no thread can be started.
    pub(crate) fn follow() -> io::Result<Self> {
        Ok(Self { signal: signal(SignalKind::user_defined2())?, starter: Starter::begin()? })
    }

    /// Waits until one is asked for. None where there will be no more.
    pub(crate) async fn next(&mut self) -> Option<()> {
        self.signal.recv().await
    }
}

impl Starter {
    fn begin() -> io::Result<Self> {
        let (sender, orders) = mpsc::channel::<Order>();
        let run = move || {
            for Order { mut command, started } in orders {
                // It is waited for.
                let _ = started.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("successor".to_owned()).spawn(run)?;
        Ok(Self(sender))
    }

    fn start(&self, command: Command) -> io::Result<Child> {
        let (started, result) = mpsc::channel();
        let is_gone = || io::Error::other("the thread that starts it is gone");
        self.0.send(Order { command, started }).map_err(|_| is_gone())?;
        result.recv().map_err(|_| is_gone())?
    }
}

impl Successor {
    /// Starts it with copies of all listening sockets of this process, and of those of QUIC. `kept` are the
    /// addresses of those that the service manager keeps.
    ///
    /// # Errors
    /// The program cannot be started, or this process cannot have one.
    pub(crate) fn start(
        upgrades: &Upgrades,
        ports: &[ChosenPort],
        kept: &BTreeSet<SocketAddr>,
        quic: Option<QuicLegacy>,
    ) -> anyhow::Result<Self> {
        if std::process::id() == 1 {
            bail!("this is process 1, with which its container ends: replace the container");
        }
        let program = program()?;
        let inherited = |descriptor: &OwnedFd| dup(descriptor).map_err(io::Error::from);
        // Copies made by dup are inherited; the others are closed when the program begins.
        let sockets = listening_sockets(descriptors()?);
        let sockets = sockets.iter().map(inherited).collect::<io::Result<Vec<_>>>()?;
        let quic = quic.into_iter().flat_map(|one| [one.channel].into_iter().chain(one.sockets));
        let quic = quic.map(|one| inherited(&one)).collect::<io::Result<Vec<_>>>()?;
        let (ready, write) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let write = inherited(&write)?;
        let numbers = |descriptors: &[OwnedFd]| {
            let numbers: Vec<_> = descriptors.iter().map(|one| one.as_raw_fd().to_string()).collect();
            numbers.join(",")
        };
        let ports: Vec<_> = ports.iter().map(|one| format!("{}={}", one.what, one.port)).collect();
        let kept: Vec<_> = kept.iter().map(SocketAddr::to_string).collect();
        let mut command = Command::new(&program);
        command
            .args(env::args_os().skip(1))
            .env(SOCKETS, numbers(&sockets))
            .env(QUIC, numbers(&quic))
            .env(PORTS, ports.join(","))
            .env(KEPT, kept.join(","))
            .env(READY, write.as_raw_fd().to_string())
            .env_remove("LISTEN_FDS")
            .env_remove("LISTEN_PID")
            .env_remove("LISTEN_FDNAMES");
        let started = upgrades.starter.start(command);
        let child = started.with_context(|| format!("{} cannot be started", program.display()))?;
        Ok(Self { child, ready })
    }

    /// Number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it serves.
    ///
    /// # Errors
    /// The process has ended before that.
    pub(crate) async fn serves(self) -> anyhow::Result<()> {
        let Self { mut child, ready } = self;
        let wait = move || {
            let mut told = [0];
            let count = std::fs::File::from(ready).read(&mut told).context("it cannot be heard")?;
            if count == 0 {
                // It has closed its end, and does not serve.
                let _ = child.kill();
                let status = child.wait().context("it cannot be waited for")?;
                bail!("it has ended before it served: {status}");
            }
            Ok(())
        };
        tokio::task::spawn_blocking(wait).await.context("it cannot be waited for")?
    }
}

/// Numbers of the descriptors of this process, in order.
fn descriptors() -> io::Result<Vec<RawFd>> {
    let names = fs::read_dir(DESCRIPTORS)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    // The folder was open itself while it was read: its number is free by now, and would be that of the first
    // copy that is made.
    numbers.retain(|number| fs::symlink_metadata(format!("{DESCRIPTORS}/{number}")).is_ok());
    Ok(numbers)
}

/// The path of the program, also where its file was replaced by another one.
fn program() -> anyhow::Result<PathBuf> {
    let path = env::current_exe().context("the path of this program is not known")?;
    Ok(match path.to_str().and_then(|path| path.strip_suffix(REPLACED)) {
        Some(before) => before.into(),
        None => path,
    })
}
