//! The packages that `forebay` is built of, and their dependencies on each other.
//!
//! Procedural macros, build scripts and packages for tests are not part of a binary. Must not be in here:
//! formats.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::release::Release;
use super::target::Target;
use crate::child::{cargo, output};

/// A package of Rust's registry, or of this workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    /// The name of the package.
    pub(crate) name: String,
    /// The version of the package.
    pub(crate) version: String,
    /// The licences that it declares, as an SPDX expression.
    pub(crate) licence: String,
    /// Where its source is.
    pub(crate) repository: Option<String>,
    /// Its description of itself.
    pub(crate) description: Option<String>,
    /// The hash (SHA-256) of its archive; `None` for those of this workspace.
    pub(crate) checksum: Option<String>,
    /// Where it is unpacked.
    pub(crate) folder: PathBuf,
    /// The packages that it uses, as [`Package::id`].
    pub(crate) uses: BTreeSet<String>,
}

/// All of them, in the order of their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packages(pub(crate) Vec<Package>);

impl Package {
    /// Name and version, by which a package is told from others.
    pub(crate) fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Whether it is of others.
    pub(crate) fn is_foreign(&self) -> bool {
        self.checksum.is_some()
    }
}

impl Packages {
    /// Asks cargo what a binary for this target consists of.
    pub(crate) fn find(release: &Release, target: Target) -> Result<Packages> {
        let mut cargo = cargo();
        cargo.current_dir(&release.root).args(["metadata", "--locked", "--format-version", "1"]);
        cargo.args(["--filter-platform", &target.triple()]);
        let metadata = output(&mut cargo)?;
        let lock = fs::read_to_string(release.root.join("Cargo.lock")).context("Cargo.lock")?;
        Packages::parse(&serde_json::from_str(&metadata)?, &checksums(&lock))
    }

    fn parse(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Packages> {
        let packages: BTreeMap<_, _> = list(metadata, "packages").map(|it| (text(it, "id"), it)).collect();
        let nodes: BTreeMap<_, _> =
            list(&metadata["resolve"], "nodes").map(|it| (text(it, "id"), it)).collect();
        let root = packages.values().find(|it| text(it, "name") == "forebay");
        let mut open = vec![text(root.context("there is no package forebay")?, "id")];
        let mut found = BTreeMap::new();
        while let Some(id) = open.pop() {
            let described = packages.get(id).with_context(|| format!("cargo knows no package {id}"))?;
            let node = nodes.get(id).with_context(|| format!("cargo says nothing of what {id} uses"))?;
            let used: Vec<_> = list(node, "deps").filter_map(|it| built_in(it, &packages)).collect();
            let mut package = describe(described, checksums);
            package.uses = used.iter().map(|it| describe(packages[it], checksums).id()).collect();
            found.insert(id, package);
            open.extend(used.into_iter().filter(|id| !found.contains_key(id)));
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(Packages(found))
    }

    /// The packages of others.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.0.iter().filter(|package| package.is_foreign())
    }
}

/// The package of a dependency that ends up in the binary.
fn built_in<'a>(dependency: &'a Value, packages: &BTreeMap<&str, &Value>) -> Option<&'a str> {
    let is_normal = list(dependency, "dep_kinds").any(|kind| kind["kind"].is_null());
    let id = text(dependency, "pkg");
    let is_macro = list(packages.get(id)?, "targets")
        .any(|target| list(target, "kind").any(|kind| kind == "proc-macro"));
    (is_normal && !is_macro).then_some(id)
}

fn describe(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Package {
    let own = |key: &str| package[key].as_str().map(String::from);
    let (name, version) = (text(package, "name").to_owned(), text(package, "version").to_owned());
    let manifest = PathBuf::from(text(package, "manifest_path"));
    Package {
        licence: expression(text(package, "license")),
        repository: own("repository"),
        description: own("description").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")),
        checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
        folder: manifest.parent().map(PathBuf::from).unwrap_or_default(),
        uses: BTreeSet::new(),
        name,
        version,
    }
}

/// Cargo once wrote a slash for OR.
fn expression(licence: &str) -> String {
    licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// The hashes that `Cargo.lock` has, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]").filter_map(|block| {
        Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
    });
    blocks.collect()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"forebay\"\nversion = \"0.1.0\"\n\n\
        [[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abcd\"\ndependencies = [\n \"macro\",\n]\n";

    fn package(name: &str, version: &str, kind: &str) -> Value {
        json!({"id": name, "name": name, "version": version, "license": "MIT/Apache-2.0",
               "manifest_path": format!("/sources/{name}/Cargo.toml"), "targets": [{"kind": [kind]}]})
    }

    #[test]
    fn what_is_built_in_is_found_and_what_only_builds_or_tests_is_not() {
        let uses = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("forebay", "0.1.0", "bin"), package("used", "1.0.0", "lib"),
                         package("macro", "1.0.0", "proc-macro"), package("tests", "1.0.0", "lib")],
            "resolve": {"nodes": [
                {"id": "forebay", "deps": [uses("used", json!(null)), uses("tests", json!("dev"))]},
                {"id": "used", "deps": [uses("macro", json!(null)), uses("forebay", json!("dev"))]},
            ]},
        });
        let packages = Packages::parse(&metadata, &checksums(LOCK)).unwrap();
        let names: Vec<_> = packages.0.iter().map(Package::id).collect();
        assert_eq!(names, ["forebay@0.1.0", "used@1.0.0"]);
        let used = &packages.0[1];
        assert_eq!((used.licence.as_str(), used.checksum.as_deref()), ("MIT OR Apache-2.0", Some("abcd")));
        assert_eq!(packages.0[0].uses, BTreeSet::from(["used@1.0.0".to_owned()]));
        assert_eq!(packages.foreign().count(), 1);
    }

    #[test]
    fn what_cargo_does_not_say_is_an_error() {
        let error = Packages::parse(&json!({}), &BTreeMap::new()).unwrap_err();
        assert_eq!(error.to_string(), "there is no package forebay");
    }
}
