//! One HTTP/3 connection of the generator, with the requests in flight on it.
//!
//! Must not be in here: when requests are due, and how they are counted.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionError, Dir, Event, ReadError, StreamEvent, StreamId, VarInt, WriteError,
};

use super::code;
use super::control::{CONTROL_PREFACE, UniReader};
use super::link::{Link, ReceiveBuffer};
use super::response::ResponseReader;
use crate::generator::connection::{Around, News, Turn};
use crate::generator::outcome::{Opened, Times};
use crate::generator::session::Report;

/// A connection that is opened when it is first needed, and again after it has ended.
pub(crate) struct Session {
    /// The number of the connection, which is its token.
    token: usize,
    state: State,
    seats: Vec<Seat>,
    /// The seat of each stream with a request.
    streams: HashMap<StreamId, usize>,
    uni_streams: HashMap<StreamId, UniReader>,
    /// Requests begun on this connection.
    begun: u64,
    /// The server takes no more requests on this connection.
    is_going_away: bool,
}

/// ```text
/// Closed --a request is due--> Opening --handshake complete--> Open --> Closed
///    '---------------------------'--failure
/// ```
enum State {
    Closed,
    Opening { link: Box<Link>, start: Instant },
    Open(Box<Link>),
}

/// A place for one request at a time.
///
/// ```text
/// Free --start--> Queued --stream opened--> InFlight --end--> Free
/// ```
enum Seat {
    Free,
    Queued { due: Duration },
    InFlight(Exchange),
}

struct Exchange {
    due: Duration,
    begun: Duration,
    /// When the head of the response was complete.
    first_byte: Option<Duration>,
    id: StreamId,
    /// The part of the request that the connection has not taken.
    unsent: Bytes,
    response: ResponseReader,
}

/// The state of a stream after it was read.
enum Progress {
    Open,
    End,
    Reset(VarInt),
    Malformed,
}

impl Session {
    pub(crate) fn new(token: usize, streams: usize) -> Session {
        Session {
            token,
            state: State::Closed,
            seats: std::iter::repeat_with(|| Seat::Free).take(streams.max(1)).collect(),
            streams: HashMap::new(),
            uni_streams: HashMap::new(),
            begun: 0,
            is_going_away: false,
        }
    }

    /// Queues a request on a free seat; [`Session::drive`] sends it.
    pub(crate) fn start(&mut self, seat: usize, due: Duration) {
        self.seats[seat] = Seat::Queued { due };
    }

    /// When the connection has something to do without a packet; none if it has not.
    pub(crate) fn next_timer(&mut self) -> Option<Instant> {
        match &mut self.state {
            State::Closed => None,
            State::Opening { link, .. } | State::Open(link) => link.connection.poll_timeout(),
        }
    }

    /// Makes all possible progress, and reports the results. The socket is read if it `is_readable`.
    pub(crate) fn drive(
        &mut self,
        around: &Around,
        is_readable: bool,
        buffer: &mut ReceiveBuffer,
        reports: &mut Vec<Report>,
    ) {
        if is_readable {
            self.receive(buffer, reports);
        }
        loop {
            self.advance(around, reports);
            if matches!(self.state, State::Closed) && self.has_queued() {
                if let Err(error) = self.open(around) {
                    self.fail(News::NotConnected, error, reports);
                    return;
                }
            } else if self.is_over(around) {
                self.close(reports);
            } else {
                break;
            }
        }
        if let Some(link) = self.link() {
            link.transmit(Instant::now());
        }
    }

    fn link(&mut self) -> Option<&mut Link> {
        match &mut self.state {
            State::Closed => None,
            State::Opening { link, .. } | State::Open(link) => Some(link),
        }
    }

    fn has_queued(&self) -> bool {
        self.seats.iter().any(|seat| matches!(seat, Seat::Queued { .. }))
    }

    /// Whether the connection carries no more requests.
    fn is_over(&self, around: &Around) -> bool {
        let is_last = self.is_going_away || self.begun >= around.requests.per_connection;
        let is_unused = self.is_going_away || !self.has_queued();
        is_last && is_unused && self.streams.is_empty() && matches!(self.state, State::Open(_))
    }

    fn receive(&mut self, buffer: &mut ReceiveBuffer, reports: &mut Vec<Report>) {
        let Some(link) = self.link() else { return };
        match link.receive(buffer) {
            Ok(bytes) => reports.push((0, Turn { bytes, ..Turn::default() })),
            Err(error) => {
                self.state = State::Closed;
                self.fail(News::NotConnected, error, reports);
            }
        }
    }

    fn open(&mut self, around: &Around) -> io::Result<()> {
        let start = Instant::now();
        let Some(clients) = &around.requests.quic else { return Err(io::ErrorKind::Unsupported.into()) };
        let target = around.requests.target(self.token);
        let link = Box::new(Link::open(target, clients, &around.epoll, self.token)?);
        self.begun = 0;
        self.is_going_away = false;
        self.uni_streams.clear();
        self.state = State::Opening { link, start };
        Ok(())
    }

    /// Handles timers and events, and sends queued requests.
    fn advance(&mut self, around: &Around, reports: &mut Vec<Report>) {
        let Some(link) = self.link() else { return };
        link.settle(Instant::now());
        while let Some(event) = self.link().and_then(|link| link.connection.poll()) {
            match event {
                Event::Connected => self.connected(around, reports),
                Event::ConnectionLost { reason } => self.lost(reason, around, reports),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => self.accept_streams(reports),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, around, reports),
                Event::Stream(StreamEvent::Writable { id }) => self.write(id),
                _ => {}
            }
        }
        self.send_queued(around, reports);
    }

    fn connected(&mut self, around: &Around, reports: &mut Vec<Report>) {
        let State::Opening { mut link, start } = std::mem::replace(&mut self.state, State::Closed) else {
            return;
        };
        if let Some(id) = link.connection.streams().open(Dir::Uni) {
            // A new stream has room for some bytes, unless the server allows none; then it answers nothing.
            let _ = link.connection.send_stream(id).write(&CONTROL_PREFACE);
        }
        let resumed = around.requests.quic.as_ref().is_some_and(|clients| clients.has_resumed(self.token));
        let opened = Opened { connect: start.elapsed(), tls: None, resumed };
        reports.push((0, Turn { opened: Some(opened), ..Turn::default() }));
        self.state = State::Open(link);
    }

    /// Opens a stream for each queued request, as many as the server allows.
    fn send_queued(&mut self, around: &Around, reports: &mut Vec<Report>) {
        let State::Open(link) = &mut self.state else { return };
        if self.is_going_away {
            return;
        }
        for (index, seat) in self.seats.iter_mut().enumerate() {
            let Seat::Queued { due } = *seat else { continue };
            let Some(id) = link.connection.streams().open(Dir::Bi) else { return };
            let mut exchange = Exchange {
                due,
                begun: around.clock.now(),
                first_byte: None,
                id,
                unsent: around.requests.next_frames(),
                response: ResponseReader::default(),
            };
            exchange.write(&mut link.connection);
            *seat = Seat::InFlight(exchange);
            self.streams.insert(id, index);
            self.begun += 1;
            reports.push((index, Turn { begun: true, ..Turn::default() }));
        }
    }

    fn write(&mut self, id: StreamId) {
        let (State::Open(link), Some(&index)) = (&mut self.state, self.streams.get(&id)) else { return };
        if let Seat::InFlight(exchange) = &mut self.seats[index] {
            exchange.write(&mut link.connection);
        }
    }

    fn accept_streams(&mut self, reports: &mut Vec<Report>) {
        while let State::Open(link) = &mut self.state
            && let Some(id) = link.connection.streams().accept(Dir::Uni)
        {
            self.uni_streams.insert(id, UniReader::default());
            self.read_uni(id, reports);
        }
    }

    fn read(&mut self, id: StreamId, around: &Around, reports: &mut Vec<Report>) {
        if id.dir() == Dir::Uni {
            return self.read_uni(id, reports);
        }
        let (State::Open(link), Some(&index)) = (&mut self.state, self.streams.get(&id)) else { return };
        let Seat::InFlight(exchange) = &mut self.seats[index] else { return };
        let before = exchange.response.body_bytes();
        let progress = exchange.read(&mut link.connection, around);
        let mut turn = Turn { body_bytes: exchange.response.body_bytes() - before, ..Turn::default() };
        let due = exchange.due;
        turn.news = match progress {
            Progress::Open => None,
            Progress::End => Some(exchange.answered(around)),
            Progress::Reset(code) if code == VarInt::from_u32(code::REQUEST_REJECTED) => {
                turn.refused = true;
                None
            }
            Progress::Reset(_) => Some(News::Lost),
            Progress::Malformed => {
                exchange.cancel(&mut link.connection);
                Some(News::Malformed)
            }
        };
        if turn.news.is_some() || turn.refused {
            self.streams.remove(&id);
            self.seats[index] = if turn.refused { Seat::Queued { due } } else { Seat::Free };
        }
        if turn.news.is_some() || turn.refused || turn.body_bytes > 0 {
            reports.push((index, turn));
        }
    }

    fn read_uni(&mut self, id: StreamId, reports: &mut Vec<Report>) {
        let (State::Open(link), Some(reader)) = (&mut self.state, self.uni_streams.get_mut(&id)) else {
            return;
        };
        let mut goaway = None;
        read_chunks(&mut link.connection, id, |bytes| {
            goaway = reader.feed(bytes).or(goaway);
            true
        });
        if let Some(first) = goaway {
            self.go_away(first, reports);
        }
    }

    /// Requests on streams from `first` on were not processed, and are sent again on the next connection.
    fn go_away(&mut self, first: u64, reports: &mut Vec<Report>) {
        self.is_going_away = true;
        for (index, seat) in self.seats.iter_mut().enumerate() {
            let Seat::InFlight(exchange) = seat else { continue };
            if VarInt::from(exchange.id).into_inner() >= first {
                self.streams.remove(&exchange.id);
                *seat = Seat::Queued { due: exchange.due };
                reports.push((index, Turn { refused: true, ..Turn::default() }));
            }
        }
    }

    /// Handles the end of the connection, by whichever side.
    fn lost(&mut self, reason: ConnectionError, around: &Around, reports: &mut Vec<Report>) {
        let state = std::mem::replace(&mut self.state, State::Closed);
        if matches!(state, State::Opening { .. }) {
            let distrust = around.requests.quic.as_ref().and_then(|clients| clients.distrust(self.token));
            return match (distrust, &reason) {
                (Some(error), _) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, error);
                    self.fail(News::NotSecured, error, reports);
                }
                // There was an answer, and so there is a server.
                (_, ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_)) => {
                    self.fail(News::NotSecured, io::Error::other(reason), reports);
                }
                _ => self.fail(News::NotConnected, reason.into(), reports),
            };
        }
        let is_violation = matches!(reason, ConnectionError::TransportError(_));
        self.lose(|| if is_violation { News::Malformed } else { News::Lost }, reports);
    }

    /// Ends the connection; queued requests are sent on the next one.
    fn close(&mut self, reports: &mut Vec<Report>) {
        if let Some(link) = self.link() {
            link.close();
        }
        self.state = State::Closed;
        self.lose(|| News::Lost, reports);
    }

    /// Reports the requests in flight as lost.
    fn lose(&mut self, news: impl Fn() -> News, reports: &mut Vec<Report>) {
        self.streams.clear();
        for (index, seat) in self.seats.iter_mut().enumerate() {
            if matches!(seat, Seat::InFlight(_)) {
                *seat = Seat::Free;
                reports.push((index, Turn { news: Some(news()), ..Turn::default() }));
            }
        }
    }

    /// The connection could not be opened: reports that for all queued requests.
    fn fail(&mut self, news: fn(io::Error) -> News, error: io::Error, reports: &mut Vec<Report>) {
        let text = error.to_string();
        let mut first = Some(error);
        for (index, seat) in self.seats.iter_mut().enumerate() {
            if matches!(seat, Seat::Queued { .. }) {
                *seat = Seat::Free;
                let error = first.take().unwrap_or_else(|| io::Error::other(text.clone()));
                reports.push((index, Turn { news: Some(news(error)), ..Turn::default() }));
            }
        }
    }
}

impl Drop for Session {
    /// The server is told, so that it does not wait for the idle timeout of the connection.
    fn drop(&mut self) {
        if let Some(link) = self.link() {
            link.close();
        }
    }
}

impl Exchange {
    /// Hands over as much of the request as the connection takes.
    fn write(&mut self, connection: &mut Connection) {
        if self.unsent.is_empty() {
            return;
        }
        let mut stream = connection.send_stream(self.id);
        while !self.unsent.is_empty() {
            match stream.write_chunks(std::slice::from_mut(&mut self.unsent)) {
                Ok(_) => {}
                Err(WriteError::Blocked) => return,
                // The server does not want the rest, and answers without it.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => self.unsent.clear(),
            }
        }
        // An error here means that the stream was stopped.
        let _ = stream.finish();
    }

    fn read(&mut self, connection: &mut Connection, around: &Around) -> Progress {
        let mut is_valid = true;
        let response = &mut self.response;
        let progress = read_chunks(connection, self.id, |bytes| {
            is_valid = response.feed(bytes).is_ok();
            is_valid
        });
        if self.first_byte.is_none() && self.response.has_head() {
            self.first_byte = Some(around.clock.now());
        }
        if is_valid { progress } else { Progress::Malformed }
    }

    fn answered(&self, around: &Around) -> News {
        let Ok(response) = self.response.end(around.requests.is_head) else { return News::Malformed };
        let end = around.clock.now();
        let first_byte = self.first_byte.unwrap_or(end);
        let times = Times { due: self.due, begun: self.begun, first_byte, end };
        News::Answered { times, response, closing: false }
    }

    fn cancel(&self, connection: &mut Connection) {
        let code = VarInt::from_u32(code::REQUEST_CANCELLED);
        // Errors mean that a direction has ended already.
        let _ = connection.recv_stream(self.id).stop(code);
        let _ = connection.send_stream(self.id).reset(code);
    }
}

/// Passes on all that has arrived on a stream, until `take` returns false.
fn read_chunks(connection: &mut Connection, id: StreamId, mut take: impl FnMut(&[u8]) -> bool) -> Progress {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Progress::Open };
    let progress = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) if take(&chunk.bytes) => {}
            Ok(Some(_)) => break Progress::Malformed,
            Ok(None) => break Progress::End,
            Err(ReadError::Blocked) => break Progress::Open,
            Err(ReadError::Reset(code)) => break Progress::Reset(code),
        }
    };
    // The caller sends afterwards in any case.
    let _ = chunks.finalize();
    progress
}
