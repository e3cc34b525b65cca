//! Connections against scripts of frames, and against each other. A script names frames, which `script`
//! writes; what a connection says and writes is text again, so that tables fit on a screen.

mod floods;
mod flow;
mod goodbye;
mod heads;
mod messages;
mod pairs;
mod settings;
mod states;

use std::time::Duration;

use super::connection::PREFACE;
use super::frame::{self, Header, flag, kind};
use super::*;
use crate::h1::{Request, RequestLimits, Response};

const REQUEST_LIMITS: RequestLimits = RequestLimits { line_bytes_max: 1024, head_bytes_max: 4096 };
const LIMITS: Limits = Limits {
    streams_max: 4,
    head_bytes_max: 4096,
    table_bytes_max: 4096,
    stream_window_bytes: 65_535,
    stream_window_bytes_max: 1 << 18,
    connection_window_bytes: 1 << 20,
    unwritten_bytes_max: 1 << 16,
};
const REQUEST: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
const RESPONSE: &[(&str, &str)] = &[(":status", "200")];
const TRAILERS: &[(&str, &str)] = &[("x-sum", "1")];

/// A connection under test, and what it has said.
struct Party {
    connection: Connection<()>,
    now: Duration,
    /// Bytes that have come and have not been read.
    pending: Vec<u8>,
    keys: Vec<(u32, Key)>,
    /// The text of the head or trailers that were read last.
    lines: String,
    /// Content that has come, by stream.
    contents: Vec<(u32, Vec<u8>)>,
    answers_head: bool,
    /// Content is read as it comes.
    reads: bool,
}

impl Party {
    /// A server after the client's preface and empty settings.
    fn server(limits: Limits) -> Self {
        let mut server = Self::new(Connection::server(limits, Duration::ZERO));
        assert_eq!(server.take(PREFACE), "");
        assert_eq!(server.play("SETTINGS"), "room");
        server.written();
        server
    }

    /// A client after the server's empty settings.
    fn client(limits: Limits) -> Self {
        let mut client = Self::new(Connection::client(limits, Duration::ZERO));
        assert_eq!(client.play("SETTINGS"), "room");
        let out = client.connection.unwritten().len();
        client.connection.note_written(out);
        client
    }

    fn new(connection: Connection<()>) -> Self {
        Self {
            connection,
            now: Duration::ZERO,
            pending: Vec::new(),
            keys: Vec::new(),
            lines: String::new(),
            contents: Vec::new(),
            answers_head: false,
            reads: true,
        }
    }

    /// Takes the frames of a script, and returns what is said about them.
    fn play(&mut self, text: &str) -> String {
        let message = if self.connection.is_server { REQUEST } else { RESPONSE };
        self.take(&script(text, message))
    }

    /// Takes bytes, and returns the events, or the fault.
    fn take(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let (mut input, mut said) = (&pending[..], Vec::new());
        loop {
            match self.next(&mut input) {
                Ok(Some(event)) => said.push(event),
                Ok(None) => break,
                Err(fault) => {
                    said.push(format!("fault {}", code(fault.code)));
                    break;
                }
            }
        }
        self.pending = input.to_vec();
        said.join(", ")
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<String>, Fault> {
        let Some(event) = self.connection.receive(input, self.now)? else { return Ok(None) };
        Ok(Some(match event {
            Event::Request => self.request()?,
            Event::Response(key) => self.response(key)?,
            Event::Trailers(key) => {
                let mut lines = Vec::new();
                let is_right = self.connection.trailers(&mut lines)?;
                self.lines = String::from_utf8(lines).unwrap();
                format!("{} {}", if is_right { "trailers" } else { "broken" }, self.id(key))
            }
            Event::Data { key, content, is_end } => {
                let (id, len) = (self.id(key), content.len());
                match self.contents.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, all)) => all.extend_from_slice(content),
                    None => self.contents.push((id, content.to_vec())),
                }
                if self.reads && len > 0 {
                    self.connection.note_read(key, len);
                }
                format!("data {id} {len}{}", if is_end { " end" } else { "" })
            }
            Event::Reset(key) => {
                let reset = self.connection.reset_of(key).expect("a stream that was reset");
                assert!(!self.connection.may_send(key), "a stream that was reset can send");
                format!("reset {} by {:?} {}", self.id(key), reset.by, code(reset.code))
            }
            Event::Room(key) => format!("room {}", self.id(key)),
            Event::RoomForAll => "room".to_owned(),
            Event::Goaway => "goaway".to_owned(),
            Event::Pong(_) => "pong".to_owned(),
        }))
    }

    fn request(&mut self) -> Result<String, Fault> {
        let (mut head, mut request) = (Vec::new(), Request::default());
        let opened =
            self.connection.request(REQUEST_LIMITS, || "a2V5".to_owned(), &mut head, &mut request, ())?;
        self.lines = String::from_utf8_lossy(&head).into_owned();
        Ok(match opened {
            None => "broken request".to_owned(),
            Some(Opened { key, is_end, head }) => {
                let id = self.connection.last_received;
                self.keys.push((id, key));
                let end = if is_end { " end" } else { "" };
                head.map_or_else(
                    |fault| format!("malformed {id} {fault:?}"),
                    |()| format!("request {id}{end}"),
                )
            }
        })
    }

    fn response(&mut self, key: Key) -> Result<String, Fault> {
        let id = self.id(key);
        let (mut head, mut response) = (Vec::new(), Response::default());
        let has_more = self.connection.response(self.answers_head, &mut head, &mut response)?;
        self.lines = String::from_utf8_lossy(&head).into_owned();
        Ok(match has_more {
            None => format!("broken {id}"),
            Some(has_more) => {
                format!("response {id} {}{}", response.status, if has_more { "" } else { " end" })
            }
        })
    }

    fn id(&self, key: Key) -> u32 {
        self.keys.iter().find(|(_, known)| *known == key).expect("a key that was given out").0
    }

    fn key(&self, id: u32) -> Key {
        self.keys.iter().find(|(known, _)| *known == id).expect("a stream that was opened").1
    }

    /// Opens a stream.
    fn open(&mut self, is_end: bool) -> Result<Key, Gone> {
        let head = RequestHead { method: b"POST", is_https: false, authority: b"a", path: b"/" };
        let id = self.connection.next_id;
        let key = self.connection.open(head, std::iter::empty(), false, is_end, ())?;
        self.keys.push((id, key));
        Ok(key)
    }

    fn respond(&mut self, id: u32, status: u16, is_end: bool) {
        let key = self.key(id);
        self.connection.respond(key, status, std::iter::empty(), is_end).expect("an open stream");
    }

    /// Frames that have been written, as text; they are removed.
    fn written(&mut self) -> String {
        let mut said = Vec::new();
        let mut out = self.connection.unwritten();
        let len = out.len();
        while let Some(header) = Header::read(out) {
            let (payload, rest) = out[frame::HEADER_BYTES..].split_at(header.len);
            said.push(text(header, payload));
            out = rest;
        }
        assert!(out.is_empty(), "half a frame was written");
        self.connection.note_written(len);
        said.join(", ")
    }

    fn content(&self, id: u32) -> &[u8] {
        self.contents.iter().find(|(known, _)| *known == id).map_or(&[], |(_, content)| content)
    }
}

/// A frame as text.
fn text(header: Header, payload: &[u8]) -> String {
    let word = |at: usize| frame::number(payload[at..at + 4].try_into().unwrap());
    let id = header.stream;
    let end = if header.has(flag::END_STREAM) { " end" } else { "" };
    let ack = if header.has(flag::ACK) { " ack" } else { "" };
    match header.kind {
        kind::DATA => format!("DATA {id} {}{end}", payload.len()),
        kind::HEADERS => format!("HEADERS {id}{end}"),
        kind::CONTINUATION => format!("CONTINUATION {id}"),
        kind::RST_STREAM => format!("RST_STREAM {id} {}", code(Code(word(0)))),
        kind::SETTINGS => format!("SETTINGS{ack}"),
        kind::PING => format!("PING{ack}"),
        kind::GOAWAY => format!("GOAWAY {} {}", word(0), code(Code(word(4)))),
        kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {id} {}", word(0)),
        other => format!("{other}"),
    }
}

fn code(code: Code) -> String {
    let name = match code {
        Code::NO_ERROR => "NO_ERROR",
        Code::PROTOCOL_ERROR => "PROTOCOL_ERROR",
        Code::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
        Code::STREAM_CLOSED => "STREAM_CLOSED",
        Code::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
        Code::REFUSED_STREAM => "REFUSED_STREAM",
        Code::CANCEL => "CANCEL",
        Code::COMPRESSION_ERROR => "COMPRESSION_ERROR",
        Code::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
        Code(other) => return other.to_string(),
    };
    name.to_owned()
}

/// Frames of a script: kind, stream, length or number, then flags. `HEADERS 1 end; DATA 3 10 pad=5`.
fn script(script: &str, message: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for command in script.split("; ").filter(|command| !command.is_empty()) {
        let words: Vec<&str> = command.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
        let has = |word: &str| words.contains(&word);
        let named = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.parse::<u32>().ok());
        let id = number(1);
        let end = if has("end") { flag::END_STREAM } else { 0 };
        let whole = if has("part") { 0 } else { flag::END_HEADERS };
        match words[0] {
            "HEADERS" => headers(id, end | whole, message, &mut out),
            "TRAILERS" => headers(id, flag::END_STREAM | whole, TRAILERS, &mut out),
            "CONTINUATION" => frame::write(kind::CONTINUATION, whole, id, &[], &mut out),
            "DATA" => {
                let mut payload = vec![b'x'; number(2) as usize];
                let mut flags = end;
                if let Some(padding) = named("pad=") {
                    payload.insert(0, padding as u8);
                    payload.extend(std::iter::repeat_n(0, padding as usize));
                    flags |= flag::PADDED;
                }
                frame::write(kind::DATA, flags, id, &payload, &mut out);
            }
            "PRIORITY" => {
                frame::write(kind::PRIORITY, 0, id, &[0, 0, 0, number(2) as u8, 1], &mut out);
            }
            "RST_STREAM" => frame::write(kind::RST_STREAM, 0, id, &Code::CANCEL.0.to_be_bytes(), &mut out),
            "SETTINGS" => {
                let mut payload = Vec::new();
                for setting in &words[1..] {
                    if let Some((name, value)) = setting.split_once('=') {
                        payload.extend_from_slice(&name.parse::<u16>().unwrap().to_be_bytes());
                        payload.extend_from_slice(&value.parse::<u32>().unwrap().to_be_bytes());
                    }
                }
                frame::write(kind::SETTINGS, u8::from(has("ack")), 0, &payload, &mut out);
            }
            "PUSH_PROMISE" => frame::write(kind::PUSH_PROMISE, whole, id, &[0, 0, 0, 2], &mut out),
            "PING" => frame::write(kind::PING, u8::from(has("ack")), 0, b"parting.", &mut out),
            "GOAWAY" => {
                let payload = [id.to_be_bytes(), number(2).to_be_bytes()].concat();
                frame::write(kind::GOAWAY, 0, 0, &payload, &mut out);
            }
            "WINDOW_UPDATE" => {
                frame::write(kind::WINDOW_UPDATE, 0, id, &number(2).to_be_bytes(), &mut out);
            }
            "PRIORITY_UPDATE" => {
                let payload = [&id.to_be_bytes()[..], words[2].as_bytes()].concat();
                frame::write(kind::PRIORITY_UPDATE, 0, 0, &payload, &mut out);
            }
            "UNKNOWN" => frame::write(0xbe, 0xff, id, &[1, 2, 3], &mut out),
            // A kind and a payload of so many zeros.
            "RAW" => {
                let kind = named("kind=").unwrap_or(0) as u8;
                let flags = named("flags=").unwrap_or(0) as u8;
                frame::write(kind, flags, id, &vec![0; number(2) as usize], &mut out);
            }
            other => panic!("no such frame: {other}"),
        }
    }
    out
}

/// Appends a HEADERS frame with literals that are not stored.
fn headers(id: u32, flags: u8, fields: &[(&str, &str)], out: &mut Vec<u8>) {
    frame::write(kind::HEADERS, flags, id, &block(fields), out);
}

/// A header block of literals that are not stored (RFC 7541 section 6.2.2).
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            let mut left = text.len();
            out.push(left.min(0x7f) as u8);
            if left >= 0x7f {
                left -= 0x7f;
                while left >= 0x80 {
                    out.push(left as u8 | 0x80);
                    left >>= 7;
                }
                out.push(left as u8);
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}
