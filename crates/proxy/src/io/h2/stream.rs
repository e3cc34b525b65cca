//! One request on a connection, as the tasks at either end of it see it.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use wire::h1::Response;
use wire::h2::{Code, Key, Side, lines};

use super::link::{Link, LinkEnd, Slot, State};
use crate::io::buffer::Buffer;
use crate::io::wakers::remember;

/// A stream. The request of a client, or a request to an endpoint; when it is dropped before its end, it is
/// reset.
pub(crate) struct Stream {
    link: Rc<Link>,
    key: Key,
    /// The side that reset the stream first, if any.
    broken_off: Cell<Option<Side>>,
}

/// The stream has been reset, or the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The reason why the head of a response does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// The endpoint has reset the stream with this code, or the connection has ended.
    Reset(Option<Code>),
    /// The endpoint has said that it has not processed the request.
    Unprocessed,
    /// The endpoint has broken the protocol.
    Malformed,
}

impl Stream {
    pub(crate) fn new(link: Rc<Link>, key: Key) -> Self {
        Self { link, key, broken_off: Cell::new(None) }
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        self.link.with_state(act)
    }

    // === Receiving ===

    /// The next piece of the content; none at its end, which trailers may follow. A consumed piece is
    /// acknowledged by [`release`](Self::release).
    pub(crate) fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        self.poll_slot(cx, |slot| {
            if slot.content.is_empty() {
                return slot.has_end.then_some(None);
            }
            Some(Some(Bytes::from(std::mem::take(&mut slot.content))))
        })
        .map(Result::transpose)
    }

    /// Ready when there is a next piece to take; false where the content has ended, which trailers may
    /// follow.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let is_ready =
            |slot: &mut Slot| (!slot.content.is_empty() || slot.has_end).then_some(!slot.content.is_empty());
        // The one who takes the next piece finds the error.
        self.poll_slot(cx, is_ready).map(|ready| ready.unwrap_or(true))
    }

    /// The trailers, as lines of HTTP/1.
    pub(crate) fn poll_trailers(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, Broken>> {
        self.poll_slot(cx, |slot| slot.has_end.then(|| std::mem::take(&mut slot.trailers)))
    }

    /// Waits for the peer until `look` finds something in the slot.
    fn poll_slot<R>(
        &self,
        cx: &mut Context<'_>,
        look: impl FnOnce(&mut Slot) -> Option<R>,
    ) -> Poll<Result<R, Broken>> {
        let state = &mut *self.link.state.borrow_mut();
        let is_over = state.end.is_some() || state.connection.reset_of(self.key).is_some();
        let Some(slot) = state.connection.data(self.key) else { return Poll::Ready(Err(Broken)) };
        match look(slot) {
            Some(found) => Poll::Ready(Ok(found)),
            None if is_over => Poll::Ready(Err(Broken)),
            None => {
                remember(&mut slot.reader, cx);
                Poll::Pending
            }
        }
    }

    /// The content that has come, if nothing follows it and it is no longer than `len_max`.
    pub(crate) fn take_last(&self, len_max: usize) -> Option<Bytes> {
        let state = &mut *self.link.state.borrow_mut();
        let slot = state.connection.data(self.key)?;
        let is_last = slot.has_end && slot.trailers.is_empty();
        let is_short = (1..=len_max).contains(&slot.content.len());
        (is_last && is_short).then(|| Bytes::from(std::mem::take(&mut slot.content)))
    }

    /// Grants the peer as many bytes again.
    pub(crate) fn release(&self, len: usize) {
        self.with(|state| state.connection.note_read(self.key, len));
    }

    /// Notes that the head of the request was all.
    pub(crate) fn note_end(&self) {
        if let Some(slot) = self.link.state.borrow_mut().connection.data(self.key) {
            slot.has_end = true;
        }
    }

    /// Whether neither content nor trailers follow.
    pub(crate) fn is_end(&self) -> bool {
        let state = &mut *self.link.state.borrow_mut();
        let slot = state.connection.data(self.key);
        slot.is_some_and(|slot| slot.has_end && slot.content.is_empty() && slot.trailers.is_empty())
    }

    /// The next head of a response, interim or final. It is put into `response`, its text into `buffer`.
    pub(crate) fn poll_head(
        &self,
        cx: &mut Context<'_>,
        response: &mut Response,
        buffer: &mut Buffer,
    ) -> Poll<Result<(), HeadFault>> {
        let found = self.poll_slot(cx, |slot| (!slot.heads.is_empty()).then(|| slot.heads.remove(0)));
        match found {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(Broken)) => Poll::Ready(Err(self.head_fault())),
            Poll::Ready(Ok(mut head)) => {
                std::mem::swap(response, &mut head.response);
                buffer.clear();
                buffer.extend(&head.bytes);
                self.link.state.borrow_mut().keep(head);
                Poll::Ready(Ok(()))
            }
        }
    }

    fn head_fault(&self) -> HeadFault {
        let state = self.link.state.borrow();
        match state.connection.reset_of(self.key) {
            Some(reset) if reset.is_unprocessed => HeadFault::Unprocessed,
            Some(reset) if reset.by == Side::Peer => HeadFault::Reset(Some(reset.code)),
            Some(_) => HeadFault::Malformed,
            None if state.end == Some(LinkEnd::Fault) => HeadFault::Malformed,
            None => HeadFault::Reset(None),
        }
    }

    // === Sending ===

    /// Sends the head of a response, interim or final; `end` where nothing follows it.
    pub(crate) fn respond(&self, status: u16, head: &[u8], end: bool) -> Result<(), Broken> {
        self.with(|state| state.connection.respond(self.key, status, lines(head), end).map_err(|_| Broken))
    }

    /// Room for content that is read and handed over at once, in bytes: content that is read without room
    /// would be buffered for as long as the peer likes. There may be less room once the content has come, so
    /// that other streams need not wait for it.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        self.with(|state| {
            let room = self.poll_room_in(state, cx);
            if room.is_ready() {
                state.give_up_turn(self.key);
            }
            room
        })
    }

    fn poll_room_in(&self, state: &mut State, cx: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        if state.end.is_some() || !state.connection.may_send(self.key) {
            return Poll::Ready(Err(Broken));
        }
        let has_turn = state.connection.data(self.key).is_some_and(|slot| slot.has_turn);
        let room = state.room(self.key, has_turn);
        if room > 0 {
            return Poll::Ready(Ok(room));
        }
        let is_held_by_peer = state.connection.is_held_by_peer(self.key);
        if let Some(slot) = state.connection.data(self.key) {
            remember(&mut slot.writer, cx);
            slot.has_turn = false;
        }
        if !is_held_by_peer {
            state.wait_for_turn(self.key);
        }
        if has_turn {
            state.pass_turn();
        }
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
        self.with(|state| {
            while content.has_remaining() {
                let room = match self.poll_room_in(state, cx) {
                    Poll::Ready(Ok(room)) => room,
                    Poll::Ready(Err(broken)) => return Poll::Ready(Err(broken)),
                    Poll::Pending => return Poll::Pending,
                };
                let chunk = content.chunk();
                let now = &chunk[..chunk.len().min(room)];
                let is_last = end && now.len() == content.remaining();
                let len = state.connection.send(self.key, now, is_last).map_err(|_| Broken)?;
                content.advance(len);
                state.give_up_turn(self.key);
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Ends the stream with trailers, which are lines of HTTP/1; none for none.
    pub(crate) fn finish(&self, trailers: &[u8]) -> Result<(), Broken> {
        let sent = self.with(|state| match trailers {
            [] => state.connection.send(self.key, &[], true).map(|_| ()),
            trailers => state.connection.send_trailers(self.key, lines(trailers)),
        });
        sent.map_err(|_| Broken)
    }

    // === The early end ===

    /// Ready when the peer has reset the stream, or the connection has ended.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.note_gone() {
            return Poll::Ready(());
        }
        if let Some(slot) = self.link.state.borrow_mut().connection.data(self.key) {
            remember(&mut slot.watcher, cx);
        }
        Poll::Pending
    }

    /// Whether the client has reset the stream before its response had ended.
    pub(crate) fn was_cancelled(&self) -> bool {
        self.note_gone();
        self.broken_off.get() == Some(Side::Peer)
    }

    /// Notes who has ended the stream early, if it has been.
    fn note_gone(&self) -> bool {
        let state = self.link.state.borrow();
        let by = match state.connection.reset_of(self.key) {
            Some(reset) => Some(reset.by),
            None => (state.end.is_some() && state.connection.may_send(self.key)).then_some(Side::Peer),
        };
        self.broken_off.set(self.broken_off.get().or(by));
        by.is_some()
    }

    /// Resets the stream.
    pub(crate) fn reset(&self, code: Code) {
        self.note_gone();
        self.with(|state| state.connection.reset(self.key, code));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.with(|state| {
            state.give_up_turn(self.key);
            state.connection.release(self.key);
        });
    }
}

impl State {
    /// Leaves the next turn to another stream.
    fn give_up_turn(&mut self, key: Key) {
        let had_turn = self.connection.data(key).is_some_and(|slot| std::mem::take(&mut slot.has_turn));
        if had_turn {
            self.pass_turn();
        }
    }
}
