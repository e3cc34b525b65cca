//! `cargo xtask tidy`: what lints cannot see, as a test.
//!
//! Must not be in here: what rustfmt, clippy or cargo-deny already say.

mod circles;
mod lines;
mod pages;
mod source;
mod translations;
mod workspace;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// One thing that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: PathBuf,
    line: usize,
    message: String,
}

/// Prints every violation; an error where there is one.
pub(crate) fn run() -> Result<()> {
    let violations = check(&root())?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() { Ok(()) } else { bail!("{} found", violations.len()) }
}

fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut violations = source::check(root)?;
    violations.extend(circles::check(root)?);
    violations.extend(workspace::check(root)?);
    let pages = pages::read(root)?;
    violations.extend(pages::check(root, &pages));
    violations.extend(lines::check(&pages));
    violations.extend(translations::check(root, &pages)?);
    Ok(violations)
}

/// The workspace's folder, wherever this is run from.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
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
        assert_eq!(check(&root()).expect("readable"), []);
    }
}
