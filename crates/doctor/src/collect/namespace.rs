//! Network namespaces: that of a process, and entering one.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sample::{HOST_HIDDEN, NO_HOST_IN_CONTAINER};

/// The initial PID namespace has a fixed number (`PROC_PID_INIT_INO` in `linux/proc_ns.h`).
const HOST_PROCESSES: &str = "pid:[4026531836]";

/// An open network namespace.
pub(super) struct Namespace {
    file: File,
    /// Device and inode: namespaces with the same pair are the same.
    identity: (u64, u64),
}

impl Namespace {
    /// The namespace of the calling thread.
    pub(super) fn own() -> io::Result<Namespace> {
        Namespace::open(Path::new("/proc/thread-self/ns/net"))
    }

    pub(super) fn of(pid: u32) -> io::Result<Namespace> {
        Namespace::open(Path::new(&format!("/proc/{pid}/ns/net")))
    }

    /// The host's namespace, which is that of process 1. Within a container, process 1 is the container's
    /// own.
    pub(super) fn host() -> Result<Namespace, String> {
        let why = |error| format!("{HOST_HIDDEN}/proc/1/ns/net: {error}");
        let processes = fs::read_link("/proc/self/ns/pid").map_err(why)?;
        if processes.as_os_str() != HOST_PROCESSES {
            return Err(NO_HOST_IN_CONTAINER.into());
        }
        Namespace::of(1).map_err(why)
    }

    fn open(path: &Path) -> io::Result<Namespace> {
        let metadata = fs::metadata(path)?;
        Ok(Namespace { file: File::open(path)?, identity: (metadata.dev(), metadata.ino()) })
    }

    pub(super) fn is(&self, other: &Namespace) -> bool {
        self.identity == other.identity
    }

    /// Moves the calling thread into this namespace.
    pub(super) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}
