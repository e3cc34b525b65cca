//! One request on a connection, as the task that serves it sees it.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use quinn_proto::{StreamId, WriteError};
use wire::h3::{self, BlockReader, Code, lines};

use super::link::{Link, State};
use super::slot::{Side, Slot, number, varint};
use crate::io::h2::Broken;
use crate::io::wakers::{remember, wake};
use crate::limits::HTTP3_PIECE_BYTES_MAX;

/// A stream with the request of a client. When it is dropped before its end, it is reset.
pub(crate) struct Stream {
    link: Rc<Link>,
    id: StreamId,
}

impl Stream {
    pub(crate) fn new(link: Rc<Link>, id: StreamId) -> Self {
        Self { link, id }
    }

    /// Calls a function with the state of the stream and the connection, and has the driver send.
    fn with<R>(&self, act: impl FnOnce(&mut Slot, &mut quinn_proto::Connection) -> R) -> Result<R, Broken> {
        self.with_encoder(|slot, _, quinn| act(slot, quinn))
    }

    /// The same with the encoder of header blocks.
    fn with_encoder<R>(
        &self,
        act: impl FnOnce(&mut Slot, &mut h3::Encoder, &mut quinn_proto::Connection) -> R,
    ) -> Result<R, Broken> {
        let state = &mut *self.link.state.borrow_mut();
        let has_ended = state.has_ended;
        let slot = state.slots.get_mut(&self.id).ok_or(Broken)?;
        if has_ended || slot.broken_by.is_some() {
            return Err(Broken);
        }
        Ok(self.link.quic.with(|quinn| act(slot, state.h3.encoder(), quinn)))
    }

    // === Receiving ===

    /// The next piece of the content; none at its end, which trailers may follow.
    pub(crate) fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        match self.poll_content(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(broken)) => Poll::Ready(Some(Err(broken))),
            Poll::Ready(Ok(false)) => Poll::Ready(None),
            Poll::Ready(Ok(true)) => {
                let state = &mut *self.link.state.borrow_mut();
                let content = state.slots.get_mut(&self.id).and_then(|slot| slot.content.take());
                Poll::Ready(Some(content.ok_or(Broken)))
            }
        }
    }

    /// Ready when there is a next piece to take; false where the content has ended, which trailers may
    /// follow.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<bool> {
        // The one who takes the next piece finds the error.
        self.poll_content(cx).map(|ready| ready.unwrap_or(true))
    }

    /// The trailers, as lines of HTTP/1.
    pub(crate) fn poll_trailers(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, Broken>> {
        match self.poll_content(cx) {
            Poll::Pending => Poll::Pending,
            // Content that nobody takes comes first.
            Poll::Ready(Ok(true) | Err(Broken)) => Poll::Ready(Err(Broken)),
            Poll::Ready(Ok(false)) => {
                let state = &mut *self.link.state.borrow_mut();
                let slot = state.slots.get_mut(&self.id).ok_or(Broken);
                Poll::Ready(slot.map(|slot| std::mem::take(&mut slot.trailers)))
            }
        }
    }

    /// Waits until there is content, or it has ended.
    fn poll_content(&self, cx: &mut Context<'_>) -> Poll<Result<bool, Broken>> {
        let state = &mut *self.link.state.borrow_mut();
        let list_bytes_max = self.link.head_bytes_max;
        let has_ended = state.has_ended;
        let Some(slot) = state.slots.get_mut(&self.id) else { return Poll::Ready(Err(Broken)) };
        if slot.content.is_some() {
            return Poll::Ready(Ok(true));
        }
        if slot.is_whole() {
            return Poll::Ready(Ok(false));
        }
        if has_ended || slot.broken_by.is_some() {
            return Poll::Ready(Err(Broken));
        }
        // Content that is read makes room for more, which the client has to be told.
        let reader = BlockReader { decoder: state.h3.decoder(), stream: number(self.id), list_bytes_max };
        let read = self.link.quic.with(|quinn| slot.read_content(quinn, self.id, reader));
        match read {
            Ok(Some(is_there)) => Poll::Ready(Ok(is_there)),
            Ok(None) if slot.broken_by.is_some() => Poll::Ready(Err(Broken)),
            Ok(None) => {
                remember(&mut slot.reader, cx);
                Poll::Pending
            }
            Err(fault) => {
                self.link.quic.with(|quinn| state.note_fault(quinn, self.id, fault));
                Poll::Ready(Err(Broken))
            }
        }
    }

    /// The content that has come, if nothing follows it and it is no longer than `len_max`.
    pub(crate) fn take_last(&self, len_max: usize) -> Option<Bytes> {
        let is_ready = self.poll_content(&mut Context::from_waker(Waker::noop()));
        if !matches!(is_ready, Poll::Ready(Ok(true))) {
            return None;
        }
        let state = &mut *self.link.state.borrow_mut();
        let slot = state.slots.get_mut(&self.id)?;
        let is_last = slot.is_whole() && slot.trailers.is_empty();
        let is_short = slot.content.as_ref().is_some_and(|content| content.len() <= len_max);
        if is_last && is_short { slot.content.take() } else { None }
    }

    /// Whether neither content nor trailers follow.
    pub(crate) fn is_end(&self) -> bool {
        let state = self.link.state.borrow();
        state
            .slots
            .get(&self.id)
            .is_some_and(|slot| slot.is_whole() && slot.content.is_none() && slot.trailers.is_empty())
    }

    // === Sending ===

    /// Sends the head of a response, interim or final; `end` where nothing follows it.
    pub(crate) fn respond(&self, status: u16, head: &[u8], end: bool) -> Result<(), Broken> {
        self.with_encoder(|slot, encoder, quinn| {
            h3::write_response(encoder, number(self.id), status, lines(head), &mut slot.out);
            slot.ends_after_out |= end;
            slot.flush(quinn, self.id);
        })
    }

    /// Room for content that is read and handed over at once, in bytes. The client's window is not known:
    /// what there is no room for waits with the one who has read it.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        let ahead = self.link.quic.room_ahead();
        if ahead == 0 {
            return self.await_sending(cx);
        }
        let is_late = self.link.quic.is_late();
        let room = self.with(|slot, quinn| {
            slot.flush(quinn, self.id);
            // A write of nothing says whether there is room, and has us told when there is.
            if !slot.is_blocked && matches!(quinn.send_stream(self.id).write(&[]), Err(WriteError::Blocked)) {
                slot.is_blocked = true;
            }
            if slot.is_blocked {
                slot.await_writing(cx, is_late);
                return Poll::Pending;
            }
            Poll::Ready(ahead.min(HTTP3_PIECE_BYTES_MAX))
        });
        match room {
            Ok(room) => room.map(Ok),
            Err(broken) => Poll::Ready(Err(broken)),
        }
    }

    /// Waits until the driver has sent what was written to the connection before.
    fn await_sending<T>(&self, cx: &Context<'_>) -> Poll<Result<T, Broken>> {
        let state = &mut *self.link.state.borrow_mut();
        let Some(slot) = state.slots.get_mut(&self.id) else { return Poll::Ready(Err(Broken)) };
        if state.has_ended || slot.broken_by.is_some() {
            return Poll::Ready(Err(Broken));
        }
        state.awaits_sending = true;
        slot.awaits_sending = true;
        slot.await_writing(cx, self.link.quic.is_late());
        self.link.quic.wake_driver();
        Poll::Pending
    }

    /// Hands over `content` piece by piece, as there is room; the pieces are removed from `content`. With the
    /// last one the stream ends if `end`.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        content: &mut impl Buf,
        end: bool,
    ) -> Poll<Result<(), Broken>> {
        let connection = &self.link.quic;
        let sent = self.with(|slot, quinn| slot.send(quinn, self.id, content, end));
        match sent {
            Ok(Sent::Whole(len)) => {
                connection.note_written(len);
                Poll::Ready(Ok(()))
            }
            Ok(Sent::Part(len)) => {
                connection.note_written(len);
                let is_late = connection.is_late();
                let _ = self.with(|slot, _| slot.await_writing(cx, is_late));
                Poll::Pending
            }
            Ok(Sent::Broken) | Err(Broken) => Poll::Ready(Err(Broken)),
        }
    }

    /// Ends the stream with trailers, which are lines of HTTP/1; none for none.
    pub(crate) fn finish(&self, trailers: &[u8]) -> Result<(), Broken> {
        self.with_encoder(|slot, encoder, quinn| {
            if slot.announced > 0 {
                return Err(Broken);
            }
            if !trailers.is_empty() {
                h3::write_trailers(encoder, number(self.id), lines(trailers), &mut slot.out);
            }
            slot.ends_after_out = true;
            slot.flush(quinn, self.id);
            Ok(())
        })?
    }

    // === The early end ===

    /// Ready when the client has broken the stream off, or the connection has ended.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.link.state.borrow_mut().slots.get_mut(&self.id) {
            Some(slot) if slot.broken_by.is_none() => {
                remember(&mut slot.watcher, cx);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Whether the client has broken the stream off before its response had ended.
    pub(crate) fn was_cancelled(&self) -> bool {
        let state = self.link.state.borrow();
        state.slots.get(&self.id).is_some_and(|slot| slot.broken_by == Some(Side::Peer))
    }

    /// Resets the stream, since its response cannot be completed.
    pub(crate) fn break_off(&self) {
        self.reset(&mut self.link.state.borrow_mut(), Code::INTERNAL_ERROR);
    }

    /// Resets our side of a stream that has not ended, and asks for nothing more.
    fn reset(&self, state: &mut State, code: Code) {
        let Some(slot) = state.slots.get_mut(&self.id) else { return };
        slot.broken_by.get_or_insert(Side::Us);
        let code = varint(code);
        self.link.quic.with(|quinn| {
            // Either side may have been reset by the client.
            if !slot.has_finished {
                let _ = quinn.send_stream(self.id).reset(code);
            }
            if !slot.has_end {
                let _ = quinn.recv_stream(self.id).stop(code);
            }
        });
    }
}

impl State {
    /// Wakes the tasks that wait until the driver has sent.
    pub(super) fn resume_writers(&mut self) {
        self.awaits_sending = false;
        for slot in self.slots.values_mut() {
            if std::mem::take(&mut slot.awaits_sending) {
                wake(&mut slot.writer);
            }
        }
    }
}

/// The outcome of a write, with the number of bytes for which there was room.
enum Sent {
    Whole(usize),
    Part(usize),
    Broken,
}

impl Slot {
    fn send(
        &mut self,
        quinn: &mut quinn_proto::Connection,
        id: StreamId,
        content: &mut impl Buf,
        end: bool,
    ) -> Sent {
        let mut written = 0;
        while content.has_remaining() {
            if self.announced == 0 {
                self.announced = content.remaining();
                h3::write_data_header(self.announced, &mut self.out);
            }
            self.flush(quinn, id);
            if self.out.is_empty() && self.broken_by.is_none() {
                let chunk = content.chunk();
                let chunk = &chunk[..chunk.len().min(self.announced)];
                match quinn.send_stream(id).write(chunk) {
                    Ok(len) => {
                        content.advance(len);
                        self.announced -= len;
                        written += len;
                        continue;
                    }
                    Err(WriteError::Blocked) => self.is_blocked = true,
                    Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                        self.broken_by.get_or_insert(Side::Peer);
                    }
                }
            }
            return if self.broken_by.is_some() { Sent::Broken } else { Sent::Part(written) };
        }
        if end {
            self.ends_after_out = true;
            self.flush(quinn, id);
        }
        Sent::Whole(written)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let state = &mut *self.link.state.borrow_mut();
        let Some(slot) = state.slots.get_mut(&self.id) else { return };
        if slot.ends_after_out && !slot.has_finished && slot.broken_by.is_none() && !state.has_ended {
            // The last frames wait for room.
            slot.is_left = true;
            return;
        }
        // The response is whole, and the rest of the request is not needed (RFC 9114 section 4.1).
        let code = if slot.has_finished { Code::NO_ERROR } else { Code::REQUEST_CANCELLED };
        self.reset(state, code);
        state.remove(self.id);
    }
}
