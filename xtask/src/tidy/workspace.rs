//! Which crate may depend on which, and what must never be built.
//!
//! Must not be in here: source files.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Violation;

/// The normal dependencies among our crates that ARCHITECTURE.md allows; there is no other.
const EDGES: &[(&str, &[&str])] = &[
    ("files", &[]),
    ("model", &[]),
    ("wire", &[]),
    ("cache-disk", &[]),
    ("routing", &["model"]),
    ("observe", &["model"]),
    ("proxy", &["files", "cache-disk", "model", "wire", "routing", "observe"]),
    ("control", &["model", "observe"]),
    ("doctor", &[]),
    ("bench", &[]),
    ("lab", &[]),
    ("testkit", &[]),
    (
        "forebay",
        &[
            "files",
            "cache-disk",
            "model",
            "wire",
            "routing",
            "observe",
            "proxy",
            "control",
            "doctor",
            "bench",
            "lab",
        ],
    ),
    ("adversary", &["testkit"]),
    ("cluster", &[]),
    ("field-cases", &[]),
    ("xtask", &["bench", "cluster", "lab", "testkit"]),
];

/// Crates that must not come in by any way, and what is instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("ring", "cryptography is aws-lc-rs"),
    ("openssl-sys", "TLS is rustls"),
    ("serde_yaml", "archived; YAML is serde-saphyr"),
    ("serde_yml", "unsound; YAML is serde-saphyr"),
];

pub(super) fn check(root: &Path) -> Result<Vec<Violation>> {
    let metadata = cargo(root, &["metadata", "--no-deps", "--format-version", "1"])?;
    let tree =
        cargo(root, &["tree", "--workspace", "--target", "all", "--edges", "all", "--prefix", "none"])?;
    let mut violations = forbidden_edges(&serde_json::from_str(&metadata)?);
    violations.extend(forbidden_crates(&tree));
    Ok(violations)
}

/// What is built counts: Cargo.lock also has what an optional feature that nobody turns on would bring.
fn forbidden_crates(tree: &str) -> Vec<Violation> {
    let is_built = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let found = FORBIDDEN.iter().filter(|(name, _)| is_built(name)).map(|(name, why)| Violation {
        file: "Cargo.lock".into(),
        line: 1,
        message: format!("{name} must not be used ({why}); `cargo tree --invert {name}` shows who does"),
    });
    found.collect()
}

fn forbidden_edges(metadata: &Value) -> Vec<Violation> {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty);
    let ours: BTreeSet<_> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut violations = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let allowed = EDGES.iter().find(|(from, _)| *from == name).map(|(_, to)| *to);
        let mut complain = |message| {
            violations.push(Violation { file: format!("crates/{name}/Cargo.toml").into(), line: 1, message });
        };
        let Some(allowed) = allowed else {
            complain(format!("{name} is not in the table of crates"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap_or(&empty) {
            let to = dependency["name"].as_str().unwrap_or_default();
            let is_normal = dependency["kind"].is_null();
            if is_normal && ours.contains(to) && !allowed.contains(&to) {
                complain(format!("{name} must not depend on {to}"));
            }
        }
    }
    violations
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).arg("--locked").current_dir(root).output()?;
    if !output.status.success() {
        bail!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_edge_is_found_and_a_dev_dependency_is_not() {
        let dependency = |name, kind| json!({"name": name, "kind": kind});
        let metadata = json!({"packages": [
            {"name": "control", "dependencies": []},
            {"name": "testkit", "dependencies": [dependency("control", Some("dev"))]},
            {"name": "proxy", "dependencies": [dependency("control", None), dependency("libc", None)]},
        ]});
        let messages: Vec<_> =
            forbidden_edges(&metadata).into_iter().map(|violation| violation.message).collect();
        assert_eq!(messages, ["proxy must not depend on control"]);
    }

    #[test]
    fn a_forbidden_crate_is_found_by_its_whole_name() {
        let tree = "forebay v0.1.0 (/src)\nring-buffer v1.0.0\nserde_yml v0.0.1 (*)\n";
        let messages: Vec<_> =
            forbidden_crates(tree).into_iter().map(|violation| violation.message).collect();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("serde_yml must not be used"));
    }
}
