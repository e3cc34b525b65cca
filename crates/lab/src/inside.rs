//! Namespaces in which the caller has all rights over the network and nothing outside is affected, whether it
//! is root or not.
//!
//! Must not be in here: the programs that run there.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::namespace::set_loopback_up;

/// The namespaces that the next child of this process will be in.
#[derive(Debug)]
pub struct Inside(());

/// Creates the namespaces. An error says why that is impossible here; then nothing has changed.
///
/// The process must have no threads, and cannot create any from then on.
pub fn make() -> Result<Inside> {
    let wanted = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() && unshare(wanted).is_ok() {
        return Ok(Inside(()));
    }
    // Root of a container may lack capabilities of the machine's root, and then needs a user namespace as
    // other users do.
    unshare(wanted | CloneFlags::CLONE_NEWUSER).context(
        "the kernel does not let this user make namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, \
         kernel.apparmor_restrict_unprivileged_userns, or the seccomp profile of a container)",
    )?;
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text)
            .with_context(|| format!("cannot write /proc/self/{file}"))
    };
    // A process may map groups only after it has given up `setgroups` (user_namespaces(7)).
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {} 1", user.as_raw()))?;
    write("gid_map", format!("0 {} 1", group.as_raw()))?;
    Ok(Inside(()))
}

/// Creates a namespace of processes only, which takes root: all processes in it end with its first one, and
/// share network and files with this process.
pub fn make_processes() -> Result<Inside> {
    unshare(CloneFlags::CLONE_NEWPID).context("cannot make a namespace of processes")?;
    Ok(Inside(()))
}

/// [`make`], then [`Inside::run`].
pub fn enter<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<ExitCode> {
    make()?.run(arguments)
}

impl Inside {
    /// Runs this program once more, with these arguments, in the namespaces, and returns its exit status. All
    /// its descendants end with it, and it ends with this process.
    pub fn run<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Result<ExitCode> {
        let (mut receiver, sender) = UnixStream::pair()?;
        let must_stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&must_stop))?;
        }
        // The terminal sends an interrupt to the child too.
        for signal in [SIGCHLD, SIGHUP, SIGINT, SIGTERM] {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).spawn().context("cannot start this program once more")?;
        loop {
            if let Some(status) = child.try_wait()? {
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
            }
            if must_stop.swap(false, Ordering::Relaxed) {
                tell_to_stop(&child);
            }
            receiver.read_exact(&mut [0])?;
        }
    }
}

fn tell_to_stop(child: &Child) {
    // Fails only if the child has ended meanwhile.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

/// To be called first inside: mounts a `/proc` of the namespaces and enables the loopback interface. An error
/// says what of that is not permitted.
pub fn prepare() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    keep_mounts()?;
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
        .or_else(tell_why_no_proc)?;
    set_loopback_up()
}

/// To be called first inside of [`make_processes`], before there are threads: creates a namespace of mounts,
/// which end with it.
pub fn prepare_mounts() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    unshare(CloneFlags::CLONE_NEWNS).context("cannot make a namespace of mounts")?;
    keep_mounts()
}

/// Later mounts are in this namespace only.
fn keep_mounts() -> Result<()> {
    let changed = mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC);
    changed.context("cannot keep mounts to ourselves")
}

/// To be called inside by programs that keep state in `/run`: mounts an empty one, with the folder that
/// `ip netns` needs.
pub fn cover_run() -> Result<()> {
    mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None).context("cannot mount over /run")?;
    Ok(fs::create_dir("/run/netns")?)
}

fn tell_why_no_proc(error: Errno) -> Result<()> {
    let what =
        "cannot mount a /proc of our own (container runtimes mask parts of theirs, which forbids that)";
    Err(error).context(what)
}

/// To be called inside: an interrupt from the keyboard, or a termination signal, kills all other processes of
/// the namespace, so that waits for them end at once and the caller can clean up. The flag is true from then
/// on.
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
            // Fails only if the process has ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
