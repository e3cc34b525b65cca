//! The folder for what was built or fetched, and can be again.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// This project's folder in the user's cache, which outlives a clone: `forebay` in `XDG_CACHE_HOME`, or else
/// in `~/.cache`. It may not exist.
pub fn cache() -> Result<PathBuf> {
    let of_home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(of_home);
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("forebay"))
}
