//! Folders of the user's cache that are filled once.
//!
//! Must not be in here: what they are filled with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Fills a folder of the user's cache, unless it is there: what fails leaves none of this name.
pub(crate) fn fill(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    // No extension is replaced: versions have points.
    let mut beside = folder.to_owned().into_os_string();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    if beside.exists() {
        fs::remove_dir_all(&beside)?;
    }
    fs::create_dir_all(&beside)?;
    fill(&beside)?;
    Ok(fs::rename(beside, folder)?)
}
