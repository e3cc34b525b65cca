//! Manifests in files and folders.
//!
//! A file is read as a whole: while it cannot be parsed, its last good content stays in force. An event about
//! a possible change makes the source compare the files, and it parses those that changed.
//!
//! Never in here: waiting, and the kernel's events; see `watch`.

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
use super::strict::Fault;
use crate::objects::Object;
use crate::old_version::Assumed;
use crate::problem::{Problem, Reason, Severity};

/// The reason why a source cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A path of the options does not exist or cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Path {
        /// The path of the options.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Changes cannot be watched.
    #[error("cannot watch {}: {source}", path.display())]
    Watch {
        /// The folder to be watched.
        path: PathBuf,
        /// The error of the watcher.
        source: notify::Error,
    },
}

/// The manifests in files and folders.
#[derive(Debug)]
pub struct Files {
    roots: Vec<PathBuf>,
    by_path: BTreeMap<PathBuf, File>,
    extent: Extent,
    folder_problems: Vec<Problem>,
    /// Manifests that are in no file.
    built_in: Vec<File>,
    reading: Reading,
}

/// The treatment of a file with faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A file counts as a whole: none of its objects is used while one of its documents is broken. Objects
    /// that the API server would refuse are used nevertheless.
    #[default]
    Whole,
    /// Each document counts by itself. A field that the API server would refuse or drop is reported.
    Strict,
}

/// A manifest that is in no file: it implements a flag.
pub(crate) struct BuiltIn {
    /// The flag that the manifest implements.
    pub(crate) name: &'static str,
    /// The YAML text of the manifest.
    pub(crate) text: String,
}

/// The paths at which a change can change the content of the source. All are absolute.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    /// Folders in which every entry counts.
    folders: BTreeSet<PathBuf>,
    /// The paths of the options. Such a path can be removed and created again, and only its parent folder
    /// reports this.
    roots: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct File {
    /// The state of the file when it was last read.
    seen: Option<Seen>,
    /// The last good content.
    manifest: Manifest,
    /// The problem of a file that cannot be parsed; none for other files.
    broken: Option<Problem>,
    /// Values that the API server would refuse or drop; empty unless the reading is strict.
    faults: Vec<Problem>,
    reading: Reading,
}

impl Files {
    /// Reads files and folders.
    ///
    /// # Errors
    ///
    /// When a path does not exist or cannot be read. A file that cannot be parsed is one of the
    /// [`problems`](Self::problems) instead.
    pub fn open(roots: &[PathBuf]) -> Result<Self, LoadError> {
        Self::open_as(roots, Reading::Whole)
    }

    /// Opens files and folders as [`open`](Self::open) does, with this reading.
    pub(crate) fn open_as(roots: &[PathBuf], reading: Reading) -> Result<Self, LoadError> {
        for path in roots {
            fs::metadata(path).map_err(|source| LoadError::Path { path: path.clone(), source })?;
        }
        let mut files = Self {
            roots: roots.to_vec(),
            by_path: BTreeMap::new(),
            extent: Extent::default(),
            folder_problems: Vec::new(),
            built_in: Vec::new(),
            reading,
        };
        files.refresh(&HashSet::new());
        Ok(files)
    }

    /// Adds manifests that are in no file.
    pub(crate) fn add(&mut self, manifests: &[BuiltIn]) {
        self.built_in.extend(manifests.iter().map(|BuiltIn { name, text }| {
            let mut file = File { reading: self.reading, ..File::default() };
            file.parse(Path::new(name), text);
            file
        }));
    }

    fn files(&self) -> impl Iterator<Item = &File> {
        self.by_path.values().chain(&self.built_in)
    }

    /// Reads every changed file again, except for files that are open for writing. Returns whether anything
    /// changed.
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
                file.reading = self.reading;
                changed |= file.refresh(&met.place.path, met.stamp);
            }
        }
        changed
    }

    /// The objects in force, ordered by the path of their file and their place in it.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.files().flat_map(|file| &file.manifest.objects)
    }

    /// The version of ingress-nginx whose controller, or whose Helm values, are among the files.
    pub(crate) fn old_version(&self) -> Option<Assumed> {
        self.files().find_map(|file| file.manifest.old.clone())
    }

    /// The files that cannot be parsed, and the faults of the other files.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.folder_problems
            .iter()
            .chain(self.files().flat_map(|file| file.broken.iter().chain(&file.faults)))
    }

    /// The numbers of objects of unsupported kinds.
    pub fn skipped(&self) -> Skipped {
        let mut sum = Skipped::new();
        for (kind, count) in self.files().flat_map(|file| &file.manifest.skipped) {
            *sum.entry(kind.clone()).or_default() += count;
        }
        sum
    }

    /// The paths at which a change can change the content of this source.
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

    /// Whether a change of this path is relevant. The parent folder of a root is watched too and can be busy,
    /// as `/tmp` is.
    pub(crate) fn concerns(&self, path: &Path) -> bool {
        let is_inside = path.parent().is_some_and(|folder| self.folders.contains(folder));
        is_inside || self.folders.contains(path) || self.roots.contains(path)
    }
}

// === impl File ===

impl File {
    /// Reads the file if its stamp changed. Returns whether its content or its problem differs.
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
        self.parse(path, &text)
    }

    fn parse(&mut self, path: &Path, text: &str) -> bool {
        if self.reading == Reading::Strict {
            let (manifest, faults) = Manifest::parse_each(&Arc::from(path), text);
            self.manifest = manifest;
            self.faults = faults.into_iter().map(|fault| refused(path, fault)).collect();
            return true;
        }
        match Manifest::parse(&Arc::from(path), text) {
            Ok(manifest) => {
                self.manifest = manifest;
                self.broken = None;
                true
            }
            Err(Broken { line, message }) => self.breaks(path, Some(line), &message),
        }
    }

    /// The text; none if the file has the same stamp as when it was last read.
    fn read(&self, path: &Path, stamp: Stamp) -> io::Result<Option<(Seen, Vec<u8>)>> {
        if self.seen.as_ref().is_some_and(|seen| seen.stamp == stamp && !seen.is_racy) {
            return Ok(None);
        }
        // The stamp is taken before the text is read. So a write in between changes the stamp, and the next
        // refresh reads the file again.
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

/// The problem of a value that the API server would refuse or drop.
fn refused(path: &Path, Fault { object, line, message }: Fault) -> Problem {
    let problem = Problem::new(Severity::Error, message);
    Problem { object, file: Some(path.to_owned()), line: Some(line), ..problem.because(Reason::Undecodable) }
}

/// The state of a file when it was read.
#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// The file was written so recently that another write could leave the same stamp (Git calls this "racily
    /// clean").
    is_racy: bool,
    text_hash: u64,
}

/// Metadata that changes with every write, within the resolution of the filesystem's clock.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// A time longer than the coarsest timestamp resolution of local filesystems.
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

/// The files and folders below the roots.
#[derive(Default)]
struct Walk {
    files: BTreeMap<PathBuf, Met>,
    extent: Extent,
    problems: Vec<Problem>,
    /// The visited files and folders, by their paths without links, so that none is read twice and a loop of
    /// links ends.
    met: HashSet<PathBuf>,
}

/// A file below a root.
struct Met {
    place: Paths,
    stamp: Stamp,
}

/// The paths of a file or folder.
struct Paths {
    /// The path as given, or as derived from a root.
    path: PathBuf,
    /// The absolute path.
    absolute: PathBuf,
    /// The absolute path without links.
    real: PathBuf,
}

impl Walk {
    fn over(roots: &[PathBuf]) -> Self {
        let mut walk = Self::default();
        for root in roots {
            let place = Paths::of(root.clone());
            walk.extent.roots.insert(place.absolute.clone());
            match fs::metadata(root) {
                Ok(metadata) if metadata.is_dir() => walk.enter(place),
                Ok(metadata) => walk.meet(place, &metadata),
                Err(_) => {}
            }
        }
        walk
    }

    fn enter(&mut self, folder: Paths) {
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

    fn look_at(&mut self, folder: &Paths, entry: &fs::DirEntry) {
        // Names that begin with a dot are skipped. Kubernetes stores the files of a mounted ConfigMap in
        // `..data` and links to them; editors store temporary files.
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

    fn meet(&mut self, place: Paths, metadata: &Metadata) {
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

impl Paths {
    fn of(path: PathBuf) -> Self {
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let real = fs::canonicalize(&path).unwrap_or_else(|_| absolute.clone());
        Self { path, absolute, real }
    }

    /// The paths of an entry of this folder. Only a link is resolved, because resolving costs system calls.
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
