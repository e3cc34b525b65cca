//! A container that an OCI runtime of this machine runs: crun or runc, by hand.
//!
//! Must not be in here: what is asked of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;
use strum::IntoStaticStr;

use super::bundle::Bundle;
use crate::child::{is_installed, output};

/// A program that runs containers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Runtime {
    Crun,
    Runc,
}

/// A running container. Killed when it is dropped.
#[derive(Debug)]
pub(super) struct Container {
    runtime: Runtime,
    name: String,
    /// Of the runtime's notes.
    state: PathBuf,
    log: PathBuf,
    child: Child,
}

impl Runtime {
    /// The one that is installed.
    pub(super) fn find() -> Result<Runtime> {
        let installed = [Runtime::Crun, Runtime::Runc].into_iter().find(|it| is_installed(it.program()));
        installed.context("there is no container runtime: install Debian's crun or runc")
    }

    pub(super) fn program(self) -> &'static str {
        self.into()
    }

    fn command(self, state: &Path) -> Command {
        let mut command = Command::new(self.program());
        command.arg("--root").arg(state);
        if self == Runtime::Crun {
            // Limits are not what is tried here, and not every machine lets cgroups be made.
            command.arg("--cgroup-manager=disabled");
        }
        command
    }
}

impl Container {
    /// Starts it in a folder that has the image's files in `root`.
    pub(super) fn start(
        runtime: Runtime,
        name: &str,
        folder: &Path,
        bundle: &Bundle<'_>,
    ) -> Result<Container> {
        fs::write(folder.join("config.json"), bundle.config()?.to_string())?;
        let (state, log) = (folder.join("state"), folder.join(format!("{name}.log")));
        let output = File::create(&log)?;
        let mut command = runtime.command(&state);
        command.arg("run").arg("--bundle").arg(folder).arg(name);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("cannot start {}", runtime.program()))?;
        Ok(Container { runtime, name: name.into(), state, log, child })
    }

    /// Its first process, by this machine's number.
    pub(super) fn pid(&self) -> Result<u32> {
        let state = output(self.runtime.command(&self.state).args(["state", &self.name]))?;
        let state: Value = serde_json::from_str(&state).context("no state of the container")?;
        let pid = state["pid"].as_u64().context("no pid")?;
        Ok(pid.try_into()?)
    }

    /// Sends a signal to that process.
    pub(super) fn signal(&self, signal: &str) -> Result<()> {
        output(self.runtime.command(&self.state).args(["kill", &self.name, signal])).map(drop)
    }

    /// Whether it has ended, and how.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Its output so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Fails only where there is none any more.
        let _ = self.runtime.command(&self.state).args(["delete", "--force", &self.name]).output();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
