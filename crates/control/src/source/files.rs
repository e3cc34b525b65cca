//! Manifests in files and folders.
//!
//! A file counts as a whole: while it cannot be read, what it last held stays in force. Files are looked at again when
//! something tells that they may have changed, and parsed again only if they did.
//!
//! Never in here: waiting, and being told of changes; see `watch`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Skipped;
use super::manifest::{Broken, Manifest};
use crate::objects::Object;
use crate::problem::{Problem, Reason, Severity};

/// A source that cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A path that was named is not there, or may not be looked at.
    #[error("cannot read {}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Changes cannot be followed.
    #[error("cannot watch {}: {source}", path.display())]
    Watch {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: notify::Error,
    },
}

/// The manifests in some files and folders.
#[derive(Debug)]
pub struct Files {
    roots: Vec<PathBuf>,
    by_path: BTreeMap<PathBuf, File>,
    extent: Extent,
    folder_problems: Vec<Problem>,
}

/// Where a change can change what the source holds. All paths are absolute.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    /// Folders all of whose entries matter.
    folders: BTreeSet<PathBuf>,
    /// What was named: it can go away and come back, which is seen from the folder above it.
    roots: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct File {
    /// How it looked when it was last read.
    seen: Option<Seen>,
    /// What it held when it could last be read.
    manifest: Manifest,
    /// Why it cannot be read now.
    broken: Option<Problem>,
}

impl Files {
    /// Reads files and folders, each of which must exist.
    ///
    /// # Errors
    ///
    /// When a path is not there, or may not be looked at. What is wrong with a file is one of the [`problems`](Self::problems) instead.
    pub fn open(roots: &[PathBuf]) -> Result<Self, LoadError> {
        for path in roots {
            fs::metadata(path).map_err(|source| LoadError::Path { path: path.clone(), source })?;
        }
        let mut files = Self {
            roots: roots.to_vec(),
            by_path: BTreeMap::new(),
            extent: Extent::default(),
            folder_problems: Vec::new(),
        };
        files.refresh(&HashSet::new());
        Ok(files)
    }

    /// Looks at everything again, but for the files that somebody is writing. Tells whether anything changed.
    pub fn refresh(&mut self, being_written: &HashSet<PathBuf>) -> bool {
        let walk = Walk::over(&self.roots);
        let mut changed = walk.problems != self.folder_problems;
        self.folder_problems = walk.problems;
        self.extent = walk.extent;
        let before = self.by_path.len();
        self.by_path.retain(|path, _| walk.files.contains_key(path));
        changed |= self.by_path.len() != before;
        for (path, met) in walk.files {
            if !met.place.is_one_of(being_written) {
                let file = self.by_path.entry(path).or_default();
                changed |= file.refresh(&met.place.path, met.stamp);
            }
        }
        changed
    }

    /// The objects in force: files in the order of their paths, documents in order.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.by_path.values().flat_map(|file| &file.manifest.objects)
    }

    /// What cannot be read.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.folder_problems.iter().chain(self.by_path.values().filter_map(|file| file.broken.as_ref()))
    }

    /// Numbers of objects that are of no kind that is understood.
    pub fn skipped(&self) -> Skipped {
        let mut sum = Skipped::new();
        for (kind, count) in self.by_path.values().flat_map(|file| &file.manifest.skipped) {
            *sum.entry(kind.clone()).or_default() += count;
        }
        sum
    }

    /// Where a change can change what this source holds.
    pub(crate) fn extent(&self) -> &Extent {
        &self.extent
    }
}

// === impl Extent ===

impl Extent {
    /// The folders to watch.
    pub(crate) fn watched(&self) -> BTreeSet<PathBuf> {
        self.folders.iter().cloned().chain(self.roots.iter().filter_map(|root| folder_of(root))).collect()
    }

    /// Whether a change of this path matters. The folder above a root may be as busy as `/tmp`.
    pub(crate) fn concerns(&self, path: &Path) -> bool {
        let is_inside = path.parent().is_some_and(|folder| self.folders.contains(folder));
        is_inside || self.folders.contains(path) || self.roots.contains(path)
    }
}

// === impl File ===

impl File {
    /// Reads the file if it changed. Tells whether what it holds, or what is wrong with it, did.
    fn refresh(&mut self, path: &Path, stamp: Stamp) -> bool {
        let (seen, text) = match self.read(path, stamp) {
            Ok(Some(read)) => read,
            Ok(None) => return false,
            Err(error) => {
                self.seen = None;
                return self.breaks(path, None, &format!("cannot be read: {error}"));
            }
        };
        let is_same = self.seen.as_ref().is_some_and(|last| last.text_hash == seen.text_hash);
        self.seen = Some(seen);
        if is_same {
            return false;
        }
        let text = match String::from_utf8(text) {
            Ok(text) => text,
            Err(error) => return self.breaks(path, None, &format!("is not UTF-8: {}", error.utf8_error())),
        };
        match Manifest::parse(&Arc::from(path), &text) {
            Ok(manifest) => {
                self.manifest = manifest;
                self.broken = None;
                true
            }
            Err(Broken { line, message }) => self.breaks(path, Some(line), &message),
        }
    }

    /// The text, unless the file looks as it did when it was last read.
    fn read(&self, path: &Path, stamp: Stamp) -> io::Result<Option<(Seen, Vec<u8>)>> {
        if self.seen.as_ref().is_some_and(|seen| seen.stamp == stamp && !seen.is_racy) {
            return Ok(None);
        }
        // The stamp is older than the text: a write in between makes the next look read again.
        let is_racy = stamp.is_recent();
        let text = fs::read(path)?;
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Ok(Some((Seen { stamp, is_racy, text_hash: hasher.finish() }, text)))
    }

    fn breaks(&mut self, path: &Path, line: Option<u32>, message: &str) -> bool {
        let is_served = !self.manifest.objects.is_empty();
        let consequence = if is_served { "; what the file last held stays in force" } else { "" };
        let problem = Problem {
            file: Some(path.to_owned()),
            line,
            ..Problem::new(Severity::Error, format!("{message}{consequence}")).because(Reason::Undecodable)
        };
        let changed = self.broken.as_ref() != Some(&problem);
        self.broken = Some(problem);
        changed
    }
}

/// How a file looked when it was read.
#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// The file was so young that another write could have left the same stamp (as Git's "racily clean").
    is_racy: bool,
    text_hash: u64,
}

/// What changes with every write, as far as the clock of the filesystem can tell.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// Longer than the coarsest clock by which a local filesystem stamps its files.
    const RACY: Duration = Duration::from_secs(2);

    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }

    fn is_recent(&self) -> bool {
        let age = self.modified.and_then(|modified| modified.elapsed().ok());
        age.is_none_or(|age| age < Self::RACY)
    }
}

// === impl Walk ===

/// What lies below the roots.
#[derive(Default)]
struct Walk {
    files: BTreeMap<PathBuf, Met>,
    extent: Extent,
    problems: Vec<Problem>,
    /// Files and folders that were met, by their true paths: none counts twice, and no link leads in circles.
    met: HashSet<PathBuf>,
}

/// A file that was met.
struct Met {
    place: Place,
    stamp: Stamp,
}

/// The names of a file or folder.
struct Place {
    /// As it follows from a root.
    path: PathBuf,
    /// The same, absolute.
    absolute: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Walk {
    fn over(roots: &[PathBuf]) -> Self {
        let mut walk = Self::default();
        for root in roots {
            let place = Place::of(root.clone());
            walk.extent.roots.insert(place.absolute.clone());
            match fs::metadata(root) {
                Ok(metadata) if metadata.is_dir() => walk.enter(place),
                Ok(metadata) => walk.meet(place, &metadata),
                Err(_) => {}
            }
        }
        walk
    }

    fn enter(&mut self, folder: Place) {
        if !self.met.insert(folder.real.clone()) {
            return;
        }
        self.extent.folders.insert(folder.absolute.clone());
        let listing = fs::read_dir(&folder.path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match listing {
            Ok(entries) => entries,
            Err(error) => {
                let problem = Problem::new(Severity::Error, format!("cannot list the folder: {error}"))
                    .because(Reason::Missing);
                self.problems.push(Problem { file: Some(folder.path), ..problem });
                return;
            }
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            self.look_at(&folder, &entry);
        }
    }

    fn look_at(&mut self, folder: &Place, entry: &fs::DirEntry) {
        // Kubernetes keeps the files of a mounted ConfigMap in `..data`, beside links to them; editors hide theirs too.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            return;
        }
        let place = folder.entry(entry);
        match fs::metadata(&place.path) {
            Ok(metadata) if metadata.is_dir() => self.enter(place),
            Ok(metadata) if metadata.is_file() && is_manifest(&place.path) => self.meet(place, &metadata),
            _ => {}
        }
    }

    fn meet(&mut self, place: Place, metadata: &Metadata) {
        if !self.met.insert(place.real.clone()) {
            return;
        }
        for path in [&place.absolute, &place.real] {
            if let Some(folder) = path.parent()
                && !self.extent.folders.contains(folder)
            {
                self.extent.folders.insert(folder.to_owned());
            }
        }
        self.files.insert(place.path.clone(), Met { place, stamp: Stamp::of(metadata) });
    }
}

impl Place {
    fn of(path: PathBuf) -> Self {
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let real = fs::canonicalize(&path).unwrap_or_else(|_| absolute.clone());
        Self { path, absolute, real }
    }

    /// An entry of this folder. Only links are followed to their ends, since that is what takes time.
    fn entry(&self, entry: &fs::DirEntry) -> Self {
        let name = entry.file_name();
        let (path, absolute) = (self.path.join(&name), self.absolute.join(&name));
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let real = if is_link { fs::canonicalize(&path).ok() } else { None };
        let real = real.unwrap_or_else(|| self.real.join(&name));
        Self { path, absolute, real }
    }

    fn is_one_of(&self, paths: &HashSet<PathBuf>) -> bool {
        !paths.is_empty() && (paths.contains(&self.absolute) || paths.contains(&self.real))
    }
}

fn is_manifest(path: &Path) -> bool {
    matches!(path.extension().and_then(OsStr::to_str), Some("yaml" | "yml" | "json"))
}

fn folder_of(path: &Path) -> Option<PathBuf> {
    path.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> String {
        format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n")
    }

    fn names(files: &Files) -> Vec<String> {
        let name = |object: &Object| match object {
            Object::Service(service) => service.name().to_owned(),
            other => panic!("{other:?}"),
        };
        files.objects().map(name).collect()
    }

    fn problems(files: &Files) -> Vec<String> {
        files.problems().map(|problem| problem.message.clone()).collect()
    }

    #[test]
    fn folders_are_walked_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("b/c")).unwrap();
        fs::create_dir(root.join(".hidden")).unwrap();
        for path in ["z.yaml", "a.yml", "b/c/d.json", "notes.txt", ".hidden/x.yaml", ".y.yaml"] {
            fs::write(root.join(path), service(&path.replace(['/', '.'], ""))).unwrap();
        }
        let files = Files::open(&[root.to_owned(), root.join("z.yaml")]).unwrap();
        assert_eq!(names(&files), ["ayml", "bcdjson", "zyaml"], "a file that is named twice counts once");
        assert!(Files::open(&[root.join("missing")]).is_err());
    }

    #[test]
    fn links_that_lead_in_circles_are_followed_once() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
        fs::write(folder.path().join("a.yaml"), service("a")).unwrap();
        assert_eq!(names(&Files::open(&[folder.path().to_owned()]).unwrap()), ["a"]);
    }

    #[test]
    fn a_broken_file_leaves_what_it_last_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, service("a")).unwrap();
        let mut files = Files::open(&[folder.path().to_owned()]).unwrap();
        let refresh = |files: &mut Files| files.refresh(&HashSet::new());
        assert!(!refresh(&mut files), "nothing changed");

        fs::write(&path, service("b") + "---\nkind: [\n").unwrap();
        assert!(refresh(&mut files));
        assert_eq!(names(&files), ["a"], "not even the document that could be read");
        assert_eq!(problems(&files).len(), 1);
        assert!(!refresh(&mut files), "reported once");

        fs::write(&path, service("c")).unwrap();
        assert!(refresh(&mut files));
        assert_eq!((names(&files), problems(&files)), (vec!["c".to_owned()], vec![]));

        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(refresh(&mut files));
        assert!(problems(&files)[0].starts_with("is not UTF-8"));

        fs::remove_file(&path).unwrap();
        assert!(refresh(&mut files));
        assert_eq!((names(&files), problems(&files)), (vec![], vec![]));
    }

    #[test]
    fn a_file_that_is_being_written_is_not_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a.yaml");
        fs::write(&path, service("a")).unwrap();
        let mut files = Files::open(&[folder.path().to_owned()]).unwrap();
        fs::write(&path, service("b")).unwrap();
        assert!(!files.refresh(&HashSet::from([path.clone()])));
        assert_eq!(names(&files), ["a"]);
        assert!(files.refresh(&HashSet::new()));
        assert_eq!(names(&files), ["b"]);
    }
}
