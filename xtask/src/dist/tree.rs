//! Files as they are to be in an archive, and archives that are the same, byte by byte, whenever they are
//! made of the same files.
//!
//! Entries are in the order of their names, have one time and numbers for owners. Must not be in here: which
//! files.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// User and group, as numbers.
pub(crate) type Owner = (u64, u64);
/// The owner of everything that says no other.
pub(crate) const ROOT: Owner = (0, 0);

/// Folders, files and links, by path without a leading slash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Entry>);

#[derive(Clone, Debug)]
struct Entry {
    content: Content,
    mode: u32,
    owner: Owner,
    /// Extended attributes, by name.
    attributes: Vec<(&'static str, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Content {
    Folder,
    File(Vec<u8>),
    /// A symbolic link to this target.
    Link(String),
}

impl Tree {
    /// Adds a file, and the folders on the way to it.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) {
        self.insert(path, Content::File(content.into()), mode, ROOT);
    }

    /// Adds a symbolic link, and the folders on the way to it.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.insert(path, Content::Link(target.into()), 0o777, ROOT);
    }

    /// Adds a folder, and those on the way to it.
    pub(crate) fn folder(&mut self, path: &str, mode: u32, owner: Owner) {
        self.insert(path, Content::Folder, mode, owner);
    }

    /// Gives what is at this path an extended attribute.
    pub(crate) fn attribute(&mut self, path: &str, name: &'static str, value: Vec<u8>) {
        let entry = self.0.get_mut(path).expect("the file is added before its attributes");
        entry.attributes.push((name, value));
    }

    /// The files: their paths and contents.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| match &entry.content {
            Content::File(content) => Some((path.as_str(), content.as_slice())),
            Content::Folder | Content::Link(_) => None,
        })
    }

    /// The archive. Names begin with `prefix`; `time` is in seconds since 1970.
    pub(crate) fn tar(&self, prefix: &str, time: u64) -> Result<Vec<u8>> {
        let mut builder = Builder::new(Vec::new());
        for (path, entry) in &self.0 {
            let name = format!("{prefix}{path}");
            entry.append(&mut builder, &name, time).with_context(|| format!("cannot archive {name}"))?;
        }
        Ok(builder.into_inner()?)
    }

    fn insert(&mut self, path: &str, content: Content, mode: u32, owner: Owner) {
        self.add_parents(path);
        self.0.insert(path.into(), Entry { content, mode, owner, attributes: Vec::new() });
    }

    fn add_parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            let folder = Entry { content: Content::Folder, mode: 0o755, owner: ROOT, attributes: Vec::new() };
            self.0.entry(path[..at].into()).or_insert(folder);
        }
    }
}

impl Entry {
    fn append(&self, builder: &mut Builder<Vec<u8>>, name: &str, time: u64) -> Result<()> {
        if !self.attributes.is_empty() {
            let records = self.attributes.iter().map(|(name, value)| (*name, value.as_slice()));
            builder.append_pax_extensions(records)?;
        }
        let (kind, content, name) = match &self.content {
            Content::Folder => (EntryType::Directory, [].as_slice(), format!("{name}/")),
            Content::File(content) => (EntryType::Regular, content.as_slice(), name.to_owned()),
            Content::Link(_) => (EntryType::Symlink, [].as_slice(), name.to_owned()),
        };
        let mut header = Header::new_ustar();
        if let Content::Link(target) = &self.content {
            header.set_link_name(target)?;
        }
        header.set_entry_type(kind);
        header.set_mode(self.mode);
        header.set_uid(self.owner.0);
        header.set_gid(self.owner.1);
        header.set_mtime(time);
        header.set_size(content.len() as u64);
        if name.len() > header.as_old().name.len() {
            return Ok(builder.append_data(&mut header, name, content)?);
        }
        // As it is: the library would leave out the `./` that packages of Debian begin with.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        Ok(builder.append(&header, content)?)
    }
}

/// Compressed, without a name and a time.
pub(crate) fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn names(archive: &[u8]) -> Vec<(String, u32, u64)> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            (name, header.mode().unwrap(), header.mtime().unwrap())
        });
        entries.collect()
    }

    #[test]
    fn an_archive_is_in_order_with_folders_first_whatever_the_order_of_adding() {
        let mut one = Tree::default();
        one.file("usr/bin/forebay", 0o755, "x");
        one.file("etc/passwd", 0o644, "y");
        let mut other = Tree::default();
        other.file("etc/passwd", 0o644, "y");
        other.file("usr/bin/forebay", 0o755, "x");
        let archive = one.tar("./", 7).unwrap();
        assert_eq!(archive, other.tar("./", 7).unwrap());
        let expected = [
            ("./etc/", 0o755),
            ("./etc/passwd", 0o644),
            ("./usr/", 0o755),
            ("./usr/bin/", 0o755),
            ("./usr/bin/forebay", 0o755),
        ];
        assert_eq!(names(&archive), expected.map(|(name, mode)| (name.to_owned(), mode, 7)));
    }

    #[test]
    fn a_link_leads_to_its_target() {
        let mut tree = Tree::default();
        tree.file("bin/forebay", 0o755, "x");
        tree.link("bin/kubectl-forebay", "forebay");
        assert_eq!(tree.files().count(), 1);
        let archive = tree.tar("", 7).unwrap();
        let mut archive = tar::Archive::new(archive.as_slice());
        let link = archive.entries().unwrap().map(Result::unwrap).last().unwrap();
        assert_eq!(link.header().entry_type(), EntryType::Symlink);
        assert_eq!(link.path().unwrap().to_str(), Some("bin/kubectl-forebay"));
        assert_eq!(link.link_name().unwrap().unwrap().to_str(), Some("forebay"));
    }

    #[test]
    fn a_long_name_is_whole() {
        let (mut tree, path) = (Tree::default(), format!("{}/{}", "a".repeat(150), "b".repeat(150)));
        tree.file(&path, 0o644, "");
        assert_eq!(names(&tree.tar("", 7).unwrap())[1], (path, 0o644, 7));
    }

    #[test]
    fn attributes_come_with_their_file() {
        let mut tree = Tree::default();
        tree.file("a", 0o755, "x");
        tree.attribute("a", "SCHILY.xattr.security.capability", vec![1, 0, 2]);
        let archive = tree.tar("", 0).unwrap();
        let mut archive = tar::Archive::new(archive.as_slice());
        let mut entry = archive.entries().unwrap().next().unwrap().unwrap();
        let record = entry.pax_extensions().unwrap().unwrap().next().unwrap().unwrap();
        assert_eq!(record.key(), Ok("SCHILY.xattr.security.capability"));
        assert_eq!(record.value_bytes(), [1, 0, 2]);
    }

    #[test]
    fn what_is_compressed_says_nothing_of_the_time() {
        let compressed = gzip(b"hello hello").unwrap();
        assert_eq!(compressed[4..8], [0; 4]);
        let mut text = String::new();
        GzDecoder::new(compressed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello hello");
    }
}
