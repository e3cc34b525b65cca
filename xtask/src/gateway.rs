//! `cargo xtask gateway-conformance`: the official conformance suite of the Gateway API against Forebay,
//! which runs in a cluster for tests as
//! `deploy/static/deploy.yaml` installs it.
//!
//! Must not be in here: the suite and its manifests (`testing/gateway`), or what the cluster consists of
//! (`testing/cluster`).

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use cluster::{Cluster, Options};
use lab::inside;

use crate::child::{output, root};
use crate::interrupt::Interrupt;
use crate::proxies::forebay_of;

const STATE: &str = "/run/cluster";
const CLASS: &str = "gateway-conformance";
/// The addresses of Gateways, as in `testing/gateway/deployment.json`, and those that a Gateway may ask for
/// in the suite; the end of the range, since addresses are given from its beginning.
const ADDRESSES: &str = "10.245.0.0/24";
const USABLE: &str = "10.245.0.250";
/// For documentation (RFC 5737): nobody's.
const UNUSABLE: &str = "192.0.2.1";
/// The image of the suite's backends, and the program behind it.
const IMAGE: &str = "registry.k8s.io/gateway-api/conformance/echo-basic";
const BACKEND: &str = "echo-basic";
const BACKEND_PACKAGE: &str = "sigs.k8s.io/gateway-api-conformance-images/echo-basic";
/// The implementation that the report names.
const IMPLEMENTATION: [(&str, &str); 4] = [
    ("organization", "forebay"),
    ("project", "forebay"),
    ("url", "https://forebay.io"),
    ("contact", "https://forebay.io"),
];

/// Options of `cargo xtask gateway-conformance`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs this test only. The report is of the whole suite, and is not written then.
    #[arg(long)]
    test: Option<String>,
    /// The channel of the CRDs: `experimental` or `standard`.
    #[arg(long, default_value = "experimental", value_parser = ["experimental", "standard"])]
    channel: String,
    /// Forebay; without it the one that `cargo build` makes.
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// A new folder for state and logs, which stays.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Where the report is written.
    #[arg(long, default_value = "testing/gateway/report.yaml")]
    report: PathBuf,
    /// Folder of the CRDs; says that this process is in the namespaces already.
    #[arg(long, hide = true)]
    crds: Option<PathBuf>,
    /// For the suite, such as `-skip-tests=NAME`.
    #[arg(last = true)]
    suite: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.crds {
        Some(crds) => inside(arguments, crds),
        None => enter(arguments),
    }
}

fn sources() -> PathBuf {
    root().join("testing/gateway")
}

fn programs() -> Result<PathBuf> {
    Ok(cluster::cache()?.join("tools/gateway"))
}

/// Builds what needs modules from elsewhere, and goes on in new namespaces, where there is no network.
fn enter(arguments: &Arguments) -> Result<ExitCode> {
    cluster::binary()?;
    let folder = programs()?;
    fs::create_dir_all(&folder)?;
    let backend = folder.join(BACKEND).display().to_string();
    go(&["build", "-trimpath", "-o", &backend, BACKEND_PACKAGE])?;
    let suite = folder.join("suite").display().to_string();
    go(&["test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-o", &suite, "."])?;
    let crds = cluster::gateway_crds(&arguments.channel)?;
    // The same words again, and behind the task the one that tells it apart.
    let mut inner: Vec<OsString> = env::args_os().skip(1).collect();
    inner.splice(1..1, ["--crds".into(), crds.into()]);
    inside::enter(inner)
}

/// Runs Go in `testing/gateway`.
fn go(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("go");
    command.current_dir(sources()).args(arguments);
    // The toolchain that go.mod names where the one that is there is older, and no module that is not in
    // go.sum.
    command.env("GOTOOLCHAIN", cluster::GATEWAY_TOOLCHAIN).env("GOFLAGS", "-mod=readonly -buildvcs=false");
    output(&mut command).context("Go 1.26 or later is needed, from https://go.dev").map(drop)
}

fn inside(arguments: &Arguments, crds: &Path) -> Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    inside::prepare()?;
    inside::cover_run()?;
    let folder = std::path::absolute(arguments.folder.clone().unwrap_or_else(|| STATE.into()))?;
    fs::create_dir_all(&folder)?;
    // Every address of the range is one of this machine, and its low ports are for everybody.
    output(Command::new("ip").args(["route", "add", "local", ADDRESSES, "dev", "lo"]))?;
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    let cluster = Cluster::start(&Options {
        images: images(arguments)?,
        folder: Some(folder.clone()),
        ..Options::default()
    })?;
    let kubectl = Kubectl::of(&cluster, &folder)?;
    kubectl.install_kinds(crds)?;
    kubectl.install_forebay()?;
    interrupt.check()?;
    let status = suite(arguments, &folder, &cluster)?;
    if !status {
        kubectl.save_logs(&folder)?;
    }
    Ok(if status { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn images(arguments: &Arguments) -> Result<BTreeMap<String, Vec<String>>> {
    let backend = programs()?.join(BACKEND).display().to_string();
    let mut images = BTreeMap::from([(IMAGE.to_owned(), vec![backend])]);
    let forebay = arguments.forebay.clone().map_or_else(|| forebay_of("debug"), Ok)?;
    let forebay = std::path::absolute(forebay)?;
    images.insert("forebay".to_owned(), vec![forebay.display().to_string()]);
    Ok(images)
}

/// `kubectl` in a cluster.
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// `folder` is where the program is put.
    pub(crate) fn of(cluster: &Cluster, folder: &Path) -> Result<Kubectl> {
        Ok(Kubectl { program: cluster::kubectl(folder)?.join("kubectl"), kubeconfig: cluster.kubeconfig() })
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        output(Command::new(&self.program).arg(&*kubeconfig).args(arguments))
    }

    fn apply(&self, file: &Path) -> Result<()> {
        let file = file.display().to_string();
        self.run(&["apply", "--server-side", "--force-conflicts", "-f", &file]).map(drop)
    }

    /// The CRDs of a folder.
    pub(crate) fn install_kinds(&self, crds: &Path) -> Result<()> {
        for entry in fs::read_dir(crds).with_context(|| crds.display().to_string())? {
            let file = entry?.path();
            if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gateway.")) {
                self.apply(&file)?;
            }
        }
        self.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).map(drop)
    }

    /// Forebay as people install it, but on the node's network and with addresses for Gateways.
    fn install_forebay(&self) -> Result<()> {
        self.apply(&sources().join("../../deploy/static/deploy.yaml"))?;
        self.apply(&sources().join("manifests.yaml"))?;
        let patch = sources().join("deployment.json").display().to_string();
        let deployment = ["--namespace=forebay", "deployment/forebay-controller"];
        self.run(&["patch", deployment[0], deployment[1], "--type=json", "--patch-file", &patch])?;
        self.run(&["rollout", "status", deployment[0], deployment[1], "--timeout=60s"]).map(drop)
    }

    /// Saves the logs of a failed run.
    fn save_logs(&self, folder: &Path) -> Result<()> {
        let log = self.run(&["logs", "--namespace=forebay", "deployment/forebay-controller"])?;
        fs::write(folder.join("forebay.log"), log)?;
        println!("logs are in {}", folder.display());
        Ok(())
    }
}

/// Runs the suite, and prints how each test ended and why one failed. Whether all passed.
fn suite(arguments: &Arguments, folder: &Path, cluster: &Cluster) -> Result<bool> {
    let mut command = Command::new(programs()?.join("suite"));
    command.args(["-test.v", "-test.timeout=90m", "-gateway-class", CLASS]);
    command.args(["-cleanup-base-resources=false", "-version", &format!("v{}", env!("CARGO_PKG_VERSION"))]);
    for (name, value) in IMPLEMENTATION {
        command.arg(format!("-{name}={value}"));
    }
    let report = folder.join("report.yaml");
    match &arguments.test {
        Some(test) => command.arg("-run-test").arg(test),
        None => command.arg("-report-output").arg(&report),
    };
    command.args(&arguments.suite).current_dir(folder);
    command.env("KUBECONFIG", cluster.kubeconfig());
    command.env("USABLE_ADDRESSES", USABLE).env("UNUSABLE_ADDRESSES", UNUSABLE);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the suite")?;
    let mut log = File::create(folder.join("suite.log"))?;
    for line in BufReader::new(child.stdout.take().context("a pipe")?).lines() {
        let line = line?;
        writeln!(log, "{line}")?;
        let said = line.trim_start();
        if said.starts_with("--- PASS") || said.starts_with("--- FAIL") {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    if arguments.test.is_none() {
        write_report(&report, &arguments.report)?;
    }
    Ok(status.success())
}

/// The suite's report, with the command that made it.
fn write_report(from: &Path, to: &Path) -> Result<()> {
    let Ok(text) = fs::read_to_string(from) else { bail!("the suite has written no report") };
    fs::write(to, format!("# Made by `make gateway-conformance`.\n{text}"))?;
    Ok(())
}
