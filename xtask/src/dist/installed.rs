//! Where a package of a distribution has everything, as the Filesystem Hierarchy Standard and Debian's policy have it.

use anyhow::Result;

use super::documents::{Documents, read};
use super::pages::Pages;
use super::release::Release;
use super::target::Binary;
use super::tree::{ROOT, Tree, gzip};

const SOURCES: &str = "deploy/package";
const DOCUMENTS: &str = "usr/share/doc/forebay";

/// What is installed.
pub(super) fn tree(release: &Release, binary: &Binary, documents: &Documents, pages: &Pages) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/forebay", 0o755, binary.content.as_slice());
    // By these names it is a plugin for kubectl, and what completes it.
    tree.link("usr/bin/kubectl-forebay", "forebay");
    tree.link("usr/bin/kubectl_complete-forebay", "forebay");
    // `postinst` gives it to the group of the service.
    tree.folder("etc/forebay/manifests", 0o750, ROOT);
    for (path, file) in [
        ("etc/default/forebay", "forebay.default"),
        ("usr/lib/systemd/system/forebay.service", "forebay.service"),
        ("usr/lib/sysusers.d/forebay.conf", "forebay.sysusers"),
    ] {
        tree.file(path, 0o644, read(release, &format!("{SOURCES}/{file}"))?);
    }
    let copyright = format!("{}\n{}", documents.licence, documents.notices);
    tree.file(&format!("{DOCUMENTS}/copyright"), 0o644, copyright);
    tree.file(&format!("{DOCUMENTS}/forebay.cdx.json"), 0o644, documents.bill.as_str());
    tree.file(&format!("{DOCUMENTS}/README.md"), 0o644, read(release, "README.md")?);
    tree.file(&format!("{DOCUMENTS}/changelog.gz"), 0o644, gzip(read(release, "CHANGELOG.md")?.as_bytes())?);
    let example = "examples/hello.yaml";
    tree.file(&format!("{DOCUMENTS}/{example}"), 0o644, read(release, example)?);
    for (name, page) in &pages.manual {
        tree.file(&format!("usr/share/man/man1/{name}.gz"), 0o644, gzip(page.as_bytes())?);
    }
    for (shell, script) in &pages.completions {
        tree.file(&format!("{}/{}", shell.folder(), shell.file()), 0o644, script.as_str());
    }
    Ok(tree)
}

/// What a package runs when it is installed and removed.
pub(super) fn scripts(release: &Release) -> Result<Vec<(&'static str, String)>> {
    let names = ["postinst", "prerm", "postrm"];
    names.into_iter().map(|name| Ok((name, read(release, &format!("{SOURCES}/{name}"))?))).collect()
}
