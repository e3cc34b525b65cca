//! The two directions of a stream, shared by the tasks' parts as a [`Socket`](crate::io::socket::Socket) is.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use wire::Known;

use super::credit::Credit;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::pace::Direction;
use crate::limits::LARGE_BUFFER_BYTES;

/// Received content of a stream.
pub(crate) struct Body {
    stream: RefCell<RecvStream>,
    /// A piece that has arrived and has not been taken.
    next: RefCell<Option<Result<Bytes, h2::Error>>>,
}

/// Content to be sent on a stream.
pub(crate) struct Sender {
    stream: RefCell<SendStream<Bytes>>,
    /// Bound of the unwritten content of all streams of the connection, where there is one.
    credit: Option<Rc<Credit>>,
}

impl Body {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self { stream: RefCell::new(stream), next: RefCell::new(None) }
    }

    /// The next piece; none at the end of the content, which trailers may follow. A consumed piece is
    /// acknowledged by [`release`](Self::release).
    pub(crate) fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
        match self.next.take() {
            Some(next) => Poll::Ready(Some(next)),
            None => self.stream.borrow_mut().poll_data(cx),
        }
    }

    /// Ready when there is a next piece to take; false where the content has ended, which trailers may
    /// follow.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let next = ready!(self.poll_data(cx));
        let has_more = next.is_some();
        self.next.replace(next);
        Poll::Ready(has_more)
    }

    /// The next piece, if it has arrived.
    pub(crate) fn data_now(&self) -> Option<Result<Bytes, h2::Error>> {
        match self.poll_data(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    /// Grants the peer as many bytes again.
    pub(crate) fn release(&self, len: usize) {
        // On failure the connection is gone, and the peer sends no more.
        let _ = self.stream.borrow_mut().flow_control().release_capacity(len);
    }

    /// The trailers, as lines of HTTP/1.
    pub(crate) fn poll_trailers(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, h2::Error>> {
        let trailers = ready!(self.stream.borrow_mut().poll_trailers(cx))?;
        let mut lines = Vec::new();
        if let Some(trailers) = trailers {
            wire::h2::write_trailers(pairs(&trailers), &mut lines);
        }
        Poll::Ready(Ok(lines))
    }

    /// Whether neither content nor trailers follow.
    pub(crate) fn is_end(&self) -> bool {
        self.next.borrow().is_none() && self.stream.borrow().is_end_stream()
    }
}

impl Sender {
    pub(crate) fn new(stream: SendStream<Bytes>, credit: Option<Rc<Credit>>) -> Self {
        Self { stream: RefCell::new(stream), credit }
    }

    /// Room for content that is read and handed over at once, in bytes: content that is read without room
    /// would be buffered for as long as the peer likes. Unused room must be
    /// [returned](Self::give_back_room).
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<usize, h2::Error>> {
        let credit = ready!(self.poll_credit(cx));
        let mut stream = self.stream.borrow_mut();
        stream.reserve_capacity(credit.min(LARGE_BUFFER_BYTES));
        ready!(poll_capacity(&mut stream, cx))?;
        Poll::Ready(Ok(stream.capacity().min(credit)))
    }

    /// Leaves the room to other streams.
    pub(crate) fn give_back_room(&self) {
        self.stream.borrow_mut().reserve_capacity(0);
    }

    fn poll_credit(&self, cx: &Context<'_>) -> Poll<usize> {
        self.credit.as_ref().map_or(Poll::Ready(usize::MAX), |credit| credit.poll_left(cx))
    }

    /// Hands over `content` piece by piece, as the peer grants room; the pieces are removed from `content`.
    /// With the last one the stream ends if `end`.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        content: &mut impl Content,
        end: bool,
    ) -> Poll<Result<(), h2::Error>> {
        let mut stream = self.stream.borrow_mut();
        while content.len() > 0 {
            let wanted = content.len().min(ready!(self.poll_credit(cx)));
            stream.reserve_capacity(wanted);
            ready!(poll_capacity(&mut stream, cx))?;
            let now = content.take(stream.capacity().min(wanted));
            if let Some(credit) = &self.credit {
                credit.spend(now.len());
            }
            stream.send_data(now, end && content.len() == 0)?;
        }
        Poll::Ready(Ok(()))
    }

    /// The same, within the timeout between two grants of room by the peer.
    pub(crate) async fn send(
        &self,
        content: &mut impl Content,
        end: bool,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<Result<(), h2::Error>, Elapsed> {
        let mut left = content.len();
        let poll = |cx: &mut Context<'_>| {
            let sent = self.poll_send(cx, content, end);
            if content.len() < left {
                deadline.note_passed(Direction::Write, left - content.len());
                left = content.len();
                if sent.is_pending() {
                    deadline.start_paced(Direction::Write, timeout);
                }
            }
            sent
        };
        deadline.within_paced(Direction::Write, timeout, poll, |_| 0).await
    }

    /// Ends the stream with trailers, which are lines of HTTP/1; none for none.
    pub(crate) fn finish(&self, trailers: &[u8]) -> Result<(), h2::Error> {
        let fields = header_map(trailers);
        let mut stream = self.stream.borrow_mut();
        if fields.is_empty() { stream.send_data(Bytes::new(), true) } else { stream.send_trailers(fields) }
    }

    /// Resets the stream.
    pub(crate) fn reset(&self, reason: Reason) {
        self.stream.borrow_mut().send_reset(reason);
    }

    /// Ready when the peer has reset the stream.
    pub(crate) fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<Result<Reason, h2::Error>> {
        self.stream.borrow_mut().poll_reset(cx)
    }
}

/// Waits until a stream may send some of the bytes that were reserved.
fn poll_capacity(stream: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
    while stream.capacity() == 0 {
        match ready!(stream.poll_capacity(cx)) {
            Some(capacity) => _ = capacity?,
            None => return Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
        }
    }
    Poll::Ready(Ok(()))
}

/// Content that can be handed over to a stream piece by piece.
pub(crate) trait Content {
    fn len(&self) -> usize;

    /// Takes `len` bytes off the front; there must be as many.
    fn take(&mut self, len: usize) -> Bytes;
}

/// Borrowed bytes, which are copied.
impl Content for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn take(&mut self, len: usize) -> Bytes {
        let (taken, rest) = self.split_at(len);
        *self = rest;
        Bytes::copy_from_slice(taken)
    }
}

/// A received frame, which is forwarded without a copy.
impl Content for Bytes {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn take(&mut self, len: usize) -> Bytes {
        self.split_to(len)
    }
}

/// Names and values of a map.
pub(crate) fn pairs(fields: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}

const HEADERS_EXPECTED: usize = 24;

/// The fields of a head or of trailers in the form of HTTP/1. Names that HTTP/2 cannot express are left out.
pub(crate) fn header_map(head: &[u8]) -> HeaderMap {
    // Enough for a usual request to an endpoint, so that the map need not grow.
    let mut fields = HeaderMap::with_capacity(HEADERS_EXPECTED);
    // One copy for all values, each of which is a part of it.
    let head = Bytes::copy_from_slice(head);
    for (known, name, value) in wire::h2::lines(&head) {
        let value = HeaderValue::from_maybe_shared(head.slice_ref(value));
        let name = own_name(known).map_or_else(|| HeaderName::from_bytes(name).ok(), Some);
        if let (Some(name), Ok(value)) = (name, value) {
            fields.append(name, value);
        }
    }
    fields
}

/// The names that every request to an endpoint has, which need not be parsed and stored again.
fn own_name(known: Known) -> Option<HeaderName> {
    const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
    const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
    const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
    const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
    const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
    const X_FORWARDED_SCHEME: HeaderName = HeaderName::from_static("x-forwarded-scheme");
    const X_SCHEME: HeaderName = HeaderName::from_static("x-scheme");
    Some(match known {
        Known::XRequestId => X_REQUEST_ID,
        Known::XRealIp => X_REAL_IP,
        Known::XForwardedFor => X_FORWARDED_FOR,
        Known::XForwardedHost => X_FORWARDED_HOST,
        Known::XForwardedPort => X_FORWARDED_PORT,
        Known::XForwardedProto => X_FORWARDED_PROTO,
        Known::XForwardedScheme => X_FORWARDED_SCHEME,
        Known::XScheme => X_SCHEME,
        _ => return None,
    })
}
