//! The licences of what is built in, as one text: each licence text once, below the packages that come with
//! it.
//!
//! A package of others has to bring its text, or share it with another one of its repository. Must not be in
//! here: which licences are allowed (`deny.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::packages::{Package, Packages};
use super::release::Release;
use crate::child::output;

/// How the names of files with licences begin, in capitals.
const NAMES: &[&str] = &["LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// Sources of C that a package carries along are no deeper than this.
const DEPTH_MAX: usize = 3;
const RULE: &str = "================================================================================";

/// Texts, and who comes with each.
type Texts = BTreeMap<String, BTreeSet<String>>;

/// Writes the licences of all packages that are built in.
pub(crate) fn notices(release: &Release, packages: &Packages) -> Result<String> {
    let mut texts = Texts::new();
    for package in packages.foreign() {
        for text in texts_of(package, packages, &release.root)? {
            texts
                .entry(text)
                .or_default()
                .insert(format!("{} {} ({})", package.name, package.version, package.licence));
        }
    }
    add_toolchain(&mut texts, release)?;
    let mut out = format!(
        "Forebay {} is licensed under Apache-2.0. It has the following built in. A package that may be used under\n\
         several licences comes with the text of each.\n",
        release.version
    );
    // In the order of who comes first, since texts have none.
    let mut sections: Vec<_> = texts.into_iter().map(|(text, who)| (who, text)).collect();
    sections.sort();
    for (who, text) in sections {
        let who = who.into_iter().collect::<Vec<_>>().join("\n");
        write!(out, "\n{RULE}\n{who}\n{RULE}\n\n{}\n", text.trim_matches('\n'))?;
    }
    Ok(out)
}

/// The texts of a package; else those of another package from its repository.
fn texts_of(package: &Package, packages: &Packages, root: &Path) -> Result<BTreeSet<String>> {
    let own = texts_in(&package.folder)?;
    if !own.is_empty() {
        return Ok(own);
    }
    let siblings = packages.foreign().filter(|other| {
        other.repository.is_some()
            && other.repository == package.repository
            && other.licence == package.licence
    });
    for sibling in siblings {
        let texts = texts_in(&sibling.folder)?;
        if !texts.is_empty() {
            return Ok(texts);
        }
    }
    if package.licence.split(" OR ").any(|licence| licence == "Apache-2.0") {
        // It has no line of copyright: ours is everybody's.
        return Ok([read(&root.join("LICENSE"))?].into());
    }
    bail!("{} comes without the text of its licence, {}", package.id(), package.licence)
}

fn texts_in(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    collect(folder, DEPTH_MAX, &mut texts).with_context(|| folder.display().to_string())?;
    Ok(texts)
}

fn collect(folder: &Path, depth: usize, texts: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_source = [".RS", ".C", ".H", ".PY", ".GO"].iter().any(|end| name.ends_with(end));
        if entry.file_type()?.is_dir() {
            if depth > 0 {
                collect(&entry.path(), depth - 1, texts)?;
            }
        } else if NAMES.iter().any(|start| name.starts_with(start)) && !is_source {
            texts.insert(read(&entry.path())?);
        }
    }
    Ok(())
}

/// Rust's standard library and the C library are built in, too.
fn add_toolchain(texts: &mut Texts, release: &Release) -> Result<()> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let folder = Path::new(sysroot.trim()).join("share/doc/rust/licenses");
    for licence in ["Apache-2.0.txt", "MIT.txt"] {
        let who = "Rust's standard library (MIT OR Apache-2.0)".to_owned();
        texts.entry(read(&folder.join(licence))?).or_default().insert(who);
    }
    let text = read(&release.root.join("deploy/package/licences/LGPL-2.1.txt"))?;
    texts.entry(text).or_default().insert("The GNU C Library (LGPL-2.1-or-later)".into());
    Ok(())
}

/// A text, without what editors leave at the ends of lines.
fn read(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path, name: &str, licence: &str, repository: &str) -> Package {
        fs::create_dir_all(folder.join(name)).unwrap();
        Package {
            name: name.into(),
            version: "1.0.0".into(),
            licence: licence.into(),
            repository: Some(repository.into()),
            checksum: Some(String::new()),
            folder: folder.join(name),
            ..Package::default()
        }
    }

    #[test]
    fn a_package_brings_its_texts_or_shares_them_with_its_siblings() {
        let folder = tempfile::tempdir().unwrap();
        let with = package(folder.path(), "with", "MIT", "r");
        fs::create_dir(with.folder.join("c")).unwrap();
        fs::write(with.folder.join("LICENSE-MIT"), "be free  \r\n").unwrap();
        fs::write(with.folder.join("c/COPYING"), "c").unwrap();
        fs::write(with.folder.join("license.rs"), "code").unwrap();
        let sibling = package(folder.path(), "sibling", "MIT", "r");
        let alone = package(folder.path(), "alone", "MIT", "other");
        let packages = Packages(vec![with.clone(), sibling.clone(), alone.clone()]);
        let texts = |package| texts_of(package, &packages, folder.path());
        assert_eq!(texts(&with).unwrap(), ["be free\n".to_owned(), "c\n".to_owned()].into());
        assert_eq!(texts(&sibling).unwrap(), texts(&with).unwrap());
        assert_eq!(
            texts(&alone).unwrap_err().to_string(),
            "alone@1.0.0 comes without the text of its licence, MIT"
        );
    }
}
