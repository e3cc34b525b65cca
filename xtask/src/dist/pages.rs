//! Manual pages and completions, which the binary itself writes.
//!
//! They are the same for all architectures. Must not be in here: where they are installed.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use super::target::{Binary, Target};
use crate::child::output;

/// Texts that the binary wrote, as `man/FILE` and `completions/SHELL`.
pub(super) type Pages = BTreeMap<String, String>;

/// Asks the binary that runs on this machine; says so where there is none, and goes on without.
pub(super) fn of_any(binaries: &[(Target, Binary)]) -> Result<Pages> {
    let Some((_, binary)) = binaries.iter().find(|(target, _)| target.architecture.is_native()) else {
        eprintln!("warning: left out: manual pages and completions, which a binary for this machine writes");
        return Ok(Pages::new());
    };
    let folder = tempfile::tempdir()?;
    output(Command::new(&binary.path).arg("man").arg(folder.path()))?;
    let mut pages = Pages::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        let name = format!("man/{}", entry.file_name().to_string_lossy());
        pages.insert(name, fs::read_to_string(entry.path())?);
    }
    ensure!(!pages.is_empty(), "{} writes no manual pages", binary.path.display());
    for shell in ["bash", "fish", "zsh"] {
        let script = output(Command::new(&binary.path).args(["completions", shell]))?;
        pages.insert(format!("completions/{shell}"), script);
    }
    Ok(pages)
}
