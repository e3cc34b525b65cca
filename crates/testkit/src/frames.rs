//! An HTTP/2 client that sends any frames. Written independently of the proxy: the code under test must not
//! judge itself.

use std::io::{self, ErrorKind};

use crate::Connection;

/// Types of frames (RFC 9113 section 6).
#[allow(missing_docs, reason = "the RFC's names")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
#[allow(missing_docs, reason = "the RFC's names")]
pub mod flag {
    pub const NONE: u8 = 0;
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
}

/// A frame of HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// One of [`kind`].
    pub kind: u8,
    /// Flags as in [`flag`].
    pub flags: u8,
    /// The stream's number.
    pub stream: u32,
    /// The payload behind the header.
    pub payload: Vec<u8>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A response, with this status.
    Status(u16),
    /// The stream was reset, with this code.
    Reset(u32),
    /// The connection was ended by a GOAWAY with this code.
    GoAway(u32),
    /// The connection was closed without a word.
    Closed,
}

/// A connection that sends and reads frames.
#[derive(Debug)]
pub struct FrameClient {
    connection: Connection,
    /// The code of the last GOAWAY.
    goodbye: Option<u32>,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
/// Setting of HPACK: with a table of size zero, each header of a response is sent literally.
const SETTINGS_HEADER_TABLE_SIZE: u16 = 1;

impl FrameClient {
    /// Sends preface and settings, and takes the other end's.
    pub fn begin(connection: Connection) -> Self {
        Self::begin_with(connection, &[])
    }

    /// Begins with settings of one's own: identifiers and values.
    pub fn begin_with(connection: Connection, settings: &[(u16, u32)]) -> Self {
        let mut client = Self::silent(connection);
        let settings = [&[(SETTINGS_HEADER_TABLE_SIZE, 0)], settings].concat();
        client.send_bytes(
            &[PREFACE, &frame(kind::SETTINGS, flag::NONE, 0, &settings_payload(&settings))].concat(),
        );
        client.await_frame(|frame| frame.kind == kind::SETTINGS && frame.flags & flag::ACK == 0);
        client.send(kind::SETTINGS, flag::ACK, 0, &[]);
        client
    }

    /// A client that has not sent anything yet.
    pub fn silent(connection: Connection) -> Self {
        Self { connection, goodbye: None }
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.connection.send(bytes);
    }

    /// Sends a frame.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.connection.send(frame(kind, flags, stream, payload));
    }

    /// Sends many frames at once to a peer that may have stopped listening. Whether they were taken.
    pub fn try_send_all(&mut self, frames: &[Vec<u8>]) -> bool {
        self.connection.try_send(frames.concat()).is_ok()
    }

    /// Sends a head in one frame.
    pub fn send_head(&mut self, stream: u32, fields: &[(&[u8], &[u8])], is_end: bool) {
        let flags = flag::END_HEADERS | if is_end { flag::END_STREAM } else { 0 };
        self.send(kind::HEADERS, flags, stream, &header_block(fields));
    }

    /// Sends a GET.
    pub fn get(&mut self, stream: u32, host: &str, path: &str) {
        let head = head("GET", host, path);
        let fields: Vec<_> = head.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        self.send_head(stream, &fields, true);
    }

    /// The next frame; `None` when the connection has ended.
    pub fn read(&mut self) -> Option<Frame> {
        match self.try_read() {
            Ok(frame) => {
                if frame.kind == kind::GOAWAY {
                    self.goodbye = Some(number(&frame.payload[4..8]));
                }
                Some(frame)
            }
            Err(error) if has_ended(&error) => None,
            Err(error) => panic!("no frame: {error}"),
        }
    }

    /// Reads up to a matching frame. Settings and pings on the way are not answered.
    pub fn await_frame(&mut self, is_meant: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            let frame = self.read().expect("the connection goes on");
            if is_meant(&frame) {
                return frame;
            }
        }
    }

    /// Waits for the end of the connection; the code of the last GOAWAY before it, if there was one.
    pub fn ending(&mut self) -> Option<u32> {
        while self.read().is_some() {}
        self.goodbye
    }

    /// Waits for the end of the request on a stream.
    pub fn outcome(&mut self, stream: u32) -> Outcome {
        loop {
            let Some(frame) = self.read() else { return Outcome::Closed };
            match frame.kind {
                // A GOAWAY with code 0 only announces that no further requests are accepted.
                kind::GOAWAY if number(&frame.payload[4..8]) != 0 => {
                    return Outcome::GoAway(number(&frame.payload[4..8]));
                }
                kind::RST_STREAM if frame.stream == stream => return Outcome::Reset(number(&frame.payload)),
                kind::HEADERS if frame.stream == stream => return Outcome::Status(status(&frame.payload)),
                _ => {}
            }
        }
    }

    /// The connection, with the bytes that have not been read.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn try_read(&mut self) -> io::Result<Frame> {
        let head = self.connection.try_read_exactly(HEAD_BYTES)?;
        let len = number(&[&[0], &head[..3]].concat());
        let payload = self.connection.try_read_exactly(len as usize)?;
        Ok(Frame { kind: head[3], flags: head[4], stream: number(&head[5..9]) & 0x7fff_ffff, payload })
    }
}

/// A frame's bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a frame's length").to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The payload of a SETTINGS frame.
pub fn settings_payload(settings: &[(u16, u32)]) -> Vec<u8> {
    settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect()
}

/// The fields of a request's head.
pub fn head<'a>(method: &'a str, host: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [(":method", method), (":scheme", "http"), (":authority", host), (":path", path)]
}

/// Fields as HPACK has them: literally, without indexing and without Huffman's code (RFC 7541 section 6.2.2).
pub fn header_block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            push_length(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// An integer with a prefix of 7 bits (RFC 7541 section 5.1).
fn push_length(block: &mut Vec<u8>, mut len: usize) {
    if len < 0x7f {
        block.push(len as u8);
        return;
    }
    block.push(0x7f);
    len -= 0x7f;
    while len >= 0x80 {
        block.push(0x80 | (len & 0x7f) as u8);
        len >>= 7;
    }
    block.push(len as u8);
}

/// The status in a response's head, where it stands first (RFC 9113 section 8.3).
fn status(block: &[u8]) -> u16 {
    // A change of the table's size may come first.
    let block = match block {
        [first, rest @ ..] if first & 0xe0 == 0x20 => rest,
        _ => block,
    };
    match *block {
        [first, ..] if (0x88..=0x8e).contains(&first) => {
            [200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)]
        }
        // `:status` is any of 8 to 14 in the static table, and may come as a literal of any kind.
        [first, len, ref rest @ ..]
            if (8..=14).contains(&(first & if first & 0x40 == 0 { 0x0f } else { 0x3f })) =>
        {
            let text = &rest[..usize::from(len & 0x7f)];
            if len & 0x80 == 0 { digits(text) } else { huffman_digits(text) }
        }
        _ => panic!("no status: {block:02x?}"),
    }
}

fn digits(text: &[u8]) -> u16 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

/// Digits in Huffman's code: 0, 1 and 2 have five bits, the others six (RFC 7541 appendix B).
fn huffman_digits(text: &[u8]) -> u16 {
    let bits: Vec<u8> = text.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let (mut bits, mut value) = (&bits[..], 0);
    while bits.len() >= 5 && bits.contains(&0) {
        let prefix = |len: usize| bits.iter().take(len).fold(0, |sum, bit| sum << 1 | u16::from(*bit));
        let (digit, len) = if prefix(5) < 3 { (prefix(5), 5) } else { (prefix(6) - 0x19 + 3, 6) };
        value = value * 10 + digit;
        bits = &bits[len.min(bits.len())..];
    }
    value
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_however_it_is_written() {
        assert_eq!(status(&[0x88]), 200);
        assert_eq!(status(&[0x20, 0x8c]), 400);
        assert_eq!(status(b"\x08\x03421"), 421);
        assert_eq!(status(b"\x48\x03503"), 503);
        // 5-0-3 is 011011 00000 011001, and 1-0-3 is 00001 00000 011001; ones fill up.
        assert_eq!(status(&[0x08, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111]), 503);
        assert_eq!(status(&[0x08, 0x82, 0b0000_1000, 0b0001_1001]), 103);
    }

    #[test]
    fn lengths_beyond_a_byte_go_on_in_the_next() {
        let mut block = Vec::new();
        push_length(&mut block, 1337);
        // RFC 7541 appendix C.1.2 has it with a prefix of five bits: 1337 - 31; here 1337 - 127.
        assert_eq!(block, [0x7f, 0x80 | 0x3a, 0x09]);
    }
}
