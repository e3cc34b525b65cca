//! The common parts of connections with several requests at once, over HTTP/2 and HTTP/3: how long they live,
//! the task of a request, and the count of those that are open.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::{Clock, Moment};
use observe::Reason;
use wire::h1::Request;

use crate::admit::admission;
use crate::answer::own_answer::refuse;
use crate::drive::serve::serve as serve_request;
use crate::io::boxed::boxed;
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::stream::Stream;
use crate::io::wakers::remember;
use crate::io::{h2, h3};
use crate::limits::{
    HTTP2_CANCELS_MAX, HTTP2_CANCELS_UNSUSPECTED_MAX, HTTP2_MALFORMED_STREAMS_MAX, HTTP2_RESET_DELAY,
    HTTP2_STREAMS_PER_CANCEL, LAST_REQUEST_GRACE,
};
use crate::request::client::Client;
use crate::request::conn::Conn;
use crate::request::{AfterRequest, RequestStart};
use crate::worker::Worker;

/// A stream that a task owns.
pub(super) trait OwnedStream {
    /// The client's end of the request.
    fn stream(&self) -> Stream<'_>;

    /// Whether the client has broken the request off before its response had ended.
    fn was_cancelled(&self) -> bool;
}

impl OwnedStream for h2::Stream {
    fn stream(&self) -> Stream<'_> {
        Stream::Http2(self)
    }

    fn was_cancelled(&self) -> bool {
        self.was_cancelled()
    }
}

impl OwnedStream for h3::Stream {
    fn stream(&self) -> Stream<'_> {
        Stream::Http3(self)
    }

    fn was_cancelled(&self) -> bool {
        self.was_cancelled()
    }
}

/// A connection whose requests are served.
pub(super) struct Serving<'a> {
    pub(super) worker: &'a Rc<Worker>,
    pub(super) conn: Rc<Conn>,
    pub(super) deadline: Deadline,
    pub(super) streams: Rc<Streams>,
    /// No more streams are taken.
    pub(super) is_closing: Cell<bool>,
    /// Streams that broke a rule and have been counted.
    faults: Cell<u32>,
}

impl<'a> Serving<'a> {
    pub(super) fn new(worker: &'a Rc<Worker>, conn: Conn, deadline: Deadline) -> Self {
        Self {
            worker,
            conn: Rc::new(conn),
            deadline,
            streams: Streams::new(worker.clock.clone()),
            is_closing: Cell::new(false),
            faults: Cell::new(0),
        }
    }

    /// When the connection has been without a request for too long, whatever frames have come meanwhile.
    /// `goodbye` is the time that a client has to read that no more requests are taken.
    pub(super) fn idle_until(&self, goodbye: impl FnOnce() -> Duration) -> Option<Moment> {
        let is_first = self.conn.requests.get() == 0;
        let is_last = self.worker.is_closing(self.conn.listener);
        let timeout = match (self.streams.open.get(), self.is_closing.get(), is_last) {
            // Streams that wait for something have deadlines of their own.
            (1.., ..) => return None,
            (0, true, _) => goodbye(),
            (0, false, true) => {
                if is_first {
                    LAST_REQUEST_GRACE
                } else {
                    Duration::ZERO
                }
            }
            (0, false, false) => {
                let configured = self.worker.config().settings().client.keep_alive_timeout;
                self.worker.keep_alive_timeout(configured)
            }
        };
        Some(self.streams.idle_since.get().after(timeout))
    }

    /// Counts a request. True where it is the last one that the connection takes, which the client has to be
    /// told.
    pub(super) fn count_request(&self, requests_max: u64) -> bool {
        self.conn.count_request();
        let is_last = self.conn.requests.get() >= requests_max || self.conn.is_closing();
        is_last && !self.is_closing.replace(true)
    }

    /// Serves the request on a stream, in a task of its own.
    pub(super) fn serve<S: OwnedStream + 'static>(
        &self,
        stream: S,
        head: Vec<u8>,
        request: Box<Request>,
        read: Result<(), Reason>,
    ) {
        let (worker, conn) = (Rc::clone(self.worker), Rc::clone(&self.conn));
        let (begin, open) = (worker.clock.now(), OpenStream::count(&self.streams));
        let arrived = Arrived { open, worker, conn, stream, head, request, read, begin };
        let is_suspect = self.streams.is_suspect();
        // In a box of its own, since a task is moved several times until it has its place.
        let task = boxed(|| serve_stream(arrived));
        if is_suspect {
            reactor::spawn_detached(behind_others(task));
        } else {
            reactor::spawn_detached(task);
        }
    }

    /// Counts the streams on which the client broke a rule, of which `seen` have been in all.
    pub(super) fn count_faults(&self, seen: u32, reason: Reason) {
        for _ in self.faults.replace(seen)..seen {
            self.worker.recorder.borrow().reason(reason);
        }
    }

    /// Whether the client has broken off so many streams, or broken rules on so many, that the connection has
    /// to end.
    pub(super) fn is_flood(&self) -> bool {
        self.streams.has_too_many_cancelled() || self.faults.get() > HTTP2_MALFORMED_STREAMS_MAX
    }
}

/// Runs the task of a request behind all other work of the worker.
#[cold]
async fn behind_others(task: impl Future<Output = ()>) {
    let mut has_waited = false;
    poll_fn(|cx| {
        reactor::set_late(cx, true);
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    reactor::late(task).await;
}

/// A request as it came in on a stream.
struct Arrived<S> {
    open: OpenStream,
    worker: Rc<Worker>,
    conn: Rc<Conn>,
    stream: S,
    head: Vec<u8>,
    request: Box<Request>,
    /// The reason why the head cannot be served.
    read: Result<(), Reason>,
    begin: Moment,
}

/// Serves one request.
async fn serve_stream<S: OwnedStream>(arrived: Arrived<S>) {
    let Arrived { open, worker, conn, stream, head, request, read, begin } = &arrived;
    // One that was broken off together with its head is looked at no further: a flood of them is to cost
    // next to nothing.
    if stream.was_cancelled() {
        worker.recorder.borrow().reason(Reason::ClientAborted);
        admission::note_broken_off(worker, worker.config().settings(), conn.counted_peer());
        return open.note_end(true);
    }
    let deadline = Deadline::new(&worker.deadlines);
    let (deadline, config) = (&deadline, &*worker.config());
    let arrival =
        RequestStart { conn, client: Client::Stream(stream.stream()), deadline, config, head, begin: *begin };
    let next = match read {
        Ok(()) => {
            let mut nothing = Buffer::empty(&worker.buffers);
            serve_request(worker, arrival, request, &mut nothing).await
        }
        Err(reason) => refuse(worker, arrival, *reason).await,
    };
    // A client that has its response breaks nothing off.
    let was_cancelled = stream.was_cancelled();
    if next == AfterRequest::Linger {
        Box::pin(await_reader(stream.stream(), deadline)).await;
    }
    open.note_end(was_cancelled);
    let Arrived { worker, request, .. } = arrived;
    worker.requests.keep(request);
}

/// Leaves a client of HTTP/2 that still sends its body time to read the response. The stream is then reset
/// without an error, for which a client must not discard the response (RFC 9113 section 8.1); curl before
/// version 8 does, if the reset comes before it has read the response.
async fn await_reader(stream: Stream<'_>, deadline: &Deadline) {
    if matches!(stream, Stream::Http3(_)) {
        return;
    }
    // Content that is taken and not released gives the client no room to send more.
    let end = deadline.within(HTTP2_RESET_DELAY, |cx| {
        while let Some(Ok(_)) = ready!(stream.poll_data(cx)) {}
        Poll::Ready(())
    });
    let _ = end.await;
}

/// Room for most heads.
pub(super) const HEAD_BYTES: usize = 1024;

/// RFC 6455 section 4.1.
const WEBSOCKET_KEY_BYTES: usize = 16;

/// A key for the handshake of a WebSocket that an endpoint is asked for.
pub(super) fn websocket_key(worker: &Worker) -> String {
    STANDARD.encode(&worker.random.hex_id()[..WEBSOCKET_KEY_BYTES])
}

/// The streams of a connection that are being served, and how the others ended.
pub(super) struct Streams {
    clock: Clock,
    pub(super) open: Cell<usize>,
    /// When the last one ended; before there is one, when the connection began.
    pub(super) idle_since: Cell<Moment>,
    /// Streams that ran to their end.
    ended: Cell<u64>,
    /// Streams that the client broke off.
    cancelled: Cell<u64>,
    /// The connection, which begins to count its idle time when the last one has ended.
    connection: RefCell<Option<Waker>>,
}

impl Streams {
    fn new(clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            idle_since: Cell::new(clock.now()),
            clock,
            open: Cell::default(),
            ended: Cell::default(),
            cancelled: Cell::default(),
            connection: RefCell::default(),
        })
    }

    pub(super) fn note_idle(&self) {
        self.idle_since.set(self.clock.now());
    }

    /// Notes a stream that the client broke off before its head had come.
    pub(super) fn note_cancelled_early(&self) {
        self.cancelled.set(self.cancelled.get() + 1);
    }

    fn has_too_many_cancelled(&self) -> bool {
        self.has_cancelled_more_than(HTTP2_CANCELS_MAX)
    }

    /// Whether the client breaks off so many streams that the next ones run behind the work of others.
    pub(super) fn is_suspect(&self) -> bool {
        self.has_cancelled_more_than(HTTP2_CANCELS_UNSUSPECTED_MAX)
    }

    fn has_cancelled_more_than(&self, count: u64) -> bool {
        self.cancelled.get() > count + self.ended.get() / HTTP2_STREAMS_PER_CANCEL
    }

    pub(super) fn wake_on_change(&self, cx: &Context<'_>) {
        remember(&mut self.connection.borrow_mut(), cx);
    }
}

/// Counts a stream while it is open.
struct OpenStream(Rc<Streams>);

impl OpenStream {
    fn count(streams: &Rc<Streams>) -> Self {
        streams.open.set(streams.open.get() + 1);
        Self(Rc::clone(streams))
    }

    fn note_end(&self, was_cancelled: bool) {
        let count = if was_cancelled { &self.0.cancelled } else { &self.0.ended };
        count.set(count.get() + 1);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        let is_last = self.0.open.get() == 0;
        if is_last {
            self.0.note_idle();
        }
        if (is_last || self.0.has_too_many_cancelled())
            && let Some(connection) = self.0.connection.borrow_mut().take()
        {
            connection.wake();
        }
    }
}
