//! Packages of the workspace, and the edges among them.
//!
//! Must not be in here: source files; packages of others, which `deny.toml` is about.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Violation;
use super::settings::Lists;
use crate::child::{cargo, output};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A package of the workspace.
#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    manifest_path: PathBuf,
    /// Relative to the workspace's root.
    #[serde(skip)]
    pub(super) folder: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` for a normal one.
    kind: Option<String>,
}

/// All packages of the workspace.
pub(super) fn packages(root: &Path) -> Result<Vec<Package>> {
    let arguments = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let metadata = output(cargo().args(arguments).current_dir(root))?;
    let mut packages = serde_json::from_str::<Metadata>(&metadata)?.packages;
    for package in &mut packages {
        let folder = package.manifest_path.parent().context("a manifest without a folder")?;
        package.folder = folder.strip_prefix(root)?.to_path_buf();
    }
    Ok(packages)
}

/// The normal dependencies among our packages are those that are allowed.
pub(super) fn check(packages: &[Package], allowed: &Lists) -> Vec<Violation> {
    let is_ours = |name: &str| packages.iter().any(|package| package.name == name);
    let mut violations = Vec::new();
    for Package { name, folder, dependencies, .. } in packages {
        let mut complain =
            |message: String| violations.push(Violation::new(folder.join("Cargo.toml"), 1, message));
        let Some(allowed) = allowed.get(name) else {
            complain(format!("{name} is not in the table of packages"));
            continue;
        };
        let normal = dependencies.iter().filter(|it| it.kind.is_none() && is_ours(&it.name));
        for to in normal.map(|dependency| &dependency.name).filter(|to| !allowed.contains(to)) {
            complain(format!("{name} must not depend on {to}"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_edge_is_found_and_a_dev_dependency_is_not() {
        let package = |name: &str, dependencies: &[(&str, Option<&str>)]| {
            let dependency = |(name, kind): &(&str, Option<&str>)| Dependency {
                name: (*name).into(),
                kind: kind.map(Into::into),
            };
            let dependencies = dependencies.iter().map(dependency).collect();
            let [manifest_path, folder] = ["crates/a/Cargo.toml", "crates/a"].map(PathBuf::from);
            Package { name: name.into(), manifest_path, folder, dependencies }
        };
        let packages = [
            package("control", &[]),
            package("testkit", &[("control", Some("dev"))]),
            package("proxy", &[("control", None), ("libc", None)]),
            package("new", &[]),
        ];
        let allowed = ["control", "testkit", "proxy"].map(|name| (name.to_owned(), Vec::new())).into();
        let messages: Vec<_> =
            check(&packages, &allowed).into_iter().map(|violation| violation.message).collect();
        assert_eq!(messages, ["proxy must not depend on control", "new is not in the table of packages"]);
    }
}
