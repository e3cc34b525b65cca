//! The wall clock of the proxy: a library that is loaded before all others adds an offset to it, which a file
//! holds. The kernel has no namespace for the wall clock, and the machine's own is not touched.
//!
//! The monotonic clock stays as it is: a process sees that one jump only when it stands still, which
//! `Kind::Pause` does. Must not be in here: when it jumps.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The library's source.
const SOURCE: &str = include_str!("clock.c");
/// Variable that names the file with the offset.
pub(crate) const OFFSET_FILE: &str = "SOAK_CLOCK_OFFSET";

/// A clock that can jump.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) library: PathBuf,
    pub(crate) offset_path: PathBuf,
    offset: File,
}

impl Clock {
    /// Builds the library; an error says why that is impossible here.
    pub(crate) fn build(folder: &Path) -> Result<Clock> {
        let source = folder.join("clock.c");
        let library = folder.join("clock.so");
        std::fs::write(&source, SOURCE)?;
        let compiler =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output();
        let compiler = compiler.context("cannot start cc")?;
        ensure!(compiler.status.success(), "cc: {}", String::from_utf8_lossy(&compiler.stderr).trim());
        let offset_path = folder.join("clock-offset");
        let offset = File::options().create(true).truncate(true).write(true).open(&offset_path)?;
        let clock = Clock { library, offset_path, offset };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the offset, in seconds.
    pub(crate) fn set(&self, seconds: i64) -> Result<()> {
        Ok(self.offset.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_the_library_has_another_date() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Clock::build(folder.path()).expect("a compiler");
        // Two hours before the epoch of the clock would be negative: forwards is enough here.
        clock.set(40 * 365 * 24 * 3600).expect("a file");
        let date = Command::new("date")
            .arg("+%Y")
            .env("LD_PRELOAD", &clock.library)
            .env(OFFSET_FILE, &clock.offset_path)
            .output()
            .expect("it runs");
        let own = Command::new("date").arg("+%Y").output().expect("it runs");
        let year = |output: &[u8]| String::from_utf8_lossy(output).trim().parse::<u32>().expect("a year");
        let years = year(&date.stdout) - year(&own.stdout);
        assert!((39..=40).contains(&years), "{years}");
    }
}
