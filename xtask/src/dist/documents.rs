//! The texts that come with each binary: licences, a bill of materials.
//!
//! Must not be in here: where packages and images have it.

use std::fs;

use anyhow::{Context, Result};

use super::notices::notices;
use super::packages::Packages;
use super::release::Release;
use super::sbom::bill;
use super::target::Target;

/// The texts that every package contains.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    /// The licence of Forebay itself.
    pub(crate) licence: String,
    /// The licences of what is built in.
    pub(crate) notices: String,
    /// The bill of materials.
    pub(crate) bill: String,
}

impl Documents {
    /// The texts for a binary of this target.
    pub(crate) fn find(release: &Release, target: Target) -> Result<Documents> {
        let packages = Packages::find(release, target)?;
        Ok(Documents {
            licence: read(release, "LICENSE")?,
            notices: notices(release, &packages)?,
            bill: bill(release, target, &packages)?,
        })
    }
}

/// A file of the repository, by its path there.
pub(crate) fn read(release: &Release, path: &str) -> Result<String> {
    let file = release.root.join(path);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}
