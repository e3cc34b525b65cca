//! Messages and control streams, whole and in pieces, right and wrong. Never in here: QPACK alone.

mod abuses;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::Known;
use crate::h1::{Malformed, Request, RequestLimits, Response};

const LIST_BYTES_MAX: usize = 16 << 10;
const BLOCK_BYTES_MAX: usize = 16 << 10;
const NOW: Duration = Duration::ZERO;

fn limits() -> RequestLimits {
    RequestLimits { line_bytes_max: LIST_BYTES_MAX, head_bytes_max: LIST_BYTES_MAX }
}

type Fields<'a> = &'a [(&'a str, &'a str)];

fn each(fields: Fields<'_>) -> impl Iterator<Item = (Known, &[u8], &[u8])> {
    fields.iter().map(|(name, value)| (Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes()))
}

fn get(path: &str) -> RequestHead<'_> {
    RequestHead { method: b"GET", is_https: true, authority: b"shop.test", path: path.as_bytes() }
}

/// A frame with any fields, pseudo-header fields among them.
fn headers(fields: Fields<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write_trailers(&mut Encoder::default(), 0, each(fields), &mut out);
    out
}

/// A reader of the blocks of stream 0.
fn reader(decoder: &mut Decoder) -> BlockReader<'_> {
    BlockReader { decoder, stream: 0, list_bytes_max: LIST_BYTES_MAX }
}

/// Appends a request by static table and literals.
fn request(head: RequestHead<'_>, fields: Fields<'_>, out: &mut Vec<u8>) {
    write_request(&mut Encoder::default(), 0, head, each(fields), out);
}

/// A message as it was read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    head: String,
    content: Vec<u8>,
    trailers: String,
    /// A fault that has a response.
    refused: Option<Malformed>,
    is_too_large: bool,
}

/// Reads a request that comes in pieces of a length.
fn read(bytes: &[u8], piece_len: usize) -> Result<Heard, Fault> {
    let mut decoder = Decoder::default();
    let mut message = Message::new(BLOCK_BYTES_MAX);
    let mut heard = Heard::default();
    let mut left = bytes.len();
    for mut piece in bytes.chunks(piece_len) {
        left -= piece.len();
        while let Some(part) = message.receive(&mut piece)? {
            match part {
                Part::Head => {
                    let (mut head, mut request) = (Vec::new(), Request::default());
                    let is_end = left == 0 && piece.is_empty();
                    let key = || "a2V5".to_owned();
                    let reader = reader(&mut decoder);
                    let opened = message.request(reader, limits(), is_end, key, &mut head, &mut request)?;
                    heard.refused = opened.head.err();
                    heard.head = String::from_utf8_lossy(&head).replace("\r\n", "\n");
                }
                Part::HeadTooLarge => {
                    heard.is_too_large = true;
                    return Ok(heard);
                }
                Part::Content(content) => heard.content.extend_from_slice(content),
                Part::Trailers => {
                    let mut lines = Vec::new();
                    message.trailers(reader(&mut decoder), &mut lines)?;
                    heard.trailers = String::from_utf8_lossy(&lines).replace("\r\n", "\n");
                }
            }
        }
        assert!(piece.is_empty());
    }
    message.end()?;
    Ok(heard)
}

fn data(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_data_header(content.len(), &mut out);
    out.extend_from_slice(content);
    out
}

#[test]
fn a_request_without_content_becomes_a_head_of_http_1() {
    let mut bytes = Vec::new();
    request(get("/cart?id=7"), &[("accept", "*/*"), ("x-a", "b")], &mut bytes);
    let head = "GET /cart?id=7 HTTP/1.1\nhost: shop.test\naccept: */*\nx-a: b\n\n";
    assert_eq!(read(&bytes, bytes.len()), Ok(Heard { head: head.to_owned(), ..Heard::default() }));
}

#[test]
fn content_and_trailers_come_in_pieces_of_any_length() {
    let mut bytes = Vec::new();
    request(RequestHead { method: b"POST", ..get("/") }, &[], &mut bytes);
    // A frame of a kind that has no meaning (RFC 9114 section 7.2.8), and its payload.
    bytes.extend_from_slice(&[0x21, 3, 1, 2, 3]);
    bytes.extend(data(b"first "));
    bytes.extend(data(b"second"));
    write_trailers(
        &mut Encoder::default(),
        0,
        each(&[("grpc-status", "0"), ("content-length", "3")]),
        &mut bytes,
    );
    bytes.extend_from_slice(&[0x40, 0x21, 0]);
    for piece_len in 1..=bytes.len() {
        let heard = read(&bytes, piece_len).unwrap();
        assert_eq!(heard.head, "POST / HTTP/1.1\nhost: shop.test\ntransfer-encoding: chunked\n\n");
        assert_eq!((&heard.content[..], &heard.trailers[..]), (&b"first second"[..], "grpc-status: 0\n"));
    }
}

#[test]
fn frames_that_are_not_allowed_end_the_connection() {
    let mut head = Vec::new();
    request(get("/"), &[], &mut head);
    let unexpected = Err(Fault::of_connection(Code::FRAME_UNEXPECTED));
    assert_eq!(read(&data(b"x"), 9), unexpected);
    // CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID, and kinds of HTTP/2.
    for kind in [3, 4, 5, 7, 0xd, 2, 6, 8, 9] {
        assert_eq!(read(&[&head[..], &[kind, 0]].concat(), 100), unexpected, "{kind}");
    }
    let trailers = headers(&[("a", "b")]);
    for after in [data(b"x"), trailers.clone()] {
        assert_eq!(read(&[&head[..], &trailers, &after].concat(), 100), unexpected);
    }
    let cut = Err(Fault::of_connection(Code::FRAME_ERROR));
    for len in 1..head.len() {
        assert_eq!(read(&head[..len], 100), cut, "{len}");
    }
    let flood = [&head[..], &[0; 2 * 1001]].concat();
    assert_eq!(read(&flood, 9000), Err(Fault::of_connection(Code::EXCESSIVE_LOAD)));
}

#[test]
fn messages_that_break_a_rule_reset_their_stream() {
    let wrong = Err(Fault::of_stream(Code::MESSAGE_ERROR));
    let right = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    assert!(read(&headers(&right), 100).is_ok());
    for left_out in [0, 1, 3] {
        let fields: Vec<_> =
            right.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, field)| *field).collect();
        assert_eq!(read(&headers(&fields), 100), wrong, "{left_out}");
    }
    for more in [
        (":path", "/b"),
        (":status", "200"),
        (":unknown", "a"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("a b", "c"),
        ("a", "b\r\nc"),
        ("a", "b\0"),
        ("a", " b"),
        ("", "b"),
    ] {
        assert_eq!(read(&headers(&[&right[..], &[more]].concat()), 100), wrong, "{more:?}");
    }
    let after = [("a", "b"), (":method", "GET"), (":scheme", "https"), (":path", "/")];
    assert_eq!(read(&headers(&after), 100), wrong);
    let unfinished = Message::new(BLOCK_BYTES_MAX).end();
    assert_eq!(unfinished, Err(Fault::of_stream(Code::REQUEST_INCOMPLETE)));
    let trailers = [headers(&right), headers(&[(":path", "/")])].concat();
    assert_eq!(read(&trailers, 100), wrong);
}

#[test]
fn the_length_of_the_content_has_to_be_as_announced() {
    let head = |len| {
        let mut out = Vec::new();
        request(RequestHead { method: b"POST", ..get("/") }, &[("content-length", len)], &mut out);
        out
    };
    let wrong = Err(Fault::of_stream(Code::MESSAGE_ERROR));
    assert_eq!(read(&[head("3"), data(b"abc")].concat(), 100).map(|heard| heard.content), Ok(b"abc".into()));
    for (len, content) in [("2", &b"abc"[..]), ("4", b"abc"), ("0", b"abc"), ("5", b"")] {
        assert_eq!(read(&[head(len), data(content)].concat(), 100), wrong, "{len}");
    }
    let heard = read(&head("3a"), 100).unwrap();
    assert!(heard.refused.is_some(), "{heard:?}");
}

/// The form of RFC 9220 for WebSocket.
#[test]
fn an_extended_connect_becomes_an_upgrade() {
    let connect = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https")];
    let fields = [&connect[..], &[(":authority", "a"), (":path", "/chat")]].concat();
    assert_eq!(
        read(&headers(&fields), 100).unwrap().head,
        "GET /chat HTTP/1.1\nhost: a\nconnection: upgrade\nupgrade: websocket\nsec-websocket-key: a2V5\n\n"
    );
}

#[test]
fn heads_have_bounds() {
    let large = "x".repeat(BLOCK_BYTES_MAX);
    let mut bytes = Vec::new();
    request(get("/"), &[("x", &large)], &mut bytes);
    // The Huffman code makes it shorter than the bound of a block, but its text is longer than that of a
    // list.
    assert_eq!(read(&bytes, 100).unwrap().refused, Some(Malformed::HeadTooLarge));
    let larger = "{".repeat(BLOCK_BYTES_MAX);
    let mut bytes = Vec::new();
    request(get("/"), &[("x", &larger)], &mut bytes);
    assert!(read(&bytes, 100).unwrap().is_too_large);
}

#[test]
fn hosts_that_differ_are_refused_and_equal_ones_become_one() {
    let right = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    let with = |host| read(&headers(&[&right[..], &[("host", host)]].concat()), 100).unwrap();
    assert_eq!(with("A").head, "GET / HTTP/1.1\nhost: a\n\n");
    assert_eq!(with("b").refused, Some(Malformed::DuplicateHost));
}

#[test]
fn responses_are_read_interim_ones_before_the_final_one() {
    let mut bytes = Vec::new();
    let encoder = &mut Encoder::default();
    write_response(encoder, 0, 103, each(&[("link", "</a>")]), &mut bytes);
    write_response(
        encoder,
        0,
        200,
        each(&[("Content-Type", "text/css"), ("Alt-Svc", "h3=\":443\"")]),
        &mut bytes,
    );
    bytes.extend(data(b"a{}"));
    let mut decoder = Decoder::default();
    let mut message = Message::new(BLOCK_BYTES_MAX);
    let mut input = &bytes[..];
    let mut heads = Vec::new();
    let mut content = Vec::new();
    while let Some(part) = message.receive(&mut input).unwrap() {
        match part {
            Part::Head => {
                let (mut head, mut response) = (Vec::new(), Response::default());
                message.response(reader(&mut decoder), false, false, &mut head, &mut response).unwrap();
                heads.push((response.status, String::from_utf8(head).unwrap()));
            }
            Part::Content(piece) => content.extend_from_slice(piece),
            part => panic!("{part:?}"),
        }
    }
    message.end().unwrap();
    assert_eq!(heads[0], (103, "HTTP/1.1 103 \r\nlink: </a>\r\n\r\n".to_owned()));
    assert_eq!(heads[1].0, 200);
    assert!(heads[1].1.contains("\r\ncontent-type: text/css\r\nalt-svc: h3=\":443\"\r\n"), "{}", heads[1].1);
    assert_eq!(content, b"a{}");
}

/// Gives a server the bytes of one unidirectional stream, in pieces of a length.
fn control(bytes: &[u8], piece_len: usize) -> Result<Vec<Event>, Fault> {
    let (mut connection, mut stream) = (Connection::server(Settings::default(), NOW), UniStream::new());
    let mut events = Vec::new();
    for mut piece in bytes.chunks(piece_len) {
        while !piece.is_empty() {
            events.extend(connection.receive(&mut stream, &mut piece, NOW)?);
        }
    }
    Ok(events)
}

#[test]
fn a_control_stream_begins_with_settings() {
    let mut bytes = Vec::new();
    Connection::server(Settings::default(), NOW).begin(OwnStream::Control, &mut bytes);
    write_goaway(0, &mut bytes);
    bytes.extend_from_slice(&[0x0d, 1, 5]);
    bytes.extend_from_slice(&[0x03, 1, 5]);
    // An unknown frame, and PRIORITY_UPDATE for stream 4.
    bytes.extend_from_slice(&[0x21, 2, 0, 0]);
    bytes.extend_from_slice(&[0x80, 0x0f, 0x07, 0x00, 4, 4, b'u', b'=', b'1']);
    let urgent = Priority { urgency: 1, ..Priority::default() };
    for piece_len in 1..bytes.len() {
        let events = [Event::Settings, Event::Goaway(0), Event::Priority(4, urgent)];
        assert_eq!(control(&bytes, piece_len).unwrap(), events);
    }
    let missing = Err(Fault::of_connection(Code::MISSING_SETTINGS));
    assert_eq!(control(&[0, 0x07, 1, 0], 9), missing);
}

#[test]
fn control_streams_that_break_a_rule_end_the_connection() {
    let wrong = |code| Err(Fault::of_connection(code));
    for (frames, code) in [
        (&[4, 0][..], Code::FRAME_UNEXPECTED),
        (&[0, 0], Code::FRAME_UNEXPECTED),
        (&[1, 0], Code::FRAME_UNEXPECTED),
        (&[5, 0], Code::FRAME_UNEXPECTED),
        (&[2, 0], Code::FRAME_UNEXPECTED),
        (&[7, 1, 0, 7, 1, 4], Code::ID_ERROR),
        (&[7, 2, 0, 0], Code::FRAME_ERROR),
        (&[7, 0], Code::FRAME_ERROR),
        (&[3, 1, 0], Code::ID_ERROR),
        (&[0xd, 1, 4, 0xd, 1, 3], Code::ID_ERROR),
        (&[0xd, 0x60, 0], Code::EXCESSIVE_LOAD),
    ] {
        assert_eq!(control(&[&[0, 4, 0][..], frames].concat(), 99), wrong(code), "{frames:?}");
    }
    for (settings, code) in [
        (&[2, 0][..], Code::SETTINGS_ERROR),
        (&[5, 0], Code::SETTINGS_ERROR),
        (&[6, 1, 6, 1], Code::SETTINGS_ERROR),
        (&[8, 2], Code::SETTINGS_ERROR),
        (&[6], Code::FRAME_ERROR),
    ] {
        let frame = [&[0, 4, settings.len() as u8][..], settings].concat();
        assert_eq!(control(&frame, 99), wrong(code), "{settings:?}");
    }
    let flood = [&[0, 4, 0][..], &[0x21, 0].repeat(2000)].concat();
    assert_eq!(control(&flood, 99), wrong(Code::EXCESSIVE_LOAD));
    assert_eq!(control(&[1], 1), wrong(Code::STREAM_CREATION_ERROR));
}

#[test]
fn critical_streams_come_once_and_do_not_end() {
    let mut connection = Connection::server(Settings::default(), NOW);
    for kind in [0, 2, 3] {
        let mut stream = UniStream::new();
        assert_eq!(Connection::end(&stream), Ok(()));
        assert_eq!(connection.receive(&mut stream, &mut &[kind][..], NOW), Ok(None));
        let closed = Err(Fault::of_connection(Code::CLOSED_CRITICAL_STREAM));
        assert_eq!(Connection::end(&stream), closed);
        let second = connection.receive(&mut UniStream::new(), &mut &[kind][..], NOW);
        assert_eq!(second, Err(Fault::of_connection(Code::STREAM_CREATION_ERROR)));
    }
    let mut unknown = UniStream::new();
    assert_eq!(connection.receive(&mut unknown, &mut &[0x21, 1, 2][..], NOW), Ok(None));
    assert_eq!(Connection::use_of(&unknown), StreamUse::Unknown);
    assert_eq!(Connection::end(&unknown), Ok(()));
}

#[test]
fn settings_are_read_as_they_were_written() {
    let settings = Settings {
        field_section_bytes_max: Some(32 << 10),
        takes_extended_connect: true,
        qpack_table_bytes_max: 4096,
        qpack_blocked_streams_max: 16,
    };
    let (mut bytes, mut connection) = (Vec::new(), Connection::client(Settings::default(), NOW));
    Connection::server(settings, NOW).begin(OwnStream::Control, &mut bytes);
    let event = connection.receive(&mut UniStream::new(), &mut &bytes[..], NOW);
    assert_eq!((event, connection.peer_settings()), (Ok(Some(Event::Settings)), settings));
}

proptest! {
    /// Whatever comes, it is read without a panic, and in pieces as it is at once.
    #[test]
    fn noise_is_read_the_same_in_pieces(noise in proptest::collection::vec(any::<u8>(), 0..200), len in 1_usize..9) {
        let mut head = Vec::new();
        request(RequestHead { method: b"PUT", ..get("/") }, &[], &mut head);
        for bytes in [noise.clone(), [&head[..], &noise].concat()] {
            let (whole, pieces) = (read(&bytes, bytes.len().max(1)), read(&bytes, len));
            prop_assert_eq!(whole.is_ok(), pieces.is_ok());
            if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
                prop_assert_eq!(whole.content, pieces.content);
            }
        }
        let _ = control(&noise, len);
        let settings = [&[0, 4, 0][..], &noise].concat();
        prop_assert_eq!(control(&settings, 1000), control(&settings, len));
    }
}
