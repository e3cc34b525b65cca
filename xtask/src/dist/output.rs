//! The folder of what is made: files that are whole or not there, and the sums of all of them.
//!
//! Must not be in here: what the files are.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use super::hex::sha256;

const SUMS: &str = "SHA256SUMS";
/// How the names of what is made begin.
const OURS: &str = "forebay";

/// The folder for everything that is made.
#[derive(Debug)]
pub(crate) struct Output(PathBuf);

impl Output {
    /// Opens it, or makes it.
    pub(crate) fn open(folder: &Path) -> Result<Output> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Output(folder.into()))
    }

    /// Writes a file. Where that fails nothing is left of it, and what was there before stays.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.0.join(name);
        self.replace(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<()> {
        let mut file = NamedTempFile::new_in(&self.0)?;
        file.write_all(content)?;
        file.as_file().set_permissions(Permissions::from_mode(0o644))?;
        file.persist(path)?;
        Ok(())
    }

    /// Writes the sums of all files in it that are ours, for `sha256sum --check`.
    pub(crate) fn write_sums(&self) -> Result<PathBuf> {
        let entries = fs::read_dir(&self.0).with_context(|| self.0.display().to_string())?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with(OURS) {
                names.push(name);
            }
        }
        names.sort();
        let mut sums = String::new();
        for name in names {
            let path = self.0.join(&name);
            let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            sums.extend([&sha256(&content), "  ", &name, "\n"]);
        }
        self.write(SUMS, sums.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_our_files() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::open(&folder.path().join("dist")).unwrap();
        output.write("forebay-b", b"").unwrap();
        output.write("forebay-a", b"abc").unwrap();
        output.write("notes", b"").unwrap();
        let sums = fs::read_to_string(output.write_sums().unwrap()).unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  forebay-a\n\
                        e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  forebay-b\n";
        assert_eq!(sums, expected);
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::open(folder.path()).unwrap();
        fs::create_dir(folder.path().join("forebay-a")).unwrap();
        let error = output.write("forebay-a", b"abc").unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.ends_with("/forebay-a"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = Output::open(Path::new("/proc/forebay")).unwrap_err().to_string();
        assert_eq!(error, "cannot make /proc/forebay");
    }
}
