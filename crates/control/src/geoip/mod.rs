//! Databases of addresses (`use-geoip2`): read from a folder or a Secret, or downloaded, and read anew beside
//! serving.
//!
//! `folder` reads and stores files, `download` fetches archives, and `loader` decides when. A database that
//! cannot be read is a fault, and its last good version stays. Never in here: requests, annotations.

mod archive;
mod download;
mod folder;
mod loader;
mod sources;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use geo::{Coverage, Databases};

use crate::objects::{Secret, Sourced};

pub(crate) use loader::Loader;
pub use sources::{Download, LicenseKey, Origin, Sources, parse_mirror};

/// The databases that the settings ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Databases are used at all (`use-geoip2`).
    pub is_on: bool,
    /// Time between two looks at the files; none to read them once.
    pub reload: Option<Duration>,
    /// Secret whose keys are databases.
    pub secret: Option<Arc<Sourced<Secret>>>,
}

/// The databases that are in use, and the reasons why others are not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) databases: Option<Databases>,
    pub(crate) faults: Vec<String>,
    /// Each database has been read.
    is_complete: bool,
}

impl Loaded {
    /// The questions that the databases can answer.
    pub(crate) fn coverage(&self) -> Coverage {
        self.databases.as_ref().map(Databases::coverage).unwrap_or_default()
    }
}

/// Reads the databases of a folder and a Secret once, for commands that serve nothing.
pub(crate) fn load_once(sources: &Sources, wanted: &Wanted) -> Loaded {
    folder::Reader::new(sources.clone(), Arc::default()).read(wanted.secret.as_deref())
}
