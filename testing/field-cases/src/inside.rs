//! The way into namespaces where root may do anything to the network and nobody outside notices, as root or not.
//!
//! Must not be in here: what happens there.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Becomes `unshare`, whose child is this program once more, with these arguments. It kills whatever is inside when it ends itself.
pub fn enter<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<Infallible> {
    let mut unshare = unshare();
    unshare.arg(std::env::current_exe()?).args(arguments);
    Err(unshare.exec()).context("cannot start unshare (Debian's util-linux)")
}

/// Whether there is a way; an error says why not.
pub fn is_possible() -> Result<()> {
    let output = unshare().arg("true").output().context("cannot start unshare (Debian's util-linux)")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// To be called first inside: the loopback interface, and a `/run` of its own for `ip netns`.
pub fn prepare() -> Result<()> {
    mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None).context("cannot mount over /run")?;
    fs::create_dir("/run/netns")?;
    ip("link set lo up")
}

/// To be called inside: an interrupt from the keyboard, or a request to end, kills everything else that runs in the namespace of
/// processes, so that whoever waits for it goes on at once and can tidy up. True from then on.
pub fn kill_others_on_interrupt() -> Result<Arc<AtomicBool>> {
    let (mut receiver, sender) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    let flag = Arc::new(AtomicBool::new(false));
    let is_interrupted = Arc::clone(&flag);
    thread::spawn(move || {
        while receiver.read_exact(&mut [0]).is_ok() {
            is_interrupted.store(true, Ordering::Relaxed);
            kill_others();
        }
    });
    Ok(flag)
}

fn kill_others() {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid.filter(|pid| *pid != 1).and_then(Pid::from_raw) {
            // Fails only where it has ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.context("cannot start ip (Debian's iproute2)")?;
    ensure!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.arg("--");
    unshare
}
