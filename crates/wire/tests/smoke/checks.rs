//! Invariants for any input. The fuzz targets and the smoke test call the same functions.

use std::time::Duration;

use wire::cache::{self, Directives, Freshness, Head, Policy, RequestDirectives, Times, Validators, Vary};
use wire::client_hello::{self, HELLO_BYTES_MAX, Peek};
use wire::h1::{
    Body, BodyDecoder, Decoded, Fields, Request, RequestLimits, TargetForm, Version, parse_request,
    parse_response,
};
use wire::h2::{Connection, Event, Key, Limits};
use wire::h3;
use wire::proxy_protocol::{self, Carrier, HEADER_BYTES_MAX, Header};
use wire::{host, path};

const LIMITS: RequestLimits = RequestLimits { line_bytes_max: 1024, head_bytes_max: 4096 };

/// An accepted request head has the same content when it is parsed again alone, and its framing is
/// unambiguous.
pub(crate) fn request_head(input: &[u8]) {
    let Ok(Some(request)) = parse_request(input, LIMITS, Fields::default()) else { return };
    let head = &input[..request.len];
    assert!(head.ends_with(b"\r\n\r\n") && head.len() <= LIMITS.head_bytes_max);
    assert_eq!(parse_request(head, LIMITS, Fields::default()).as_ref(), Ok(&Some(request.clone())));
    for end in [request.len - 1, request.len / 2, request.start] {
        let partial = parse_request(&head[..end], LIMITS, Fields::default());
        assert!(!matches!(partial, Ok(Some(_))), "complete before its end");
    }
    assert!(host::is_valid(&input[request.host.clone()]));
    assert!(!request.origin_target(head).is_empty());
    if request.form == TargetForm::Origin {
        assert!(request.origin_target(head).starts_with(b"/"));
    }
    fields(head, &request.fields);
    assert!(!(request.fields.chunked && request.version == Version::Http10));
    assert!(!(request.is_upgrade() && request.has_body()));
}

/// Checks a response head in the same way.
pub(crate) fn response_head(input: &[u8]) {
    let Ok(Some(response)) = parse_response(input, Fields::default()) else { return };
    let head = &input[..response.len];
    assert!(head.ends_with(b"\r\n\r\n") && (100..600).contains(&response.status));
    assert_eq!(parse_response(head, Fields::default()).as_ref(), Ok(&Some(response.clone())));
    assert!(!head[response.reason.clone()].iter().any(|b| b"\r\n".contains(b)));
    assert_eq!(response.body(true), Body::Empty);
    fields(head, &response.fields);
}

/// Lines follow each other without gaps, except for fields that `Connection` lists and for a length that
/// frames nothing; their content is correct; and at most one of them frames the message.
fn fields(head: &[u8], fields: &Fields) {
    let mut lines = fields.iter().map(wire::Field::line).peekable();
    while let Some(line) = lines.next() {
        assert!(head[line.clone()].ends_with(b"\r\n"));
        let next = lines.peek().map_or(head.len() - 2, |next| next.start);
        for gone in head[line.end..next].split_inclusive(|&b| b == b'\n') {
            let name = gone.split(|&b| b == b':').next().unwrap_or_default();
            assert!(name.eq_ignore_ascii_case(b"content-length") || fields.is_listed(head, name));
        }
    }
    for field in fields {
        let (name, value) = (field.name(head), field.value(head));
        assert!(!name.is_empty() && !name.iter().any(|b| b" \t:\r\n".contains(b)));
        assert!(!value.iter().any(|b| b"\r\n\0".contains(b)));
        assert_eq!(value, value.trim_ascii());
    }
    let named =
        |name: &[u8]| fields.iter().filter(|field| field.name(head).eq_ignore_ascii_case(name)).count();
    let (lengths, codings) = (named(b"content-length"), named(b"transfer-encoding"));
    assert!(lengths + codings <= 1);
    assert_eq!((lengths == 1, codings == 1), (fields.content_length.is_some(), fields.chunked));
}

/// A chunked body is the same however it is cut, and contains only bytes of the input.
pub(crate) fn chunked(input: &[u8]) {
    let whole = decode(input, input.len().max(1));
    assert_eq!(decode(input, 1), whole, "byte by byte");
    assert_eq!(decode(input, 7), whole, "in sevens");
    if let Some((content, used)) = whole {
        assert!(content.len() < used && used <= input.len());
        assert!(input[..used].ends_with(b"\r\n"));
        assert_eq!(decode(&input[..used], used), Some((content, used)), "what follows plays no part");
        assert_eq!(decode(&input[..used - 1], used), None, "no part of it can be missing");
    }
}

/// Content and length of a body that arrives in pieces of `step` bytes; none if it is malformed or has no
/// end.
fn decode(input: &[u8], step: usize) -> Option<(Vec<u8>, usize)> {
    let (mut decoder, mut content, mut at) = (BodyDecoder::new(Body::Chunked), Vec::new(), 0);
    for end in (step..input.len() + step).step_by(step) {
        let end = end.min(input.len());
        loop {
            match decoder.decode(&input[at..end]).ok()? {
                Decoded::Data { skip, len } => {
                    assert!(len > 0, "content that is none would be a last chunk when it is written");
                    content.extend_from_slice(&input[at + skip..at + skip + len]);
                    at += skip + len;
                }
                Decoded::More { skip } => {
                    at += skip;
                    break;
                }
                Decoded::End { skip, trailers } => {
                    assert!(trailers <= skip && decoder.is_done());
                    return Some((content, at + skip));
                }
            }
        }
    }
    None
}

/// A normal path is its own normal form, and never leaves its root.
pub(crate) fn path(input: &[u8]) {
    let before_query = path::of_target(input);
    assert!(input.starts_with(before_query));
    let Ok(normal) = path::normalize(before_query) else { return };
    // No accepted head has a target of another kind here, or a NUL in it.
    if !before_query.starts_with(b"/") || before_query.contains(&0) {
        return;
    }
    assert!(normal.starts_with(b"/") && !normal.windows(2).any(|two| two == b"//"));
    assert!(!normal.split(|&b| b == b'/').any(|element| element == b"." || element == b".."));
    assert!(!normal.contains(&0));
    if !normal.contains(&b'%') {
        assert_eq!(path::normalize(&normal).as_deref(), Ok(&*normal));
    }
}

/// A hello has the same name from its last byte on, and none before it.
pub(crate) fn client_hello(input: &[u8]) {
    let whole = client_hello::server_name(input);
    let first = (0..input.len()).find(|&end| client_hello::server_name(&input[..end]) != Peek::Partial);
    if let Some(end) = first {
        assert_eq!(client_hello::server_name(&input[..end]), whole, "after {end} bytes");
    }
    match whole {
        Peek::Partial => assert!(input.len() < HELLO_BYTES_MAX),
        Peek::NotHello | Peek::Hello { server_name: None } => {}
        Peek::Hello { server_name: Some(name) } => {
            assert!((1..256).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic));
            let is_there = input.windows(name.len()).any(|window| window == &*name);
            assert!(is_there || matches!(name, std::borrow::Cow::Owned(_)), "made up");
        }
    }
}

/// A PROXY header has the same content when it is written again, and none before its last byte.
pub(crate) fn proxy_header(input: &[u8]) {
    let Ok(Some((header, len))) = proxy_protocol::parse(input) else { return };
    assert!((1..=HEADER_BYTES_MAX.min(input.len())).contains(&len));
    assert_eq!(proxy_protocol::parse(&input[..len]), Ok(Some((header, len))));
    for end in [0, 1, 13.min(len - 1), len / 2, len - 1] {
        assert_eq!(proxy_protocol::parse(&input[..end]), Ok(None), "after {end} bytes");
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    proxy_protocol::write_v1(header.addresses, &mut first);
    proxy_protocol::write_v2(header.addresses, Carrier::Stream, &mut second);
    for written in [first, second] {
        let addresses = header.addresses;
        assert_eq!(proxy_protocol::parse(&written), Ok(Some((Header { addresses }, written.len()))));
    }
}

/// A server's side of HTTP/2 after the client's preface and settings.
fn http2_server() -> Connection<()> {
    let limits = Limits {
        streams_max: 8,
        head_bytes_max: LIMITS.head_bytes_max as u32,
        table_bytes_max: 4096,
        stream_window_bytes: 1 << 16,
        stream_window_bytes_max: 1 << 16,
        connection_window_bytes: 1 << 16,
        unwritten_bytes_max: 1 << 16,
    };
    let mut connection = Connection::server(limits, Duration::ZERO);
    let mut begin = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..];
    while connection.receive(&mut begin, Duration::ZERO).expect("a preface and settings").is_some() {}
    connection
}

/// A frame that opens stream 1.
fn http2_headers(fields: &[(&[u8], &[u8])], is_end: bool) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        // A literal that is not stored (RFC 7541 section 6.2.2).
        block.push(0);
        for text in [name, value] {
            // A length (RFC 7541 section 5.1), then the text as it is.
            let mut left = text.len();
            block.push(left.min(0x7f) as u8);
            if left >= 0x7f {
                left -= 0x7f;
                while left >= 0x80 {
                    block.push(left as u8 | 0x80);
                    left >>= 7;
                }
                block.push(left as u8);
            }
            block.extend_from_slice(text);
        }
    }
    let flags = 4 | u8::from(is_end);
    let mut frame = vec![0, (block.len() >> 8) as u8, block.len() as u8, 1, flags, 0, 0, 0, 1];
    frame.extend_from_slice(&block);
    frame
}

/// An accepted HTTP/2 request is a single request in HTTP/1, with the same method, target, host and fields,
/// and a parser finds all of it at the same positions. The input's parts, which 0xff ends, are method,
/// authority and path, then names and values.
pub(crate) fn http2_head(input: &[u8]) {
    let mut parts = input.split(|&b| b == 0xff);
    let mut part = || parts.next().unwrap_or_default();
    let (method, authority, target) = (part(), part(), part());
    let rest: Vec<&[u8]> = parts.collect();
    let named: Vec<(&[u8], &[u8])> = rest.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let pseudo: [(&[u8], &[u8]); 4] =
        [(b":method", method), (b":scheme", b"http"), (b":authority", authority), (b":path", target)];
    let has_body = input.len().is_multiple_of(2);
    let frame = http2_headers(&[&pseudo, &named[..]].concat(), !has_body);
    if frame.len() > 1 << 14 {
        return;
    }
    let (mut connection, mut rest) = (http2_server(), &frame[..]);
    let event = connection.receive(&mut rest, Duration::ZERO).expect("a frame that is whole");
    assert!(matches!(event, Some(Event::Request)) && rest.is_empty());
    let (mut head, mut request) = (Vec::new(), Request::default());
    let opened = connection
        .request(LIMITS, || "a2V5".to_owned(), &mut head, &mut request, ())
        .expect("a block that is whole");
    if opened.is_none_or(|opened| opened.head.is_err()) {
        return;
    }
    let parsed = parse_request(&head, LIMITS, Fields::default());
    assert_eq!(parsed, Ok(Some(request.clone())), "{:?}", String::from_utf8_lossy(&head));
    assert_eq!(request.len, head.len(), "one head became two");
    let without_fragment = target.split(|&b| b == b'#').next().unwrap_or_default();
    assert_eq!((&head[request.method.clone()], &head[request.target.clone()]), (method, without_fragment));
    assert_eq!(
        request.fields.find(wire::Known::Host).map(|field| field.value(&head)),
        Some(authority.trim_ascii())
    );
    let own = [&b"host"[..], b"cookie", b"transfer-encoding"];
    let theirs = |name: &[u8]| !own.iter().any(|own| name.eq_ignore_ascii_case(own));
    let kept: Vec<_> = request.fields.iter().map(|field| (field.name(&head), field.value(&head))).collect();
    let kept = kept.into_iter().filter(|(name, _)| theirs(name));
    let sent = named.iter().filter(|(name, _)| theirs(name)).map(|(name, value)| (*name, value.trim_ascii()));
    assert!(kept.eq(sent), "fields came or went");
    assert!(!request.fields.chunked || has_body);
}

/// A request on a stream of HTTP/3, as it was understood.
#[derive(Debug, Default, PartialEq, Eq)]
struct Http3Heard {
    head: Vec<u8>,
    content: Vec<u8>,
    trailers: Vec<u8>,
    has_ended: bool,
}

const HTTP3_SETTINGS: h3::Settings = h3::Settings {
    field_section_bytes_max: None,
    takes_extended_connect: true,
    qpack_table_bytes_max: 4096,
    qpack_blocked_streams_max: 16,
};

fn http3_reader(decoder: &mut h3::Decoder, stream: u64) -> h3::BlockReader<'_> {
    h3::BlockReader { decoder, stream, list_bytes_max: LIMITS.head_bytes_max }
}

/// Reads a request stream that comes in pieces of a size; none where a rule is broken. A head that is taken
/// is the same for the parser of HTTP/1, and one head only.
fn http3_heard(input: &[u8], size: usize) -> Option<Http3Heard> {
    let (mut message, mut heard) = (h3::Message::new(LIMITS.head_bytes_max), Http3Heard::default());
    let mut decoder = h3::Decoder::default();
    for mut piece in input.chunks(size) {
        while let Some(part) = message.receive(&mut piece).ok()? {
            match part {
                h3::Part::Head => {
                    let mut request = Request::default();
                    let key = || "a2V5".to_owned();
                    let reader = http3_reader(&mut decoder, 0);
                    let read = message.request(reader, LIMITS, false, key, &mut heard.head, &mut request);
                    if read.ok()?.head.is_ok() {
                        let parsed = parse_request(&heard.head, LIMITS, Fields::default());
                        assert_eq!(parsed, Ok(Some(request.clone())));
                        assert_eq!(request.len, heard.head.len(), "one head became two");
                    }
                }
                h3::Part::HeadTooLarge => return None,
                h3::Part::Content(content) => heard.content.extend_from_slice(content),
                h3::Part::Trailers => {
                    message.trailers(http3_reader(&mut decoder, 0), &mut heard.trailers).ok()?;
                    assert!(heard.trailers.is_empty() || heard.trailers.ends_with(b"\r\n"));
                }
            }
        }
        assert!(piece.is_empty(), "bytes were left");
    }
    heard.has_ended = message.end().is_ok();
    Some(heard)
}

/// The meaning of a request stream of HTTP/3 does not depend on how it is cut.
pub(crate) fn http3_message(input: &[u8]) {
    let whole = http3_heard(input, input.len().max(1));
    assert_eq!(http3_heard(input, 1), whole, "byte by byte");
    assert_eq!(http3_heard(input, 7), whole, "in sevens");
}

/// The same of a unidirectional stream. The first byte of the input says which side reads it.
pub(crate) fn http3_control(input: &[u8]) {
    let Some((side, input)) = input.split_first() else { return };
    let follow = |size: usize| {
        let now = Duration::ZERO;
        let is_server = side.is_multiple_of(2);
        let settings = HTTP3_SETTINGS;
        let mut connection = if is_server {
            h3::Connection::server(settings, now)
        } else {
            h3::Connection::client(settings, now)
        };
        let (mut stream, mut events) = (h3::UniStream::new(), Vec::new());
        for mut piece in input.chunks(size) {
            while !piece.is_empty() {
                match connection.receive(&mut stream, &mut piece, now) {
                    Ok(event) => events.extend(event),
                    Err(fault) => return (events, Some(fault)),
                }
            }
        }
        (events, None)
    };
    let whole = follow(input.len().max(1));
    assert_eq!(follow(1), whole, "byte by byte");
    assert_eq!(follow(7), whole, "in sevens");
}

/// The state of a connection whose encoder stream and header blocks come in turn: the lines of each block, or
/// why there are none, and what the client is told.
fn http3_table(input: &[u8], size: usize) -> Vec<String> {
    let now = Duration::ZERO;
    let mut connection = h3::Connection::server(HTTP3_SETTINGS, now);
    let mut encoder_stream = h3::UniStream::new();
    let mut said = Vec::new();
    let mut rest = &[&[4, 2, 0x3f, 0xe1, 0x1f][..], input].concat()[..];
    let mut number = 0;
    while let [kind_and_len, after @ ..] = rest {
        let (piece, after) = after.split_at(usize::from(kind_and_len >> 1).min(after.len()));
        rest = after;
        if kind_and_len & 1 == 0 {
            for mut bytes in piece.chunks(size) {
                while !bytes.is_empty() {
                    if let Err(fault) = connection.receive(&mut encoder_stream, &mut bytes, now) {
                        said.push(format!("{fault:?}"));
                        return said;
                    }
                }
            }
            while let Some(stream) = connection.decoder().unblocked() {
                said.push(format!("{stream} waits no more"));
            }
            continue;
        }
        number += 4;
        let mut message = h3::Message::new(LIMITS.head_bytes_max);
        let frame = [&[1, piece.len() as u8][..], piece].concat();
        if message.receive(&mut &frame[..]) != Ok(Some(h3::Part::Head)) {
            continue;
        }
        match message.is_blocked(connection.decoder(), number) {
            Ok(true) => said.push(format!("{number} waits")),
            Err(fault) => {
                said.push(format!("{fault:?}"));
                return said;
            }
            Ok(false) => {
                let mut head = Vec::new();
                let mut response = wire::h1::Response::default();
                let reader = http3_reader(connection.decoder(), number);
                let read = message.response(reader, false, false, &mut head, &mut response);
                said.push(format!("{read:?} {:?}", String::from_utf8_lossy(&head)));
            }
        }
        if connection.check_unsent().is_err() {
            return said;
        }
    }
    // Insertions are reported in more steps where they come in more pieces.
    said.push(format!("{} bytes wait", usize::from(!connection.unsent_decoder().is_empty())));
    said
}

/// The table of QPACK is the same however the encoder stream is cut, and no block makes it panic.
pub(crate) fn http3_qpack(input: &[u8]) {
    let whole = http3_table(input, input.len().max(8));
    assert_eq!(http3_table(input, 1), whole, "byte by byte");
    assert_eq!(http3_table(input, 3), whole, "in threes");
}

/// A hello is the same whether its frames come in one packet or in several, and a packet lies within its
/// datagram.
pub(crate) fn quic_hello(input: &[u8]) {
    if let Some(initial) = wire::quic::Initial::read(input) {
        assert!(initial.number_start <= initial.end && initial.end <= input.len());
        assert_eq!(wire::quic::long_destination(input), Some(initial.destination));
    }
    let mut whole = wire::quic::Hello::default();
    let is_right = whole.add_frames(input).is_ok();
    assert!(whole.bytes().len() <= wire::client_hello::HELLO_BYTES_MAX);
    let mut again = wire::quic::Hello::default();
    // Packets that are repeated change nothing.
    for _ in 0..2 {
        assert_eq!(again.add_frames(input).is_ok(), is_right);
    }
    assert!(!is_right || again.bytes() == whole.bytes());
}

/// The meaning of frames does not depend on how they are cut.
pub(crate) fn http2_frames(input: &[u8]) {
    let follow = |size: usize| {
        let (mut connection, mut pending) = (http2_server(), Vec::new());
        let (mut said, mut contents) = (Vec::new(), Vec::new());
        for piece in input.chunks(size) {
            pending.extend_from_slice(piece);
            let mut bytes = &pending[..];
            loop {
                let said_now = match connection.receive(&mut bytes, Duration::ZERO) {
                    Ok(None) => break,
                    Ok(Some(Event::Data { key, content, is_end })) => {
                        contents.push((key, content.to_vec()));
                        if !is_end {
                            continue;
                        }
                        format!("the end of {key:?}")
                    }
                    Ok(Some(event @ Event::Request)) => {
                        let (mut head, mut request) = (Vec::new(), Request::default());
                        let opened = connection.request(LIMITS, String::new, &mut head, &mut request, ());
                        format!("{event:?} {opened:?} {:?}", String::from_utf8_lossy(&head))
                    }
                    Ok(Some(Event::Trailers(key))) => {
                        let mut lines = Vec::new();
                        let is_right = connection.trailers(&mut lines);
                        format!("{key:?} {is_right:?} {:?}", String::from_utf8_lossy(&lines))
                    }
                    Ok(Some(event)) => format!("{event:?}"),
                    Err(fault) => {
                        said.push(format!("{fault:?}"));
                        return (said, joined(&contents), connection.unwritten().to_vec());
                    }
                };
                said.push(said_now);
            }
            let left = bytes.len();
            pending.drain(..pending.len() - left);
        }
        (said, joined(&contents), connection.unwritten().to_vec())
    };
    assert_eq!(follow(input.len().max(1)), follow(1));
}

/// The content of each stream in one piece.
fn joined(contents: &[(Key, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let mut streams: Vec<(String, Vec<u8>)> = Vec::new();
    for (key, content) in contents {
        let name = format!("{key:?}");
        match streams.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.extend_from_slice(content),
            None => streams.push((name, content.clone())),
        }
    }
    streams
}

/// The input is a request head and the head of its response. The stored head of the response, and the
/// validating request to an endpoint, are heads that contain nothing new, and storing a stored head changes
/// nothing.
pub(crate) fn cache(input: &[u8]) {
    const NOW: u64 = 1_800_000_000;
    let Ok(Some(request)) = parse_request(input, LIMITS, Fields::default()) else { return };
    let (request_bytes, bytes) = input.split_at(request.len);
    let Ok(Some(response)) = parse_response(bytes, Fields::default()) else { return };
    let (asks, says) = (Head::of_request(request_bytes, &request), Head::of_response(bytes, &response));
    let policy = Policy::default();
    let directives = Directives::of(says, policy.targets);
    let times = Times { response: NOW, delay: 0 };
    let freshness = Freshness::of(response.status, says, &directives, times, &policy);
    let asked = RequestDirectives::of(asks);
    for later in [0, 1, 1 << 31, u64::MAX] {
        freshness.verdict(later, &asked);
        freshness.may_serve_on_error(later, &asked);
    }
    if let Some(vary) = Vary::of(says) {
        assert!(vary.matches(asks, &vary.key(asks), &mut Vec::new()));
    }
    let status = response.status.max(200);
    let kept = kept_head(|out| cache::stored::write_head(status, b"", says, &directives, None, out));
    let again = Head::of_response(&kept.0, &kept.1);
    assert!(!again.has(b"connection") && !again.has(b"age") && !again.has(b"transfer-encoding"));
    let same = kept_head(|out| cache::stored::write_head(status, b"", again, &directives, None, out));
    assert_eq!(kept, same);
    kept_head(|out| cache::stored::write_updated(status, b"", again, says, &directives, out));

    let validators = Validators::of(says, NOW);
    validators.evaluate(asks, true, NOW);
    validators.evaluate_stored(asks, NOW);
    let mut question = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    validators.write_conditions(&mut question);
    question.extend(b"\r\n");
    let limits = RequestLimits { line_bytes_max: input.len() + 100, head_bytes_max: input.len() + 200 };
    let question = parse_request(&question, limits, Fields::default()).unwrap().unwrap();
    assert!(question.fields.iter().count() <= 3);
    let origin = cache::invalidation::Origin {
        scheme: "http",
        authority: &request_bytes[request.host.clone()],
        target: request.origin_target(request_bytes),
    };
    assert!(cache::invalidation::related(&origin, says).all(|target| !target.is_empty()));
}

/// A written head must be a valid head.
fn kept_head(write: impl FnOnce(&mut Vec<u8>)) -> (Vec<u8>, wire::h1::Response) {
    let mut head = Vec::new();
    write(&mut head);
    let response = parse_response(&head, Fields::default()).unwrap().unwrap();
    assert_eq!(response.len, head.len());
    (head, response)
}
