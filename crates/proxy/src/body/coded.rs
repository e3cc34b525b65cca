//! A source whose content passes a coder. What the source has at hand is taken first; before it is waited for, all that it has given leaves,
//! so that an event reaches its reader at once, and a long content is compressed as a whole all the same.
//!
//! Never in here: what is compressed, and by which coding.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::coding::{Broken, Lease};
use super::sink::{append, write_last_chunk};
use super::{BodyEvent, Framing, Incoming, Meter, RelayError};
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::limits::{CODED_BYTES_PER_TURN, LARGE_BUFFER_BYTES, SMALL_BUFFER_BYTES};

/// A source whose content passes a coder.
pub(crate) struct Coded<'a> {
    from: Incoming<'a>,
    lease: Lease,
    phase: Phase,
    /// What has come out of the coder.
    out: Buffer,
    trailers: Vec<u8>,
    /// The coder may hold back some of what it has been given.
    is_dirty: bool,
    /// Bytes that were given to the coder since others had a turn.
    taken: u64,
}

/// What is done next.
enum Phase {
    /// The source is read.
    Read,
    /// `len` bytes of its front go to the coder, of which `at` are there.
    Take {
        skip: usize,
        len: usize,
        at: usize,
        is_last: bool,
    },
    Flush,
    Finish,
    /// The content has ended.
    Ended,
    /// The source has broken off, which is told when all that came before has been sent.
    Failed(RelayError),
}

impl<'a> Coded<'a> {
    /// `out` is an empty buffer.
    pub(crate) fn new(from: Incoming<'a>, lease: Lease, out: Buffer) -> Self {
        Self { from, lease, phase: Phase::Read, out, trailers: Vec::new(), is_dirty: false, taken: 0 }
    }

    /// Takes what is at hand, without waiting for more. Returns the length of all of the content, if that is all.
    pub(crate) async fn prepare(&mut self, deadline: &Deadline) -> Result<Option<u64>, RelayError> {
        while self.out.len() < LARGE_BUFFER_BYTES && !self.is_ended() {
            if !self.advance(deadline, false).await? {
                break;
            }
        }
        let is_all = matches!(self.phase, Phase::Ended) && self.trailers.is_empty();
        Ok(is_all.then_some(self.out.len() as u64))
    }

    /// Whether nothing more comes.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.out.is_empty() && self.trailers.is_empty()
    }

    /// Whether nothing follows what has come out so far.
    pub(super) fn is_last(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.trailers.is_empty()
    }

    /// Whether the content has ended, be its end bad or good.
    fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::Failed(_))
    }

    /// What has come out of the coder.
    pub(super) fn ready(&self) -> &[u8] {
        self.out.data()
    }

    pub(super) fn consume(&mut self, len: usize) {
        if self.out.is_empty() {
            self.trailers.drain(..len);
            return;
        }
        self.out.consume(len);
        self.out.release();
    }

    /// Appends what has come out to a head, as chunks. True at the end of the body.
    pub(super) fn join_chunk(
        &mut self,
        meter: &Meter<'_>,
        out: &mut Buffer,
    ) -> Result<(usize, bool), RelayError> {
        let len = self.out.len();
        if len > 0 {
            meter.count(len)?;
            append(out, self.out.data(), Framing::Chunked);
            self.out.clear();
        }
        let is_end = matches!(self.phase, Phase::Ended);
        if is_end {
            write_last_chunk(&std::mem::take(&mut self.trailers), out);
        }
        Ok((0, is_end))
    }

    /// The fields behind the content; they are there once that has ended.
    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    pub(super) async fn next(&mut self, deadline: &Deadline) -> Result<BodyEvent, RelayError> {
        loop {
            let is_due = self.out.len() >= LARGE_BUFFER_BYTES / 2 || self.is_ended();
            // What has been flushed leaves before anything is waited for.
            let is_flushed = matches!(self.phase, Phase::Read) && !self.is_dirty;
            if !self.out.is_empty() && (is_due || is_flushed) {
                return Ok(BodyEvent::Content { skip: 0, len: self.out.len() });
            }
            match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Ended => return Ok(BodyEvent::End { skip: self.trailers.len(), trailers: 0 }),
                Phase::Failed(error) => return Err(error),
                phase => self.phase = phase,
            }
            self.advance(deadline, true).await?;
            if self.taken >= CODED_BYTES_PER_TURN {
                self.taken = 0;
                deadline.yield_now().await;
            }
        }
    }

    /// Does one step. False if it would have to wait and may not.
    async fn advance(&mut self, deadline: &Deadline, waits: bool) -> Result<bool, RelayError> {
        match self.phase {
            Phase::Read => return self.read(deadline, waits).await,
            Phase::Take { skip, len, at, is_last } => {
                self.out.reserve(SMALL_BUFFER_BYTES);
                let input = self.from.content(skip + at, len - at);
                let (read, written, is_done) = self.lease.take(input, self.out.free())?;
                self.out.filled(written);
                self.taken += read as u64;
                self.phase = Phase::Take { skip, len, at: at + read, is_last };
                if is_done {
                    self.from.source.consume(skip + len);
                    self.phase = if is_last { Phase::Finish } else { Phase::Read };
                }
            }
            Phase::Flush => {
                self.out.reserve(SMALL_BUFFER_BYTES);
                let (written, is_done) = self.lease.flush(self.out.free())?;
                self.out.filled(written);
                if is_done {
                    (self.phase, self.is_dirty) = (Phase::Read, false);
                }
            }
            Phase::Finish => {
                self.out.reserve(SMALL_BUFFER_BYTES);
                let (written, is_done) = self.lease.finish(self.out.free())?;
                self.out.filled(written);
                if is_done {
                    self.phase = Phase::Ended;
                }
            }
            Phase::Ended | Phase::Failed(_) => {}
        }
        Ok(true)
    }

    async fn read(&mut self, deadline: &Deadline, waits: bool) -> Result<bool, RelayError> {
        let may_wait = waits && !self.is_dirty;
        let event = {
            let mut next = pin!(self.from.next(None, deadline));
            poll_fn(|cx| match next.as_mut().poll(cx) {
                Poll::Ready(event) => Poll::Ready(Some(event)),
                Poll::Pending if may_wait => Poll::Pending,
                Poll::Pending => Poll::Ready(None),
            })
            .await
        };
        match event {
            None if self.is_dirty => self.phase = Phase::Flush,
            None => return Ok(false),
            Some(Ok(BodyEvent::Content { skip, len })) => {
                let is_last = self.from.is_last();
                self.is_dirty |= len > 0;
                self.phase = Phase::Take { skip, len, at: 0, is_last };
            }
            Some(Ok(BodyEvent::End { skip, trailers })) => {
                self.trailers = self.from.content(trailers, skip - trailers).to_vec();
                self.from.source.consume(skip);
                self.phase = Phase::Finish;
            }
            Some(Ok(BodyEvent::Large { .. })) => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
            // What came before is sent all the same.
            Some(Err(error)) if self.is_dirty => {
                self.fail(error)?;
            }
            Some(Err(error)) => self.phase = Phase::Failed(error),
        }
        Ok(true)
    }

    /// Ends the content with what the coder holds back, and not as a whole one ends.
    fn fail(&mut self, error: RelayError) -> Result<(), RelayError> {
        loop {
            self.out.reserve(SMALL_BUFFER_BYTES);
            let (written, is_done) = self.lease.flush(self.out.free())?;
            self.out.filled(written);
            if is_done {
                self.phase = Phase::Failed(error);
                return Ok(());
            }
        }
    }
}

impl From<Broken> for RelayError {
    fn from(Broken: Broken) -> Self {
        Self::Coding
    }
}
