//! A `FastCGI` application that the test plays: strict about what it receives, free in what it sends.

use crate::Connection;

/// A record of the application's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A piece of the response.
    Stdout(&'a [u8]),
    /// A piece of the application's error stream.
    Stderr(&'a [u8]),
    /// The end, with the protocol's status.
    End(u8),
}

/// A request as the application sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FcgiRequest {
    /// Names and values, in order.
    pub params: Vec<(String, String)>,
    /// The body, unless only the parameters were read.
    pub body: Vec<u8>,
}

const BEGIN: u8 = 1;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;

impl FcgiRequest {
    /// Reads a request with its body.
    pub fn read(peer: &mut Connection) -> Self {
        let mut request = Self::read_params(peer);
        loop {
            let piece = read_stdin(peer);
            if piece.is_empty() {
                return request;
            }
            request.body.extend(piece);
        }
    }

    /// Reads a request up to its body.
    pub fn read_params(peer: &mut Connection) -> Self {
        // The role of a responder, without the flag that keeps the connection open.
        assert_eq!(read_record(peer, BEGIN), [0, 1, 0, 0, 0, 0, 0, 0]);
        let mut bytes = Vec::new();
        loop {
            let piece = read_record(peer, PARAMS);
            if piece.is_empty() {
                break;
            }
            bytes.extend(piece);
        }
        let (mut rest, mut params) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let (name, value) = (take_len(&mut rest), take_len(&mut rest));
            params.push((take_text(&mut rest, name), take_text(&mut rest, value)));
        }
        Self { params, body: Vec::new() }
    }

    /// The value of a parameter, which occurs at most once.
    pub fn param(&self, name: &str) -> Option<&str> {
        let mut values =
            self.params.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} occurs twice");
        value
    }
}

/// Reads a piece of a request's body; an empty one is the end.
pub fn read_stdin(peer: &mut Connection) -> Vec<u8> {
    read_record(peer, STDIN)
}

/// Records one after the other, each with as much padding.
pub fn records(records: &[Record<'_>], padding: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        let (kind, content) = match record {
            Record::End(status) => (3, vec![0, 0, 0, 0, *status, 0, 0, 0]),
            Record::Stdout(content) => (6, content.to_vec()),
            Record::Stderr(content) => (7, content.to_vec()),
        };
        for content in content.chunks(u16::MAX.into()) {
            let [high, low] = (content.len() as u16).to_be_bytes();
            out.extend([1, kind, 0, 1, high, low, padding, 0]);
            out.extend_from_slice(content);
            out.extend(std::iter::repeat_n(0xaa, padding.into()));
        }
    }
    out
}

/// A whole response.
pub fn answer(stdout: impl AsRef<[u8]>) -> Vec<u8> {
    records(&[Record::Stdout(stdout.as_ref()), Record::End(0)], 3)
}

fn read_record(peer: &mut Connection, expected: u8) -> Vec<u8> {
    let header = peer.read_exactly(8);
    let [version, kind, id_high, id_low, high, low, padding, reserved] = header[..] else {
        unreachable!("eight bytes were read");
    };
    assert_eq!([version, kind, id_high, id_low, reserved], [1, expected, 0, 1, 0], "{header:?}");
    let content = peer.read_exactly(u16::from_be_bytes([high, low]).into());
    peer.read_exactly(padding.into());
    content
}

fn take_len(bytes: &mut &[u8]) -> usize {
    let first = take(bytes, 1)[0];
    if first < 0x80 {
        return first.into();
    }
    let rest = take(bytes, 3);
    u32::from_be_bytes([first & 0x7f, rest[0], rest[1], rest[2]]) as usize
}

fn take_text(bytes: &mut &[u8], len: usize) -> String {
    String::from_utf8(take(bytes, len).to_vec()).expect("a text")
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(len);
    *bytes = rest;
    taken
}
