//! nginx, `HAProxy` and Apache of Debian's unstable suite: what people run today, where the stable suite's are years old. They are unpacked into
//! the user's cache once, and run by the loader and with the libraries of their own suite.
//!
//! Must not be in here: how they are configured.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Packages that are unpacked together, into a folder of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What everything is compared with.
    Proxies,
    /// Apart, so that who cannot have it has the others.
    Apache,
}

/// Where the loader and the libraries are in the suite.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";

impl Part {
    fn packages(self) -> &'static str {
        match self {
            Part::Proxies => "nginx,haproxy,libnginx-mod-http-brotli-filter,libnginx-mod-http-zstd-filter",
            Part::Apache => "apache2-bin",
        }
    }

    fn folder(self) -> Result<PathBuf> {
        let name = match self {
            Part::Proxies => "debian-unstable",
            Part::Apache => "debian-unstable-apache",
        };
        Ok(cluster::cache()?.join(name))
    }
}

/// A program of the suite, which has been [prepared](prepare).
pub(crate) fn command(part: Part, program: &str) -> Result<Command> {
    let folder = part.folder()?;
    let libraries = folder.join(LIBRARIES);
    let mut command = Command::new(libraries.join(LOADER));
    command.arg("--library-path").arg(libraries).arg(folder.join("usr/sbin").join(program));
    Ok(command)
}

/// The file of a module of nginx.
pub(super) fn module(name: &str) -> Result<PathBuf> {
    Ok(Part::Proxies.folder()?.join("usr/lib/nginx/modules").join(name))
}

/// The folder of Apache's modules.
pub(super) fn apache_modules() -> Result<PathBuf> {
    Ok(Part::Apache.folder()?.join("usr/lib/apache2/modules"))
}

/// Unpacks a part where it is not there yet. A newer one is had by deleting its folder.
pub(crate) fn prepare(part: Part) -> Result<()> {
    let folder = part.folder()?;
    if folder.is_dir() {
        return Ok(());
    }
    ensure!(cfg!(target_arch = "x86_64"), "Debian's unstable suite is looked for on x86-64 only");
    let mirror = mirror()?;
    let packages = part.packages();
    eprintln!("unpacking {packages} of Debian's unstable suite into {}", folder.display());
    let beside = folder.with_extension("part");
    if beside.exists() {
        fs::remove_dir_all(&beside)?;
    }
    fs::create_dir_all(&beside)?;
    let output = Command::new("debootstrap")
        .args(["--variant=minbase", &format!("--include={packages}"), "sid"])
        .arg(&beside)
        .arg(&mirror)
        .output()
        .context("cannot start debootstrap (Debian's package debootstrap)")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        let last = said.lines().last().unwrap_or_default();
        bail!("debootstrap, which has to be run by root, ended with {}: {last}", output.status);
    }
    Ok(fs::rename(beside, folder)?)
}

/// The mirror that this machine's apt is configured with.
fn mirror() -> Result<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)"])
        .output()
        .context("cannot ask apt-get for Debian's mirror")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mirror = text.lines().find(|line| line.trim_end_matches('/').ends_with("/debian"));
    Ok(mirror.context("apt is configured with no mirror of Debian")?.to_owned())
}
