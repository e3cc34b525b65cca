//! Bodies on their way from one peer to another, whatever their protocols.
//!
//! ```text
//! Source: socket with decoder | stream | bytes | file ──▶ Sink: HTTP/1, raw or in chunks | HTTP/2
//! ```
//!
//! A [`Coded`] source is another one whose content is compressed or decompressed, or passes a [`Replacer`].
//!
//! Without stages between the two, small bodies are copied and large ones are spliced from socket to socket
//! ([`relay`]). Pacing and reading ahead happen between them ([`Stages`]); a body that is sent again, or to
//! several, is read whole first ([`hold`]).
//!
//! Content for an HTTP/2 client is read from its endpoint when the stream can take it, within 64 KiB for all
//! streams of a connection: a client sets its windows, which bound nothing where it sets them wide and does
//! not read. A [`tunnel`] whose buffer is filled again and again changes to splicing.
//!
//! Never in here: heads.

mod begun;
mod coded;
mod file;
mod held;
mod processed;
mod relay;
mod replacer;
mod shared;
mod sink;
mod source;
mod splice;
mod stages;
mod store;
mod stored;
pub(crate) mod tunnel;
pub(crate) mod tunnel_stream;

use std::cell::Cell;
use std::time::Duration;

use observe::Reason;
use wire::h1::InvalidBody;

use crate::io::deadline::Deadline;
use crate::io::pace::Direction;

pub(crate) use begun::begin;
pub(crate) use coded::{Coded, compress};
pub(crate) use file::{FileBody, FilePart};
pub(crate) use held::{HeldBody, HeldPart, Look, hold};
pub(crate) use processed::{Answering, Collected, Piece, Processed, Processor, collect, discard};
pub(crate) use relay::{Passed, relay, relay_and_keep};
pub(crate) use replacer::Replacer;
pub(crate) use shared::{End, SharedBody};
pub(crate) use sink::{Sink, append, write_last_chunk};
pub(crate) use source::{Source, take_frames, transcode};
pub(crate) use stages::Stages;
pub(crate) use store::BodyStore;
pub(crate) use stored::Stored;

/// A source, with its timeout.
pub(crate) struct Incoming<'a> {
    pub(crate) source: Source<'a>,
    /// Time between two reads.
    pub(crate) timeout: Duration,
}

/// A sink, with its timeout.
pub(crate) struct Outgoing<'a> {
    pub(crate) sink: Sink<'a>,
    /// Time between two writes.
    pub(crate) timeout: Duration,
    /// Filter of trailer lines, beside those that never pass; none lets all others pass.
    pub(crate) passing_trailers: Option<&'a PassingTrailers<'a>>,
}

/// Returns the lines of trailers that pass.
pub(crate) type PassingTrailers<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

/// Framing of a body: how its reader finds the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By a length in the head, or by the end of the connection.
    Raw,
    /// By the chunked coding of HTTP/1.1.
    Chunked,
    /// By records of `FastCGI`, of which an empty one is the end. Only sinks have this form.
    Records,
}

/// Count and limit of a body's content.
pub(crate) struct Meter<'a> {
    /// Bytes of content so far.
    pub(crate) content: &'a Cell<u64>,
    /// Limit of the bytes of content.
    pub(crate) max: Option<u64>,
}

/// Why a body was not relayed to its end.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The sender closed the connection.
    Read,
    /// The sender was silent for too long.
    ReadTimeout,
    /// The sender was slower than the configured least rate.
    ReadTooSlow,
    /// The framing is malformed.
    Invalid(InvalidBody),
    /// The body is longer than allowed.
    TooLarge,
    /// The receiver closed the connection.
    Write,
    /// The receiver was too slow.
    WriteTimeout,
    /// The held part of the body cannot be read.
    Store,
    /// The content does not decode by its coding, or expands beyond the limit.
    Coding,
    /// The body's file has become shorter, or cannot be read.
    File,
    /// An external processor failed, or has the client get another response.
    Processor(Reason),
}

impl RelayError {
    /// The same error for a body that was read with this deadline, which knows of the least rate.
    pub(crate) fn of_reading(self, deadline: &Deadline) -> Self {
        match self {
            Self::ReadTimeout if deadline.is_too_slow(Direction::Read) => Self::ReadTooSlow,
            other => other,
        }
    }
}

/// The next part of a body.
pub(crate) enum BodyEvent {
    /// `skip` bytes of framing, then `len` bytes of content.
    Content { skip: usize, len: usize },
    /// Content of this length that can be relayed without being parsed.
    Large { length: u64 },
    /// The end: `skip` bytes of framing, of which the trailer fields are the part from `trailers`.
    End { skip: usize, trailers: usize },
}

impl Meter<'_> {
    fn count(&self, len: usize) -> Result<(), RelayError> {
        let content = self.content.get() + len as u64;
        self.content.set(content);
        if self.max.is_some_and(|max| content > max) { Err(RelayError::TooLarge) } else { Ok(()) }
    }
}
