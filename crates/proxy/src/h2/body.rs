//! The two directions of a stream, shared by the tasks' parts as a [`Socket`](crate::socket::Socket) is.

use std::cell::RefCell;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use wire::Known;

use crate::deadline::{Deadline, Elapsed};

/// Content that comes in on a stream.
pub(crate) struct Body {
    stream: RefCell<RecvStream>,
    /// A piece that was waited for and has not been taken.
    next: RefCell<Option<Result<Bytes, h2::Error>>>,
}

/// Content that goes out on a stream.
pub(crate) struct Sender(RefCell<SendStream<Bytes>>);

impl Body {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self { stream: RefCell::new(stream), next: RefCell::new(None) }
    }

    /// The next piece; none at the end of the content, which trailers may follow. Who has done with a piece says so with
    /// [`release`](Self::release).
    pub(crate) fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
        match self.next.take() {
            Some(next) => Poll::Ready(Some(next)),
            None => self.stream.borrow_mut().poll_data(cx),
        }
    }

    /// Ready when there is a next piece to take, or the content has ended.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let next = ready!(self.poll_data(cx));
        self.next.replace(next);
        Poll::Ready(())
    }

    /// The next piece if it has come.
    pub(crate) fn data_now(&self) -> Option<Result<Bytes, h2::Error>> {
        match self.poll_data(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    /// Lets the peer send as much again.
    pub(crate) fn release(&self, len: usize) {
        // The connection is gone if this fails, and then nobody sends.
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
    pub(crate) fn new(stream: SendStream<Bytes>) -> Self {
        Self(RefCell::new(stream))
    }

    /// Hands over `content`, of which it takes off what the peer has granted room for, until all of it is; with the last of it
    /// the stream ends if `end` says so.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        content: &mut impl Content,
        end: bool,
    ) -> Poll<Result<(), h2::Error>> {
        let mut stream = self.0.borrow_mut();
        while content.len() > 0 {
            stream.reserve_capacity(content.len());
            let room = match stream.capacity() {
                0 => match ready!(stream.poll_capacity(cx)) {
                    Some(room) => room?,
                    None => return Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
                },
                room => room,
            };
            let now = content.take(room.min(content.len()));
            stream.send_data(now, end && content.len() == 0)?;
        }
        Poll::Ready(Ok(()))
    }

    /// The same, with the time that the peer has between two grants of room.
    pub(crate) async fn send(
        &self,
        content: &mut impl Content,
        end: bool,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<Result<(), h2::Error>, Elapsed> {
        let mut left = usize::MAX;
        let sent = deadline.within(timeout, |cx| {
            let sent = self.poll_send(cx, content, end);
            if sent.is_pending() && content.len() < left {
                left = content.len();
                deadline.start(timeout);
            }
            sent
        });
        sent.await
    }

    /// Ends the stream with trailers, which are lines of HTTP/1; none for none.
    pub(crate) fn finish(&self, trailers: &[u8]) -> Result<(), h2::Error> {
        let fields = header_map(trailers);
        let mut stream = self.0.borrow_mut();
        if fields.is_empty() { stream.send_data(Bytes::new(), true) } else { stream.send_trailers(fields) }
    }

    /// Breaks the stream off.
    pub(crate) fn reset(&self, reason: Reason) {
        self.0.borrow_mut().send_reset(reason);
    }

    /// Ready when the peer has broken the stream off.
    pub(crate) fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<Result<Reason, h2::Error>> {
        self.0.borrow_mut().poll_reset(cx)
    }
}

/// What can be handed over to a stream piece by piece.
pub(crate) trait Content {
    fn len(&self) -> usize;

    /// Takes so many bytes, of which there must be as many, off the front.
    fn take(&mut self, len: usize) -> Bytes;
}

/// Somebody else's bytes, which are copied.
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

/// A frame that came in, which is passed on as it is.
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

/// The fields of a head or of trailers in the form of HTTP/1. Names that have no place in HTTP/2 are left out.
pub(crate) fn header_map(head: &[u8]) -> HeaderMap {
    // Room for what a request to an endpoint has, so that the map need not grow.
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

/// The names that every request to an endpoint has, which need not be read and stored again.
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
