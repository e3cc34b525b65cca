//! The file `xtask/tidy.yaml`: what the rules allow by package, and their exceptions.
//!
//! Must not be in here: a rule.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Deserialize;

use super::Violation;
use super::source::Forbidden;
use crate::template::data;

/// The file, from the root of the workspace.
const FILE: &str = "xtask/tidy.yaml";

/// Lists by package.
pub(super) type Lists = BTreeMap<String, Vec<String>>;

/// The contents of the file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// The normal dependencies among our packages.
    pub(super) dependencies: Lists,
    /// Words that do not belong in a part of the tree.
    pub(super) words: Vec<Forbidden>,
    /// Folders of `src`, the highest first.
    pub(super) folders: Lists,
    /// Uses that are not counted when circles are looked for, each as `user -> used`.
    pub(super) circles: Lists,
    /// Functions that pack values into a tuple, in a parameter or a `let`.
    pub(super) tuples: Lists,
}

/// The list of a package, which is empty where there is none.
pub(super) fn listed<'a>(lists: &'a Lists, package: &str) -> &'a [String] {
    lists.get(package).map_or(&[], Vec::as_slice)
}

/// A violation by an entry of the file.
pub(super) fn unneeded(message: String) -> Violation {
    Violation::new(FILE, 1, message)
}

impl Settings {
    pub(super) fn read() -> Result<Self> {
        data("tidy.yaml")
    }

    /// Entries for packages that the workspace does not have.
    pub(super) fn unknown(&self, is_package: impl Fn(&str) -> bool) -> Vec<Violation> {
        let lists = [&self.dependencies, &self.folders, &self.circles, &self.tuples];
        let names: BTreeSet<_> = lists.into_iter().flat_map(BTreeMap::keys).collect();
        let unknown = names.into_iter().filter(|name| !is_package(name));
        unknown.map(|name| unneeded(format!("{name} is no package of the workspace"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_of_packages_that_are_there() {
        let text = "dependencies: {}\nwords: []\nfolders: {}\ncircles: {a: [b -> c]}\ntuples: {d: [e::f]}\n";
        let settings: Settings = serde_saphyr::from_str(text).unwrap();
        assert_eq!(listed(&settings.circles, "a"), ["b -> c"]);
        let unknown: Vec<_> = settings.unknown(|name| name == "a").iter().map(ToString::to_string).collect();
        assert_eq!(unknown, ["xtask/tidy.yaml:1: d is no package of the workspace"]);
    }
}
