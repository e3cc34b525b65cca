//! The core rules, compiled with the settings of their tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::waf::{Files, Rules, Source};
use anyhow::{Context, Result, bail};

use crate::child::root;

/// The files of a folder of rules.
struct Folder(PathBuf);

impl Files for Folder {
    fn expand(&self, pattern: &str, _from: &str) -> Vec<String> {
        vec![pattern.to_owned()]
    }

    fn read(&self, name: &str, _from: &str) -> Result<Vec<u8>, String> {
        let path = self.0.join(name);
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The level of paranoia in the settings of the tests.
const LEVEL: &str = "tx.blocking_paranoia_level=4";

/// Compiles the core rules with the settings of their tests, at a level of paranoia.
pub(super) fn compile(folder: &Path, level: u8) -> Result<Arc<Rules>> {
    let setup = root().join("testing/waf/setup.conf");
    let text = fs::read_to_string(&setup).with_context(|| setup.display().to_string())?;
    compile_with(folder, &text.replace(LEVEL, &format!("{}{level}", LEVEL.trim_end_matches('4'))))
}

/// Compiles `@coraza.conf-recommended`, the text of a setup, `@crs-setup.conf.example` and `@owasp_crs`.
pub(super) fn compile_with(folder: &Path, setup: &str) -> Result<Arc<Rules>> {
    let rules = folder.join("@owasp_crs");
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&rules).with_context(|| rules.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            names.push(path);
        }
    }
    names.sort();
    let first = [folder.join("@coraza.conf-recommended"), folder.join("@crs-setup.conf.example")];
    let mut files = Vec::new();
    for path in first.iter().chain(&names) {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, text));
    }
    files.insert(1, ("setup.conf".to_owned(), setup.to_owned()));
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, text }).collect();
    match Rules::compile(&sources, &Folder(rules)) {
        Ok(rules) => Ok(Arc::new(rules)),
        Err(problems) => {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            bail!("the rules do not compile:\n{}", lines.join("\n"))
        }
    }
}
