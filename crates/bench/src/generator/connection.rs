//! One connection of the generator, with the request in flight on it.
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

/// A connection that is opened when it is first needed, and again after it has ended.
#[derive(Default)]
pub(super) struct Connection {
    stream: Option<Stream>,
    state: State,
    reader: ResponseReader,
    /// When opening began; none once the server has accepted the connection and the TLS handshake, if any, is
    /// complete.
    opening: Option<Instant>,
    /// Requests begun on this connection, and the variant of the last one.
    begun: u64,
    variant: usize,
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
    /// The request that was due at `due` is being sent: `sent` bytes so far, the first at `begun`.
    Sending { due: Duration, begun: Duration, sent: usize },
    /// The response is awaited; its first byte came at `first_byte`, none if none has come.
    Awaiting { due: Duration, begun: Duration, first_byte: Option<Duration> },
    /// The server is to close the connection.
    Closing,
}

/// The outcome of a request, or of a connection that was being closed.
#[derive(Debug)]
pub(super) enum News {
    /// The response is complete. With `closing`, the connection is not free before [`News::Closed`].
    Answered {
        times: Times,
        response: Response,
        closing: bool,
    },
    /// The server did not accept the connection.
    NotConnected(io::Error),
    /// The server accepted the connection, but the TLS handshake failed.
    NotSecured(io::Error),
    /// The connection ended before the response was complete.
    Lost,
    Malformed,
    /// The connection has been closed, and can be used again.
    Closed,
}

/// The result of one turn on a connection.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) news: Option<News>,
    pub(super) bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) opened: Option<Opened>,
    /// Sending of the request has begun.
    pub(super) begun: bool,
    /// The request in flight was certainly not processed, and will be sent again.
    pub(super) refused: bool,
    /// Bytes arrived that belong to no request.
    pub(super) unsolicited: bool,
}

/// State that all connections of a thread share.
pub(super) struct Around {
    pub(super) requests: Requests,
    pub(super) epoll: Epoll,
    pub(super) clock: Clock,
}

impl Connection {
    /// Sends the next request, which was due at `due`; opens the connection first, if needed. The connection
    /// must be free.
    pub(super) fn start(&mut self, due: Duration, begun: Duration, around: &Around, token: usize) -> Turn {
        let opened = if self.stream.is_none() { self.open(around, token) } else { Ok(()) };
        self.begun += 1;
        self.variant = around.requests.next_variant();
        self.state = State::Sending { due, begun, sent: 0 };
        let mut turn = Turn::default();
        match opened {
            Ok(()) => self.send(around, &mut turn),
            Err(error) => self.fail(News::NotConnected(error), &mut turn),
        }
        turn
    }

    /// Handles readiness of the socket.
    pub(super) fn advance(&mut self, around: &Around, buffer: &mut [u8], ending: bool) -> Turn {
        let mut turn = Turn::default();
        if matches!(self.state, State::Sending { .. }) {
            self.send(around, &mut turn);
        }
        // Before the first byte is sent there is nothing to read, and an error is the one of the send.
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

    /// Sends the rest of the request. The kernel takes nothing while the connection is being opened.
    fn send(&mut self, around: &Around, turn: &mut Turn) {
        let (State::Sending { due, mut begun, sent }, Some(stream)) = (self.state, &mut self.stream) else {
            return;
        };
        let (bytes, _) = around.requests.nth(self.begun, self.variant);
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
                // The server may have sent an error response, but a request that was cut off has no response
                // to check.
                turn.begun = sent == 0;
                self.fail(News::Lost, turn);
            }
        }
    }

    /// Receives until a short read shows that no more data is there; with `ending`, until the end of the
    /// stream.
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
        // Read once for a response that arrives in one piece, as most do.
        let now = around.clock.now();
        let first_byte = first_byte.unwrap_or(now);
        match self.reader.feed(bytes, around.requests.is_head, &mut turn.body_bytes) {
            Ok(None) => self.state = State::Awaiting { due, begun, first_byte: Some(first_byte) },
            Ok(Some(response)) => {
                let closing = around.requests.nth(self.begun, self.variant).1 || !response.persists;
                self.state = if closing { State::Closing } else { State::Idle };
                let times = Times { due, begun, first_byte, end: now };
                turn.news = Some(News::Answered { times, response, closing });
            }
            Err(_) => self.fail(News::Malformed, turn),
        }
    }

    /// Handles the end of the server's stream.
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

    /// Closes the connection, and reports what that means for the request in flight, or for the one who waits
    /// for the close.
    fn fail(&mut self, news: News, turn: &mut Turn) {
        match (std::mem::take(self).state, &mut turn.news) {
            // The connection was closed in the same turn in which the response arrived, so that it is free at
            // once.
            (State::Closing, Some(News::Answered { closing, .. })) => *closing = false,
            (State::Closing, _) => turn.news = Some(News::Closed),
            (State::Idle, _) => {}
            (State::Sending { .. } | State::Awaiting { .. }, _) => turn.news = Some(news),
        }
    }
}
