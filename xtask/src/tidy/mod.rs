//! `cargo xtask tidy`: what lints cannot see, as a test.
//!
//! Must not be in here: what rustfmt, clippy or cargo-deny already say.

mod circles;
mod comments;
mod files;
mod layers;
mod lines;
mod modules;
mod pages;
mod settings;
mod source;
mod tokens;
mod translations;
mod tuples;
mod workspace;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use walkdir::WalkDir;

use crate::child::root;
use settings::{Settings, listed};
use workspace::Package;

/// One thing that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: PathBuf,
    line: usize,
    message: String,
}

/// Prints every violation; an error where there is one.
pub(crate) fn run() -> Result<()> {
    let violations = check(root())?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() { Ok(()) } else { bail!("{} found", violations.len()) }
}

fn check(root: &Path) -> Result<Vec<Violation>> {
    let packages = workspace::packages(root)?;
    let settings = Settings::read()?;
    let mut violations = settings.unknown(|name| packages.iter().any(|package| package.name == name));
    for package in &packages {
        violations.extend(check_package(root, package, &settings)?);
    }
    violations.extend(workspace::check(&packages, &settings.dependencies));
    let pages = pages::read(root)?;
    violations.extend(pages::check(root, &pages));
    violations.extend(lines::check(&pages));
    violations.extend(translations::check(&pages));
    Ok(violations)
}

/// The rules that look at one package at a time, with what is excepted for it.
fn check_package(root: &Path, package: &Package, settings: &Settings) -> Result<Vec<Violation>> {
    let name = package.name.as_str();
    let files = files::read(root, WalkDir::new(root.join(&package.folder)), "rs")?;
    let folder = package.folder.join("src");
    let modules = modules::from_files(&folder, files.iter().filter_map(|file| file.below(&folder)));
    let edges = modules::edges(&modules);
    let mut violations = circles::check(name, &modules, &edges, listed(&settings.circles, name));
    violations.extend(layers::check(&modules, &edges, listed(&settings.folders, name)));
    violations.extend(tuples::check(name, &files, listed(&settings.tuples, name)));
    violations.extend(comments::check(&files));
    violations.extend(source::check(&files, &settings.words));
    Ok(violations)
}

impl Violation {
    fn new(file: impl Into<PathBuf>, line: usize, message: impl Into<String>) -> Violation {
        Violation { file: file.into(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let violations = check(root()).expect("readable");
        let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }
}
