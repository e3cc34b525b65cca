//! A source whose content passes an external processor piece by piece. The next piece is read when the one
//! before it has been answered and taken, so that no more than one piece is in memory.
//!
//! Never in here: the messages for a processor, and the stream that carries them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::sink::{append, write_last_chunk};
use super::{BodyEvent, BodyStore, Framing, HeldBody, Incoming, Meter, RelayError, Source};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::limits::HELD_STEP_BYTES;

/// The answer to a piece: other bytes in its place; none where it stays.
pub(crate) type Answering<'p> = Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>, RelayError>> + 'p>>;

/// A part of a body for a processor.
pub(crate) enum Piece<'p> {
    Content { bytes: &'p [u8], is_last: bool },
    Trailers(&'p [u8]),
}

/// Exchanges pieces of a body for others.
pub(crate) trait Processor {
    /// Hands a piece over. False if the processor does not get it: then it passes as it is.
    fn begin(&self, piece: &Piece<'_>) -> bool;

    /// Waits for the answer to the piece that was handed over.
    fn answer<'p>(&'p self, deadline: &'p Deadline) -> Answering<'p>;
}

/// A source whose content passes a processor.
pub(crate) struct Processed<'a> {
    from: Incoming<'a>,
    /// None if the rest of the source passes as it is.
    by: Option<&'a dyn Processor>,
    /// Content that has not been taken; while its answer is awaited, the content that was handed over.
    out: Vec<u8>,
    /// Bytes of `out` that have been taken.
    taken: usize,
    trailers: Vec<u8>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Read,
    /// A piece has been handed over.
    Asked {
        is_last: bool,
    },
    AskedTrailers,
    Ended,
}

/// A body, or its beginning, that is in memory.
pub(crate) struct Collected {
    pub(crate) content: Vec<u8>,
    /// Lines of the trailers.
    pub(crate) trailers: Vec<u8>,
    pub(crate) is_whole: bool,
    room: Room,
}

/// Memory that is reserved for a body, among that for all bodies that are held.
struct Room {
    store: Arc<BodyStore>,
    bytes: usize,
}

/// Reads a body into memory until it ends or is longer than `bytes_max`.
pub(crate) async fn collect(
    from: &mut Incoming<'_>,
    begin: Vec<u8>,
    bytes_max: u64,
    meter: Option<&Meter<'_>>,
    store: &Arc<BodyStore>,
    deadline: &Deadline,
) -> Result<Collected, RelayError> {
    let room = Room { store: Arc::clone(store), bytes: 0 };
    let mut collected = Collected { content: begin, trailers: Vec::new(), is_whole: false, room };
    while collected.content.len() as u64 <= bytes_max {
        match from.next(None, deadline).await? {
            BodyEvent::Content { skip, len } => {
                if let Some(meter) = meter {
                    meter.count(len)?;
                }
                let is_last = from.is_last();
                collected.room.reserve(collected.content.len() + len)?;
                collected.content.extend_from_slice(from.content(skip, len));
                from.source.consume(skip + len);
                if is_last {
                    collected.is_whole = true;
                    return Ok(collected);
                }
            }
            BodyEvent::End { skip, trailers } => {
                collected.trailers = from.content(trailers, skip - trailers).to_vec();
                from.source.consume(skip);
                collected.is_whole = true;
                return Ok(collected);
            }
            BodyEvent::Large { .. } => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
        }
    }
    Ok(collected)
}

/// Reads a body to its end, and drops it.
pub(crate) async fn discard(
    from: &mut Incoming<'_>,
    meter: Option<&Meter<'_>>,
    deadline: &Deadline,
) -> Result<(), RelayError> {
    loop {
        match from.next(None, deadline).await? {
            BodyEvent::Content { skip, len } => {
                if let Some(meter) = meter {
                    meter.count(len)?;
                }
                let is_last = from.is_last();
                from.source.consume(skip + len);
                if is_last {
                    return Ok(());
                }
            }
            BodyEvent::End { skip, .. } => {
                from.source.consume(skip);
                return Ok(());
            }
            BodyEvent::Large { .. } => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
        }
    }
}

impl Collected {
    /// The content, to be sent as often as needed.
    pub(crate) fn into_held(mut self) -> HeldBody {
        let taken = std::mem::take(&mut self.room.bytes);
        HeldBody::in_room(&self.room.store, std::mem::take(&mut self.content), taken)
    }
}

impl Room {
    fn reserve(&mut self, bytes: usize) -> Result<(), RelayError> {
        while self.bytes < bytes {
            let more = self.bytes.max(HELD_STEP_BYTES);
            if !self.store.take(more) {
                return Err(RelayError::Store);
            }
            self.bytes += more;
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.store.give_back(self.bytes);
    }
}

impl<'a> Processed<'a> {
    /// A source of which each piece is exchanged.
    pub(crate) fn new(from: Incoming<'a>, by: &'a dyn Processor) -> Self {
        Self { from, by: Some(by), out: Vec::new(), taken: 0, trailers: Vec::new(), phase: Phase::Read }
    }

    /// A body in memory.
    pub(crate) fn whole(content: Vec<u8>, trailers: Vec<u8>) -> Self {
        let from = Incoming { source: Source::Bytes(&[]), timeout: Duration::ZERO };
        Self { from, by: None, out: content, taken: 0, trailers, phase: Phase::Ended }
    }

    /// A body whose beginning is in memory. The rest passes as it is.
    pub(crate) fn begun(content: Vec<u8>, from: Incoming<'a>) -> Self {
        Self { from, by: None, out: content, taken: 0, trailers: Vec::new(), phase: Phase::Read }
    }

    /// The same body with an exchange of each piece, those that are in memory too.
    pub(crate) fn exchanged(mut self, by: &'a dyn Processor) -> Self {
        if !self.out.is_empty() {
            let begin = std::mem::take(&mut self.out);
            let inner = Self { out: begin, ..self };
            let (timeout, source) = (inner.from.timeout, Source::Processed(Box::new(inner)));
            return Self::new(Incoming { source, timeout }, by);
        }
        self.by = Some(by);
        self
    }

    /// Content that has not been taken.
    pub(super) fn ready(&self) -> &[u8] {
        if self.is_asked() { &[] } else { &self.out[self.taken..] }
    }

    fn is_asked(&self) -> bool {
        matches!(self.phase, Phase::Asked { .. } | Phase::AskedTrailers)
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.is_last() && self.ready().is_empty()
    }

    /// Whether nothing follows the content so far.
    pub(super) fn is_last(&self) -> bool {
        self.phase == Phase::Ended && self.trailers.is_empty()
    }

    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    pub(super) fn consume(&mut self, len: usize) {
        if self.ready().is_empty() {
            self.trailers.drain(..len);
            return;
        }
        self.taken += len;
        if self.taken == self.out.len() {
            self.put(Vec::new());
        }
    }

    fn put(&mut self, content: Vec<u8>) {
        (self.out, self.taken) = (content, 0);
    }

    /// Appends the content so far to a head, as a chunk. True at the end of the body.
    pub(super) fn join_chunk(
        &mut self,
        meter: &Meter<'_>,
        out: &mut Buffer,
    ) -> Result<(usize, bool), RelayError> {
        if !self.ready().is_empty() {
            meter.count(self.ready().len())?;
            append(out, self.ready(), Framing::Chunked);
            self.put(Vec::new());
        }
        let is_end = self.phase == Phase::Ended;
        if is_end {
            write_last_chunk(&std::mem::take(&mut self.trailers), out);
        }
        Ok((0, is_end))
    }

    pub(super) async fn next(&mut self, deadline: &Deadline) -> Result<BodyEvent, RelayError> {
        loop {
            if !self.ready().is_empty() {
                return Ok(BodyEvent::Content { skip: 0, len: self.ready().len() });
            }
            match self.phase {
                Phase::Ended => return Ok(BodyEvent::End { skip: self.trailers.len(), trailers: 0 }),
                Phase::Read => self.read(deadline).await?,
                Phase::Asked { is_last } => {
                    if let Some(other) = self.answer(deadline).await? {
                        self.put(other);
                    }
                    self.phase = if is_last { Phase::Ended } else { Phase::Read };
                }
                Phase::AskedTrailers => {
                    if let Some(other) = self.answer(deadline).await? {
                        self.trailers = other;
                    }
                    self.phase = Phase::Ended;
                }
            }
        }
    }

    async fn answer(&self, deadline: &Deadline) -> Result<Option<Vec<u8>>, RelayError> {
        match self.by {
            Some(by) => by.answer(deadline).await,
            None => Ok(None),
        }
    }

    async fn read(&mut self, deadline: &Deadline) -> Result<(), RelayError> {
        let begins = |piece: &Piece<'_>| self.by.is_some_and(|by| by.begin(piece));
        match self.from.next(None, deadline).await? {
            BodyEvent::Content { skip, len } => {
                let is_last = self.from.is_last();
                let content = self.from.content(skip, len).to_vec();
                let is_asked = begins(&Piece::Content { bytes: &content, is_last });
                self.from.source.consume(skip + len);
                self.put(content);
                self.phase = match (is_asked, is_last) {
                    (true, is_last) => Phase::Asked { is_last },
                    (false, true) => Phase::Ended,
                    (false, false) => Phase::Read,
                };
            }
            BodyEvent::End { skip, trailers } => {
                let lines = self.from.content(trailers, skip - trailers).to_vec();
                let has_trailers = lines.contains(&b':');
                self.phase = match has_trailers {
                    true if begins(&Piece::Trailers(&lines)) => Phase::AskedTrailers,
                    // The end is a message of its own where it was not known with the last content.
                    false if begins(&Piece::Content { bytes: &[], is_last: true }) => {
                        Phase::Asked { is_last: true }
                    }
                    _ => Phase::Ended,
                };
                self.from.source.consume(skip);
                if has_trailers {
                    self.trailers = lines;
                }
            }
            BodyEvent::Large { .. } => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
        }
        Ok(())
    }
}
