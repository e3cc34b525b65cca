//! The files of an archive and of a package, by the lists in `xtask/dist`.
//!
//! Must not be in here: how they are packed.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;

use super::documents::{Documents, read};
use super::pages::Pages;
use super::release::Release;
use super::target::Binary;
use super::tree::{ROOT, Tree, gzip};
use crate::template::render_file;

/// The texts of a build, which become files.
pub(super) struct Build<'a> {
    pub(super) release: &'a Release,
    pub(super) binary: &'a Binary,
    pub(super) documents: &'a Documents,
    pub(super) pages: &'a Pages,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct List {
    /// Symbolic links, and where they lead.
    links: BTreeMap<String, String>,
    /// Folders that only some may read.
    #[serde(default)]
    private_folders: Vec<String>,
    files: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    path: String,
    /// The name of a text of the build, or a path in the repository.
    from: String,
    #[serde(default)]
    is_program: bool,
    #[serde(default)]
    is_compressed: bool,
}

impl Build<'_> {
    /// The files of a list.
    pub(super) fn tree(&self, list: &str) -> Result<Tree> {
        let manual: Vec<_> = self.pages.keys().filter_map(|name| name.strip_prefix("man/")).collect();
        let text = render_file(&format!("dist/{list}.yaml"), json!({"manual": manual}))?;
        let list: List = serde_saphyr::from_str(&text).with_context(|| list.to_owned())?;
        let mut tree = Tree::default();
        for (path, target) in &list.links {
            tree.link(path, target);
        }
        for path in &list.private_folders {
            tree.folder(path, 0o750, ROOT);
        }
        for entry in &list.files {
            let mut content = self.content(&entry.from)?;
            if entry.is_compressed {
                content = gzip(&content)?;
            }
            tree.file(&entry.path, if entry.is_program { 0o755 } else { 0o644 }, content);
        }
        Ok(tree)
    }

    fn content(&self, from: &str) -> Result<Vec<u8>> {
        let Documents { licence, notices, bill } = self.documents;
        let text = match from {
            "binary" => return Ok(self.binary.content.clone()),
            "licence" => licence.clone(),
            "notices" => notices.clone(),
            "bill" => bill.clone(),
            "copyright" => format!("{licence}\n{notices}"),
            name => self.pages.get(name).cloned().map_or_else(|| read(self.release, name), Ok)?,
        };
        Ok(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_programs_links_pages_and_folders() {
        let release = Release::of_tests();
        let binary = Binary::read(&std::env::current_exe().unwrap()).unwrap();
        let documents =
            Documents { licence: "licence".into(), notices: "notices".into(), bill: "bill".into() };
        let pages = ["man/forebay.1", "completions/bash", "completions/fish", "completions/zsh"];
        let pages = pages.map(|name| (name.to_owned(), name.to_owned())).into();
        let build = Build { release: &release, binary: &binary, documents: &documents, pages: &pages };
        let names = |list: &str| -> Vec<String> {
            build.tree(list).unwrap().files().map(|(path, _)| path.to_owned()).collect()
        };
        let archive = names("archive");
        for path in ["forebay", "LICENSE", "man/forebay.1", "completions/_forebay"] {
            assert!(archive.contains(&path.to_owned()), "{path}: {archive:?}");
        }
        let installed = names("installed");
        for path in ["usr/bin/forebay", "etc/default/forebay", "usr/share/man/man1/forebay.1.gz"] {
            assert!(installed.contains(&path.to_owned()), "{path}: {installed:?}");
        }
        let without = Build { pages: &Pages::new(), ..build }.tree("archive").unwrap();
        assert!(without.files().all(|(path, _)| !path.starts_with("man/")));
    }
}
