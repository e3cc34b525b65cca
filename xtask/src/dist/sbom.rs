//! The bill of materials, as `CycloneDX` 1.5 in JSON: what is in a binary, of which version, under which
//! licence.
//!
//! The same binary has the same bill: its serial number is made of what it says. Must not be in here: what is
//! in a binary (`packages`).

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result};
use aws_lc_rs::digest;
use serde_json::{Value, json};

use super::hex::hex;
use super::packages::{Package, Packages};
use super::release::Release;
use super::target::Target;
use crate::child::output;

/// How the names of what is in no registry begin.
const GENERIC: &str = "pkg:generic/";
const LIBRARY: &str = "library";

/// Writes the bill of materials of a target in `CycloneDX`.
pub(crate) fn bill(release: &Release, target: Target, packages: &Packages) -> Result<String> {
    let mut components: Vec<_> = packages.foreign().map(component).collect();
    components.extend([rust()?, c_library(target)]);
    let main = generic("forebay", Some(&release.version), "Apache-2.0", "application");
    let mut dependencies = vec![json!({"ref": main["bom-ref"], "dependsOn": direct(packages, &components)})];
    dependencies.extend(packages.foreign().map(|it| dependency(&it.id(), it.uses.iter())));
    let mut bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.timestamp()?,
            "tools": {"components": [{"type": "application", "name": "cargo xtask dist", "version": release.version}]},
            "component": main,
            "properties": [{"name": "forebay:target", "value": target.triple()}],
        },
        "components": components,
        "dependencies": dependencies,
    });
    if let Some(revision) = &release.revision {
        let property = json!({"name": "forebay:revision", "value": revision});
        bill["metadata"]["properties"].as_array_mut().context("a list")?.push(property);
    }
    bill["serialNumber"] = serial_number(&bill).into();
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn component(package: &Package) -> Value {
    let reference = reference(&package.id());
    let mut component = json!({
        "type": LIBRARY,
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "purl": reference,
        "licenses": [{"expression": package.licence}],
    });
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(description) = &package.description {
        component["description"] = description.as_str().into();
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

/// The direct dependencies of Forebay's own packages. These are in no registry, and so not in the bill.
fn direct(packages: &Packages, components: &[Value]) -> Vec<Value> {
    let foreign: BTreeSet<_> = packages.foreign().map(Package::id).collect();
    let own = packages.0.iter().filter(|package| !package.is_foreign());
    let uses: BTreeSet<_> =
        own.flat_map(|package| &package.uses).filter(|id| foreign.contains(*id)).collect();
    let toolchain =
        components.iter().filter(|it| it["purl"].as_str().is_some_and(|it| it.starts_with(GENERIC)));
    uses.into_iter().map(|id| reference(id).into()).chain(toolchain.map(|it| it["bom-ref"].clone())).collect()
}

fn dependency<'a>(id: &str, uses: impl Iterator<Item = &'a String>) -> Value {
    json!({"ref": reference(id), "dependsOn": uses.map(|id| reference(id)).collect::<Vec<_>>()})
}

/// A package of Rust's registry. A version may have a `+`, which means a space in places where URLs are read.
fn reference(id: &str) -> String {
    format!("pkg:cargo/{}", id.replace('+', "%2B"))
}

/// Rust's standard library, of the compiler that is there.
fn rust() -> Result<Value> {
    let version = output(Command::new("rustc").arg("--version"))?;
    let version = version.split(' ').nth(1).context("rustc does not say its version")?;
    Ok(generic("rust-std", Some(version), "MIT OR Apache-2.0", LIBRARY))
}

/// The C library, of the compiler that is there.
fn c_library(target: Target) -> Value {
    let mut command = Command::new(target.compiler());
    command.args(["-E", "-dM", "-include", "features.h", "-x", "c", "/dev/null"]);
    let macros = output(&mut command).unwrap_or_default();
    let value = |name: &str| macros.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
    let version =
        value("__GLIBC__").zip(value("__GLIBC_MINOR__")).map(|(major, minor)| format!("{major}.{minor}"));
    generic("glibc", version.as_deref(), "LGPL-2.1-or-later", LIBRARY)
}

/// A component from no registry.
fn generic(name: &str, version: Option<&str>, licence: &str, kind: &str) -> Value {
    let at = version.map(|version| format!("@{version}")).unwrap_or_default();
    let reference = format!("{GENERIC}{name}{at}");
    let mut component = json!({
        "type": kind,
        "bom-ref": reference,
        "name": name,
        "purl": reference,
        "licenses": [{"expression": licence}],
    });
    if let Some(version) = version {
        component["version"] = version.into();
    }
    component
}

/// A UUID of version 8 (RFC 9562), which is made of the hash of what the bill says.
fn serial_number(bill: &Value) -> String {
    let hash = digest::digest(&digest::SHA256, bill.to_string().as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_ref()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex(&bytes);
    format!("urn:uuid:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::super::target::Architecture;
    use super::*;

    fn parsed(packages: &Packages) -> Value {
        let target = Target { architecture: Architecture::Amd64 };
        serde_json::from_str(&bill(&Release::of_tests(), target, packages).unwrap()).unwrap()
    }

    fn packages() -> Packages {
        let used = Package {
            name: "zstd-sys".into(),
            version: "2.1.3+zstd.1.5.7".into(),
            licence: "MIT OR Apache-2.0".into(),
            checksum: Some("abcd".into()),
            ..Package::default()
        };
        let forebay = Package {
            name: "forebay".into(),
            version: "1.2.3".into(),
            licence: "Apache-2.0".into(),
            uses: BTreeSet::from([used.id()]),
            ..Package::default()
        };
        Packages(vec![forebay, used])
    }

    #[test]
    fn the_bill_has_every_package_and_what_uses_it() {
        let bill = parsed(&packages());
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:generic/forebay@1.2.3");
        let used = &bill["components"][0];
        assert_eq!(used["purl"], "pkg:cargo/zstd-sys@2.1.3%2Bzstd.1.5.7");
        assert_eq!(used["hashes"], json!([{"alg": "SHA-256", "content": "abcd"}]));
        let names: Vec<_> = bill["components"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["zstd-sys", "rust-std", "glibc"]);
        let uses = bill["dependencies"][0]["dependsOn"].as_array().unwrap();
        assert_eq!(uses[0], used["bom-ref"]);
        assert!(uses[2].as_str().unwrap().starts_with("pkg:generic/glibc"));
    }

    #[test]
    fn the_same_binary_has_the_same_serial_number_and_another_has_another() {
        let number = |packages: &Packages| parsed(packages)["serialNumber"].as_str().unwrap().to_owned();
        let mut others = packages();
        assert_eq!(number(&packages()), number(&others));
        others.0[1].version = "2.1.4".into();
        assert_ne!(number(&packages()), number(&others));
        assert_eq!(number(&others).len(), "urn:uuid:".len() + 36);
    }
}
