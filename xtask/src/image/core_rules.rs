//! The OWASP core rules of the image: those of the Go module that `testing/waf` pins, where `--waf-rules`
//! looks for them without being told.
//!
//! Must not be in here: the rules' content.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::dist::tree::Tree;
use crate::waf::module;

/// The first folder in which `forebay serve` looks for rules.
const FOLDER: &str = "usr/share/modsecurity-crs";

/// The rules' own name for themselves, before their version.
const SIGNATURE: &str = "SecComponentSignature \"OWASP_CRS/";

/// The rules with their licence.
pub(super) struct CoreRules {
    pub(super) version: String,
    pub(super) files: Tree,
}

impl CoreRules {
    /// Reads the rules of the module in a folder, or of the one that Go fetches.
    pub(super) fn find(folder: Option<&Path>) -> Result<CoreRules> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => module().context("Go fetches the OWASP core rules, unless --core-rules names them")?,
        };
        let mut files = Tree::default();
        let mut version = None;
        let mut add = |from: &Path, to: &str| -> Result<()> {
            let text = fs::read_to_string(from).with_context(|| format!("cannot read {}", from.display()))?;
            let named = text.lines().find_map(|line| line.strip_prefix(SIGNATURE)?.strip_suffix('"'));
            version = version.take().or_else(|| named.map(str::to_owned));
            files.file(&format!("{FOLDER}/{to}"), 0o644, text);
            Ok(())
        };
        add(&folder.join("LICENSE"), "LICENSE")?;
        add(&folder.join("rules/@crs-setup.conf.example"), "crs-setup.conf.example")?;
        let rules = folder.join("rules/@owasp_crs");
        for entry in fs::read_dir(&rules).with_context(|| format!("cannot read {}", rules.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".conf") || name.ends_with(".data") {
                add(&path, &format!("rules/{name}"))?;
            }
        }
        Ok(CoreRules { version: version.context("the core rules name no version")?, files })
    }
}
