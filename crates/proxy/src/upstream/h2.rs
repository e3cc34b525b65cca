//! HTTP/2 towards endpoints: sessions that many requests share, and the calls made on them.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use clock::{Clock, Moment};
use h2::Reason as Code;
use h2::client::{ResponseFuture, SendRequest};
use http::header::{HeaderValue, TE};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Method, Request};
use observe::Reason;
use tokio::sync::Notify;
use wire::h1::Response;

use super::error::NoConnection;
use super::timer::ResponseTimer;
use crate::io::buffer::Buffer;
use crate::io::connection::Connection;
use crate::io::deadline::Elapsed;
use crate::io::h2::{Body, Io, Sender, header_map, pairs};
use crate::limits::{
    HTTP2_ENDPOINT_STREAM_WINDOW_BYTES, HTTP2_ENDPOINT_WINDOW_BYTES, HTTP2_HEADER_TABLE_BYTES,
    HTTP2_RESETS_REMEMBERED_MAX, HTTP2_SEND_BUFFER_BYTES, HTTP2_STREAMS_ASSUMED, RESPONSE_HEAD_BYTES_MAX,
};
use crate::upstream::fault::{Fault, Retry};

/// A connection to an endpoint that carries many requests at the same time.
pub(crate) struct Session {
    requests: SendRequest<Bytes>,
    scheme: Scheme,
    clock: Clock,
    /// Number of calls on it that have not ended.
    calls: Rc<Cell<usize>>,
    /// Number of requests made on it.
    pub(crate) used: Cell<u64>,
    pub(crate) opened: Moment,
    /// When its last call ended.
    pub(crate) idle_since: Rc<Cell<Moment>>,
    /// It takes no more requests.
    retired: Rc<Cell<bool>>,
}

/// A request that has been made on a session.
pub(crate) struct Call {
    response: RefCell<ResponseFuture>,
    body: OnceCell<Body>,
    sender: Sender,
    _counted: Counted,
}

/// A call, which is counted until this is dropped.
struct Counted {
    calls: Rc<Cell<usize>>,
    idle_since: Rc<Cell<Moment>>,
    clock: Clock,
}

/// The sessions with one endpoint.
#[derive(Default)]
pub(crate) struct Sessions {
    open: RefCell<Vec<Rc<Session>>>,
    /// Whether a session is being opened.
    is_opening: Cell<bool>,
    opened: Notify,
}

impl Sessions {
    /// A session with room for a call. Another one is opened only if all sessions have reached the
    /// endpoint's limit of streams. One request opens it, while the others wait.
    pub(super) async fn get<F>(&self, open: impl Fn() -> F) -> Result<Rc<Session>, NoConnection>
    where
        F: Future<Output = Result<Session, NoConnection>>,
    {
        loop {
            if let Some(session) = self.open.borrow().iter().find(|session| session.has_room()) {
                return Ok(Rc::clone(session));
            }
            if self.is_opening.get() {
                self.opened.notified().await;
                continue;
            }
            let opening = Opening::begin(self);
            let session = Rc::new(open().await?);
            self.open.borrow_mut().push(Rc::clone(&session));
            drop(opening);
            return Ok(session);
        }
    }

    /// Whether a call can be made without another session.
    pub(super) fn have_room(&self) -> bool {
        self.open.borrow().iter().any(|session| session.has_room())
    }

    /// Removes sessions that are of no more use; calls on them continue.
    pub(super) fn sweep(&self, mut is_due: impl FnMut(&Session) -> bool) {
        self.open.borrow_mut().retain(|session| !session.retired.get() && !is_due(session));
    }
}

/// Held while a session is being opened. When it is dropped, whatever the result, the waiting requests are
/// woken.
struct Opening<'a>(&'a Sessions);

impl<'a> Opening<'a> {
    fn begin(sessions: &'a Sessions) -> Self {
        sessions.is_opening.set(true);
        Self(sessions)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.is_opening.set(false);
        self.0.opened.notify_waiters();
    }
}

// === impl Session ===

impl Session {
    /// Starts HTTP/2 on a connection.
    pub(super) async fn begin(
        connection: Connection,
        scheme: Scheme,
        clock: Clock,
    ) -> Result<Self, h2::Error> {
        let opened = connection.opened;
        let (requests, driver) = builder().handshake::<_, Bytes>(Io::of_endpoint(connection)).await?;
        let retired = Rc::new(Cell::new(false));
        let ended = Rc::clone(&retired);
        reactor::spawn_detached(async move {
            // Each call gets the error itself.
            let _ = driver.await;
            ended.set(true);
        });
        let idle_since = Rc::new(Cell::new(opened));
        Ok(Self {
            requests,
            scheme,
            clock,
            calls: Rc::default(),
            used: Cell::new(0),
            opened,
            idle_since,
            retired,
        })
    }

    fn has_room(&self) -> bool {
        !self.retired.get() && self.calls.get() < self.requests.current_max_send_streams()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.calls.get() == 0
    }

    /// Counts a request. Returns whether an earlier one used the session.
    pub(crate) fn note_use(&self) -> bool {
        self.used.set(self.used.get() + 1);
        self.used.get() > 1
    }

    /// Stops the session from taking more requests.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
    }

    /// Makes a request. `head` is written as HTTP/1; `te` announces that trailers are accepted; `is_all`
    /// says that there is no body.
    pub(crate) fn call(&self, head: &[u8], te: bool, is_all: bool) -> Result<Call, Fault> {
        let request = request(head, &self.scheme, te).ok_or(Fault::never(Reason::BadTarget))?;
        let counted = Counted::begin(self);
        let sent = self.requests.clone().send_request(request, is_all);
        let (response, sender) = sent.map_err(|_| {
            self.retire();
            Fault::unsent(Reason::UpstreamReset)
        })?;
        Ok(Call {
            response: RefCell::new(response),
            body: OnceCell::new(),
            sender: Sender::new(sender, None),
            _counted: counted,
        })
    }
}

/// Settings of the HTTP/2 library, with every bound set on purpose.
fn builder() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .max_header_list_size(RESPONSE_HEAD_BYTES_MAX as u32)
        .header_table_size(HTTP2_HEADER_TABLE_BYTES)
        .initial_window_size(HTTP2_ENDPOINT_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_ENDPOINT_WINDOW_BYTES)
        .max_send_buffer_size(HTTP2_SEND_BUFFER_BYTES)
        .initial_max_send_streams(HTTP2_STREAMS_ASSUMED)
        .max_concurrent_reset_streams(HTTP2_RESETS_REMEMBERED_MAX);
    builder
}

/// The HTTP/2 form of an HTTP/1 request head; none if HTTP/2 cannot express it.
fn request(head: &[u8], scheme: &Scheme, te: bool) -> Option<Request<()>> {
    let line_end = memchr::memchr(b'\r', head)?;
    let mut words = head[..line_end].split(|&b| b == b' ');
    let (method, target) = (words.next()?, words.next()?);
    let mut fields = header_map(&head[line_end..]);
    let host = fields.remove(http::header::HOST)?;
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(scheme.clone());
    uri.authority = Some(Authority::try_from(host.as_bytes()).ok()?);
    uri.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    if let Some(id) = fields.get_mut("x-request-id") {
        // The value never occurs again, so that it must not take room in the header compression table.
        id.set_sensitive(true);
    }
    if te {
        fields.insert(TE, HeaderValue::from_static("trailers"));
    }
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method).ok()?;
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    *request.headers_mut() = fields;
    Some(request)
}

/// Initial size of the buffer for a head; most heads fit.
const HEAD_BYTES: usize = 512;

// === impl Call ===

impl Call {
    /// The stream for the body of the request.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The body of the response. It must not be called before the final head has come.
    pub(crate) fn body(&self) -> &Body {
        self.body.get().expect("content follows a head")
    }

    /// Waits for the next head, interim or final. It is written to `buffer` as HTTP/1, and parsed into
    /// `response`.
    pub(crate) async fn head(
        &self,
        response: &mut Response,
        buffer: &mut Buffer,
        timer: &ResponseTimer<'_>,
    ) -> Result<(), Fault> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let written = match timer.within(|cx| self.poll_head(cx)).await {
            Err(Elapsed) => return Err(Fault::sent(Reason::UpstreamReadTimeout)),
            Ok(Err(error)) => return Err(call_fault(&error)),
            Ok(Ok(parts)) => {
                let has_body = !parts.status.is_informational() && !self.body().is_end();
                let fields = pairs(&parts.headers);
                wire::h2::write_response_head(parts.status.as_u16(), fields, has_body, &mut head)
            }
        };
        if written.and_then(|()| response.parse(&head)) != Ok(true) {
            return Err(Fault::sent(Reason::UpstreamBadResponse));
        }
        buffer.clear();
        buffer.extend(&head);
        Ok(())
    }

    fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<http::response::Parts, h2::Error>> {
        let mut response = self.response.borrow_mut();
        if let Some(interim) = ready!(response.poll_informational(cx)) {
            return Poll::Ready(interim.map(|interim| interim.into_parts().0));
        }
        let (parts, body) = ready!(Pin::new(&mut *response).poll(cx))?.into_parts();
        // There is only one final head, so that this is set once.
        let _ = self.body.set(Body::new(body));
        Poll::Ready(Ok(parts))
    }
}

/// The fault for an error. A request that the endpoint has not processed may go to another endpoint (RFC
/// 9113 section 8.7).
fn call_fault(error: &h2::Error) -> Fault {
    match error.reason() {
        // The code says that the endpoint is overloaded, and nothing about the connection.
        Some(Code::REFUSED_STREAM) => Fault { reason: Reason::UpstreamReset, retry: Retry::Refused },
        // The library ends streams with the endpoint's GOAWAY only if they are after the last one that it
        // names: they have not been processed, whatever its code (RFC 9113 section 6.8).
        Some(_) if error.is_go_away() && error.is_remote() => Fault::unsent(Reason::UpstreamReset),
        Some(Code::PROTOCOL_ERROR) if error.is_library() => Fault::sent(Reason::UpstreamBadResponse),
        None if is_malformed(error) => Fault::sent(Reason::UpstreamBadResponse),
        _ => Fault::sent(Reason::UpstreamReset),
    }
}

/// Whether [`Io`] refused the received frames.
fn is_malformed(error: &h2::Error) -> bool {
    error.get_io().is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

impl Counted {
    fn begin(session: &Session) -> Self {
        session.calls.set(session.calls.get() + 1);
        Self {
            calls: Rc::clone(&session.calls),
            idle_since: Rc::clone(&session.idle_since),
            clock: session.clock.clone(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.calls.set(self.calls.get() - 1);
        self.idle_since.set(self.clock.now());
    }
}
