//! One HTTP/2 connection of the generator, with the requests in flight on it.
//!
//! The `h2` library is polled when the socket is ready or there is something to send; there is no async
//! runtime. Must not be in here: when requests are due, and how they are counted.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{self, Connection, ResponseFuture, SendRequest};
use h2::{Error, Reason, RecvStream};

use super::connection::{Around, News, Turn};
use super::outcome::Times;
use super::response::Response;
use super::stream::Stream;
use super::transport::{Facts, Transport};

/// Larger than the largest bodies for which latency is measured, so that none waits for flow control on this
/// side.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// A report about the stream with this number.
pub(super) type Report = (usize, Turn);

/// A connection that is opened when it is first needed, and again after it has ended.
pub(super) struct Session {
    /// The number of the connection, which is its token.
    token: usize,
    state: State,
    task: Alarm,
    streams: Vec<Seat>,
    /// Bytes received since the last report, on all connections of the thread.
    received: Rc<Cell<u64>>,
    /// Requests begun on this connection.
    begun: u64,
}

/// ```text
/// Closed --a request is due--> Opening --preface sent--> Open --> Closed
///    '---------------------------'--failure
/// ```
enum State {
    Closed,
    Opening { handshake: Handshake, facts: Rc<Facts> },
    Open { sender: SendRequest<Bytes>, connection: Box<Connection<Transport, Bytes>> },
}

type Handshake =
    Pin<Box<dyn Future<Output = Result<(SendRequest<Bytes>, Connection<Transport, Bytes>), Error>>>>;

/// A place for one request at a time.
struct Seat {
    exchange: Exchange,
    alarm: Alarm,
}

/// ```text
/// Free --start--> Queued --connection ready--> Awaiting --head--> Reading --end--> Free
/// ```
enum Exchange {
    Free,
    Queued { due: Duration },
    Awaiting { due: Duration, begun: Duration, answer: ResponseFuture },
    Reading { due: Duration, begun: Duration, first_byte: Duration, response: Response, body: RecvStream },
}

/// Set when the library has to be polled again.
struct Alarm {
    rings: Arc<Bell>,
    waker: Waker,
}

struct Bell(AtomicBool);

impl Session {
    pub(super) fn new(token: usize, streams: usize) -> Session {
        let seat = || Seat { exchange: Exchange::Free, alarm: Alarm::new() };
        let streams = std::iter::repeat_with(seat).take(streams.max(1)).collect();
        Session {
            token,
            state: State::Closed,
            task: Alarm::new(),
            streams,
            received: Rc::default(),
            begun: 0,
        }
    }

    /// Queues a request on a free stream; [`Session::drive`] sends it.
    pub(super) fn start(&mut self, stream: usize, due: Duration) {
        self.streams[stream].exchange = Exchange::Queued { due };
    }

    /// Makes all possible progress, and reports the results.
    pub(super) fn drive(&mut self, around: &Around, reports: &mut Vec<Report>) {
        if let Err(error) = self.advance(around, reports) {
            self.fail(error, reports);
        }
        reports.push((0, Turn { bytes: self.received.take(), ..Turn::default() }));
    }

    fn advance(&mut self, around: &Around, reports: &mut Vec<Report>) -> io::Result<()> {
        loop {
            if matches!(self.state, State::Closed) {
                if !self.has_queued() {
                    return Ok(());
                }
                self.open(around)?;
            }
            self.task.clear();
            if !self.shake_hands(reports)? {
                return Ok(());
            }
            self.send_queued(around, reports);
            let ended = self.poll_connection(reports);
            self.poll_streams(around, reports);
            if ended {
                self.close(reports);
            } else if self.begun >= around.requests.per_connection && self.is_free() {
                self.say_goodbye();
            } else if !self.task.is_ringing() && !self.streams.iter().any(|seat| seat.alarm.is_ringing()) {
                return Ok(());
            }
        }
    }

    fn has_queued(&self) -> bool {
        self.streams.iter().any(|seat| matches!(seat.exchange, Exchange::Queued { .. }))
    }

    fn is_free(&self) -> bool {
        self.streams.iter().all(|seat| matches!(seat.exchange, Exchange::Free))
    }

    fn open(&mut self, around: &Around) -> io::Result<()> {
        let start = Instant::now();
        let requests = &around.requests;
        let session = requests.tls.as_ref().map(|clients| clients.begin(self.token)).transpose()?;
        let stream = Stream::open(requests.target(self.token), session, &around.epoll, self.token)?;
        let (transport, facts) = Transport::new(stream, start, Rc::clone(&self.received));
        let mut builder = client::Builder::new();
        builder.enable_push(false);
        builder
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let handshake = Box::pin(async move { builder.handshake(transport).await });
        self.begun = 0;
        self.state = State::Opening { handshake, facts };
        Ok(())
    }

    /// Makes progress with the handshake. Returns whether the connection is open.
    fn shake_hands(&mut self, reports: &mut Vec<Report>) -> io::Result<bool> {
        let State::Opening { handshake, facts } = &mut self.state else { return Ok(true) };
        match handshake.as_mut().poll(&mut self.task.context()) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => {
                Err(error.into_io().unwrap_or_else(|| io::ErrorKind::InvalidData.into()))
            }
            Poll::Ready(Ok((sender, connection))) => {
                reports.push((0, Turn { opened: facts.opened.get(), ..Turn::default() }));
                self.state = State::Open { sender, connection: Box::new(connection) };
                Ok(true)
            }
        }
    }

    /// Sends queued requests, as many as the server allows in flight. After a GOAWAY that is none; the next
    /// connection sends the rest.
    fn send_queued(&mut self, around: &Around, reports: &mut Vec<Report>) {
        let State::Open { sender, .. } = &mut self.state else { return };
        for (index, seat) in self.streams.iter_mut().enumerate() {
            let Exchange::Queued { due } = seat.exchange else { continue };
            if !matches!(sender.poll_ready(&mut seat.alarm.context()), Poll::Ready(Ok(()))) {
                continue;
            }
            let requests = &around.requests;
            let Ok((answer, mut stream)) =
                sender.send_request(requests.next_head(), requests.body.is_empty())
            else {
                continue;
            };
            if !requests.body.is_empty() {
                // An error here is reported where the response is read.
                let _ = stream.send_data(requests.body.clone(), true);
            }
            self.begun += 1;
            seat.exchange = Exchange::Awaiting { due, begun: around.clock.now(), answer };
            seat.alarm.ring();
            reports.push((index, Turn { begun: true, ..Turn::default() }));
        }
    }

    /// Polls the connection. Returns whether it has ended.
    fn poll_connection(&mut self, reports: &mut Vec<Report>) -> bool {
        let State::Open { connection, .. } = &mut self.state else { return false };
        match Pin::new(connection).poll(&mut self.task.context()) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(error)) => {
                self.lose(|| news_of(&error), reports);
                true
            }
        }
    }

    fn poll_streams(&mut self, around: &Around, reports: &mut Vec<Report>) {
        for (index, seat) in self.streams.iter_mut().enumerate() {
            if seat.alarm.take() {
                let mut turn = Turn::default();
                seat.poll(around, &mut turn);
                if turn.news.is_some() || turn.body_bytes > 0 || turn.refused {
                    reports.push((index, turn));
                }
            }
        }
    }

    /// Closes the connection; queued requests are sent on the next one.
    fn close(&mut self, reports: &mut Vec<Report>) {
        self.lose(|| News::Lost, reports);
        self.state = State::Closed;
    }

    /// Reports the requests in flight as lost.
    fn lose(&mut self, news: impl Fn() -> News, reports: &mut Vec<Report>) {
        for (index, seat) in self.streams.iter_mut().enumerate() {
            if matches!(seat.exchange, Exchange::Awaiting { .. } | Exchange::Reading { .. }) {
                seat.exchange = Exchange::Free;
                reports.push((index, Turn { news: Some(news()), ..Turn::default() }));
            }
        }
    }

    /// Ends a connection that has carried its number of requests: without a sender, the library sends GOAWAY
    /// and shuts down.
    fn say_goodbye(&mut self) {
        if let State::Open { sender, mut connection } = std::mem::replace(&mut self.state, State::Closed) {
            drop(sender);
            let _ = Pin::new(&mut connection).poll(&mut self.task.context());
        }
    }

    /// The connection could not be opened: reports that for all queued requests.
    fn fail(&mut self, error: io::Error, reports: &mut Vec<Report>) {
        let secures = matches!(&self.state, State::Opening { facts, .. } if facts.is_connected.get());
        self.state = State::Closed;
        let text = error.to_string();
        let mut first = Some(error);
        for (index, seat) in self.streams.iter_mut().enumerate() {
            if matches!(seat.exchange, Exchange::Queued { .. }) {
                seat.exchange = Exchange::Free;
                let error = first.take().unwrap_or_else(|| io::Error::other(text.clone()));
                let news = if secures { News::NotSecured(error) } else { News::NotConnected(error) };
                reports.push((index, Turn { news: Some(news), ..Turn::default() }));
            }
        }
    }
}

impl Seat {
    fn poll(&mut self, around: &Around, turn: &mut Turn) {
        let mut context = Context::from_waker(&self.alarm.waker);
        loop {
            match &mut self.exchange {
                Exchange::Free | Exchange::Queued { .. } => return,
                Exchange::Awaiting { due, begun, answer } => match Pin::new(answer).poll(&mut context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(head)) => {
                        let response =
                            Response { status: head.status().as_u16(), body_bytes: 0, persists: true };
                        let first_byte = around.clock.now();
                        let due = *due;
                        let begun = *begun;
                        let body = head.into_body();
                        self.exchange = Exchange::Reading { due, begun, first_byte, response, body };
                    }
                    // The request was not processed, and is sent again (RFC 9113 section 8.7).
                    Poll::Ready(Err(error)) if is_refused(&error) => {
                        self.exchange = Exchange::Queued { due: *due };
                        self.alarm.ring();
                        turn.refused = true;
                        return;
                    }
                    Poll::Ready(Err(error)) => return self.end(news_of(&error), turn),
                },
                Exchange::Reading { due, begun, first_byte, response, body } => {
                    match body.poll_data(&mut context) {
                        Poll::Pending => return,
                        Poll::Ready(Some(Ok(data))) => {
                            response.body_bytes += data.len() as u64;
                            turn.body_bytes += data.len() as u64;
                            // This cannot fail: the released capacity is not more than what was received.
                            let _ = body.flow_control().release_capacity(data.len());
                        }
                        Poll::Ready(Some(Err(error))) => return self.end(news_of(&error), turn),
                        Poll::Ready(None) => {
                            let due = *due;
                            let begun = *begun;
                            let first_byte = *first_byte;
                            let times = Times { due, begun, first_byte, end: around.clock.now() };
                            let news = News::Answered { times, response: *response, closing: false };
                            return self.end(news, turn);
                        }
                    }
                }
            }
        }
    }

    fn end(&mut self, news: News, turn: &mut Turn) {
        self.exchange = Exchange::Free;
        turn.news = Some(news);
    }
}

impl Alarm {
    fn new() -> Alarm {
        let rings = Arc::new(Bell(AtomicBool::new(false)));
        Alarm { waker: Waker::from(Arc::clone(&rings)), rings }
    }

    fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    fn ring(&self) {
        self.rings.0.store(true, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.rings.0.store(false, Ordering::Relaxed);
    }

    fn is_ringing(&self) -> bool {
        self.rings.0.load(Ordering::Relaxed)
    }

    fn take(&self) -> bool {
        let rang = self.is_ringing();
        self.clear();
        rang
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A GOAWAY without an error means this only for streams after the last one that was processed.
fn is_refused(error: &Error) -> bool {
    let is_polite = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    error.is_remote() && (is_polite || error.reason() == Some(Reason::REFUSED_STREAM))
}

/// The report for an error: whether the peer broke the protocol, or the connection merely ended.
fn news_of(error: &Error) -> News {
    if error.is_library() { News::Malformed } else { News::Lost }
}
