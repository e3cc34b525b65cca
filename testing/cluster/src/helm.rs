//! Helm: built from `testing/tools/helm` into the user's cache, once for each version, and run.
//!
//! Must not be in here: our chart.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache::cache;

/// `testing/tools/helm/go.mod` has the same.
const VERSION: &str = "v3.22.0";
const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";
/// Kubernetes as charts see it where Helm asks no cluster.
const KUBERNETES_MINOR: &str = "37";
/// Variables with the version of Kubernetes and that of Helm.
const VARIABLES: &[(&str, &str)] = &[
    ("internal/version.version", VERSION),
    ("pkg/chartutil.k8sVersionMajor", "1"),
    ("pkg/chartutil.k8sVersionMinor", KUBERNETES_MINOR),
    ("pkg/lint/rules.k8sVersionMajor", "1"),
    ("pkg/lint/rules.k8sVersionMinor", KUBERNETES_MINOR),
];

/// The program of Helm.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Builds it where it is not there: five minutes, for which modules are fetched.
    pub fn install() -> Result<Helm> {
        let folder = cache()?.join("tools/helm");
        fs::create_dir_all(&folder)?;
        let program = folder.join(format!("helm-{VERSION}-{KUBERNETES_MINOR}"));
        // A second process waits for the first one's build.
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        if !program.is_file() {
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/helm");
            build(&sources, &program)?;
        }
        Ok(Helm { program })
    }

    /// The output of Helm, or an error with its message.
    pub fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Result<String> {
        let mut command = Command::new(&self.program);
        // Nobody's own settings and plugins.
        let settings = tempfile::tempdir()?;
        for variable in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"] {
            command.env(variable, settings.path());
        }
        command.args(arguments);
        let output = command.output().context("cannot start helm")?;
        let said = String::from_utf8_lossy(&output.stderr);
        // Helm warns of values whose type is not that of the default, and takes them or not.
        if !output.status.success() || said.contains("warning:") {
            let text = String::from_utf8_lossy(&output.stdout);
            bail!("{command:?} ended with {}:\n{text}{said}", output.status);
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn build(sources: &Path, program: &Path) -> Result<()> {
    eprintln!("building Helm {VERSION}, which takes some minutes the first time");
    let flags = VARIABLES.iter().fold("-ldflags=-s -w".to_owned(), |flags, (name, value)| {
        flags + &format!(" -X helm.sh/helm/v3/{name}={value}")
    });
    // In its place only when it is whole.
    let unfinished = program.with_extension("unfinished");
    let mut command = Command::new("go");
    command.current_dir(sources).args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"]);
    command.arg(flags).arg("-o").arg(&unfinished).arg(PACKAGE);
    // The toolchain that is there, or none.
    command.env("GOTOOLCHAIN", "local");
    let output =
        command.output().context("cannot start go: install Go 1.26 or later, from https://go.dev")?;
    if !output.status.success() {
        bail!("{command:?} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(fs::rename(unfinished, program)?)
}
