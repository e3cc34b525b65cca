//! Two connections that talk to each other, as their owners and the network please: the input says what they
//! do. Neither finds a fault in the other, content arrives in order, and windows do not leak.

use std::time::Duration;

use wire::Known;
use wire::h1::{Request, RequestLimits, Response};
use wire::h2::{Code, Connection, Event, Key, Limits, RequestHead};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const LIMITS: RequestLimits = RequestLimits { line_bytes_max: 1024, head_bytes_max: 4096 };
/// Content of the last exchange, which takes the whole window of the connection several times.
const LAST_BYTES: usize = 150_000;

/// A request and its response: what each side has sent, and what has come of it.
#[derive(Default)]
struct Exchange {
    keys: [Option<Key>; 2],
    /// The final response has begun.
    has_response: bool,
    sent: [usize; 2],
    has_ended: [bool; 2],
    /// Content that has come at the other side.
    came: [usize; 2],
    end_came: [bool; 2],
    /// Content that a side has not read.
    unread: [usize; 2],
    /// It was reset, or let go before its end.
    is_over: bool,
}

struct Conversation {
    connections: [Connection<usize>; 2],
    pending: [Vec<u8>; 2],
    exchanges: Vec<Exchange>,
    now: Duration,
}

/// Plays a conversation. Each operation is two bytes: its kind and side, and its stream or amount.
pub(crate) fn http2_conversation(input: &[u8]) {
    let (sizes, operations) = input.split_at(input.len().min(4));
    let size = |at: usize| u32::from(sizes.get(at).copied().unwrap_or(255));
    let limits = |window: u32, table: u32| Limits {
        streams_max: 4,
        head_bytes_max: 4096,
        table_bytes_max: table * 20,
        stream_window_bytes: 2000 + window * 300,
        stream_window_bytes_max: 2000 + window * 600,
        connection_window_bytes: 1 << 16,
        unwritten_bytes_max: 5000,
    };
    let (ours, theirs) = (limits(size(0), size(1)), limits(size(2), size(3)));
    let mut conversation = Conversation {
        connections: [Connection::client(ours, Duration::ZERO), Connection::server(theirs, Duration::ZERO)],
        pending: [Vec::new(), Vec::new()],
        exchanges: Vec::new(),
        now: Duration::ZERO,
    };
    for operation in operations.as_chunks::<2>().0.iter().take(2000) {
        conversation.act(*operation);
    }
    conversation.settle();
    conversation.check();
    conversation.send_more();
}

impl Conversation {
    fn act(&mut self, [kind, amount]: [u8; 2]) {
        self.now += Duration::from_secs(1);
        let side = usize::from(kind >> 7);
        let amount = usize::from(amount);
        let at = amount & 7;
        match kind & 15 {
            0 => self.open(amount),
            1 => self.respond(at, amount & 8 != 0, amount & 16 != 0),
            2 | 3 => self.send(side, at, (amount >> 3) * 200, kind & 64 != 0),
            4 => self.send_trailers(side, at),
            5..=7 => self.carry(side, amount + 1),
            8 | 9 => self.carry(side, (amount + 1) * 100),
            10 => self.read(side, at, (amount >> 3) * 500),
            11 if kind & 64 != 0 => self.reset(side, at),
            12 => self.release(side, at),
            13 => self.connections[side].ping([amount as u8; 8]),
            14 => self.connections[side].set_pressed(amount & 1 != 0),
            15 if kind & 0x70 == 0x70 => self.connections[SERVER].shut_down(),
            _ => {}
        }
    }

    /// The key of a side for an exchange, counted from the newest.
    fn held(&self, side: usize, back: usize) -> Option<(usize, Key)> {
        let index = self.exchanges.len().checked_sub(back + 1)?;
        Some((index, self.exchanges[index].keys[side]?))
    }

    fn open(&mut self, amount: usize) {
        let client = &mut self.connections[CLIENT];
        if client.streams_allowed().is_none_or(|allowed| client.open_streams() >= allowed as usize) {
            return;
        }
        let (index, is_end) = (self.exchanges.len(), amount & 1 != 0);
        let path = format!("/{index}");
        let head =
            RequestHead { method: b"POST", is_https: true, authority: b"a.test", path: path.as_bytes() };
        let value = vec![b'a' + (amount % 26) as u8; amount * 3];
        let fields = [(Known::Other, &b"x-field"[..], &value[..])];
        let Ok(key) = client.open(head, fields.into_iter(), false, is_end, index) else { return };
        let exchange =
            Exchange { keys: [Some(key), None], has_ended: [is_end, false], ..Exchange::default() };
        self.exchanges.push(exchange);
    }

    fn respond(&mut self, back: usize, is_final: bool, is_end: bool) {
        let Some((index, key)) = self.held(SERVER, back) else { return };
        let (server, exchange) = (&mut self.connections[SERVER], &mut self.exchanges[index]);
        if !server.may_send(key) || exchange.has_response {
            return;
        }
        let (status, is_end) = if is_final { (200, is_end) } else { (103, false) };
        server.respond(key, status, std::iter::empty(), is_end).expect("a stream that may send");
        exchange.has_response = is_final;
        exchange.has_ended[SERVER] = is_end;
    }

    fn may_send(&self, side: usize, index: usize, key: Key) -> bool {
        self.connections[side].may_send(key) && (side == CLIENT || self.exchanges[index].has_response)
    }

    fn send(&mut self, side: usize, back: usize, len: usize, is_end: bool) {
        let Some((index, key)) = self.held(side, back) else { return };
        if !self.may_send(side, index, key) {
            return;
        }
        let exchange = &mut self.exchanges[index];
        let content: Vec<u8> = (0..len).map(|at| content_at(side, index, exchange.sent[side] + at)).collect();
        let room = self.connections[side].room(key);
        let sent = self.connections[side].send(key, &content, is_end).expect("a stream that may send");
        assert_eq!(sent, len.min(room));
        exchange.sent[side] += sent;
        exchange.has_ended[side] = is_end && sent == len;
        assert!(self.connections[side].unwritten().len() < 10_000 || !self.connections[side].has_room());
    }

    fn send_trailers(&mut self, side: usize, back: usize) {
        let Some((index, key)) = self.held(side, back) else { return };
        if self.may_send(side, index, key) {
            let fields = [(Known::Other, &b"x-sum"[..], &b"1"[..])];
            self.connections[side].send_trailers(key, fields.into_iter()).expect("a stream that may send");
            self.exchanges[index].has_ended[side] = true;
        }
    }

    fn read(&mut self, side: usize, back: usize, len: usize) {
        let Some((index, key)) = self.held(side, back) else { return };
        let unread = &mut self.exchanges[index].unread[side];
        let len = len.min(*unread);
        *unread -= len;
        self.connections[side].note_read(key, len);
    }

    fn reset(&mut self, side: usize, back: usize) {
        let Some((index, key)) = self.held(side, back) else { return };
        self.connections[side].reset(key, Code::CANCEL);
        self.exchanges[index].is_over = true;
    }

    fn release(&mut self, side: usize, back: usize) {
        let Some((index, key)) = self.held(side, back) else { return };
        assert_eq!(self.connections[side].release(key), Some(index));
        let exchange = &mut self.exchanges[index];
        exchange.keys[side] = None;
        exchange.unread[side] = 0;
        exchange.is_over = true;
    }

    /// Carries bytes to a side.
    fn carry(&mut self, to: usize, len: usize) {
        let from = &mut self.connections[1 - to];
        let frames = from.unwritten();
        let len = len.min(frames.len());
        self.pending[to].extend_from_slice(&frames[..len]);
        from.note_written(len);
        let pending = std::mem::take(&mut self.pending[to]);
        let mut input = &pending[..];
        while let Some(event) = self.connections[to].receive(&mut input, self.now).expect("no fault") {
            let (connection, exchanges) = (&mut self.connections[to], &mut self.exchanges);
            note(to, connection, exchanges, &event);
        }
        self.pending[to] = input.to_vec();
    }

    /// Lets all come and be read that is on the way.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.now += Duration::from_secs(10);
            for side in [CLIENT, SERVER] {
                self.carry(side, usize::MAX);
                for back in 0..self.exchanges.len() {
                    self.read(side, back, usize::MAX);
                }
            }
            if self.connections.iter().all(|connection| connection.unwritten().is_empty()) {
                return;
            }
        }
        panic!("no end of frames");
    }

    fn check(&self) {
        assert!(self.pending.iter().all(Vec::is_empty), "half a frame");
        for (index, exchange) in self.exchanges.iter().enumerate() {
            let is_reset = [CLIENT, SERVER].iter().any(|side| {
                exchange.keys[*side].is_none_or(|key| self.connections[*side].reset_of(key).is_some())
            });
            if exchange.is_over || is_reset {
                continue;
            }
            assert_eq!(exchange.came, exchange.sent, "content of exchange {index}");
            assert_eq!(exchange.end_came, exchange.has_ended, "the end of exchange {index}");
        }
        assert_eq!(self.connections.each_ref().map(Connection::faults), [0, 0]);
    }

    /// All streams are let go, and one more has as much room as ever.
    fn send_more(&mut self) {
        for side in [CLIENT, SERVER] {
            for back in 0..self.exchanges.len() {
                self.release(side, back);
            }
        }
        self.settle();
        self.open(0);
        self.settle();
        let Some((index, key)) = self.held(SERVER, 0) else { return };
        assert_eq!(self.connections.each_ref().map(Connection::open_streams), [1, 1]);
        self.connections[SERVER].respond(key, 200, std::iter::empty(), false).expect("a new stream");
        self.exchanges[index].has_response = true;
        for side in [CLIENT, SERVER] {
            for _ in 0..LAST_BYTES {
                let left = LAST_BYTES - self.exchanges[index].sent[side];
                if left == 0 {
                    break;
                }
                let before = self.exchanges[index].sent[side];
                self.send(side, 0, left.min(5000), false);
                self.settle();
                assert!(self.exchanges[index].sent[side] > before, "a window has no room any more");
            }
        }
        self.check();
    }
}

fn content_at(side: usize, index: usize, at: usize) -> u8 {
    (at + at / 256 + 31 * index + 7 * side) as u8
}

/// Notes an event of a side.
fn note(side: usize, connection: &mut Connection<usize>, exchanges: &mut [Exchange], event: &Event<'_>) {
    let other = 1 - side;
    match *event {
        Event::Request => {
            let (mut head, mut request) = (Vec::new(), Request::default());
            let opened = connection.request(LIMITS, String::new, &mut head, &mut request, 0);
            let opened = opened.expect("no fault").expect("no fault");
            opened.head.expect("a head without faults");
            let path = std::str::from_utf8(&head[request.target.clone()]).expect("a number");
            let index: usize = path[1..].parse().expect("a number");
            *connection.data(opened.key).expect("a new stream") = index;
            exchanges[index].keys[SERVER] = Some(opened.key);
            exchanges[index].end_came[CLIENT] = opened.is_end;
        }
        Event::Response(key) => {
            let (mut head, mut response) = (Vec::new(), Response::default());
            let read = connection.response(false, &mut head, &mut response).expect("no fault");
            let index = *connection.data(key).expect("a stream that is held");
            exchanges[index].end_came[SERVER] = !read.expect("a response without faults");
        }
        Event::Trailers(key) => {
            assert_eq!(connection.trailers(&mut Vec::new()), Ok(true));
            let index = *connection.data(key).expect("a stream that is held");
            exchanges[index].end_came[other] = true;
        }
        Event::Data { key, content, is_end } => {
            let index = *connection.data(key).expect("a stream that is held");
            let exchange = &mut exchanges[index];
            for byte in content {
                assert_eq!(*byte, content_at(other, index, exchange.came[other]), "content out of order");
                exchange.came[other] += 1;
            }
            exchange.unread[side] += content.len();
            exchange.end_came[other] |= is_end;
        }
        Event::Reset(key) => {
            let index = *connection.data(key).expect("a stream that is held");
            assert!(connection.reset_of(key).is_some() && !connection.may_send(key));
            exchanges[index].is_over = true;
        }
        Event::Room(key) => assert!(connection.data(key).is_some(), "room for a stream that is held"),
        Event::RoomForAll | Event::Goaway | Event::Pong(_) => {}
    }
}
