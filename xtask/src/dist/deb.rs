//! A Debian package: an `ar` archive of a version, control files and files, as deb(5) has it.
//!
//! Must not be in here: which files.

use anyhow::{Context, Result, ensure};
use md5::{Digest, Md5};
use serde_json::json;

use super::documents::read;
use super::hex::hex;
use super::release::Release;
use super::target::Architecture;
use super::tree::{Tree, gzip};
use crate::template::render_file;

/// The version of the package format (`deb(5)`).
const FORMAT: &[u8] = b"2.0\n";
/// Configuration of the administrator's: files below it are kept as they are when a new version comes.
const CONFIGURATION: &str = "etc/";
/// The begin of an archive of `ar`, and the end of each of its heads.
const AR_MAGIC: &[u8] = b"!<arch>\n";
const AR_HEAD_END: &[u8] = b"`\n";

/// A Debian package with a binary, its unit and its documents.
pub(super) struct Deb<'a> {
    pub(super) release: &'a Release,
    pub(super) architecture: Architecture,
    /// The files that are installed.
    pub(super) files: &'a Tree,
    /// Maintainer scripts by name: `postinst` and others.
    pub(super) scripts: &'a [(&'static str, String)],
}

impl Deb<'_> {
    /// The file's name.
    pub(super) fn name(&self) -> String {
        format!("forebay_{}_{}.deb", self.release.version, self.architecture.name())
    }

    /// Writes the package as a file in memory.
    pub(super) fn build(&self) -> Result<Vec<u8>> {
        let time = self.release.time;
        let mut control = Tree::default();
        control.file("control", 0o644, self.control()?);
        control.file("md5sums", 0o644, self.md5sums());
        control.file("conffiles", 0o644, self.conffiles());
        for (name, script) in self.scripts {
            control.file(name, 0o755, script.as_bytes());
        }
        let mut archive = AR_MAGIC.to_vec();
        let (control, data) = (gzip(&control.tar("./", time)?)?, gzip(&self.files.tar("./", time)?)?);
        for (name, content) in
            [("debian-binary", FORMAT), ("control.tar.gz", &control), ("data.tar.gz", &data)]
        {
            append(&mut archive, name, content, time)?;
        }
        Ok(archive)
    }

    /// deb-control(5). The size is in KiB.
    fn control(&self) -> Result<String> {
        let size: usize = self.files.files().map(|(_, content)| content.len().div_ceil(1024)).sum();
        let Release { version, source, .. } = self.release;
        let architecture = self.architecture.name();
        let values =
            json!({"version": version, "architecture": architecture, "size": size, "source": source});
        render_file("dist/control", values)
    }

    fn md5sums(&self) -> String {
        let plain = self.files.files().filter(|(path, _)| !path.starts_with(CONFIGURATION));
        plain.map(|(path, content)| [&md5(content), "  ", path, "\n"].concat()).collect()
    }

    fn conffiles(&self) -> String {
        let own = self.files.files().filter(|(path, _)| path.starts_with(CONFIGURATION));
        own.map(|(path, _)| ["/", path, "\n"].concat()).collect()
    }
}

/// The maintainer scripts of the package.
pub(super) fn scripts(release: &Release) -> Result<Vec<(&'static str, String)>> {
    let names = ["postinst", "prerm", "postrm"];
    names.into_iter().map(|name| Ok((name, read(release, &format!("deploy/package/{name}"))?))).collect()
}

/// A file of an archive, at an even place.
fn append(archive: &mut Vec<u8>, name: &str, content: &[u8], time: u64) -> Result<()> {
    ensure!(name.len() <= 16, "{name} is too long a name");
    let size = u32::try_from(content.len()).ok().filter(|size| *size < 1_000_000_000);
    let size = size.with_context(|| format!("{name} is too long for an archive"))?;
    archive.extend(format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}", 0, 0, "100644").bytes());
    archive.extend(AR_HEAD_END);
    archive.extend(content);
    if !content.len().is_multiple_of(2) {
        archive.push(b'\n');
    }
    Ok(())
}

/// Tells files that were damaged from others; nothing trusts it.
fn md5(content: &[u8]) -> String {
    hex(&Md5::digest(content))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn files_of_an_archive_begin_at_even_places() {
        let mut archive = Vec::new();
        append(&mut archive, "odd", b"x", 7).unwrap();
        append(&mut archive, "even", b"yz", 7).unwrap();
        assert_eq!(archive.len(), 60 + 2 + 60 + 2);
        let expected = "odd             7           0     0     100644  1         `\nx\n";
        assert_eq!(String::from_utf8_lossy(&archive[..62]), expected);
        assert!(append(&mut archive, "a name of many letters", b"", 7).is_err());
    }

    #[test]
    fn dpkg_reads_a_package_and_it_is_always_the_same() {
        let mut files = Tree::default();
        files.file("usr/bin/forebay", 0o755, "program");
        files.file("etc/default/forebay", 0o644, "settings");
        let release = Release::of_tests();
        let scripts = [("postinst", "#!/bin/sh\n".to_owned())];
        let deb =
            Deb { release: &release, architecture: Architecture::Arm64, files: &files, scripts: &scripts };
        let package = deb.build().unwrap();
        assert_eq!(package, deb.build().unwrap());
        assert_eq!(deb.conffiles(), "/etc/default/forebay\n");
        assert_eq!(deb.md5sums(), "a9c449d4fa44e9e5a41c574ae55ce4d9  usr/bin/forebay\n");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(deb.name());
        std::fs::write(&file, package).unwrap();
        if !testkit::needs("dpkg-deb") {
            return;
        }
        let output = Command::new("dpkg-deb").arg("--field").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let fields = String::from_utf8(output.stdout).unwrap();
        assert!(fields.contains("Version: 1.2.3\nArchitecture: arm64\n"), "{fields}");
        let output = Command::new("dpkg-deb").arg("--contents").arg(&file).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        assert!(listed.contains(" ./usr/bin/forebay\n"), "{listed}");
    }
}
