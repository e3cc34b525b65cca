//! Memory and files for bodies that are read whole: an amount of memory that all workers share, and a folder
//! for nameless files.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::limits::{HELD_BYTES_MAX, HELD_STEP_BYTES, READ_AHEAD_TOTAL_BYTES_MAX, UNSPOOLED_BYTES_MAX};

/// Room for bodies, shared by all workers.
pub(crate) struct BodyStore {
    folder: Option<OwnedFd>,
    /// Bytes of memory that are free.
    left: AtomicUsize,
    /// The same for responses that are read ahead of their clients: slow readers leave room for requests to
    /// endpoints.
    ahead_left: AtomicUsize,
    /// Number of the next file, where a file needs a name at first.
    next: AtomicU64,
    /// The last file could not be written.
    is_failing: AtomicBool,
}

impl BodyStore {
    /// `folder` is where files are created; without one, there is memory alone.
    pub(crate) fn new(folder: Option<OwnedFd>) -> Self {
        Self {
            folder,
            left: AtomicUsize::new(HELD_BYTES_MAX),
            ahead_left: AtomicUsize::new(READ_AHEAD_TOTAL_BYTES_MAX),
            next: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Whether a body of this length can be held. `memory` is how many of its bytes may be in memory where
    /// there are files.
    pub(crate) fn has_place_for(&self, length: u64, memory: u64) -> bool {
        self.has_folder() || length <= self.memory_max(memory) as u64
    }

    /// Limit of the memory of one body, in bytes.
    pub(super) fn memory_max(&self, memory: u64) -> usize {
        let least = if self.has_folder() { HELD_STEP_BYTES } else { UNSPOOLED_BYTES_MAX };
        usize::try_from(memory).unwrap_or(usize::MAX).clamp(least, HELD_BYTES_MAX)
    }

    pub(super) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// Reserves memory. False if there is not enough.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reserves memory for a response that is read ahead. False if there is not enough.
    pub(super) fn take_ahead(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.ahead_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    pub(super) fn give_back_ahead(&self, bytes: usize) {
        self.ahead_left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A new nameless file, which leaves nothing behind however this process ends. It blocks.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        let folder = self.folder.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let mode = Mode::RUSR | Mode::WUSR;
        match openat(folder, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
            // Some file systems lack nameless files: overlayfs of older kernels and NFS.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            opened => return Ok(opened?),
        }
        self.file_without_its_name(folder, mode)
    }

    /// A file that is unlinked as soon as it is open.
    fn file_without_its_name(&self, folder: &OwnedFd, mode: Mode) -> io::Result<OwnedFd> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("forebay-body-{}-{number}", std::process::id());
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
            match openat(folder, &name, flags, mode) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
                Ok(file) => {
                    unlinkat(folder, &name, AtFlags::empty())?;
                    return Ok(file);
                }
            }
        }
    }

    /// Logs that a file could not be written, once until one can be again.
    pub(super) fn note_written(&self, written: Result<(), &io::Error>) {
        let is_failing = written.is_err();
        if self.is_failing.swap(is_failing, Ordering::Relaxed) == is_failing {
            return;
        }
        match written {
            Ok(()) => tracing::info!("bodies of requests can be written to --body-buffer-dir again"),
            Err(error) => {
                tracing::warn!(%error, "bodies of requests cannot be written to --body-buffer-dir");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let open = || rustix::fs::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let store = BodyStore::new(Some(open()));
        let mode = Mode::RUSR | Mode::WUSR;
        let files = [store.file().unwrap(), store.file_without_its_name(&open(), mode).unwrap()];
        for file in &files {
            assert_eq!(rustix::io::pwrite(file, b"abc", 0), Ok(3));
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn memory_is_taken_once() {
        let store = BodyStore::new(None);
        assert!(store.take(HELD_BYTES_MAX) && !store.take(1));
        store.give_back(1);
        assert!(store.take(1) && !store.take(1));
        assert!(!store.has_folder() && store.file().is_err());
        let most = UNSPOOLED_BYTES_MAX as u64;
        assert!(store.has_place_for(most, 0) && !store.has_place_for(most + 1, 0));
        assert!(store.has_place_for(most + 1, most + 1) && !store.has_place_for(u64::MAX, u64::MAX));
    }
}
