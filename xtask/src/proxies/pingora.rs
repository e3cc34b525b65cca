//! The proxy on Pingora, `xtask/peers/pingora`: a package outside of the workspace, which is built into the
//! user's cache.
//!
//! Must not be in here: how it is configured.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::child::cargo;

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pingora");
const LOCK: &str = include_str!("../../peers/pingora/Cargo.lock");

/// Builds it. Cargo makes this a matter of a second where nothing has changed.
pub(super) fn prepare() -> Result<()> {
    let target = target()?;
    let program = program()?;
    if !program.is_file() {
        eprintln!("building Pingora's proxy into {}, which takes some minutes", target.display());
    }
    let output = cargo()
        .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
        .arg(target)
        .arg("--manifest-path")
        .arg(Path::new(PACKAGE).join("Cargo.toml"))
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo ended with {}: {}", output.status, reason(&said));
    Ok(())
}

/// The program itself.
pub(super) fn program() -> Result<PathBuf> {
    Ok(target()?.join("release/pingora-peer"))
}

/// The version in its lock file.
pub(super) fn version() -> Option<String> {
    let (_, rest) = LOCK.split_once("name = \"pingora-proxy\"\nversion = \"")?;
    Some(format!("Pingora {}", rest.split('"').next()?))
}

/// Why Cargo failed, in one line: what a build script said about a program that it lacks, or the first error.
fn reason(said: &str) -> &str {
    let lines = || said.lines().map(str::trim);
    let lacks = lines().find(|line| line.contains("is `cmake` not installed"));
    let error = || lines().find(|line| line.starts_with("error"));
    lacks.or_else(error).or_else(|| lines().next_back()).unwrap_or_default()
}

fn target() -> Result<PathBuf> {
    Ok(cluster::cache()?.join("tools/pingora"))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn its_version_is_that_of_the_manifest() {
        let manifest = include_str!("../../peers/pingora/Cargo.toml");
        let version = version().expect("Pingora in the lock file");
        let number = version.strip_prefix("Pingora ").expect("a name");
        assert!(manifest.contains(&format!("pingora-proxy = \"={number}\"")), "{version}");
    }

    #[test]
    fn why_it_was_not_built_is_told_in_a_line() {
        let said =
            "error: failed to run custom build command for `libz-ng-sys v1`\n  is `cmake` not installed?\n";
        assert_eq!(reason(said), "is `cmake` not installed?");
        assert_eq!(reason("warning: x\nerror: no matching package\n  note\n"), "error: no matching package");
    }
}
