//! The files that the rules look at.
//!
//! Must not be in here: a rule.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use walkdir::WalkDir;

/// A file with its path from the root of the workspace.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl File {
    /// Its path below a folder, and its text.
    pub(super) fn below(&self, folder: &Path) -> Option<(&Path, &str)> {
        Some((self.path.strip_prefix(folder).ok()?, &self.text))
    }
}

/// The files of a walk whose names have this extension, in the order of their paths.
pub(super) fn read(root: &Path, walk: WalkDir, extension: &str) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in walk.sort_by_file_name() {
        let path = entry?.into_path();
        if path.is_file() && path.extension().is_some_and(|its| its == extension) {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            files.push(File { path: path.strip_prefix(root)?.to_path_buf(), text });
        }
    }
    Ok(files)
}
