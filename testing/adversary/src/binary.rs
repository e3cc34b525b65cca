//! The program under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::Setup;

/// Where it is, when it is not what `cargo build` makes: a release build to measure with.
const BINARY: &str = "FOREBAY_BINARY";

/// Starts the binary with a given number of descriptors.
const LIMITED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/limited.sh");

/// Starts it with another `/etc/resolv.conf`.
const NAMED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/named.sh");

/// Builds it, unless it is given.
pub fn build() -> Result<()> {
    if env::var_os(BINARY).is_some() {
        return Ok(());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--quiet", "--package", "forebay"]).status();
    ensure!(status.context("cannot start cargo")?.success(), "cargo build failed");
    Ok(())
}

/// Where it is.
pub fn path() -> Result<PathBuf> {
    let path = match env::var_os(BINARY) {
        // As the workspace's root sees it; tests run in their package's folder.
        Some(path) => Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path),
        // Beside the folder that this test's program is in.
        None => env::current_exe()?.ancestors().nth(2).context("no target folder")?.join("forebay"),
    };
    ensure!(path.is_file(), "{} is not there", path.display());
    Ok(path)
}

/// A setup of the binary, for the attack to configure.
pub fn setup() -> Setup {
    Setup::new(path().expect("it was built"))
}

/// It, with so many descriptors (`ulimit -n`).
pub fn setup_with_descriptors(count: u32) -> Setup {
    let program = path().expect("it was built").display().to_string();
    Setup::new(LIMITED).variable("PROGRAM", program).variable("DESCRIPTORS", count.to_string())
}

/// It, with this file for `/etc/resolv.conf`. An error says why that cannot be done here.
pub fn setup_with_names(resolv_conf: &Path) -> Result<Setup> {
    let names = resolv_conf.display().to_string();
    let trial =
        Command::new(NAMED).arg("-c").arg("true").env("PROGRAM", "sh").env("NAMES", &names).output()?;
    ensure!(trial.status.success(), "{}", String::from_utf8_lossy(&trial.stderr).trim());
    let program = path()?.display().to_string();
    Ok(Setup::new(NAMED).variable("PROGRAM", program).variable("NAMES", names))
}
