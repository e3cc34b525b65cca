//! HTTP/2 towards clients (RFC 9113): streams in, each a request of its own.
//!
//! Frames, flow control and header compression are the `h2` crate's. Here is how long a connection lives,
//! what it may cost, and how a stream becomes a request.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clock::{Clock, Moment};
use h2::server::{Connection, SendResponse};
use h2::{Reason as Code, RecvStream};
use http::Request;
use observe::Reason;
use wire::h1::Malformed;
use wire::h2::Pseudo;

use crate::admit::admission;
use crate::answer::own_answer::refuse;
use crate::drive::serve::serve as serve_request;
use crate::io::boxed::boxed;
use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::h2::{Credit, Io, Seen, Stream, pairs};
use crate::io::pace::time_for;
use crate::io::socket::Socket;
use crate::limits::{
    HTTP2_CANCELS_MAX, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_HEADER_TABLE_BYTES, HTTP2_MALFORMED_STREAMS_MAX,
    HTTP2_RESETS_PENDING_MAX, HTTP2_RESETS_REMEMBERED_MAX, HTTP2_SEND_BUFFER_BYTES,
    HTTP2_STREAM_WINDOW_BYTES, HTTP2_STREAMS_PER_CANCEL, LAST_REQUEST_GRACE, LINGER,
};
use crate::request::RequestStart;
use crate::request::client::Client;
use crate::request::conn::Conn;
use crate::request::reply;
use crate::worker::Worker;

/// The first bytes of a client that knows that HTTP/2 is spoken (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The beginning of a connection.
pub(crate) enum Preface {
    /// With the preface of HTTP/2.
    Whole,
    /// With something else.
    Other,
    /// It ended before that was clear.
    Gone,
    /// It took too long until that was clear, for this reason.
    Slow(Reason),
}

/// Whether what has come of a connection can be the beginning of HTTP/2.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let len = bytes.len().min(PREFACE.len());
    bytes[..len] == PREFACE[..len]
}

/// Reads on until it is clear whether a connection speaks HTTP/2.
pub(crate) async fn await_preface(
    worker: &Worker,
    socket: &Socket,
    deadline: &Deadline,
    buffer: &mut Buffer,
) -> Preface {
    if !worker.config().settings().tls.http2 {
        return Preface::Other;
    }
    let config = worker.config();
    let client = &config.settings().client;
    let time_for_rate = client.bounds.send_rate_min.map(|rate| rate.grace + time_for(PREFACE.len(), rate));
    deadline.start(client.header_timeout.min(time_for_rate.unwrap_or(Duration::MAX)));
    while may_begin(buffer.data()) {
        if buffer.len() >= PREFACE.len() {
            return Preface::Whole;
        }
        match deadline.guard(|cx| socket.poll_fill_small(cx, buffer)).await {
            Ok(Ok(1..)) => {}
            Ok(_) => return Preface::Gone,
            Err(Elapsed) if time_for_rate.is_some_and(|time| time < client.header_timeout) => {
                return Preface::Slow(Reason::HeadRate);
            }
            Err(Elapsed) => return Preface::Slow(Reason::HeadTimeout),
        }
    }
    Preface::Other
}

/// Serves a connection to its end. `ahead` is what has been read of it, the preface included.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    conn: Conn,
    socket: Socket,
    deadline: Deadline,
    ahead: Buffer,
) {
    let (io, seen) = Io::watched(socket, ahead, worker.clock.clone());
    let timeout = worker.config().settings().client.header_timeout;
    let mut handshake = pin!(builder(worker).handshake::<_, Bytes>(io));
    let connection = match deadline.within_idle(timeout, |cx| handshake.as_mut().poll(cx)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            broken(&error).inspect(|reason| worker.recorder.borrow().reason(*reason));
            return;
        }
        Err(Elapsed) => {
            // A worker that drains ends the wait too, which is nobody's fault.
            if !worker.is_closing(conn.listener) {
                worker.recorder.borrow().reason(Reason::HeadTimeout);
            }
            return;
        }
    };
    let server = Server {
        worker,
        conn: Rc::new(conn),
        deadline,
        seen,
        streams: Streams::new(worker.clock.clone()),
        is_closing: Cell::new(false),
        malformed: Cell::new(0),
    };
    server.run(connection).await;
}

/// Every bound of the crate, set on purpose.
fn builder(worker: &Worker) -> h2::server::Builder {
    let config = worker.config();
    let client = &config.settings().client;
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(client.http2_streams_max)
        .max_header_list_size(u32::try_from(client.head_bytes_max).unwrap_or(u32::MAX))
        .header_table_size(HTTP2_HEADER_TABLE_BYTES)
        .initial_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(HTTP2_SEND_BUFFER_BYTES)
        .max_concurrent_reset_streams(HTTP2_RESETS_REMEMBERED_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_PENDING_MAX)
        .max_local_error_reset_streams(Some(HTTP2_MALFORMED_STREAMS_MAX))
        .enable_connect_protocol();
    builder
}

/// A connection that is being served.
struct Server<'a> {
    worker: &'a Rc<Worker>,
    conn: Rc<Conn>,
    deadline: Deadline,
    seen: Rc<Seen>,
    /// Streams that are being served.
    streams: Rc<Streams>,
    /// No more streams are taken.
    is_closing: Cell<bool>,
    /// Malformed requests that have been counted.
    malformed: Cell<u32>,
}

/// The progress of a connection.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would cost each request an allocation"
)]
enum Event {
    Stream(Request<RecvStream>, SendResponse<Bytes>),
    /// Its time without a request is up, or the worker drains.
    Due,
    /// Something that began took too long to come, for this reason.
    Slow(Reason),
    Broken(h2::Error),
    Flood,
    End,
}

type Connected = Connection<Io, Bytes>;

impl Server<'_> {
    async fn run(&self, mut connection: Connected) {
        loop {
            let event = poll_fn(|cx| self.poll_event(&mut connection, cx)).await;
            self.count_malformed();
            match event {
                Event::Stream(request, respond) => self.accept(&mut connection, request, respond),
                Event::Due if self.is_closing.replace(true) && self.streams.open.get() == 0 => return,
                Event::Due => {
                    self.streams.note_idle();
                    connection.graceful_shutdown();
                }
                Event::Slow(reason) => {
                    self.worker.recorder.borrow().reason(reason);
                    let config = self.worker.config();
                    admission::note_fault(self.worker, config.settings(), self.conn.counted_peer(), reason);
                    return self.say_goodbye(connection, Code::NO_ERROR).await;
                }
                Event::Flood => {
                    self.worker.recorder.borrow().reason(Reason::Http2Flood);
                    return self.say_goodbye(connection, Code::ENHANCE_YOUR_CALM).await;
                }
                Event::Broken(error) => return self.count_broken(&error),
                Event::End => return,
            }
        }
    }

    fn poll_event(&self, connection: &mut Connected, cx: &mut Context<'_>) -> Poll<Event> {
        if self.is_flood() {
            return Poll::Ready(Event::Flood);
        }
        self.seen.is_blocked.set(false);
        let accepted = connection.poll_accept(cx);
        if self.is_flood() {
            return Poll::Ready(Event::Flood);
        }
        if !self.seen.is_blocked.get() {
            // The crate writes all that it may before it waits.
            self.streams.credit.renew();
        }
        match accepted {
            Poll::Ready(Some(Ok((request, respond)))) => Poll::Ready(Event::Stream(request, respond)),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Event::Broken(error)),
            Poll::Ready(None) => Poll::Ready(Event::End),
            Poll::Pending => {
                self.streams.wake_on_change(cx);
                let (idle, slow) = (self.idle_until(), self.begun_until());
                let due = [idle, slow.map(|(due, _)| due)].into_iter().flatten().min();
                let slow = slow.filter(|(due, _)| *due <= self.worker.clock.now());
                let event = slow.map_or(Event::Due, |(_, reason)| Event::Slow(reason));
                self.deadline.poll_idle(due, idle.is_some(), cx).map(|()| event)
            }
        }
    }

    fn is_flood(&self) -> bool {
        self.seen.flood.get() || self.streams.has_too_many_cancelled()
    }

    /// When the connection has been without a request for too long, whatever frames have come meanwhile.
    fn idle_until(&self) -> Option<Moment> {
        let is_first = self.conn.requests.get() == 0;
        let is_last = self.worker.is_closing(self.conn.listener);
        let timeout = match (self.streams.open.get(), self.is_closing.get(), is_last) {
            // Streams that wait for something have deadlines of their own.
            (1.., ..) => return None,
            (0, true, _) => LINGER,
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

    /// When the frame or head that has begun to come has to be there, and what is wrong if it is not.
    /// Frames of other streams cannot come between those of a head (RFC 9113 section 6.10), so that its
    /// rate is the connection's.
    fn begun_until(&self) -> Option<(Moment, Reason)> {
        let (clock, begun) = (&self.worker.clock, self.seen.begun.get()?);
        let config = self.worker.config();
        let client = &config.settings().client;
        let time_for_rate = client.bounds.send_rate_min.map(|rate| rate.grace + time_for(begun.bytes, rate));
        // While the client does not take what it is sent the crate may not read what it sends.
        let time_for_rate =
            time_for_rate.filter(|time| *time < client.header_timeout && !self.seen.is_blocked.get());
        let (time, reason) = match time_for_rate {
            Some(time) => (time, Reason::HeadRate),
            None => (client.header_timeout, Reason::HeadTimeout),
        };
        let elapsed = clock.unix().saturating_sub(begun.since);
        Some((clock.now().after(time.saturating_sub(elapsed)), reason))
    }

    fn accept(&self, connection: &mut Connected, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        self.conn.count_request();
        let requests_max = self.worker.config().settings().client.keep_alive_requests;
        let is_last = self.conn.requests.get() >= requests_max || self.conn.is_closing();
        if is_last && !self.is_closing.replace(true) {
            connection.graceful_shutdown();
        }
        let begin = self.worker.clock.now();
        let (parts, body) = request.into_parts();
        let stream = Stream::new(body, respond, Rc::clone(&self.streams.credit));
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let written = write_head(&parts, !stream.body.is_end(), self.worker, &mut head);
        let (worker, conn) = (Rc::clone(self.worker), Rc::clone(&self.conn));
        let arrived =
            Arrived { open: OpenStream::count(&self.streams), worker, conn, stream, head, written, begin };
        // In a box of its own, since a task is moved several times until it has its place.
        reactor::spawn_detached(boxed(|| serve_stream(arrived)));
    }

    async fn say_goodbye(&self, mut connection: Connected, code: Code) {
        connection.abrupt_shutdown(code);
        // The peer need not take it.
        let _ = self.deadline.within(LINGER, |cx| connection.poll_closed(cx)).await;
    }

    fn count_malformed(&self) {
        let seen = self.seen.malformed.get();
        for _ in self.malformed.replace(seen)..seen {
            self.worker.recorder.borrow().reason(Reason::Http2StreamError);
        }
    }

    fn count_broken(&self, error: &h2::Error) {
        if let Some(reason) = broken(error) {
            self.worker.recorder.borrow().reason(reason);
        }
    }
}

/// The fault of a client that ended its connection; one that just goes away is not at fault.
fn broken(error: &h2::Error) -> Option<Reason> {
    match error.reason() {
        _ if error.is_io() || error.is_remote() => None,
        Some(Code::NO_ERROR) | None => None,
        Some(Code::ENHANCE_YOUR_CALM) => Some(Reason::Http2Flood),
        Some(_) => Some(Reason::Http2Error),
    }
}

/// A request as it came in on a stream.
struct Arrived {
    open: OpenStream,
    worker: Rc<Worker>,
    conn: Rc<Conn>,
    stream: Stream,
    /// The head as HTTP/1.
    head: Vec<u8>,
    written: Result<(), Malformed>,
    begin: Moment,
}

/// Serves one request.
async fn serve_stream(arrived: Arrived) {
    let Arrived { open, worker, conn, stream, head, written, begin } = &arrived;
    // One that was broken off together with its head is looked at no further: a flood of them is to cost
    // next to nothing.
    if stream.was_cancelled() {
        worker.recorder.borrow().reason(Reason::ClientAborted);
        admission::note_broken_off(worker, worker.config().settings(), conn.counted_peer());
        return open.note_end(true);
    }
    let deadline = Deadline::new(&worker.deadlines);
    let (deadline, config) = (&deadline, &*worker.config());
    let arrival = RequestStart { conn, client: Client::Http2(stream), deadline, config, head, begin: *begin };
    let mut request = worker.requests.take();
    let parsed = written.and_then(|()| request.parse(head, config.request_limits()));
    match parsed {
        Ok(true) => {
            let mut nothing = Buffer::empty(&worker.buffers);
            serve_request(worker, arrival, &request, &mut nothing).await;
            worker.requests.keep(request);
        }
        // It is written with its end, so that it is read whole or not at all.
        Ok(false) => _ = refuse(worker, arrival, reply::malformed(Malformed::StartLine)).await,
        Err(fault) => _ = refuse(worker, arrival, reply::malformed(fault)).await,
    }
    open.note_end(stream.was_cancelled());
}

/// Room for most heads.
const HEAD_BYTES: usize = 1024;

fn write_head(
    parts: &http::request::Parts,
    has_body: bool,
    worker: &Worker,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let uri = &parts.uri;
    let protocol = parts.extensions.get::<h2::ext::Protocol>();
    let pseudo = Pseudo {
        method: parts.method.as_str().as_bytes(),
        authority: uri.authority().map(|authority| authority.as_str().as_bytes()),
        path: uri.path_and_query().map(|path| path.as_str().as_bytes()),
        protocol: protocol.map(|protocol| protocol.as_str().as_bytes()),
    };
    let key = protocol.map(|_| STANDARD.encode(&worker.random.hex_id()[..WEBSOCKET_KEY_BYTES]));
    wire::h2::write_request_head(pseudo, pairs(&parts.headers), has_body, key.as_deref().unwrap_or(""), out)
}

/// RFC 6455 section 4.1.
const WEBSOCKET_KEY_BYTES: usize = 16;

/// The streams of a connection that are being served, and how the others ended.
struct Streams {
    clock: Clock,
    open: Cell<usize>,
    /// When the last one ended; before there is one, when the connection began.
    idle_since: Cell<Moment>,
    /// Streams that ran to their end.
    ended: Cell<u64>,
    /// Streams that the client broke off.
    cancelled: Cell<u64>,
    credit: Rc<Credit>,
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
            credit: Rc::default(),
            connection: RefCell::default(),
        })
    }

    fn note_idle(&self) {
        self.idle_since.set(self.clock.now());
    }

    fn has_too_many_cancelled(&self) -> bool {
        self.cancelled.get() > HTTP2_CANCELS_MAX + self.ended.get() / HTTP2_STREAMS_PER_CANCEL
    }

    fn wake_on_change(&self, cx: &Context<'_>) {
        let mut connection = self.connection.borrow_mut();
        if !connection.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *connection = Some(cx.waker().clone());
        }
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
