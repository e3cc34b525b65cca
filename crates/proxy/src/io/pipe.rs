//! Pipes through which bodies are spliced, reused for later bodies.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::limits::{PIPE_BYTES, PIPES_KEPT_MAX};

/// A worker's spare pipes, all of them empty.
#[derive(Default)]
pub(crate) struct Pipes(RefCell<Vec<Pipe>>);

/// A pipe between two sockets.
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipes {
    pub(crate) fn take(&self) -> io::Result<Pipe> {
        self.0.borrow_mut().pop().map_or_else(Pipe::new, Ok)
    }

    /// Returns a pipe, which must be empty: leftover bytes would leak from one body into another.
    pub(crate) fn put(&self, pipe: Pipe) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < PIPES_KEPT_MAX {
            kept.push(pipe);
        }
    }
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Above the user's limit (pipe-user-pages-soft) the pipe stays at its size, which works too.
        let _ = fcntl_setpipe_size(&writer, PIPE_BYTES);
        Ok(Self { reader, writer })
    }

    /// Moves up to `max` bytes from a socket into the pipe; 0 is the socket's end.
    pub(crate) fn fill(&self, from: &impl AsFd, max: u64) -> io::Result<usize> {
        let len = PIPE_BYTES.min(usize::try_from(max).unwrap_or(PIPE_BYTES));
        Ok(splice(from, None, &self.writer, None, len, SpliceFlags::MOVE | SpliceFlags::NONBLOCK)?)
    }

    /// Moves up to `max` bytes from the pipe into a socket.
    pub(crate) fn drain(&self, to: &impl AsFd, max: usize) -> io::Result<usize> {
        Ok(splice(&self.reader, None, to, None, max, SpliceFlags::MOVE | SpliceFlags::NONBLOCK)?)
    }
}
