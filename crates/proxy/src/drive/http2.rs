//! HTTP/2 towards clients (RFC 9113): streams in, each a request of its own.
//!
//! Frames, flow control and header compression are `wire::h2`'s. Here is how long a connection lives, what it
//! may cost, and how a stream becomes a request.

use std::future::poll_fn;
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use clock::Moment;
use observe::Reason;
use wire::h2::{Code, Connection, Fault, Limits, PREFACE};

use crate::admit::admission;
use crate::drive::multiplexed::{HEAD_BYTES, Serving, websocket_key};
use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::h2::{Link, Progress, Slot, Stream};
use crate::io::pace::time_for;
use crate::io::socket::Socket;
use crate::limits::{
    HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_HEADER_TABLE_BYTES, HTTP2_STREAM_WINDOW_BYTES,
    HTTP2_STREAM_WINDOW_BYTES_MAX, HTTP2_UNWRITTEN_BYTES_MAX, LINGER,
};
use crate::request::conn::Conn;
use crate::request::reply;
use crate::worker::Worker;

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
    let link = Link::of_client(socket, ahead, limits(worker), worker.clock.clone());
    let server = Server { serving: Serving::new(worker, conn, deadline), link };
    let code = server.run().await;
    server.say_goodbye(code).await;
}

/// Every bound of the protocol, set on purpose.
fn limits(worker: &Worker) -> Limits {
    let config = worker.config();
    let client = &config.settings().client;
    Limits {
        streams_max: client.http2_streams_max,
        head_bytes_max: u32::try_from(client.head_bytes_max).unwrap_or(u32::MAX),
        table_bytes_max: HTTP2_HEADER_TABLE_BYTES,
        stream_window_bytes: HTTP2_STREAM_WINDOW_BYTES,
        stream_window_bytes_max: HTTP2_STREAM_WINDOW_BYTES_MAX,
        connection_window_bytes: HTTP2_CONNECTION_WINDOW_BYTES,
        unwritten_bytes_max: HTTP2_UNWRITTEN_BYTES_MAX,
    }
}

/// A connection that is being served.
struct Server<'a> {
    serving: Serving<'a>,
    link: Rc<Link>,
}

impl<'a> Deref for Server<'a> {
    type Target = Serving<'a>;

    fn deref(&self) -> &Serving<'a> {
        &self.serving
    }
}

/// The progress of a connection.
enum Event {
    Request,
    /// Its time without a request is up, or the worker drains.
    Due,
    /// Something that began took too long to come, for this reason.
    Slow(Reason),
    Broken(Fault),
    Flood,
    End,
}

impl Server<'_> {
    /// Serves until the connection has to end; returns the code that the client is told, if there is one.
    async fn run(&self) -> Option<Code> {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                Event::Request => {
                    if let Err(fault) = self.accept() {
                        return Some(self.note_broken(fault));
                    }
                }
                Event::Due if self.is_closing.replace(true) && self.streams.open.get() == 0 => return None,
                Event::Due => {
                    self.streams.note_idle();
                    self.link.with(Connection::shut_down);
                }
                Event::Slow(reason) => {
                    admission::note_failed(self.worker, self.conn.counted_peer(), reason);
                    return Some(Code::NO_ERROR);
                }
                Event::Flood => {
                    self.worker.recorder.borrow().reason(Reason::Http2Flood);
                    return Some(Code::ENHANCE_YOUR_CALM);
                }
                Event::Broken(fault) => return Some(self.note_broken(fault)),
                Event::End => return None,
            }
        }
    }

    fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Event> {
        let progress = self.poll_link(cx);
        let faults = self.link.with(|connection| connection.faults());
        self.count_faults(faults, Reason::Http2StreamError);
        if self.is_flood() {
            return Poll::Ready(Event::Flood);
        }
        match progress {
            Poll::Ready(Progress::Request) => Poll::Ready(Event::Request),
            Poll::Ready(Progress::Fault(fault)) => Poll::Ready(Event::Broken(fault)),
            Poll::Ready(Progress::End | Progress::Goaway) => Poll::Ready(Event::End),
            Poll::Pending => {
                self.streams.wake_on_change(cx);
                let (idle, slow) = (self.idle_until(|| LINGER), self.begun_until());
                let due = [idle, slow.map(|(due, _)| due)].into_iter().flatten().min();
                let slow = slow.filter(|(due, _)| *due <= self.worker.clock.now());
                let event = slow.map_or(Event::Due, |(_, reason)| Event::Slow(reason));
                self.deadline.poll_idle(due, idle.is_some(), cx).map(|()| event)
            }
        }
    }

    /// Drives the connection. A client that says goodbye still reads the responses to its requests.
    fn poll_link(&self, cx: &mut Context<'_>) -> Poll<Progress> {
        loop {
            match self.link.poll_progress(cx) {
                Poll::Ready(Progress::Goaway) => self.link.end_when_idle(),
                progress => return progress,
            }
        }
    }

    /// When the frame or head that has begun to come has to be there, and what is wrong if it is not.
    /// Frames of other streams cannot come between those of a head (RFC 9113 section 6.10), so that its
    /// rate is the connection's.
    fn begun_until(&self) -> Option<(Moment, Reason)> {
        let begun = self.link.with(|connection| connection.begun())?;
        let clock = &self.worker.clock;
        let config = self.worker.config();
        let client = &config.settings().client;
        let time_for_rate = client.bounds.send_rate_min.map(|rate| rate.grace + time_for(begun.bytes, rate));
        // Frames of a client are not read while it does not take those that it is sent.
        let time_for_rate =
            time_for_rate.filter(|time| *time < client.header_timeout && !self.link.is_blocked());
        let (time, reason) = match time_for_rate {
            Some(time) => (time, Reason::HeadRate),
            None => (client.header_timeout, Reason::HeadTimeout),
        };
        let elapsed = clock.unix().saturating_sub(begun.since);
        Some((clock.now().after(time.saturating_sub(elapsed)), reason))
    }

    /// Serves the request that has begun, in a task of its own.
    fn accept(&self) -> Result<(), Fault> {
        let worker = self.worker;
        let config = worker.config();
        let (mut head, mut request) = (Vec::with_capacity(HEAD_BYTES), worker.requests.take());
        let key = || websocket_key(worker);
        let opened = self.link.with(|connection| {
            connection.set_pressed(worker.relief().shortens_keep_alive);
            connection.request(config.request_limits(), key, &mut head, &mut request, Slot::default())
        })?;
        let Some(opened) = opened else {
            worker.requests.keep(request);
            return Ok(());
        };
        if self.count_request(config.settings().client.keep_alive_requests) {
            self.link.with(Connection::shut_down);
        }
        let stream = Stream::new(Rc::clone(&self.link), opened.key);
        if opened.is_end {
            stream.note_end();
        }
        self.serving.serve(stream, head, request, opened.head.map_err(reply::malformed));
        Ok(())
    }

    fn note_broken(&self, fault: Fault) -> Code {
        let is_flood = fault.code == Code::ENHANCE_YOUR_CALM;
        let reason = if is_flood { Reason::Http2Flood } else { Reason::Http2Error };
        self.worker.recorder.borrow().reason(reason);
        fault.code
    }

    async fn say_goodbye(&self, code: Option<Code>) {
        self.link.close();
        if let Some(code) = code {
            self.link.with(|connection| connection.abort(code));
        }
        // The peer need not take it.
        let _ = self.deadline.within(LINGER, |cx| self.link.poll_goodbye(cx)).await;
    }
}
