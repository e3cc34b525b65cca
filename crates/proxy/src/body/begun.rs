//! A source of which the beginning has been read: what was read comes first, then the rest of the source.
//!
//! Never in here: why it was read.

use std::time::Duration;

use bytes::{Buf, Bytes};

use super::sink::{append, write_last_chunk};
use super::{BodyEvent, Framing, Incoming, Meter, RelayError, Source};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;

/// A source of which the beginning has been read.
pub(crate) struct Begun<'a> {
    begin: Bytes,
    from: Incoming<'a>,
}

/// Reads the beginning of a source, up to `bytes_max` bytes or its end. Trailers of a body that has ended are
/// dropped.
pub(crate) async fn begin<'a>(
    mut from: Incoming<'a>,
    bytes_max: usize,
    deadline: &Deadline,
) -> Result<Begun<'a>, RelayError> {
    let mut begin = Vec::new();
    while !from.source.is_done() && begin.len() < bytes_max {
        match from.next(None, deadline).await? {
            BodyEvent::Content { skip, len } => {
                let is_last = from.is_last();
                begin.extend_from_slice(from.content(skip, len));
                from.source.consume(skip + len);
                if is_last {
                    return Ok(Begun::whole(begin));
                }
            }
            BodyEvent::End { skip, .. } => {
                from.source.consume(skip);
                return Ok(Begun::whole(begin));
            }
            BodyEvent::Large { .. } => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
        }
    }
    Ok(Begun { begin: begin.into(), from })
}

impl Begun<'_> {
    /// A body of which all has been read.
    fn whole<'a>(begin: Vec<u8>) -> Begun<'a> {
        let from = Incoming { source: Source::Bytes(&[]), timeout: Duration::ZERO };
        Begun { begin: begin.into(), from }
    }

    /// Content that has been read and not been taken.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.begin
    }

    /// Whether no more content follows.
    pub(super) fn is_done(&self) -> bool {
        self.begin.is_empty() && self.from.source.is_done()
    }

    /// Whether nothing follows the latest content.
    pub(super) fn is_last(&self) -> bool {
        if self.begin.is_empty() { self.from.is_last() } else { self.from.source.is_done() }
    }

    /// Whether nothing follows what has been read.
    pub(super) fn is_all_ready(&self) -> bool {
        self.from.source.is_done()
    }

    pub(super) fn consume(&mut self, len: usize) {
        if self.begin.is_empty() {
            self.from.source.consume(len);
        } else {
            self.begin.advance(len);
        }
    }

    pub(super) fn content(&self, skip: usize, len: usize) -> &[u8] {
        if self.begin.is_empty() { self.from.content(skip, len) } else { &self.begin[skip..skip + len] }
    }

    /// Appends what has been read to a head, as a chunk. True at the end of the body.
    pub(super) fn join_chunk(
        &mut self,
        meter: &Meter<'_>,
        out: &mut Buffer,
    ) -> Result<(usize, bool), RelayError> {
        if !self.begin.is_empty() {
            meter.count(self.begin.len())?;
            append(out, &self.begin, Framing::Chunked);
            self.begin.clear();
        }
        let is_end = self.from.source.is_done();
        if is_end {
            write_last_chunk(&[], out);
        }
        Ok((0, is_end))
    }

    pub(super) async fn next(&mut self, deadline: &Deadline) -> Result<BodyEvent, RelayError> {
        if !self.begin.is_empty() {
            return Ok(BodyEvent::Content { skip: 0, len: self.begin.len() });
        }
        self.from.next(None, deadline).await
    }
}
