//! `cargo xtask cluster`: a Kubernetes cluster in network, mount and process namespaces of its own, of which
//! nothing is left.
//!
//! Must not be in here: what the cluster consists of (`testing/cluster`), or tests.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::{Cluster, Options};
use lab::inside;

use crate::child::{cargo, succeed, wait_for};
use crate::interrupt::Interrupt;
use crate::proxies::forebay_of;

/// Where state is inside: gone when the namespace is.
const STATE: &str = "/run/cluster";
/// Says to tests that `KUBECONFIG` is not somebody's real cluster.
const IS_TEST_CLUSTER: &str = "FOREBAY_TEST_CLUSTER";
/// The program that is tested, which image `forebay` stands for.
const BINARY: &str = "FOREBAY_BINARY";
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Options of `cargo xtask cluster`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Starts a cluster, says how to enter it, and ends it on Ctrl-C.
    Up(Settings),
    /// Runs a command in a cluster.
    Run {
        #[command(flatten)]
        settings: Settings,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Builds and runs the tests that need a cluster.
    Test {
        /// For the tests' program: names of tests, `--nocapture` and the like.
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Runs the part of the other commands that is done inside the namespaces.
    #[command(hide = true)]
    Inside {
        #[command(flatten)]
        settings: Settings,
        /// The process outside whose child is the first one inside.
        #[arg(long)]
        outside: u32,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

#[derive(clap::Args, Clone)]
struct Settings {
    /// The program that image `forebay` stands for; without it the one that `cargo build` makes.
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// A new folder for state and logs; without it they are gone afterwards.
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.task {
        Task::Up(settings) => enter(settings, &[]),
        Task::Run { settings, command } => enter(settings, command),
        Task::Test { arguments } => test(arguments),
        Task::Inside { settings, outside, command } => inside(settings, *outside, command),
    }
}

/// Builds outside, where a network is, and tests inside.
fn test(arguments: &[OsString]) -> Result<ExitCode> {
    // With the features that tests of the workspace have, so that what was built for those is not built
    // again. The binary comes with the end-to-end tests.
    let build = "test --quiet --workspace --test e2e --test kubernetes --no-run";
    succeed(cargo().args(build.split(' ')))?;
    // They wait more than they work.
    let threads = format!("--test-threads={}", 2 * thread::available_parallelism().map_or(1, usize::from));
    let test =
        ["cargo", "test", "--quiet", "--offline", "--workspace", "--test", "kubernetes", "--", &threads];
    let test = test.map(OsString::from);
    enter(&Settings { forebay: None, folder: None }, &[&test[..], arguments].concat())
}

/// Goes on in new namespaces, with a cluster.
fn enter(settings: &Settings, command: &[OsString]) -> Result<ExitCode> {
    // Here, since there is no network inside to fetch sources from.
    cluster::binary()?;
    cluster::Helm::install()?;
    cluster::gateway_crds("standard")?;
    let outside = process::id().to_string();
    let mut arguments: Vec<OsString> =
        ["cluster", "inside", "--outside", &outside, "--forebay"].map(OsString::from).into();
    arguments.push(settings.forebay()?.into());
    if let Some(folder) = &settings.folder {
        arguments.extend(["--folder".into(), std::path::absolute(folder)?.into()]);
    }
    arguments.push("--".into());
    inside::enter([&arguments[..], command].concat())
}

impl Settings {
    fn forebay(&self) -> Result<PathBuf> {
        let program = self.forebay.clone().map_or_else(|| forebay_of("debug"), Ok)?;
        std::path::absolute(&program).with_context(|| program.display().to_string())
    }
}

fn inside(settings: &Settings, outside: u32, command: &[OsString]) -> Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    inside::prepare()?;
    inside::cover_run()?;
    let folder = settings.folder.clone().unwrap_or_else(|| STATE.into());
    fs::create_dir_all(&folder)?;
    let forebay = settings.forebay()?;
    let images = BTreeMap::from([("forebay".to_owned(), vec![forebay.display().to_string()])]);
    let cluster = Cluster::start(&Options { images, folder: Some(folder.clone()), ..Options::default() })?;
    let programs = cluster::kubectl(&folder)?;
    if command.is_empty() {
        print_entrance(&cluster, &programs, outside);
        let _: Option<()> = interrupt.poll(FOREVER, || Ok(None)).unwrap_or_default();
        return Ok(ExitCode::SUCCESS);
    }
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).env("PATH", path).env("KUBECONFIG", cluster.kubeconfig());
    child.env(IS_TEST_CLUSTER, "yes").env(BINARY, forebay);
    let status = wait_for(&mut child, &interrupt)?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn print_entrance(cluster: &Cluster, programs: &Path, outside: u32) {
    let user = if fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.trim().ends_with(" 1")) {
        " --user --preserve-credentials"
    } else {
        ""
    };
    println!("nsenter --target {outside}{user} --net --mount --pid=/proc/{outside}/ns/pid_for_children");
    println!("export KUBECONFIG={} PATH={}:$PATH", cluster.kubeconfig().display(), programs.display());
    println!(
        "The first line enters the cluster's namespaces, the second is for the shell there. Ctrl-C ends the cluster."
    );
}
