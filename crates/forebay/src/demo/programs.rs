//! The processes of a demonstration: each is this binary once more.
//!
//! Must not be in here: measurements.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use lab::{Duty, Program, Quota};
use tempfile::TempDir;

/// Share of a CPU that the Pod of field case A has (`cpu: 60m`).
pub(super) const POD_PERCENT: u32 = 6;
/// Short, so that a Pod that has used up its share waits milliseconds and not tenths of a second.
const PERIOD: Duration = Duration::from_millis(20);
/// Longest wait for a program to say where it listens.
const PATIENCE: Duration = Duration::from_secs(20);
const SHARED_MEMORY: &str = "/dev/shm";
const LOOK: Duration = Duration::from_millis(5);

/// A running `forebay serve`.
pub(super) struct Serve {
    pub(super) program: Program,
    pub(super) http: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// A Pod with a share of a CPU. Fields are dropped in this order, but for a quota, whose cgroup can go when
/// its processes are gone.
pub(super) struct Pod {
    duty: Option<Duty>,
    pub(super) program: Program,
    quota: Option<Quota>,
}

impl Pod {
    /// A Pod that has all of a CPU.
    pub(super) fn free(program: Program) -> Pod {
        Pod { duty: None, program, quota: None }
    }

    /// Gives it so much of a CPU from now on: by the kernel, as a Pod with `limits` has it, else by signals.
    pub(super) fn hold(mut self, percent: u32) -> anyhow::Result<Pod> {
        let (pid, time) = (self.program.pid(), PERIOD * percent / 100);
        match Quota::hold(pid, time, PERIOD) {
            Ok(quota) => self.quota = Some(quota),
            Err(_) => self.duty = Some(Duty::hold(pid, time, PERIOD)?),
        }
        Ok(self)
    }

    /// How it is held down.
    pub(super) fn holder(&self) -> &'static str {
        match (&self.quota, &self.duty) {
            (Some(_), _) => "by a cgroup",
            (None, Some(_)) => "by signals, since no cgroup can be made here without root",
            (None, None) => "by nothing",
        }
    }
}

/// A command of this binary.
pub(super) fn this_binary(command: &str) -> anyhow::Result<Command> {
    let mut this = Command::new(std::env::current_exe().context("cannot find this binary")?);
    this.arg(command).env("NO_COLOR", "1").env_remove("FOREBAY_LOG");
    Ok(this)
}

/// A folder for the programs' files and output. A container may have no `/tmp`, or one that cannot be written
/// to.
pub(super) fn folder() -> anyhow::Result<TempDir> {
    let elsewhere = |_| tempfile::tempdir_in(SHARED_MEMORY);
    tempfile::tempdir().or_else(elsewhere).with_context(|| {
        format!(
            "no folder for what runs can be made in {} or {SHARED_MEMORY}; TMPDIR names another",
            std::env::temp_dir().display()
        )
    })
}

/// Starts the payload server, and gives its address.
pub(super) fn payload(address: SocketAddr, folder: &Path) -> anyhow::Result<(Program, SocketAddr)> {
    let mut command = this_binary("payload")?;
    command.args(["--host", &address.ip().to_string(), "--port", &address.port().to_string()]);
    let mut program = Program::start("payload", command, folder)?;
    let said = await_word(&mut program, "http://")?;
    Ok((program, said))
}

/// Starts Forebay with these manifests and no access log. `settings` are lines of its `ConfigMap`.
pub(super) fn serve(
    name: &str,
    manifests: &str,
    settings: &[(&str, &str)],
    arguments: &[&str],
    folder: &Path,
) -> anyhow::Result<Serve> {
    let manifests_folder = folder.join(name);
    fs::create_dir_all(&manifests_folder)?;
    let mut config_map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: demo\ndata:\n".to_owned();
    for (key, value) in settings.iter().chain(&[("disable-access-log", "true")]) {
        let _ = writeln!(config_map, "  {key}: {value:?}");
    }
    fs::write(manifests_folder.join("demo.yaml"), manifests.to_owned() + &config_map)?;
    let mut command = this_binary("serve")?;
    command.arg("--manifests").arg(&manifests_folder).args(["--configmap", "default/demo"]);
    command.args(["--healthz-host", "127.0.0.1", "--healthz-port", "0", "--https-port", "0"]).args(arguments);
    let mut program = Program::start(&format!("{name}-log"), command, folder)?;
    let http = await_word(&mut program, " http=")?;
    let admin = await_word(&mut program, " admin=")?;
    Ok(Serve { program, http, admin })
}

/// Waits until a program has printed an address behind a word.
fn await_word(program: &mut Program, word: &str) -> anyhow::Result<SocketAddr> {
    let end = Instant::now() + PATIENCE;
    loop {
        let output = program.output()?;
        let said = output.split(word).nth(1).and_then(|rest| rest.split_once(char::is_whitespace));
        if let Some(address) = said.and_then(|(address, _)| address.parse().ok()) {
            return Ok(address);
        }
        if let Some(status) = program.has_ended()? {
            bail!("{} ended with {status}: {}", program.name(), output.trim_end());
        }
        if Instant::now() > end {
            bail!("{} does not say where it listens: {}", program.name(), output.trim_end());
        }
        thread::sleep(LOOK);
    }
}
