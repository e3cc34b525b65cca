//! The cache folder: its ownership, and the files in it. All files are reached through the open folder, so
//! that nothing else is touched if its path is replaced.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, unlinkat};

/// The file that marks a folder as a cache; locked while the cache is open.
const MARKER: &str = "forebay-cache";
/// The first line of the marker: the form of all files.
const FORM: &str = "forebay cache 1";
const SEGMENT_PREFIX: &str = "segment-";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder has files, and no marker of a cache.
    #[error(
        "{0} is not empty and no cache of Forebay: it is left alone; give an empty folder, or one that does not exist"
    )]
    Foreign(PathBuf),
    /// It was written by a version that writes differently.
    #[error("{0} is a cache of another version of Forebay: remove it, or give another folder")]
    Version(PathBuf),
    /// Another process has it.
    #[error("{0} is used by another process: each needs a folder of its own")]
    InUse(PathBuf),
    /// The system refused.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// A folder that is ours.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    directory: OwnedFd,
    /// Holds the lock.
    marker: File,
    hash: KeyHash,
}

/// The hash of keys: `SipHash` with keys of the folder, so that nobody can construct colliding keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64, u64);

impl Drop for Folder {
    /// The lock ends here, also where a child that another thread has just forked still has the descriptor.
    fn drop(&mut self) {
        let _ = self.marker.unlock();
    }
}

impl KeyHash {
    #[expect(
        deprecated,
        reason = "the successor's algorithm may change with the compiler, and hashes are on disk"
    )]
    pub(crate) fn of(self, key: &[u8]) -> u64 {
        use std::hash::{Hasher, SipHasher};
        let mut hasher = SipHasher::new_with_keys(self.0, self.1);
        hasher.write(key);
        hasher.finish()
    }

    fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let number = || RandomState::new().hash_one(0);
        Self(number(), number())
    }

    fn parse(line: &str) -> Option<Self> {
        let (one, other) = line.split_at_checked(16)?;
        Some(Self(u64::from_str_radix(one, 16).ok()?, u64::from_str_radix(other, 16).ok()?))
    }
}

impl Folder {
    /// Opens a folder, and marks it as a cache if it is empty. `hash` is that of the folder it replaces.
    pub(crate) fn open(path: &Path, hash: Option<KeyHash>) -> Result<Self, OpenError> {
        let io = |error: io::Error| OpenError::Io(path.to_owned(), error);
        std::fs::create_dir_all(path).map_err(io)?;
        let folder = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| io(error.into()))?;
        let names = names(&folder).map_err(io)?;
        if !names.iter().any(|name| name == MARKER) && !names.iter().all(|name| name == "lost+found") {
            return Err(OpenError::Foreign(path.to_owned()));
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let marker =
            openat(&folder, MARKER, flags, Mode::RUSR | Mode::WUSR).map_err(|error| io(error.into()))?;
        let mut marker = File::from(marker);
        match marker.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
            Err(std::fs::TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut text = read_marker(&marker).map_err(io)?;
        // A process that died between the making of the file and its writing left an empty one.
        if text.is_empty() {
            let hash = hash.unwrap_or_else(KeyHash::random);
            text = format!("{FORM}\n{:016x}{:016x}\n", hash.0, hash.1);
            marker.write_all(text.as_bytes()).map_err(io)?;
        }
        let hash = hash_of(&text).ok_or_else(|| OpenError::Version(path.to_owned()))?;
        Ok(Self { path: path.to_owned(), directory: folder, marker, hash })
    }

    /// The hash of a folder that another process has open.
    pub(crate) fn hash_in_use(path: &Path) -> Result<KeyHash, OpenError> {
        let marker = File::open(path.join(MARKER)).and_then(|marker| read_marker(&marker));
        let text = marker.map_err(|error| OpenError::Io(path.to_owned(), error))?;
        hash_of(&text).ok_or_else(|| OpenError::Version(path.to_owned()))
    }

    pub(crate) fn hash(&self) -> KeyHash {
        self.hash
    }

    /// All segments, by number. A file that cannot be opened is ignored.
    pub(crate) fn segments(&self) -> Result<Vec<(u64, Arc<File>)>, OpenError> {
        let io = |error: io::Error| OpenError::Io(self.path.clone(), error);
        let mut segments: Vec<_> = names(&self.directory)
            .map_err(io)?
            .iter()
            .filter_map(|name| segment_number(name))
            .filter_map(|id| Some((id, Arc::new(self.open_segment(id, OFlags::empty()).ok()?))))
            .collect();
        segments.sort_unstable_by_key(|(id, _)| *id);
        Ok(segments)
    }

    pub(crate) fn create_segment(&self, id: u64) -> io::Result<Arc<File>> {
        self.open_segment(id, OFlags::CREATE | OFlags::EXCL).map(Arc::new)
    }

    fn open_segment(&self, id: u64, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(openat(&self.directory, segment_name(id), flags, Mode::RUSR | Mode::WUSR)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    pub(crate) fn remove_segment(&self, id: u64) {
        // A file that is missing already needs no removal.
        let _ = unlinkat(&self.directory, segment_name(id), AtFlags::empty());
    }

    /// The folder at the same path, after the one that was there has gone.
    pub(crate) fn reopen(&self) -> Option<Self> {
        let is_gone = rustix::fs::fstat(&self.directory).is_ok_and(|stat| stat.st_nlink == 0);
        let folder = is_gone.then(|| Self::open(&self.path, Some(self.hash)).ok()).flatten()?;
        (folder.hash == self.hash).then_some(folder)
    }
}

fn read_marker(marker: &File) -> io::Result<String> {
    let mut text = String::new();
    marker.take(1024).read_to_string(&mut text)?;
    Ok(text)
}

/// The hash that a marker names. None if it is not of this form.
fn hash_of(marker: &str) -> Option<KeyHash> {
    let mut lines = marker.lines();
    let is_known = lines.next() == Some(FORM);
    lines.next().and_then(KeyHash::parse).filter(|_| is_known)
}

fn names(folder: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type() != FileType::Directory || (name != "." && name != "..") {
            names.push(name);
        }
    }
    Ok(names)
}

fn segment_name(id: u64) -> String {
    format!("{SEGMENT_PREFIX}{id:010}")
}

/// Numbers are below 2^32, so that sequences above all known ones can be made of them.
fn segment_number(name: &str) -> Option<u64> {
    let id = u64::from(name.strip_prefix(SEGMENT_PREFIX)?.parse::<u32>().ok()?);
    (segment_name(id) == name).then_some(id)
}
