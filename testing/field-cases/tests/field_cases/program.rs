//! The program under test.
//!
//! Must not be in here: its arguments.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Where it is, when it is not what `cargo build` makes: a release build to measure with.
const BINARY: &str = "FOREBAY_BINARY";

/// Builds it, unless it is given.
pub(crate) fn build() -> Result<()> {
    if env::var_os(BINARY).is_some() {
        return Ok(());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--quiet", "--package", "forebay"]).status();
    ensure!(status.context("cannot start cargo")?.success(), "cargo build failed");
    Ok(())
}

/// `forebay`, to be given arguments.
pub(crate) fn forebay() -> Result<Command> {
    let program = match env::var_os(BINARY) {
        // As the workspace's root sees it; tests run in their package's folder.
        Some(path) => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path),
        // Beside the folder that this test's program is in.
        None => env::current_exe()?.ancestors().nth(2).context("no target folder")?.join("forebay"),
    };
    ensure!(program.is_file(), "{} is not there", program.display());
    Ok(Command::new(program))
}
