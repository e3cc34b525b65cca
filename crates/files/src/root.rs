//! The root folder, and how names below it are opened.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, stat};
use rustix::io::Errno;

use crate::limits::{LISTED_ENTRIES_MAX, LOOKUPS_MAX};

/// A folder, and everything below it that can be reached without leaving it: by names and by symbolic links
/// that stay below.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    folder: Arc<OwnedFd>,
    /// Device and number of the folder that is open.
    identity: (u64, u64),
    /// Whether the absence of the folder has been logged.
    is_gone: bool,
}

/// Why a folder cannot be a root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It cannot be opened.
    #[error("{path} cannot be opened: {source}")]
    Folder {
        /// As it was given.
        path: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The kernel cannot keep lookups below a folder.
    #[error(
        "openat2 is not to be had ({0}), without which files are not served: it needs Linux 5.6, and seccomp must allow it"
    )]
    NoOpenat2(io::Error),
}

/// The object under a name.
#[derive(Debug)]
pub enum Node {
    /// A regular file.
    File(Opened),
    /// A folder, opened.
    Folder(OwnedFd),
}

/// A regular file that is open.
#[derive(Debug)]
pub struct Opened {
    pub(crate) file: OwnedFd,
    pub(crate) identity: Identity,
}

/// The identity of a file and of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    number: u64,
    /// Size in bytes.
    pub size: u64,
    /// When it was last changed: seconds since 1970, and the nanoseconds beside them.
    pub modified: (i64, u32),
    changed: (i64, u32),
}

/// Why there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Nothing is there, or neither a regular file nor a folder.
    NotFound,
    /// It may not be read, or lies outside of the root.
    Forbidden,
    /// The root itself is not there.
    NoRoot,
    /// This process has no descriptor left for it.
    NoDescriptor,
    /// It cannot be read.
    Unreadable,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Name within the folder.
    pub name: Vec<u8>,
    /// Whether the entry is a folder.
    pub is_folder: bool,
}

impl Root {
    /// Opens a folder as a root.
    ///
    /// # Errors
    ///
    /// The path is no folder that can be opened, or the kernel has no `openat2`.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let cannot = |source| RootError::Folder { path: path.display().to_string(), source };
        let (folder, identity) = open_folder(path).map_err(|error| cannot(error.into()))?;
        let trial = openat2(&folder, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), RESOLVE);
        trial.map_err(|error| RootError::NoOpenat2(error.into()))?;
        let state = Mutex::new(State { folder: Arc::new(folder), identity, is_gone: false });
        Ok(Self { path: path.to_owned(), state })
    }

    /// Opens the object under a name. It blocks.
    ///
    /// # Errors
    ///
    /// The reason why nothing is opened.
    pub fn find(&self, name: &[u8]) -> Result<Node, Miss> {
        let folder = self.folder()?;
        // Without waiting for whoever would open the other end of a FIFO, and without a terminal becoming
        // ours.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = below(&folder, name, flags).map_err(miss)?;
        let stat = fstat(&opened).map_err(miss)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Node::File(Opened { file: opened, identity: Identity::of(&stat) })),
            FileType::Directory => Ok(Node::Folder(opened)),
            _ => Err(Miss::NotFound),
        }
    }

    /// The folder, which may have been replaced under its name. Its disappearance and its return are each
    /// logged once.
    fn folder(&self) -> Result<Arc<OwnedFd>, Miss> {
        let is_same = |state: &State| stat(&self.path).is_ok_and(|stat| identity(&stat) == state.identity);
        let mut state = self.state.lock();
        if !is_same(&state) {
            match open_folder(&self.path) {
                Ok((folder, identity)) => {
                    *state = State { folder: Arc::new(folder), identity, is_gone: state.is_gone };
                }
                Err(error) => {
                    if !std::mem::replace(&mut state.is_gone, true) {
                        let error = io::Error::from(error);
                        tracing::error!(root = %self.path.display(), %error, "the folder of files is not there: they are answered 503");
                    }
                    return Err(Miss::NoRoot);
                }
            }
        }
        if std::mem::replace(&mut state.is_gone, false) {
            tracing::info!(root = %self.path.display(), "the folder of files is there again");
        }
        Ok(Arc::clone(&state.folder))
    }
}

/// Lookups stay below the folder and follow no magic link of `/proc`, which could lead anywhere.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

fn below(folder: &OwnedFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let name: &[u8] = if name.is_empty() { b"." } else { name };
    let mut result = Err(Errno::AGAIN);
    for _ in 0..LOOKUPS_MAX {
        // While folders are renamed, the kernel cannot be sure that `..` in a link stays below, and returns
        // this error.
        match openat2(folder, name, flags, Mode::empty(), RESOLVE) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => {
                result = done;
                break;
            }
        }
    }
    result
}

fn open_folder(path: &Path) -> Result<(OwnedFd, (u64, u64)), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, path, flags, Mode::empty())?;
    let stat = fstat(&folder)?;
    Ok((folder, identity(&stat)))
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn miss(error: Errno) -> Miss {
    match error {
        // EXDEV means a way out of the root.
        Errno::ACCESS | Errno::PERM | Errno::XDEV => Miss::Forbidden,
        Errno::MFILE | Errno::NFILE => Miss::NoDescriptor,
        Errno::IO | Errno::STALE | Errno::AGAIN | Errno::NOMEM => Miss::Unreadable,
        // Links in a circle, names that are too long, sockets.
        _ => Miss::NotFound,
    }
}

/// The entries of a folder that may be served, folders first, in the order of their names. It blocks.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn list(folder: &OwnedFd, is_top: bool) -> Result<Vec<ListedEntry>, Miss> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder).map_err(miss)? {
        let entry = entry.map_err(miss)?;
        let name = entry.file_name().to_bytes();
        let is_hidden = name.first() == Some(&b'.') && !(is_top && name == b".well-known");
        if is_hidden {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Directory => true,
            FileType::RegularFile => false,
            // The target of a link is resolved under the same restrictions as a requested name.
            FileType::Symlink | FileType::Unknown => match target_type(folder, name) {
                Some(is_folder) => is_folder,
                None => continue,
            },
            _ => continue,
        };
        entries.push(ListedEntry { name: name.to_owned(), is_folder });
        if entries.len() >= LISTED_ENTRIES_MAX {
            break;
        }
    }
    entries.sort_unstable_by(|a, b| b.is_folder.cmp(&a.is_folder).then_with(|| a.name.cmp(&b.name)));
    Ok(entries)
}

/// Whether the target of a link in a folder is a folder; none if it cannot be served. A link to somewhere
/// above the folder is not listed, though it may be requested.
fn target_type(folder: &OwnedFd, name: &[u8]) -> Option<bool> {
    let target = below(folder, name, OFlags::PATH | OFlags::CLOEXEC).ok()?;
    match FileType::from_raw_mode(fstat(&target).ok()?.st_mode) {
        FileType::Directory => Some(true),
        FileType::RegularFile => Some(false),
        _ => None,
    }
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            number: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, nanos(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, nanos(stat.st_ctime_nsec)),
        }
    }
}

fn nanos(nanos: u64) -> u32 {
    u32::try_from(nanos).unwrap_or(0)
}
