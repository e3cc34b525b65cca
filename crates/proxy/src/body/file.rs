//! A body that is read from an open file, in one part or in several with text between them.
//!
//! For a plain socket the kernel sends the file; for TLS and HTTP/2 it is read. A worker never waits for a
//! disk: parts that are not in the page cache are read on the event loop's threads for blocking work first.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use files::File;
use reactor::{Interest, TcpStream};
use rustix::fs::sendfile;
use rustix::io::Errno;

use super::sink::Sink;
use super::{BodyEvent, Framing, Meter, Outgoing, RelayError};
use crate::io::buffer::{Buffer, Buffers};
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::socket::Socket;
use crate::limits::{FILE_READ_BYTES, SENDFILE_BYTES};

/// A body from a file.
pub(crate) struct FileBody {
    file: Arc<File>,
    parts: VecDeque<FilePart>,
    /// Bytes that have been read and not been taken.
    pub(super) buffer: Buffer,
}

/// A part of a body from a file.
pub(crate) enum FilePart {
    /// Text between the parts, in memory.
    Bytes(Vec<u8>),
    /// Bytes of the file, from `at` to `end` (exclusive).
    File { at: u64, end: u64 },
}

impl FileBody {
    pub(crate) fn new(file: &Arc<File>, parts: VecDeque<FilePart>, buffers: &Rc<Buffers>) -> Self {
        Self { file: Arc::clone(file), parts, buffer: Buffer::empty(buffers) }
    }

    /// Whether the buffer holds the last bytes.
    pub(super) fn is_read(&self) -> bool {
        self.parts.is_empty()
    }

    /// The next event; see [`Incoming::next`](super::Incoming::next).
    pub(super) async fn next(
        &mut self,
        timeout: Duration,
        to: Option<&Outgoing<'_>>,
        deadline: &Deadline,
    ) -> Result<BodyEvent, RelayError> {
        if !self.buffer.is_empty() {
            return Ok(BodyEvent::Content { skip: 0, len: self.buffer.len() });
        }
        let (at, end) = match self.parts.front_mut() {
            None => return Ok(BodyEvent::End { skip: 0, trailers: 0 }),
            Some(FilePart::Bytes(bytes)) => {
                self.buffer.extend(bytes);
                self.parts.pop_front();
                return Ok(BodyEvent::Content { skip: 0, len: self.buffer.len() });
            }
            Some(FilePart::File { at, end }) => (*at, *end),
        };
        if let Some(Outgoing { sink: Sink::Http1 { socket, framing: Framing::Raw }, .. }) = to
            && socket.is_clear()
            && self.file.descriptor().is_some()
        {
            return Ok(BodyEvent::Large { length: end - at });
        }
        let room = match to {
            Some(Outgoing { sink: Sink::Stream(sender), timeout, .. }) => {
                // Without room in the stream, bytes would be held for as long as the client likes.
                let room = deadline.within(*timeout, |cx| sender.poll_room(cx)).await;
                room.map_err(|Elapsed| RelayError::WriteTimeout)?.map_err(|_| RelayError::Write)?
            }
            _ => FILE_READ_BYTES,
        };
        let len = room.min(FILE_READ_BYTES).min(usize::try_from(end - at).unwrap_or(usize::MAX));
        self.read(at, len, timeout, deadline).await?;
        let read = self.buffer.len() as u64;
        self.note_passed(at + read, end);
        Ok(BodyEvent::Content { skip: 0, len: read as usize })
    }

    fn note_passed(&mut self, now_at: u64, end: u64) {
        match self.parts.front_mut() {
            Some(FilePart::File { at, .. }) if now_at < end => *at = now_at,
            _ => _ = self.parts.pop_front(),
        }
    }

    /// Reads some bytes into the buffer, and at least one.
    async fn read(
        &mut self,
        at: u64,
        len: usize,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<(), RelayError> {
        self.buffer.reserve_large();
        let room = self.buffer.room().min(len.max(1));
        let read = self.file.read_now(at, &mut self.buffer.free()[..room]).map_err(|_| RelayError::File)?;
        let read = if let Some(read) = read {
            self.buffer.filled(read);
            read
        } else {
            self.buffer.release();
            let file = Arc::clone(&self.file);
            let read = move || {
                let mut piece = vec![0; room];
                file.read(at, &mut piece).map(|read| {
                    piece.truncate(read);
                    piece
                })
            };
            let piece = on_thread(read, timeout, deadline).await?.map_err(|_| RelayError::File)?;
            self.buffer.extend(&piece);
            piece.len()
        };
        // A file that has become shorter does not match the length in the head.
        if read == 0 { Err(RelayError::File) } else { Ok(()) }
    }

    /// Has the kernel send the next part.
    pub(super) async fn send(
        &mut self,
        (to, timeout): (&Socket, Duration),
        meter: &Meter<'_>,
        deadline: &Deadline,
    ) -> Result<(), RelayError> {
        let Some(&FilePart::File { mut at, end }) = self.parts.front() else { return Ok(()) };
        while at < end {
            let len = (end - at).min(SENDFILE_BYTES);
            if !self.file.is_at_hand(at, len) {
                let file = Arc::clone(&self.file);
                on_thread(move || file.warm(at, len), timeout, deadline).await?;
            }
            let until = at + len;
            while at < until {
                let send = |stream: &TcpStream| self.send_some(stream, at, (until - at) as usize);
                let sent = deadline
                    .within(timeout, |cx| to.poll_io(cx, Interest::WRITABLE, send))
                    .await
                    .map_err(|Elapsed| RelayError::WriteTimeout)?;
                match sent.map_err(|_| RelayError::Write)? {
                    0 => return Err(RelayError::File),
                    sent => {
                        meter.count(sent)?;
                        at += sent as u64;
                    }
                }
            }
        }
        self.parts.pop_front();
        Ok(())
    }

    fn send_some(&self, to: &TcpStream, at: u64, len: usize) -> std::io::Result<usize> {
        let file = self.file.descriptor().ok_or(std::io::ErrorKind::Unsupported)?;
        loop {
            let mut offset = at;
            match sendfile(to, file, Some(&mut offset), len) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }
}

/// Runs blocking work on another thread, and waits for it within the timeout.
async fn on_thread<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
    timeout: Duration,
    deadline: &Deadline,
) -> Result<T, RelayError> {
    let mut handle = tokio::task::spawn_blocking(act);
    let done = deadline.within(timeout, |cx| match Future::poll(Pin::new(&mut handle), cx) {
        Poll::Ready(done) => Poll::Ready(done),
        Poll::Pending => Poll::Pending,
    });
    done.await.map_err(|Elapsed| RelayError::File)?.map_err(|_| RelayError::File)
}
