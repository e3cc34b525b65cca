//! A request on a connection that has several at once, whichever protocol it speaks.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use wire::h2::Code;

use super::h2::Broken;
use super::{h2, h3};
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::pace::Direction;

/// A stream of HTTP/2, with a client or an endpoint, or of HTTP/3, with a client.
#[derive(Clone, Copy)]
pub(crate) enum Stream<'a> {
    Http2(&'a h2::Stream),
    Http3(&'a h3::Stream),
}

impl<'a> From<&'a h2::Stream> for Stream<'a> {
    fn from(stream: &'a h2::Stream) -> Self {
        Self::Http2(stream)
    }
}

/// Calls a method that both kinds of streams have.
macro_rules! each {
    ($stream:expr, $one:ident => $call:expr) => {
        match $stream {
            Stream::Http2($one) => $call,
            Stream::Http3($one) => $call,
        }
    };
}

impl Stream<'_> {
    /// The next piece of the content; none at its end, which trailers may follow. A consumed piece is
    /// acknowledged by [`release`](Self::release).
    #[inline]
    pub(crate) fn poll_data(self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        each!(self, stream => stream.poll_data(cx))
    }

    /// Ready when there is a next piece to take; false where the content has ended, which trailers may
    /// follow.
    #[inline]
    pub(crate) fn poll_ready(self, cx: &mut Context<'_>) -> Poll<bool> {
        each!(self, stream => stream.poll_ready(cx))
    }

    /// The trailers, as lines of HTTP/1.
    #[inline]
    pub(crate) fn poll_trailers(self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, Broken>> {
        each!(self, stream => stream.poll_trailers(cx))
    }

    /// The next piece, if it has arrived.
    #[inline]
    pub(crate) fn data_now(self) -> Option<Result<Bytes, Broken>> {
        match self.poll_data(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    /// The content that has come, if nothing follows it and it is no longer than `len_max`.
    #[inline]
    pub(crate) fn take_last(self, len_max: usize) -> Option<Bytes> {
        each!(self, stream => stream.take_last(len_max))
    }

    /// Grants the peer as many bytes again. With QUIC that has happened when they were taken.
    #[inline]
    pub(crate) fn release(self, len: usize) {
        if let Self::Http2(stream) = self {
            stream.release(len);
        }
    }

    /// Whether neither content nor trailers follow.
    #[inline]
    pub(crate) fn is_end(self) -> bool {
        each!(self, stream => stream.is_end())
    }

    /// Sends the head of a response, interim or final; `end` where nothing follows it.
    #[inline]
    pub(crate) fn respond(self, status: u16, head: &[u8], end: bool) -> Result<(), Broken> {
        each!(self, stream => stream.respond(status, head, end))
    }

    /// Room for content that is read and handed over at once, in bytes.
    #[inline]
    pub(crate) fn poll_room(self, cx: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        each!(self, stream => stream.poll_room(cx))
    }

    /// Hands over `content` piece by piece, as there is room; the pieces are removed from `content`. With the
    /// last one the stream ends if `end`.
    #[inline]
    pub(crate) fn poll_send(
        self,
        cx: &mut Context<'_>,
        content: &mut impl Buf,
        end: bool,
    ) -> Poll<Result<(), Broken>> {
        each!(self, stream => stream.poll_send(cx, content, end))
    }

    /// The same, within the timeout between two grants of room by the peer.
    pub(crate) async fn send(
        self,
        content: &mut impl Buf,
        end: bool,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<Result<(), Broken>, Elapsed> {
        let mut left = content.remaining();
        let poll = |cx: &mut Context<'_>| {
            let sent = self.poll_send(cx, content, end);
            if content.remaining() < left {
                deadline.note_passed(Direction::Write, left - content.remaining());
                left = content.remaining();
                if sent.is_pending() {
                    deadline.start_paced(Direction::Write, timeout);
                }
            }
            sent
        };
        deadline.within_paced(Direction::Write, timeout, poll, |_| 0).await
    }

    /// Ends the stream with trailers, which are lines of HTTP/1; none for none.
    #[inline]
    pub(crate) fn finish(self, trailers: &[u8]) -> Result<(), Broken> {
        each!(self, stream => stream.finish(trailers))
    }

    /// Ready when the peer has reset the stream, or the connection has ended.
    #[inline]
    pub(crate) fn poll_gone(self, cx: &mut Context<'_>) -> Poll<()> {
        each!(self, stream => stream.poll_gone(cx))
    }

    /// Lets the peer know that what has begun will not be finished.
    pub(crate) fn break_off(self) {
        match self {
            Self::Http2(stream) => stream.reset(Code::INTERNAL_ERROR),
            Self::Http3(stream) => stream.break_off(),
        }
    }
}
