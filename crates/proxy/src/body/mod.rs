//! Bodies on their way from one peer to another, whatever both speak.
//!
//! ```text
//! Source: socket with decoder | stream | bytes | file ──▶ Sink: HTTP/1, raw or in chunks | HTTP/2
//! ```
//!
//! A [`Coded`] source is another one whose content passes a coder: it is compressed, or as it was before it was.
//!
//! Where nothing stands between the two, small bodies are copied and large ones are spliced from socket to socket ([`relay`]). What slows a
//! body, or reads it ahead, stands between them ([`Stages`]); what is to be sent again, or to several, is read whole first ([`hold`]).
//!
//! Never in here: heads.

mod coded;
mod coding;
mod file;
mod held;
mod relay;
mod shared;
mod sink;
mod source;
mod splice;
mod stages;
mod store;
mod stored;

use std::cell::Cell;
use std::time::Duration;

use wire::h1::InvalidBody;

use crate::deadline::Deadline;
use crate::pace::Direction;

pub(crate) use coded::Coded;
pub(crate) use coding::{Coders, Load, Task, compress};
pub(crate) use file::{FileBody, FilePart};
pub(crate) use held::{HeldBody, Kept, hold};
pub(crate) use relay::{Passed, relay, relay_and_keep};
pub(crate) use shared::{End, SharedBody};
pub(crate) use sink::{Sink, write_last_chunk};
pub(crate) use source::{Source, take_frames, transcode};
pub(crate) use stages::Stages;
pub(crate) use store::BodyStore;
pub(crate) use stored::Stored;

/// Where a body comes from.
pub(crate) struct Incoming<'a> {
    pub(crate) source: Source<'a>,
    /// Between two reads.
    pub(crate) timeout: Duration,
}

/// Where a body goes.
pub(crate) struct Outgoing<'a> {
    pub(crate) sink: Sink<'a>,
    /// Between two writes.
    pub(crate) timeout: Duration,
    /// Filter of trailer lines, beside those that never pass; none lets all others pass.
    pub(crate) passing_trailers: Option<&'a PassingTrailers<'a>>,
}

/// Returns the lines of trailers that pass.
pub(crate) type PassingTrailers<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

/// How the end of a body is told to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By a length in the head, or by the end of the connection.
    Raw,
    /// In chunks.
    Chunked,
    /// In records of `FastCGI`, of which an empty one is the end. Only what is written to a sink has this form.
    Records,
}

/// What is counted and bounded while a body passes.
pub(crate) struct Meter<'a> {
    /// Bytes of content so far.
    pub(crate) content: &'a Cell<u64>,
    /// Most bytes of content that may pass.
    pub(crate) max: Option<u64>,
}

/// Why a body did not arrive.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// Its sender went away.
    Read,
    /// Its sender was silent for too long.
    ReadTimeout,
    /// Its sender was slower than it may be.
    ReadTooSlow,
    /// It is not what its framing says.
    Invalid(InvalidBody),
    /// It is longer than allowed.
    TooLarge,
    /// Its receiver went away.
    Write,
    /// Its receiver was too slow.
    WriteTimeout,
    /// What was kept of it cannot be read.
    Store,
    /// It is not what its coding says, or grows beyond measure when that is taken away.
    Coding,
    /// The file that it comes from has become shorter, or cannot be read.
    File,
}

impl RelayError {
    /// The same of a body that was read with this deadline, which knows of the least rate.
    pub(crate) fn of_reading(self, deadline: &Deadline) -> Self {
        match self {
            Self::ReadTimeout if deadline.is_too_slow(Direction::Read) => Self::ReadTooSlow,
            other => other,
        }
    }
}

/// What is next of a body.
pub(crate) enum BodyEvent {
    /// `skip` bytes of framing, then `len` bytes of content.
    Content { skip: usize, len: usize },
    /// So many bytes that can pass without being looked at.
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
