//! One of the generator's connections, and the request that is out on it.
//!
//! Must not be in here: when requests are due, and how they are counted.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::response::{Response, ResponseReader};
use super::stream::{Arrival, Stream};
use crate::epoll::Epoll;
use crate::tls::Clients;

/// A connection that is opened when it is first needed, and again after it ended.
#[derive(Default)]
pub(super) struct Connection {
    stream: Option<Stream>,
    state: State,
    reader: ResponseReader,
    /// Whether the server is known to have taken it, and the handshake is over where there is one.
    established: bool,
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
    /// So many bytes of the request that was due then are sent.
    Sending { due: Duration, sent: usize },
    /// For the answer to the request that was due then.
    Awaiting { due: Duration },
    /// For the server to close.
    Closing,
}

/// What became of the request that was out, or of a connection that was closing.
#[derive(Debug)]
pub(super) enum News {
    /// With `closing` the connection is not free before it is `Closed`.
    Answered {
        due: Duration,
        response: Response,
        closing: bool,
    },
    /// The server did not take the connection.
    NotConnected(io::Error),
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
    pub(super) connected: bool,
    /// It is `connected`, and its handshake resumed a session.
    pub(super) resumed: bool,
    /// The request is on its way.
    pub(super) begun: bool,
    /// Bytes came that no request asked for.
    pub(super) unsolicited: bool,
}

/// What all connections of a thread send.
pub(super) struct Requests {
    pub(super) target: SocketAddr,
    /// A client for each connection.
    pub(super) tls: Option<Clients>,
    pub(super) keeping: Vec<u8>,
    pub(super) closing: Vec<u8>,
    pub(super) per_connection: u64,
    pub(super) is_head: bool,
}

impl Requests {
    /// The request that is number `begun` on its connection, and whether it is the last there.
    fn nth(&self, begun: u64) -> (&[u8], bool) {
        let last = begun >= self.per_connection;
        (if last { &self.closing } else { &self.keeping }, last)
    }
}

impl Connection {
    /// Sends the next request, which was due at `due`; connects before, where needed. The connection must be free.
    pub(super) fn start(&mut self, due: Duration, requests: &Requests, epoll: &Epoll, token: usize) -> Turn {
        let opened = if self.stream.is_none() { self.open(requests, epoll, token) } else { Ok(()) };
        self.begun += 1;
        self.state = State::Sending { due, sent: 0 };
        let mut turn = Turn::default();
        match opened {
            Ok(()) => self.send(requests, &mut turn),
            Err(error) => self.fail(News::NotConnected(error), &mut turn),
        }
        turn
    }

    /// Its socket became ready.
    pub(super) fn advance(&mut self, requests: &Requests, buffer: &mut [u8], ending: bool) -> Turn {
        let mut turn = Turn::default();
        if matches!(self.state, State::Sending { .. }) {
            self.send(requests, &mut turn);
        }
        // Before the first byte is out there is nothing to read, and what is wrong is what the send said.
        if self.established && turn.news.is_none() {
            self.receive(requests, buffer, ending, &mut turn);
        }
        turn
    }

    fn open(&mut self, requests: &Requests, epoll: &Epoll, token: usize) -> io::Result<()> {
        let session = requests.tls.as_ref().map(|clients| clients.begin(token)).transpose()?;
        let stream = Stream::open(requests.target, session, epoll, token)?;
        *self = Connection { stream: Some(stream), ..Connection::default() };
        Ok(())
    }

    /// Sends what is left of the request. On a connection that is still being made the kernel takes nothing.
    fn send(&mut self, requests: &Requests, turn: &mut Turn) {
        let (State::Sending { due, sent }, Some(stream)) = (self.state, &mut self.stream) else { return };
        let (bytes, _) = requests.nth(self.begun);
        match stream.send(&bytes[sent..]) {
            Ok(0) => {}
            Ok(count) => {
                turn.connected = !std::mem::replace(&mut self.established, true);
                turn.resumed = turn.connected && stream.is_resumed();
                turn.begun = sent == 0;
                let sent = sent + count;
                self.state =
                    if sent < bytes.len() { State::Sending { due, sent } } else { State::Awaiting { due } };
            }
            Err(error) if !self.established => self.fail(News::NotConnected(error), turn),
            Err(_) => {
                // The server's word may be there to be read, but a request that was cut off has no answer to check.
                turn.begun = sent == 0;
                self.fail(News::Lost, turn);
            }
        }
    }

    /// Receives until a short read shows that there is no more, or, where the end may be next, until there is none.
    fn receive(&mut self, requests: &Requests, buffer: &mut [u8], ending: bool, turn: &mut Turn) {
        while let Some(stream) = &mut self.stream {
            match stream.receive(buffer) {
                Ok(Arrival::Nothing) => return,
                Ok(Arrival::Bytes { count, drained }) => {
                    turn.bytes += count as u64;
                    if count > 0 {
                        self.read(&buffer[..count], requests, turn);
                    }
                    if drained && !ending {
                        return;
                    }
                }
                Ok(Arrival::End) => self.end(turn),
                Err(_) => self.fail(News::Lost, turn),
            }
        }
    }

    fn read(&mut self, bytes: &[u8], requests: &Requests, turn: &mut Turn) {
        let State::Awaiting { due } = self.state else {
            turn.unsolicited = true;
            return self.fail(News::Malformed, turn);
        };
        match self.reader.feed(bytes, requests.is_head) {
            Ok(None) => {}
            Ok(Some(response)) => {
                let closing = requests.nth(self.begun).1 || !response.persists;
                self.state = if closing { State::Closing } else { State::Idle };
                turn.news = Some(News::Answered { due, response, closing });
            }
            Err(_) => self.fail(News::Malformed, turn),
        }
    }

    /// The server sends no more.
    fn end(&mut self, turn: &mut Turn) {
        match (self.state, self.reader.end()) {
            (State::Awaiting { due }, Some(response)) => {
                *self = Connection::default();
                turn.news = Some(News::Answered { due, response, closing: false });
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
