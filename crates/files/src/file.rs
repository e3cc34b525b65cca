//! A file that is served: as it was when it was opened.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::fstat;
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use crate::limits::{MEMORY_FILE_BYTES_MAX, READS_MAX};
use crate::root::{Identity, Opened};

/// A regular file, in memory or open.
#[derive(Debug)]
pub struct File {
    identity: Identity,
    kept: Kept,
    /// All of it has been read once, so that it most likely is in the page cache.
    is_warm: AtomicBool,
    /// A value that the server derives from the file, computed once for each version of it.
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Where the content of a file is.
#[derive(Debug)]
pub enum Kept {
    /// The content of a small file.
    Memory(Box<[u8]>),
    /// In the file system, under this descriptor.
    Open(OwnedFd),
}

impl File {
    /// Takes a file, a short one into memory. It blocks.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn take(opened: Opened) -> io::Result<Self> {
        let Opened { file, mut identity } = opened;
        let mut kept = None;
        for _ in 0..READS_MAX {
            if identity.size > MEMORY_FILE_BYTES_MAX {
                break;
            }
            let content = read_all(&file, identity.size)?;
            let now = Identity::of(&fstat(&file)?);
            // A file that changes while it is read has neither its old content nor its new one.
            let is_same = now == identity && content.len() as u64 == identity.size;
            identity = now;
            if is_same {
                kept = Some(Kept::Memory(content.into_boxed_slice()));
                break;
            }
        }
        let kept = kept.unwrap_or(Kept::Open(file));
        Ok(Self { identity, kept, is_warm: AtomicBool::new(false), note: OnceLock::new() })
    }

    /// The identity of the file and of its version.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its length in bytes, as it was when it was opened.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Where its content is.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The file's descriptor, if it is not in memory.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kept {
            Kept::Memory(_) => None,
            Kept::Open(file) => Some(file.as_fd()),
        }
    }

    /// The value that was derived from the file; `make` computes it the first time. None if a value of
    /// another type was made then.
    pub fn note<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.note.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// Reads without waiting for a disk; none where that is impossible.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read_now(&self, at: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
        let file = match &self.kept {
            Kept::Memory(content) => return Ok(Some(copy_from(content, at, into))),
            Kept::Open(file) => file,
        };
        loop {
            let slice = io::IoSliceMut::new(into);
            match preadv2(file, &mut [slice], at, ReadWriteFlags::NOWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(None),
                read => return Ok(Some(read?)),
            }
        }
    }

    /// Reads; 0 is the end. It blocks.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.kept {
            Kept::Memory(content) => Ok(copy_from(content, at, into)),
            Kept::Open(file) => read_at(file, at, into),
        }
    }

    /// Whether a part can most likely be sent without waiting for a disk: its first and its last byte are
    /// there.
    pub fn is_at_hand(&self, at: u64, len: u64) -> bool {
        if self.is_warm.load(Ordering::Relaxed) {
            return true;
        }
        let mut byte = [0];
        let ends = [at, at + len.saturating_sub(1)];
        ends.into_iter().all(|at| matches!(self.read_now(at, &mut byte), Ok(Some(_)) | Err(_)))
    }

    /// Reads a part of the file into the kernel's page cache. It blocks.
    pub fn warm(&self, at: u64, len: u64) {
        let mut buffer = vec![0; 64 << 10];
        let (mut from, end) = (at, at + len);
        while from < end {
            match self.read(from, &mut buffer) {
                // The sender of the file meets the same error.
                Ok(0) | Err(_) => return,
                Ok(read) => from += read as u64,
            }
        }
        if at == 0 && end >= self.size() {
            self.is_warm.store(true, Ordering::Relaxed);
        }
    }
}

fn copy_from(content: &[u8], at: u64, into: &mut [u8]) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| content.get(at..)).unwrap_or_default();
    let len = rest.len().min(into.len());
    into[..len].copy_from_slice(&rest[..len]);
    len
}

fn read_at(file: &OwnedFd, at: u64, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match pread(file, &mut *into, at) {
            Err(Errno::INTR) => {}
            read => return Ok(read?),
        }
    }
}

/// Reads as many bytes as the file's size said, and no more.
fn read_all(file: &OwnedFd, size: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; size as usize];
    let mut read = 0;
    while read < content.len() {
        match read_at(file, read as u64, &mut content[read..])? {
            0 => break,
            len => read += len,
        }
    }
    content.truncate(read);
    Ok(content)
}
