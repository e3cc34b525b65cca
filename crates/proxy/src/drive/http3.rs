//! HTTP/3 towards clients (RFC 9114): streams of a connection of QUIC in, each a request of its own.
//!
//! Packets, flow control and loss are `quinn-proto`'s, frames and header compression `wire::h3`'s. Here is
//! which connections are taken, how long they live, what they may cost, and how a stream becomes a request.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clients::ClientConnection;
use clock::Moment;
use model::ListenerId;
use observe::Reason;
use wire::h3::{Code, Fault};

use crate::admit::admission;
use crate::drive::early_data;
use crate::drive::multiplexed::{HEAD_BYTES, Serving, websocket_key};
use crate::io::boxed::boxed;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::h3::{Link, Progress, Stream};
use crate::io::listening;
use crate::io::pace::time_for;
use crate::io::quic::{Asked, Begun, Endpoint, Incoming, ServerConfig, StreamId, Undecided, idle_timeout};
use crate::io::tls::{ClientTls, quic_fault};
use crate::io::turn;
use crate::limits::{
    LINGER, QUIC_HANDSHAKE_TIME_MAX, QUIC_REQUESTS_PER_TURN_MAX, QUIC_STREAMS_FIRST, QUIC_STREAMS_SECOND,
};
use crate::request::conn::{Accepted, Conn, Peer};
use crate::request::reply;
use crate::worker::{Open, Worker};

/// Decides on a connection that a client asks for: serves it in a task of its own, has the client show first
/// that it receives at its address, or refuses.
pub(crate) fn admit(
    worker: &Rc<Worker>,
    listener: ListenerId,
    endpoint: &Rc<Endpoint>,
    incoming: Incoming,
    config: Arc<ServerConfig>,
) {
    let (client, is_validated) = (incoming.remote_address(), incoming.remote_address_validated());
    let begun = match worker.fairness.half_open.begin(client, is_validated, worker.clock.now()) {
        Asked::Begun(begun) => begun,
        Asked::Unvalidated => return endpoint.retry(incoming),
        Asked::TooMany => {
            worker.recorder.borrow().reason(Reason::HandshakeLimit);
            return endpoint.ignore(incoming);
        }
    };
    let Some(peer) = listening::client(worker, client) else {
        return endpoint.refuse(incoming);
    };
    match admission::admit(worker, Peer { address: peer.ip(), is_named: false }) {
        Ok(place) => {
            let client = Asking { listener, peer, place, config, begun };
            let (worker, endpoint) = (Rc::clone(worker), Rc::clone(endpoint));
            reactor::spawn_detached(serve(worker, endpoint, incoming, client));
        }
        Err(reason) => {
            worker.recorder.borrow().reason(reason);
            endpoint.refuse(incoming);
        }
    }
}

/// A client that asks for a connection.
struct Asking {
    listener: ListenerId,
    peer: SocketAddr,
    place: Option<ClientConnection>,
    config: Arc<ServerConfig>,
    /// Its handshake, among those of the worker.
    begun: Begun,
}

/// Serves a connection to its end. It counts as open from now on, before the future is first polled.
fn serve(
    worker: Rc<Worker>,
    endpoint: Rc<Endpoint>,
    incoming: Incoming,
    client: Asking,
) -> impl Future<Output = ()> {
    let (open, undecided) = (Open::count(Rc::clone(&worker)), endpoint.undecided());
    // Apart, and dropped with the end of the handshake: it is larger than all that is kept while a connection
    // is idle.
    let connecting = boxed(|| begin(worker, endpoint, incoming, client, undecided));
    async move {
        let worker = open.worker();
        let Some((conn, link, deadline)) = connecting.await else { return };
        let server = Server {
            serving: Serving::new(worker, conn, deadline),
            link,
            pinged: Cell::new(worker.clock.now()),
            turn: Cell::new(worker.clock.now()),
            begun_in_turn: Cell::new(0),
            streams_allowed: Cell::new(QUIC_STREAMS_FIRST),
            goodbye: Cell::new(None),
        };
        let code = server.run().await;
        server.say_goodbye(code).await;
    }
}

/// Makes the handshake, and counts one that fails.
async fn begin(
    worker: Rc<Worker>,
    endpoint: Rc<Endpoint>,
    incoming: Incoming,
    client: Asking,
    undecided: Undecided,
) -> Option<(Conn, Rc<Link>, Deadline)> {
    let deadline = Deadline::new(&worker.deadlines);
    let Asking { listener, peer, place, config, begun } = client;
    let connected = connect(&worker, &endpoint, incoming, config, begun, &deadline).await;
    drop(undecided);
    let (link, tls) = match connected {
        Ok(connected) => connected,
        Err(reason) => {
            let counted = Peer { address: peer.ip(), is_named: false };
            admission::note_failed(&worker, counted, reason);
            admission::note_unused(&worker, listener, counted, true);
            return None;
        }
    };
    if let Some(name) = &tls.server_name {
        worker.alternatives.note(listener, name.as_bytes(), worker.clock.now());
    }
    let mut conn = Conn::new(&worker, Accepted { listener, local: link.quic().local(), peer, place });
    conn.tls = Some(tls);
    conn.has_begun_handshake.set(true);
    conn.own(&deadline);
    Some((conn, link, deadline))
}

/// Makes the handshake, in its turn among others.
async fn connect(
    worker: &Rc<Worker>,
    endpoint: &Rc<Endpoint>,
    incoming: Incoming,
    config: Arc<ServerConfig>,
    begun: Begun,
    deadline: &Deadline,
) -> Result<(Rc<Link>, Box<ClientTls>), Reason> {
    let Some(entry) = worker.handshakes.enter() else {
        endpoint.refuse(incoming);
        return Err(Reason::HandshakeLimit);
    };
    entry.pass().await;
    let piece = if begun.is_pressed {
        let piece = worker.fairness.pressed_handshakes.enter(&worker.clock, false).await;
        let Some(piece) = piece else {
            endpoint.ignore(incoming);
            return Err(Reason::HandshakeLimit);
        };
        Some(piece)
    } else {
        None
    };
    let accepted = endpoint.accept(incoming, config);
    drop(piece);
    let quic = accepted.map_err(|error| quic_fault(&error))?;
    let client = worker.config();
    let client = &client.settings().client;
    let link =
        Link::new(quic, client.head_bytes_max, worker.fairness.http3_heads.clone(), worker.clock.clone());
    deadline.start(client.header_timeout.min(QUIC_HANDSHAKE_TIME_MAX));
    let shake_hands = |cx: &mut Context<'_>| {
        let progress = link.poll_progress(cx);
        if begun.is_pressed {
            reactor::set_late(cx, progress.is_pending());
        }
        progress
    };
    let reason = match deadline.guard(shake_hands).await {
        Ok(Progress::Connected) => match link.client_tls() {
            Some(tls) => {
                worker.recorder.borrow().handshake(tls.handshake());
                return Ok((link, tls));
            }
            None => Reason::BadHandshake,
        },
        Ok(Progress::End(error)) => quic_fault(&error),
        Ok(Progress::Fault(_) | Progress::Request(_) | Progress::CancelledEarly(_)) => Reason::BadHandshake,
        Err(Elapsed) => Reason::HandshakeTimeout,
    };
    link.close(Code::NO_ERROR);
    let _ = deadline.within(LINGER, |cx| link.poll_goodbye(cx)).await;
    Err(reason)
}

/// A connection that is being served.
struct Server<'a> {
    serving: Serving<'a>,
    link: Rc<Link>,
    /// When the client was last asked for a sign of life.
    pinged: Cell<Moment>,
    /// The turn of the loop in which a request was last begun, and how many were in it.
    turn: Cell<Moment>,
    begun_in_turn: Cell<u32>,
    /// Streams that the client may have open.
    streams_allowed: Cell<u32>,
    goodbye: Cell<Option<Goodbye>>,
}

/// The end of a connection that takes no more requests and has none.
#[derive(Clone, Copy)]
struct Goodbye {
    /// Since when it has none.
    since: Moment,
    /// The number of the packet that was sent last then.
    sent: u64,
    /// When it was seen first that the client has all that was sent: responses, and the GOAWAY.
    known: Option<Moment>,
}

impl<'a> Deref for Server<'a> {
    type Target = Serving<'a>;

    fn deref(&self) -> &Serving<'a> {
        &self.serving
    }
}

/// The progress of a connection.
enum Event {
    Request(StreamId),
    CancelledEarly(u32),
    /// Its time without a request is up, or the worker drains.
    Due,
    /// A client whose requests take long has to show that it is there.
    Ping,
    /// A head that has begun took too long to come.
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
                Event::Request(id) => {
                    self.accept(id);
                    self.let_others_pass().await;
                }
                Event::CancelledEarly(count) => {
                    let config = self.worker.config();
                    for _ in 0..count {
                        self.worker.recorder.borrow().reason(Reason::ClientAborted);
                        self.streams.note_cancelled_early();
                        let peer = self.conn.counted_peer();
                        admission::note_broken_off(self.worker, config.settings(), peer);
                    }
                }
                Event::Due if self.is_closing.replace(true) && self.streams.open.get() == 0 => {
                    self.link.finish_shut_down();
                    return Some(Code::NO_ERROR);
                }
                Event::Due => {
                    self.streams.note_idle();
                    self.link.shut_down();
                }
                Event::Ping => {
                    self.pinged.set(self.worker.clock.now());
                    self.link.ping();
                }
                Event::Slow(reason) => {
                    admission::note_failed(self.worker, self.conn.counted_peer(), reason);
                    return Some(Code::REQUEST_INCOMPLETE);
                }
                Event::Flood | Event::Broken(Fault { code: Code::EXCESSIVE_LOAD, .. }) => {
                    return Some(self.note_flood());
                }
                Event::Broken(fault) => {
                    self.worker.recorder.borrow().reason(Reason::Http3Error);
                    return Some(fault.code);
                }
                Event::End => return None,
            }
        }
    }

    fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Event> {
        let progress = self.link.poll_progress(cx);
        self.count_faults(self.link.faults(), Reason::Http3StreamError);
        if self.is_flood() {
            return Poll::Ready(Event::Flood);
        }
        match progress {
            Poll::Ready(Progress::Request(id)) => Poll::Ready(Event::Request(id)),
            Poll::Ready(Progress::CancelledEarly(count)) => Poll::Ready(Event::CancelledEarly(count)),
            Poll::Ready(Progress::Fault(fault)) => Poll::Ready(Event::Broken(fault)),
            Poll::Ready(Progress::End(error)) => {
                tracing::debug!(%error, "a connection over QUIC has ended");
                Poll::Ready(Event::End)
            }
            // It is connected once.
            Poll::Ready(Progress::Connected) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => {
                let is_suspect = self.streams.is_suspect() || self.link.is_suspect();
                self.link.quic().set_suspect(cx, is_suspect, self.worker.clock.now());
                self.streams.wake_on_change(cx);
                let idle = self.idle_until(|| self.goodbye());
                let slow = self.head_until();
                let ping = self.ping_at();
                let due = [idle, slow.map(|(due, _)| due), ping].into_iter().flatten().min();
                let now = self.worker.clock.now();
                let event = match slow.filter(|(due, _)| *due <= now) {
                    Some((_, reason)) => Event::Slow(reason),
                    None if ping.is_some_and(|at| at <= now) => Event::Ping,
                    None => Event::Due,
                };
                self.deadline.poll_idle(due, idle.is_some(), cx).map(|()| event)
            }
        }
    }

    /// The time for which a connection stays that takes no more requests, from its last one on. A client that
    /// does not know of the GOAWAY may have sent another one, and may lack the end of a response: that it has
    /// acknowledged everything is awaited, and then the requests that were on the way. A client that is gone
    /// acknowledges nothing.
    fn goodbye(&self) -> Duration {
        let (now, since) = (self.worker.clock.now(), self.streams.idle_since.get());
        let quic = self.link.quic();
        let begun = self.goodbye.get().filter(|goodbye| goodbye.since == since);
        let mut goodbye = begun.unwrap_or_else(|| Goodbye { since, sent: quic.last_sent(), known: None });
        if begun.is_none() {
            // There may be nothing left that the client would acknowledge.
            self.link.ping();
        } else if goodbye.known.is_none() && quic.is_acknowledged_after(goodbye.sent) {
            goodbye.known = Some(now);
        }
        self.goodbye.set(Some(goodbye));
        match goodbye.known {
            Some(known) => known.since(since) + quic.goodbye_time().min(LINGER),
            None => LINGER,
        }
    }

    fn note_flood(&self) -> Code {
        self.worker.recorder.borrow().reason(Reason::Http3Flood);
        self.worker.fairness.half_open.note_flood(self.conn.peer.ip(), self.worker.clock.now());
        Code::EXCESSIVE_LOAD
    }

    /// Has the tasks of the requests that have begun run, and those of other connections, where many come at
    /// once.
    async fn let_others_pass(&self) {
        let now = self.worker.clock.now();
        if self.turn.replace(now) != now {
            self.begun_in_turn.set(0);
        }
        self.begun_in_turn.set(self.begun_in_turn.get() + 1);
        if self.begun_in_turn.get() == QUIC_REQUESTS_PER_TURN_MAX {
            self.begun_in_turn.set(0);
            turn::yield_now(&self.worker.clock).await;
        }
    }

    /// Allows more streams to a client that uses half of those that it may have.
    fn allow_streams(&self, streams_max: u32) {
        let allowed = self.streams_allowed.get();
        if self.streams.open.get() < allowed as usize / 2 || allowed >= streams_max {
            return;
        }
        let more =
            if allowed < QUIC_STREAMS_SECOND { QUIC_STREAMS_SECOND.min(streams_max) } else { streams_max };
        self.streams_allowed.set(more);
        self.link.quic().allow_streams(more);
    }

    /// When a head that has begun to come has to be there, and what is wrong if it is not.
    fn head_until(&self) -> Option<(Moment, Reason)> {
        let config = self.worker.config();
        let client = &config.settings().client;
        let timeout = self.link.head_due(|_| client.header_timeout)?;
        let by_rate = client.bounds.send_rate_min.and_then(|rate| {
            let time = |bytes: usize| rate.grace + time_for(bytes, rate);
            self.link.head_due(|bytes| bytes.map_or(client.header_timeout, time))
        });
        Some(match by_rate.filter(|due| *due < timeout) {
            Some(due) => (due, Reason::HeadRate),
            None => (timeout, Reason::HeadTimeout),
        })
    }

    /// When a client with requests that take long is asked for a sign of life: without packets, QUIC takes
    /// either side for gone.
    fn ping_at(&self) -> Option<Moment> {
        let interval = idle_timeout(self.worker.config().settings()) / 3;
        (self.streams.open.get() > 0).then(|| self.pinged.get().after(interval))
    }

    /// Serves the request on a stream whose head has come, in a task of its own.
    fn accept(&self, id: StreamId) {
        let worker = self.worker;
        let config = worker.config();
        let (mut head, mut request) = (Vec::with_capacity(HEAD_BYTES), worker.requests.take());
        let key = || websocket_key(worker);
        let opened = self.link.request(id, config.request_limits(), key, &mut head, &mut request);
        let Some(opened) = opened else {
            return worker.requests.keep(request);
        };
        let read = opened.head.map_err(reply::malformed).and_then(|()| {
            if self.link.is_early() {
                early_data::admit(&config, self.conn.listener, &mut head, &mut request)
            } else {
                Ok(())
            }
        });
        if self.count_request(config.settings().client.keep_alive_requests) {
            self.link.shut_down();
        }
        if self.streams.open.get() == 0 {
            self.pinged.set(worker.clock.now());
        }
        self.allow_streams(config.settings().client.http2_streams_max);
        let stream = Stream::new(Rc::clone(&self.link), id);
        self.serving.serve(stream, head, request, read);
    }

    async fn say_goodbye(&self, code: Option<Code>) {
        self.link.close(code.unwrap_or(Code::NO_ERROR));
        // The client need not take it.
        let _ = self.deadline.within(LINGER, |cx| self.link.poll_goodbye(cx)).await;
    }
}
