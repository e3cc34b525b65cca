//! The end of `wire::h2`.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use wire::Known;
use wire::h1::{Request, RequestLimits, Response};
use wire::h2::{Code, Connection, Event, Key, Limits, RequestHead, lines};

use crate::plan::{Break, End, Exchange, Fields, Got, Message, Plan, own};
use crate::{Outcome, note};

/// A stream, as its owner sees it.
struct Stream {
    index: usize,
    got: Got,
    unread: usize,
    has_sent_head: bool,
    /// The content that is sent, and how many of its bytes have been.
    content: Rc<[u8]>,
    sent: usize,
    has_sent_end: bool,
}

impl Stream {
    fn new(index: usize, content: &[u8], has_sent_end: bool) -> Self {
        let got = Got::default();
        Self { index, got, unread: 0, has_sent_head: false, content: content.into(), sent: 0, has_sent_end }
    }
}

struct Owner<'a> {
    plan: &'a Plan,
    connection: Connection<Stream>,
    keys: Vec<Key>,
    /// The next exchange that a client begins.
    next: usize,
    is_server: bool,
    outcome: Outcome,
}

fn limits(plan: &Plan) -> Limits {
    Limits {
        streams_max: plan.streams_max,
        head_bytes_max: 1 << 16,
        table_bytes_max: plan.our_table,
        stream_window_bytes: plan.our_window,
        stream_window_bytes_max: plan.our_window * 4,
        connection_window_bytes: plan.our_window * 2,
        unwritten_bytes_max: plan.unwritten_bytes_max,
    }
}

pub(crate) async fn serve(socket: DuplexStream, plan: &Plan, outcome: Outcome) {
    let connection = Connection::server(limits(plan), Duration::ZERO);
    drive(socket, Owner { plan, connection, keys: Vec::new(), next: 0, is_server: true, outcome }).await;
}

pub(crate) async fn ask_all(socket: DuplexStream, plan: &Plan, outcome: Outcome) {
    let connection = Connection::client(limits(plan), Duration::ZERO);
    drive(socket, Owner { plan, connection, keys: Vec::new(), next: 0, is_server: false, outcome }).await;
}

async fn drive(mut socket: DuplexStream, mut owner: Owner<'_>) {
    owner.connection.set_pressed(owner.plan.is_pressed);
    let mut pending = Vec::new();
    poll_fn(|cx| {
        loop {
            let mut input = &pending[..];
            owner.understand(&mut input);
            let read = pending.len() - input.len();
            pending.drain(..read);
            owner.step();
            let has_written = owner.poll_write(&mut socket, cx);
            if owner.is_done() {
                return Poll::Ready(());
            }
            match poll_read(&mut socket, cx, owner.plan.cut, &mut pending) {
                Poll::Ready(0) => return Poll::Ready(()),
                Poll::Ready(_) => {}
                Poll::Pending if has_written => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    assert_eq!((owner.connection.open_streams(), owner.keys.len()), (0, 0), "streams are left");
    assert_eq!(owner.connection.faults(), 0, "the other end is right");
}

fn poll_read(socket: &mut DuplexStream, cx: &mut Context<'_>, cut: usize, out: &mut Vec<u8>) -> Poll<usize> {
    let mut room = vec![0; cut];
    let mut buffer = ReadBuf::new(&mut room);
    Pin::new(socket).poll_read(cx, &mut buffer).map(|read| {
        read.unwrap();
        out.extend_from_slice(buffer.filled());
        buffer.filled().len()
    })
}

impl Owner<'_> {
    /// Writes what is to be written, as far as it goes. Returns whether there was something.
    fn poll_write(&mut self, socket: &mut DuplexStream, cx: &mut Context<'_>) -> bool {
        let mut has_written = false;
        while !self.connection.unwritten().is_empty() {
            let frames = self.connection.unwritten();
            let part = &frames[..frames.len().min(self.plan.cut)];
            match Pin::new(&mut *socket).poll_write(cx, part) {
                Poll::Ready(Ok(len)) => self.connection.note_written(len),
                // The other end has all that it wants.
                Poll::Ready(Err(_)) => self.connection.note_written(frames.len()),
                Poll::Pending => break,
            }
            has_written = true;
        }
        has_written
    }

    fn is_done(&self) -> bool {
        let is_over = !self.is_server && self.next == self.plan.exchanges.len() && self.keys.is_empty();
        is_over && self.connection.unwritten().is_empty()
    }

    fn understand(&mut self, input: &mut &[u8]) {
        while let Some(event) = self.connection.receive(input, Duration::ZERO).expect("no fault") {
            match event {
                Event::Request => self.request(),
                Event::Response(key) => self.response(key),
                Event::Trailers(key) => {
                    let mut text = Vec::new();
                    assert!(self.connection.trailers(&mut text).unwrap());
                    let got = &mut self.connection.data(key).unwrap().got;
                    (got.trailers, got.end) = (Some(own_lines(&text)), End::Whole);
                }
                Event::Data { key, content, is_end } => {
                    let stream = self.connection.data(key).unwrap();
                    stream.got.content.extend_from_slice(content);
                    stream.unread += content.len();
                    if is_end {
                        stream.got.end = End::Whole;
                    }
                }
                _ => {}
            }
        }
    }

    fn request(&mut self) {
        let limits = RequestLimits { line_bytes_max: 1024, head_bytes_max: 1 << 16 };
        let (mut head, mut request) = (Vec::new(), Request::default());
        let stream = Stream::new(0, &[], false);
        let opened = self.connection.request(limits, String::new, &mut head, &mut request, stream);
        let opened = opened.unwrap().expect("a request without faults");
        opened.head.expect("a head without faults");
        assert!(head.starts_with(b"POST /path HTTP/1.1\r\nhost: a.test\r\n"));
        let index = request.fields.find_name(&head, b"x-index").unwrap().value(&head);
        let stream = self.connection.data(opened.key).unwrap();
        stream.index = std::str::from_utf8(index).unwrap().parse().unwrap();
        stream.content = self.plan.exchanges[stream.index].response.bytes(stream.index).into();
        stream.got.fields = own_lines(&head);
        if opened.is_end {
            stream.got.end = End::Whole;
        }
        self.keys.push(opened.key);
    }

    fn response(&mut self, key: Key) {
        let (mut head, mut response) = (Vec::new(), Response::default());
        let has_more = self.connection.response(false, &mut head, &mut response).unwrap();
        let got = &mut self.connection.data(key).unwrap().got;
        if response.status == 103 {
            got.interim += 1;
            return;
        }
        (got.status, got.fields) = (response.status, own_lines(&head));
        if !has_more.expect("a response without faults") {
            got.end = End::Whole;
        }
    }

    /// Does all that can be done now.
    fn step(&mut self) {
        while !self.is_server && self.next < self.plan.exchanges.len() && self.may_open() {
            self.open();
        }
        for key in self.keys.clone() {
            let Some(stream) = self.connection.data(key) else { continue };
            let (index, unread) = (stream.index, std::mem::take(&mut stream.unread));
            self.connection.note_read(key, unread);
            let exchange = &self.plan.exchanges[index];
            if self.is_over(key, exchange) {
                let mut stream = self.connection.release(key).unwrap();
                stream.got.content.shrink_to_fit();
                let list = if self.is_server { &self.outcome.requests } else { &self.outcome.responses };
                note(list, index, stream.got);
                self.keys.retain(|one| *one != key);
            } else if self.connection.may_send(key) {
                self.send(key, exchange);
            }
        }
    }

    fn may_open(&self) -> bool {
        let allowed = self.connection.streams_allowed().unwrap_or(1);
        self.connection.open_streams() < allowed as usize && self.connection.has_room()
    }

    fn open(&mut self) {
        let index = self.next;
        self.next += 1;
        let request = &self.plan.exchanges[index].request;
        let head = RequestHead { method: b"POST", is_https: false, authority: b"a.test", path: b"/path" };
        let mut all = request.all_fields();
        all.push(("x-index".to_owned(), index.to_string()));
        let is_end = request.is_head_alone();
        let stream = Stream::new(index, &request.bytes(index), is_end);
        let key = self.connection.open(head, named(&all), true, is_end, stream).unwrap();
        self.keys.push(key);
    }

    /// Whether a stream is to be let go: it is over, or is broken off.
    fn is_over(&mut self, key: Key, exchange: &Exchange) -> bool {
        let reset = self.connection.reset_of(key);
        let is_server = self.is_server;
        let stream = self.connection.data(key).unwrap();
        let has_end = stream.got.end == End::Whole;
        if let Some(reset) = reset {
            if !has_end {
                stream.got.end = End::Reset(reset.code.0);
            }
            return true;
        }
        let is_broken_off = match exchange.breaks {
            Break::ByServer(len) if is_server => has_end || stream.got.content.len() >= len,
            Break::ByClient(len) if !is_server && stream.got.status > 0 => {
                has_end || stream.got.content.len() >= len
            }
            _ => false,
        };
        let is_over = has_end && stream.has_sent_end;
        if is_broken_off {
            self.connection.reset(key, Code::CANCEL);
        }
        is_broken_off || is_over
    }

    fn send(&mut self, key: Key, exchange: &Exchange) {
        let message = if self.is_server { &exchange.response } else { &exchange.request };
        let stream = self.connection.data(key).unwrap();
        let content = Rc::clone(&stream.content);
        let mut sent = stream.sent;
        if self.is_server && !stream.has_sent_head {
            let is_first = exchange.is_early || stream.got.end == End::Whole;
            if !is_first || matches!(exchange.breaks, Break::ByServer(_)) {
                return;
            }
            stream.has_sent_head = true;
            for _ in 0..exchange.interim {
                self.connection.respond(key, 103, std::iter::empty(), false).unwrap();
            }
            let is_end = message.is_head_alone();
            self.connection.respond(key, exchange.status, named(&message.all_fields()), is_end).unwrap();
            if is_end {
                self.connection.data(key).unwrap().has_sent_end = true;
                return;
            }
        }
        let has_sent_end = self.send_content(key, message, &content, &mut sent);
        let stream = self.connection.data(key).unwrap();
        (stream.sent, stream.has_sent_end) = (sent, has_sent_end);
    }

    /// Sends content piece by piece, and trailers after it. Returns whether the stream has ended.
    fn send_content(&mut self, key: Key, message: &Message, content: &[u8], sent: &mut usize) -> bool {
        let mut end = 0;
        for len in &message.pieces {
            end += len;
            while *sent < end {
                let is_last = end == content.len() && message.trailers.is_none();
                let len = self.connection.send(key, &content[*sent..end], is_last).unwrap();
                *sent += len;
                if len == 0 {
                    return false;
                }
            }
        }
        if let Some(trailers) = &message.trailers {
            self.connection.send_trailers(key, named(trailers)).unwrap();
        }
        true
    }
}

fn named(fields: &Fields) -> impl Iterator<Item = (Known, &[u8], &[u8])> {
    fields.iter().map(|(name, value)| (Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes()))
}

fn own_lines(head: &[u8]) -> Fields {
    own(lines(head).map(|(_, name, value)| (name, value)))
}
