//! The rules folders of web application firewalls, from the command line.
//!
//! Never in here: rules.

use std::path::PathBuf;

use anyhow::ensure;
use control::Firewalls;

/// The places of Debian's package `modsecurity-crs`. Its folder in `/etc` has the setup that the operator
/// edits.
const USUAL: &[&str] = &["/usr/share/modsecurity-crs", "/etc/modsecurity/crs"];

/// Reads the rules in these folders, or in the usual ones.
///
/// # Errors
///
/// A folder that is named and does not exist, or one that cannot be read.
pub(crate) fn load(folders: &[PathBuf]) -> anyhow::Result<Firewalls> {
    for folder in folders {
        ensure!(folder.is_dir(), "--waf-rules {}: there is no such folder", folder.display());
    }
    let usual: Vec<PathBuf> = USUAL.iter().map(PathBuf::from).collect();
    Ok(Firewalls::load(if folders.is_empty() { &usual } else { folders })?)
}
