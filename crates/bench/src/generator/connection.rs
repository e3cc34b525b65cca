//! One of the generator's connections, and the request that is out on it.
//!
//! Must not be in here: when requests are due, and how they are counted.

use std::io;
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::outcome::{Opened, Times};
use super::requests::Requests;
use super::response::{Response, ResponseReader};
use super::stream::{Arrival, Stream};
use crate::epoll::Epoll;

/// A connection that is opened when it is first needed, and again after it ended.
#[derive(Default)]
pub(super) struct Connection {
    stream: Option<Stream>,
    state: State,
    reader: ResponseReader,
    /// When it was begun, until the server is known to have taken it, and the handshake is over where there is one.
    opening: Option<Instant>,
    /// Requests begun on this stream.
    begun: u64,
}

/// ```text
/// Idle --start--> Sending --all sent--> Awaiting --answer--> Idle
///                    |                     |---answer, the last--> Closing --end--> Idle
///                    '-------failure-------'--------------------------------------> Idle
/// ```
#[derive(Clone, Copy, Default)]
enum State {
    /// Free for a request.
    #[default]
    Idle,
    /// So many bytes of the request that was due then are sent, the first of them at `begun`.
    Sending { due: Duration, begun: Duration, sent: usize },
    /// For the answer to the request that was due then, and of which there is something since `first_byte`.
    Awaiting { due: Duration, begun: Duration, first_byte: Option<Duration> },
    /// For the server to close.
    Closing,
}

/// What became of the request that was out, or of a connection that was closing.
#[derive(Debug)]
pub(super) enum News {
    /// With `closing` the connection is not free before it is `Closed`.
    Answered {
        times: Times,
        response: Response,
        closing: bool,
    },
    /// The server did not take the connection.
    NotConnected(io::Error),
    /// It did, and there was no handshake.
    NotSecured(io::Error),
    /// It ended before the answer did.
    Lost,
    Malformed,
    /// It is free again.
    Closed,
}

/// What a turn on a connection brought.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) news: Option<News>,
    pub(super) bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) opened: Option<Opened>,
    /// The request is on its way.
    pub(super) begun: bool,
    /// The request that was on its way was not taken, for certain, and will be sent again.
    pub(super) refused: bool,
    /// Bytes came that no request asked for.
    pub(super) unsolicited: bool,
}

/// What all connections of a thread have in common.
pub(super) struct Around {
    pub(super) requests: Requests,
    pub(super) epoll: Epoll,
    pub(super) clock: Clock,
}

impl Connection {
    /// Sends the next request, which was due at `due`; connects before, where needed. The connection must be free.
    pub(super) fn start(&mut self, due: Duration, begun: Duration, around: &Around, token: usize) -> Turn {
        let opened = if self.stream.is_none() { self.open(around, token) } else { Ok(()) };
        self.begun += 1;
        self.state = State::Sending { due, begun, sent: 0 };
        let mut turn = Turn::default();
        match opened {
            Ok(()) => self.send(around, &mut turn),
            Err(error) => self.fail(News::NotConnected(error), &mut turn),
        }
        turn
    }

    /// Its socket became ready.
    pub(super) fn advance(&mut self, around: &Around, buffer: &mut [u8], ending: bool) -> Turn {
        let mut turn = Turn::default();
        if matches!(self.state, State::Sending { .. }) {
            self.send(around, &mut turn);
        }
        // Before the first byte is out there is nothing to read, and what is wrong is what the send said.
        if self.opening.is_none() && turn.news.is_none() {
            self.receive(around, buffer, ending, &mut turn);
        }
        turn
    }

    fn open(&mut self, around: &Around, token: usize) -> io::Result<()> {
        let Around { requests, epoll, .. } = around;
        let opening = Some(Instant::now());
        let session = requests.tls.as_ref().map(|clients| clients.begin(token)).transpose()?;
        let stream = Stream::open(requests.target(token), session, epoll, token)?;
        *self = Connection { stream: Some(stream), opening, ..Connection::default() };
        Ok(())
    }

    /// Sends what is left of the request. On a connection that is still being made the kernel takes nothing.
    fn send(&mut self, around: &Around, turn: &mut Turn) {
        let (State::Sending { due, mut begun, sent }, Some(stream)) = (self.state, &mut self.stream) else {
            return;
        };
        let (bytes, _) = around.requests.nth(self.begun);
        match stream.send(&bytes[sent..]) {
            Ok(0) => {}
            Ok(count) => {
                if let Some(start) = self.opening.take() {
                    turn.opened = Some(stream.opened(start));
                    begun = around.clock.now();
                }
                turn.begun = sent == 0;
                let sent = sent + count;
                let is_out = sent == bytes.len();
                self.state = if is_out {
                    State::Awaiting { due, begun, first_byte: None }
                } else {
                    State::Sending { due, begun, sent }
                };
            }
            Err(error) if self.opening.is_some() && stream.is_connected() => {
                self.fail(News::NotSecured(error), turn);
            }
            Err(error) if self.opening.is_some() => self.fail(News::NotConnected(error), turn),
            Err(_) => {
                // The server's word may be there to be read, but a request that was cut off has no answer to check.
                turn.begun = sent == 0;
                self.fail(News::Lost, turn);
            }
        }
    }

    /// Receives until a short read shows that there is no more, or, where the end may be next, until there is none.
    fn receive(&mut self, around: &Around, buffer: &mut [u8], ending: bool, turn: &mut Turn) {
        while let Some(stream) = &mut self.stream {
            match stream.receive(buffer) {
                Ok(Arrival::Nothing) => return,
                Ok(Arrival::Bytes { count, drained }) => {
                    turn.bytes += count as u64;
                    if count > 0 {
                        self.read(&buffer[..count], around, turn);
                    }
                    if drained && !ending {
                        return;
                    }
                }
                Ok(Arrival::End) => self.end(around.clock, turn),
                Err(_) => self.fail(News::Lost, turn),
            }
        }
    }

    fn read(&mut self, bytes: &[u8], around: &Around, turn: &mut Turn) {
        let State::Awaiting { due, begun, first_byte } = self.state else {
            turn.unsolicited = true;
            return self.fail(News::Malformed, turn);
        };
        // Once for an answer that comes in one piece, as most do.
        let now = around.clock.now();
        let first_byte = first_byte.unwrap_or(now);
        match self.reader.feed(bytes, around.requests.is_head, &mut turn.body_bytes) {
            Ok(None) => self.state = State::Awaiting { due, begun, first_byte: Some(first_byte) },
            Ok(Some(response)) => {
                let closing = around.requests.nth(self.begun).1 || !response.persists;
                self.state = if closing { State::Closing } else { State::Idle };
                let times = Times { due, begun, first_byte, end: now };
                turn.news = Some(News::Answered { times, response, closing });
            }
            Err(_) => self.fail(News::Malformed, turn),
        }
    }

    /// The server sends no more.
    fn end(&mut self, clock: Clock, turn: &mut Turn) {
        match (self.state, self.reader.end()) {
            (State::Awaiting { due, begun, first_byte: Some(first_byte) }, Some(response)) => {
                *self = Connection::default();
                let times = Times { due, begun, first_byte, end: clock.now() };
                turn.news = Some(News::Answered { times, response, closing: false });
            }
            _ => self.fail(News::Lost, turn),
        }
    }

    /// Drops the stream, and tells what that means for the request that is out, or for who waits for the stream to close.
    fn fail(&mut self, news: News, turn: &mut Turn) {
        match (std::mem::take(self).state, &mut turn.news) {
            // Closed in the turn that brought the answer: free at once.
            (State::Closing, Some(News::Answered { closing, .. })) => *closing = false,
            (State::Closing, _) => turn.news = Some(News::Closed),
            (State::Idle, _) => {}
            (State::Sending { .. } | State::Awaiting { .. }, _) => turn.news = Some(news),
        }
    }
}
