//! A source whose content passes a coder, or replacements of texts. Available bytes of the source are taken
//! first; before the source is awaited, the coder is flushed, so that an event reaches its reader at once,
//! and a long content is compressed as a whole all the same.
//!
//! Never in here: which content is compressed, and by which coding.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use coders::{Broken, Coders, Lease, Task};

use super::replacer::Replacer;
use super::sink::{append, write_last_chunk};
use super::{BodyEvent, Framing, Incoming, Meter, RelayError};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::limits::{CODED_BYTES_PER_TURN, LARGE_BUFFER_BYTES, SMALL_BUFFER_BYTES};

/// A source whose content passes a coder.
pub(crate) struct Coded<'a> {
    from: Incoming<'a>,
    coder: Coder,
    phase: Phase,
    /// Output of the coder that has not been taken.
    out: Buffer,
    trailers: Vec<u8>,
    /// The coder may hold back some of its input.
    is_dirty: bool,
    /// Bytes given to the coder since other tasks were polled.
    taken: u64,
}

/// The coder that the content passes.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all contents pass a lease, which is on the heap already"
)]
enum Coder {
    Lease(Lease),
    Replacer(Box<Replacer>),
}

/// The next step of a coded source.
enum Phase {
    /// The source is read.
    Read,
    /// The next `len` bytes of the source are content for the coder, `at` of them at its front.
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
    /// The source has failed; reported after all earlier content has been sent.
    Failed(RelayError),
}

impl<'a> Coded<'a> {
    /// `out` is an empty buffer.
    pub(crate) fn new(from: Incoming<'a>, lease: Lease, out: Buffer) -> Self {
        Self::passing(from, Coder::Lease(lease), out)
    }

    /// The same for a content in which texts are replaced.
    pub(crate) fn replacing(from: Incoming<'a>, replacer: Replacer, out: Buffer) -> Self {
        Self::passing(from, Coder::Replacer(Box::new(replacer)), out)
    }

    fn passing(from: Incoming<'a>, coder: Coder, out: Buffer) -> Self {
        Self { from, coder, phase: Phase::Read, out, trailers: Vec::new(), is_dirty: false, taken: 0 }
    }

    /// Codes the available content, without waiting for more. Returns the length of the coded content, if it
    /// is complete.
    pub(crate) async fn prepare(&mut self, deadline: &Deadline) -> Result<Option<u64>, RelayError> {
        while self.out.len() < LARGE_BUFFER_BYTES && !self.is_ended() {
            if !self.advance(deadline, false).await? {
                break;
            }
        }
        let is_all = matches!(self.phase, Phase::Ended) && self.trailers.is_empty();
        Ok(is_all.then_some(self.out.len() as u64))
    }

    /// Whether no more content follows.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.out.is_empty() && self.trailers.is_empty()
    }

    /// Whether nothing follows the output so far.
    pub(super) fn is_last(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.trailers.is_empty()
    }

    /// Whether the content has ended, with or without an error.
    fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::Failed(_))
    }

    /// Output of the coder that has not been taken.
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

    /// Appends the output to a head, as chunks. True at the end of the body.
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

    /// The trailer fields, once the content has ended.
    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    pub(super) async fn next(&mut self, deadline: &Deadline) -> Result<BodyEvent, RelayError> {
        loop {
            let is_due = self.out.len() >= LARGE_BUFFER_BYTES / 2 || self.is_ended();
            // Flushed output is sent before the source is awaited.
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
                let (read, written, is_done) = self.coder.take(input, self.out.free())?;
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
                let (written, is_done) = self.coder.flush(self.out.free())?;
                self.out.filled(written);
                if is_done {
                    (self.phase, self.is_dirty) = (Phase::Read, false);
                }
            }
            Phase::Finish => {
                self.out.reserve(SMALL_BUFFER_BYTES);
                let (written, is_done) = self.coder.finish(self.out.free())?;
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
            // Earlier content is sent before the error is reported.
            Some(Err(error)) if self.is_dirty => {
                self.fail(error)?;
            }
            Some(Err(error)) => self.phase = Phase::Failed(error),
        }
        Ok(true)
    }

    /// Ends the content with the bytes that the coder holds back, without the end of a complete one.
    fn fail(&mut self, error: RelayError) -> Result<(), RelayError> {
        loop {
            self.out.reserve(SMALL_BUFFER_BYTES);
            let (written, is_done) = self.coder.flush(self.out.free())?;
            self.out.filled(written);
            if is_done {
                self.phase = Phase::Failed(error);
                return Ok(());
            }
        }
    }
}

/// The bytes that a coder makes of a whole content, which is in memory in pieces; none where there is no
/// memory for a coder. Other tasks are polled meanwhile.
pub(crate) async fn compress<'c>(
    coders: &Rc<Coders>,
    task: Task,
    pieces: impl Iterator<Item = &'c [u8]> + Clone,
    deadline: &Deadline,
) -> Option<Vec<u8>> {
    let len = pieces.clone().map(<[u8]>::len).sum::<usize>();
    let mut lease = coders.lease(task, Some(len as u64))?;
    let mut out = Vec::with_capacity(len / 4 + 64);
    for (at, turn) in pieces.flat_map(|piece| piece.chunks(CODED_BYTES_PER_TURN as usize)).enumerate() {
        if at > 0 {
            deadline.yield_now().await;
        }
        lease.append(turn, &mut out)?;
    }
    lease.append_end(&mut out)?;
    Some(out)
}

impl Coder {
    fn take(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize, bool), Broken> {
        match self {
            Self::Lease(lease) => lease.take(input, out),
            Self::Replacer(replacer) => Ok(replacer.take(input, out)),
        }
    }

    /// Gives held-back output that a reader can use. The beginning of a text to replace is none.
    fn flush(&mut self, out: &mut [u8]) -> Result<(usize, bool), Broken> {
        match self {
            Self::Lease(lease) => lease.flush(out),
            Self::Replacer(_) => Ok((0, true)),
        }
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<(usize, bool), Broken> {
        match self {
            Self::Lease(lease) => lease.finish(out),
            Self::Replacer(replacer) => Ok(replacer.finish(out)),
        }
    }
}

impl From<Broken> for RelayError {
    fn from(Broken: Broken) -> Self {
        Self::Coding
    }
}
