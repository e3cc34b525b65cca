//! The common parts of connections with several requests at once, over HTTP/2 and HTTP/3: the task of a
//! request, and the count of those that are open.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::{Clock, Moment};
use observe::Reason;
use wire::h1::{Malformed, Request};

use crate::admit::admission;
use crate::answer::own_answer::refuse;
use crate::drive::serve::serve as serve_request;
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::stream::Stream;
use crate::io::{h2, h3};
use crate::limits::{HTTP2_CANCELS_MAX, HTTP2_STREAMS_PER_CANCEL};
use crate::request::RequestStart;
use crate::request::client::Client;
use crate::request::conn::Conn;
use crate::request::reply;
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

/// A request as it came in on a stream.
pub(super) struct Arrived<S> {
    pub(super) open: OpenStream,
    pub(super) worker: Rc<Worker>,
    pub(super) conn: Rc<Conn>,
    pub(super) stream: S,
    pub(super) head: Vec<u8>,
    pub(super) request: Box<Request>,
    /// The reason why the head cannot be served.
    pub(super) read: Result<(), Malformed>,
    pub(super) begin: Moment,
}

/// Serves one request.
pub(super) async fn serve_stream<S: OwnedStream>(arrived: Arrived<S>) {
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
    match read {
        Ok(()) => {
            let mut nothing = Buffer::empty(&worker.buffers);
            serve_request(worker, arrival, request, &mut nothing).await;
        }
        Err(fault) => _ = refuse(worker, arrival, reply::malformed(*fault)).await,
    }
    open.note_end(stream.was_cancelled());
    let Arrived { worker, request, .. } = arrived;
    worker.requests.keep(request);
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
    pub(super) fn new(clock: Clock) -> Rc<Self> {
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

    pub(super) fn has_too_many_cancelled(&self) -> bool {
        self.cancelled.get() > HTTP2_CANCELS_MAX + self.ended.get() / HTTP2_STREAMS_PER_CANCEL
    }

    pub(super) fn wake_on_change(&self, cx: &Context<'_>) {
        let mut connection = self.connection.borrow_mut();
        if !connection.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *connection = Some(cx.waker().clone());
        }
    }
}

/// Counts a stream while it is open.
pub(super) struct OpenStream(Rc<Streams>);

impl OpenStream {
    pub(super) fn count(streams: &Rc<Streams>) -> Self {
        streams.open.set(streams.open.get() + 1);
        Self(Rc::clone(streams))
    }

    pub(super) fn note_end(&self, was_cancelled: bool) {
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
