//! The archive that whoever has no package manager unpacks: the binary, and beside it everything that comes with it.

use anyhow::Result;

use super::documents::{Documents, read};
use super::pages::Pages;
use super::release::Release;
use super::target::Binary;
use super::tree::Tree;

/// Its files.
pub(super) fn tree(release: &Release, binary: &Binary, documents: &Documents, pages: &Pages) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("forebay", 0o755, binary.content.as_slice());
    // By these names it is a plugin for kubectl, and what completes it.
    tree.link("kubectl-forebay", "forebay");
    tree.link("kubectl_complete-forebay", "forebay");
    tree.file("LICENSE", 0o644, documents.licence.as_str());
    tree.file("NOTICES", 0o644, documents.notices.as_str());
    tree.file("forebay.cdx.json", 0o644, documents.bill.as_str());
    for path in ["README.md", "CHANGELOG.md", "examples/hello.yaml"] {
        tree.file(path, 0o644, read(release, path)?);
    }
    tree.file("systemd/forebay.service", 0o644, read(release, "deploy/package/forebay.service")?);
    for (name, page) in &pages.manual {
        tree.file(&format!("man/{name}"), 0o644, page.as_str());
    }
    for (shell, script) in &pages.completions {
        tree.file(&format!("completions/{}", shell.file()), 0o644, script.as_str());
    }
    Ok(tree)
}
