//! nginx, `HAProxy` and Apache of Debian's unstable suite, as people run them today; those of the stable
//! suite are years old. They are unpacked into the user's cache once, and run by the loader and with the
//! libraries of their own suite.
//!
//! Must not be in here: how they are configured.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cached::fill;
use crate::child::output;

/// Packages that are unpacked together, into a folder of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    /// nginx and `HAProxy`, with which everything is compared.
    Proxies,
    /// A part of its own: where Apache cannot be unpacked, the others still can.
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

/// The folders of nginx's and Apache's modules, by the names that templates have for them.
pub(crate) fn modules() -> Result<BTreeMap<&'static str, PathBuf>> {
    Ok(BTreeMap::from([
        ("nginx", Part::Proxies.folder()?.join("usr/lib/nginx/modules")),
        ("apache", Part::Apache.folder()?.join("usr/lib/apache2/modules")),
    ]))
}

/// Unpacks a part where it is not there yet. Deleting its folder makes the next run fetch the current
/// packages.
pub(crate) fn prepare(part: Part) -> Result<()> {
    let folder = part.folder()?;
    let packages = part.packages();
    fill(&folder, |beside| {
        ensure!(cfg!(target_arch = "x86_64"), "Debian's unstable suite is looked for on x86-64 only");
        let mirror = mirror()?;
        eprintln!("unpacking {packages} of Debian's unstable suite into {}", folder.display());
        let output = Command::new("debootstrap")
            .args(["--variant=minbase", &format!("--include={packages}"), "sid"])
            .arg(beside)
            .arg(mirror)
            .output()
            .context("cannot start debootstrap (Debian's package debootstrap)")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let last = said.lines().last().unwrap_or_default();
        ensure!(
            output.status.success(),
            "debootstrap, which has to be run by root, ended with {}: {last}",
            output.status
        );
        Ok(())
    })
}

/// The mirror that this machine's apt is configured with.
fn mirror() -> Result<String> {
    let text = output(Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let mirror = text.lines().find(|line| line.trim_end_matches('/').ends_with("/debian"));
    Ok(mirror.context("apt is configured with no mirror of Debian")?.to_owned())
}
