//! A request's body that is held: in memory, and in a file beyond that.
//!
//! Files are written and read on the event loop's threads for blocking work: they go through the page cache,
//! where the kernel may still make a writer wait for the disk, and all requests of the worker would wait
//! with it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{pread, pwrite};

use super::store::BodyStore;
use super::{BodyEvent, Incoming, Meter, Outgoing, RelayError};
use crate::io::deadline::Deadline;
use crate::limits::HELD_STEP_BYTES;

/// A body, or its beginning: first the content of the file, then the content in memory.
pub(crate) struct HeldBody {
    store: Arc<BodyStore>,
    file: Option<Arc<OwnedFd>>,
    in_file: u64,
    memory: Vec<u8>,
    /// Bytes of memory reserved in the store.
    taken: usize,
    /// Limit of the bytes in memory.
    memory_max: usize,
}

/// How much of a body is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldPart {
    /// The whole body.
    Whole,
    /// The beginning, as far as there was room. The rest has to be streamed.
    Beginning,
}

/// The verdict on the rest of a body after a look at a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// More is to be held.
    On,
    /// No more has to be held.
    Enough,
    /// The body is refused.
    Refuse,
}

/// Reads and holds a body, for as long as there is room. `look` is shown each piece; a body that it refuses
/// is too large.
pub(crate) async fn hold(
    mut incoming: Incoming<'_>,
    held: &mut HeldBody,
    meter: &Meter<'_>,
    deadline: &Deadline,
    mut look: impl FnMut(&[u8]) -> Look,
) -> Result<HeldPart, RelayError> {
    loop {
        match incoming.next(None, deadline).await? {
            BodyEvent::Content { skip, len } => {
                meter.count(len)?;
                let seen = look(incoming.content(skip, len));
                if seen == Look::Refuse {
                    return Err(RelayError::TooLarge);
                }
                let has_room = held.put(incoming.content(skip, len)).await;
                let is_last = incoming.is_last();
                incoming.source.consume(skip + len);
                match (is_last, has_room && seen == Look::On) {
                    (true, _) => return Ok(HeldPart::Whole),
                    (false, false) => return Ok(HeldPart::Beginning),
                    (false, true) => {}
                }
            }
            // A request with a length has no trailers, as with nginx.
            BodyEvent::End { skip, .. } => {
                incoming.source.consume(skip);
                return Ok(HeldPart::Whole);
            }
            BodyEvent::Large { .. } => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
        }
    }
}

impl HeldBody {
    /// An empty body. `memory` is how many of its bytes may be in memory where there are files.
    pub(crate) fn new(store: &Arc<BodyStore>, memory: u64) -> Self {
        Self {
            store: Arc::clone(store),
            file: None,
            in_file: 0,
            memory: Vec::new(),
            taken: 0,
            memory_max: store.memory_max(memory),
        }
    }

    /// Bytes of content so far.
    pub(crate) fn len(&self) -> u64 {
        self.in_file + self.memory.len() as u64
    }

    /// All of the content, if it is in memory.
    pub(crate) fn in_memory(&self) -> Option<&[u8]> {
        self.file.is_none().then_some(&self.memory)
    }

    /// The first bytes of the content, up to this length.
    pub(crate) async fn beginning(&self, len: usize) -> Result<Vec<u8>, RelayError> {
        let in_file = usize::try_from(self.in_file).unwrap_or(usize::MAX).min(len);
        let mut bytes = match &self.file {
            Some(file) if in_file > 0 => {
                let file = Arc::clone(file);
                let read = tokio::task::spawn_blocking(move || read_at(&file, in_file, 0)).await;
                read.expect("a read neither panics nor is aborted").map_err(|_| RelayError::Store)?
            }
            _ => Vec::new(),
        };
        bytes.extend_from_slice(&self.memory[..self.memory.len().min(len - bytes.len())]);
        Ok(bytes)
    }

    /// A body that is in memory, of which so much is reserved in the store.
    pub(super) fn in_room(store: &Arc<BodyStore>, content: Vec<u8>, taken: usize) -> Self {
        let mut held = Self::new(store, 0);
        (held.memory, held.taken) = (content, taken);
        held
    }

    /// A body that is in memory.
    pub(crate) fn of_memory(store: &Arc<BodyStore>, content: Vec<u8>) -> Self {
        Self::in_room(store, content, 0)
    }

    /// Reads the content into memory; none if it is longer than `bytes_max`.
    pub(crate) async fn read(mut self, bytes_max: u64) -> Result<Option<Vec<u8>>, RelayError> {
        if self.len() > bytes_max {
            return Ok(None);
        }
        let rest = std::mem::take(&mut self.memory);
        let Some(file) = self.file.clone() else { return Ok(Some(rest)) };
        let len = self.in_file as usize;
        let read = tokio::task::spawn_blocking(move || read_at(&file, len, 0)).await;
        let mut content =
            read.expect("a read neither panics nor is aborted").map_err(|_| RelayError::Store)?;
        content.extend(rest);
        Ok(Some(content))
    }

    /// Holds a first piece, which must be a short one.
    pub(crate) fn begin(&mut self, content: &[u8]) {
        self.has_room_for(content.len());
        self.memory.extend_from_slice(content);
    }

    /// Holds a piece. False where no more fits.
    async fn put(&mut self, content: &[u8]) -> bool {
        let has_room = self.has_room_for(content.len());
        self.memory.extend_from_slice(content);
        has_room || (self.store.has_folder() && self.spool().await)
    }

    fn has_room_for(&mut self, more: usize) -> bool {
        let len = self.memory.len() + more;
        if len > self.memory_max {
            return false;
        }
        while self.taken < len {
            // The reservation doubles, so that the content is rarely moved.
            let more = self.taken.max(HELD_STEP_BYTES);
            if !self.store.take(more) {
                return false;
            }
            self.taken += more;
            self.memory.reserve_exact(self.taken - self.memory.len());
        }
        true
    }

    /// Moves the content from memory to the file. False where that fails: then it stays in memory.
    async fn spool(&mut self) -> bool {
        let piece = std::mem::take(&mut self.memory);
        let (store, file, at) = (Arc::clone(&self.store), self.file.clone(), self.in_file);
        let write = move || {
            let file = file.map_or_else(|| store.file().map(Arc::new), Ok);
            (file.and_then(|file| write_all_at(&file, &piece, at).map(|()| file)), piece)
        };
        let (written, mut piece) =
            tokio::task::spawn_blocking(write).await.expect("a write neither panics nor is aborted");
        self.store.note_written(written.as_ref().map(|_| ()));
        let is_written = written.is_ok();
        if let Ok(file) = written {
            self.file = Some(file);
            self.in_file += piece.len() as u64;
            piece.clear();
        }
        self.memory = piece;
        is_written
    }

    /// Sends the content, as often as needed. `is_all` says that nothing follows.
    pub(crate) async fn send(
        &self,
        outgoing: &Outgoing<'_>,
        is_all: bool,
        deadline: &Deadline,
    ) -> Result<(), RelayError> {
        let mut at = 0;
        while let Some(file) = self.file.as_ref().filter(|_| at < self.in_file) {
            let len = (self.in_file - at).min(HELD_STEP_BYTES as u64) as usize;
            let file = Arc::clone(file);
            let read = tokio::task::spawn_blocking(move || read_at(&file, len, at)).await;
            let piece = read.expect("a read neither panics nor is aborted").map_err(|_| RelayError::Store)?;
            at += piece.len() as u64;
            outgoing.write(&piece, false, deadline).await?;
        }
        outgoing.write(&self.memory, is_all, deadline).await
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.store.give_back(self.taken);
    }
}

fn write_all_at(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = match pwrite(file, bytes, at) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            written => written?,
        };
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}

fn read_at(file: &OwnedFd, len: usize, at: u64) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; len];
    let mut read = 0;
    while read < len {
        match pread(file, &mut piece[read..], at + read as u64) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => read += count?,
        }
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{HELD_BYTES_MAX, UNSPOOLED_BYTES_MAX};

    #[test]
    fn memory_is_bounded_for_one_and_for_all() {
        let store = Arc::new(BodyStore::new(None));
        let mut held = HeldBody::new(&store, 8);
        assert!(held.has_room_for(UNSPOOLED_BYTES_MAX) && !held.has_room_for(UNSPOOLED_BYTES_MAX + 1));
        drop(held);
        assert!(store.take(HELD_BYTES_MAX), "what is dropped is given back");
        let mut held = HeldBody::new(&store, 8);
        assert!(!held.has_room_for(1), "nothing is left");
        held.begin(b"abc");
        assert_eq!((held.len(), held.in_memory()), (3, Some(&b"abc"[..])));
    }
}
