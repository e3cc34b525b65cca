//! Abuses of HTTP/3 by clients, with the section of RFC 9114 that forbids each, or of RFC 8441, RFC 9218 and
//! RFC 9220 where they are named. Those about QPACK are in its own tests.
//!
//! The lists of others, and where their cases are here:
//!
//! ```text
//! nginx-tests               here
//! h3_headers                fields_of_a_request, forms_of_authority; representations, eviction and blocked
//!                           streams in qpack::tests and http3_qpack of the end-to-end tests
//! h3_header_ows             fields_of_a_request: a value with white space around it is malformed here
//! h3_qpack_prefix           header_blocks_that_cannot_be_decoded_end_the_connection of the end-to-end tests
//! h3_max_headers            no bound of their number: their bytes are bounded (a_giant_head_is_refused)
//! h3_request_body, _extra   lengths_of_content, content_between_other_frames; a body's bound is the same for
//!                           all protocols
//! h3_request_body_discard   a_request_that_the_client_gives_up_is_given_up of the end-to-end tests
//! h3_priority_update,       frames_of_the_control_stream; a value that is not a structured field has the
//!     h3_rfc9218            parameters that can be read in it
//! h3_proxy_websocket        forms_of_connect
//! h3_tunnel, h3_forward_proxy   none: CONNECT without a protocol is refused
//! h3_stream_data_blocked    none: quinn-proto sends both frames, and has tests of it
//! h3_ssl_early_data,        http3_early of the end-to-end tests
//!     h3_ssl_session_reuse
//! h3_bpf, h3_bpf_upgrade    http3_moves and successor of the end-to-end tests
//! h3_early_hints            responses_are_read_interim_ones_before_the_final_one
//!
//! h3i has no list of cases but actions: frames, bytes, headers as they are, ends, resets and stops on any
//! stream. Those on request streams are frames_of_a_request_stream; on others,
//! unidirectional_streams_of_a_client. Its examples are lengths_of_content and more streams than allowed,
//! which quinn-proto refuses.
//! ```

use super::*;

/// The outcome of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The connection ends.
    Connection(Code),
    /// The stream is reset.
    Stream(Code),
    /// The request has a response that says what is wrong with it.
    Refused,
    /// The message is taken.
    Taken,
}

use Outcome::{Connection as Ends, Refused, Stream as Resets, Taken};

const UNEXPECTED: Outcome = Ends(Code::FRAME_UNEXPECTED);
const MALFORMED: Outcome = Resets(Code::MESSAGE_ERROR);

fn outcome<T>(read: Result<T, Fault>) -> Outcome {
    match read.err() {
        None => Taken,
        Some(Fault { code, is_of_connection: true }) => Ends(code),
        Some(Fault { code, is_of_connection: false }) => Resets(code),
    }
}

/// The outcome of a request stream, at once and byte by byte.
fn of_request(bytes: &[u8]) -> Outcome {
    let outcomes = [bytes.len().max(1), 1].map(|piece_len| match read(bytes, piece_len) {
        Ok(heard) if heard.refused.is_some() || heard.is_too_large => Refused,
        heard => outcome(heard),
    });
    assert_eq!(outcomes[0], outcomes[1], "{bytes:x?}");
    outcomes[0]
}

/// The outcome of frames on the control stream of a client, after its SETTINGS.
fn of_control(frames: &[u8]) -> Outcome {
    outcome(control(&[&[0, 4, 0][..], frames].concat(), 1))
}

/// The outcome of a SETTINGS payload.
fn of_settings(payload: &[u8]) -> Outcome {
    outcome(control(&[&[0, 4, payload.len() as u8][..], payload].concat(), 1))
}

const GET: Fields<'_> = &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];

fn with(more: Fields<'_>) -> Vec<u8> {
    headers(&[GET, more].concat())
}

/// The same with a name that no encoder of ours writes.
fn in_upper_case() -> Vec<u8> {
    let mut frame = with(&[]);
    frame.extend_from_slice(b"\x25Upper\x01a");
    frame[1] += b"\x25Upper\x01a".len() as u8;
    frame
}

fn post(more: Fields<'_>) -> Vec<u8> {
    headers(&[&[(":method", "POST")], &GET[1..], more].concat())
}

#[test]
fn frames_of_a_request_stream() {
    let get = with(&[]);
    let trailers = headers(&[("a", "b")]);
    for (section, bytes, expected) in [
        ("4.1: DATA before HEADERS", data(b"x"), UNEXPECTED),
        ("4.1: nothing", Vec::new(), Resets(Code::REQUEST_INCOMPLETE)),
        ("4.1: an unknown frame and no head", vec![0x21, 0], Resets(Code::REQUEST_INCOMPLETE)),
        ("4.1: DATA after trailers", [&get[..], &trailers, &data(b"x")].concat(), UNEXPECTED),
        ("4.1: HEADERS after trailers", [&get[..], &trailers, &trailers].concat(), UNEXPECTED),
        ("4.1: unknown frames after trailers", [&get[..], &trailers, &[0x21, 0]].concat(), Taken),
        ("7.1: a head that is cut off", get[..get.len() - 1].to_vec(), Ends(Code::FRAME_ERROR)),
        ("7.1: content that is cut off", [&get[..], &[0, 5, 1]].concat(), Ends(Code::FRAME_ERROR)),
        ("7.1: a front that is cut off", [&get[..], &[0x40]].concat(), Ends(Code::FRAME_ERROR)),
        ("7.2.3: CANCEL_PUSH", [&get[..], &[3, 1, 0]].concat(), UNEXPECTED),
        ("7.2.4: SETTINGS", [&get[..], &[4, 0]].concat(), UNEXPECTED),
        ("7.2.4: SETTINGS in place of a head", vec![4, 0], UNEXPECTED),
        ("7.2.5: PUSH_PROMISE of a client", [&get[..], &[5, 1, 0]].concat(), UNEXPECTED),
        ("7.2.6: GOAWAY", [&get[..], &[7, 1, 0]].concat(), UNEXPECTED),
        ("7.2.7: MAX_PUSH_ID", [&get[..], &[0xd, 1, 0]].concat(), UNEXPECTED),
        ("7.2.8: PRIORITY of HTTP/2", [&get[..], &[2, 0]].concat(), UNEXPECTED),
        ("7.2.8: PING of HTTP/2", [&get[..], &[6, 0]].concat(), UNEXPECTED),
        ("7.2.8: WINDOW_UPDATE of HTTP/2", [&get[..], &[8, 0]].concat(), UNEXPECTED),
        ("7.2.8: CONTINUATION of HTTP/2", [&get[..], &[9, 0]].concat(), UNEXPECTED),
        ("7.2.8: a reserved frame", [&get[..], &[0x40, 0x40, 2, 1, 2]].concat(), Taken),
        ("9: an unknown frame", [&[0x2a, 1, 0][..], &get].concat(), Taken),
        ("10.5: empty content", [&get[..], &[0; 2 * 1001]].concat(), Ends(Code::EXCESSIVE_LOAD)),
        ("10.5: unknown frames", [&get[..], &[0x21, 0].repeat(1001)].concat(), Ends(Code::EXCESSIVE_LOAD)),
        ("RFC 9218 7.2: PRIORITY_UPDATE", [&get[..], &[0x80, 0x0f, 7, 0, 1, 0]].concat(), UNEXPECTED),
    ] {
        assert_eq!(of_request(&bytes), expected, "{section}");
    }
}

#[test]
fn fields_of_a_request() {
    let long = "x".repeat(LIST_BYTES_MAX);
    let trailers = |fields: Fields<'_>| [with(&[]), headers(fields)].concat();
    for (section, bytes, expected) in [
        ("4.2: a name in upper case", in_upper_case(), MALFORMED),
        ("4.2: Connection", with(&[("connection", "close")]), MALFORMED),
        ("4.2: Keep-Alive", with(&[("keep-alive", "1")]), MALFORMED),
        ("4.2: Proxy-Connection", with(&[("proxy-connection", "a")]), MALFORMED),
        ("4.2: Transfer-Encoding", with(&[("transfer-encoding", "chunked")]), MALFORMED),
        ("4.2: Upgrade", with(&[("upgrade", "a")]), MALFORMED),
        ("4.2: TE", with(&[("te", "trailers, gzip")]), MALFORMED),
        ("4.2: TE with trailers", with(&[("te", "trailers")]), Taken),
        ("4.2.2: an oversized field section", with(&[("a", &long)]), Refused),
        ("4.3: pseudo-header field after a field", with(&[("a", "b"), (":path", "/")]), MALFORMED),
        ("4.3: unknown pseudo-header field", with(&[(":a", "b")]), MALFORMED),
        ("4.3: pseudo-header field of responses", with(&[(":status", "200")]), MALFORMED),
        ("4.3: pseudo-header field in trailers", trailers(&[(":path", "/")]), MALFORMED),
        ("4.3: a name that is a colon", with(&[(":", "b")]), MALFORMED),
        ("4.3.1: a path twice", with(&[(":path", "/")]), MALFORMED),
        ("4.3.1: a method twice", with(&[(":method", "GET")]), MALFORMED),
        ("4.3.1: no method", headers(&GET[1..]), MALFORMED),
        ("4.3.1: no path", headers(&GET[..3]), MALFORMED),
        ("4.3.1: no scheme", headers(&[GET[0], GET[2], GET[3]]), MALFORMED),
        ("4.3.1: an empty path", headers(&[&GET[..3], &[(":path", "")]].concat()), MALFORMED),
        ("4.3.1: a path that is none", headers(&[&GET[..3], &[(":path", "a")]].concat()), Refused),
        ("4.3.1: Host beside another authority", with(&[("host", "b")]), Refused),
        ("4.3.1: neither Host nor authority", headers(&[GET[0], GET[1], GET[3]]), Refused),
        ("4.2, RFC 9110 5.5: a line break", with(&[("a", "b\r\nc: d")]), MALFORMED),
        ("4.2, RFC 9110 5.5: a zero byte", with(&[("a", "b\0")]), MALFORMED),
        ("4.2, RFC 9110 5.5: a space before the value", with(&[("a", " b")]), MALFORMED),
        ("4.2, RFC 9110 5.5: a carriage return", with(&[("a", "b\rc: d")]), MALFORMED),
        ("4.2, RFC 9110 5.5: a line feed", with(&[("a", "b\nc: d")]), MALFORMED),
        ("4.2, RFC 9110 5.5: a space after the value", with(&[("a", "b ")]), MALFORMED),
        ("4.2, RFC 9110 5.5: a tab before the value", with(&[("a", "\tb")]), MALFORMED),
        ("4.2, RFC 9110 5.5: a tab after the value", with(&[("a", "b\t")]), MALFORMED),
        ("4.2, RFC 9110 5.1: a name with a space", with(&[("a b", "c")]), MALFORMED),
        ("4.2, RFC 9110 5.1: a name with a colon", with(&[("a:b", "c")]), MALFORMED),
        ("4.2, RFC 9110 5.1: a name with a control character", with(&[("a\x02", "c")]), MALFORMED),
        ("4.2, RFC 9110 5.1: a name with an underscore", with(&[("a_b", "c")]), Taken),
        ("4.2, RFC 9110 5.1: an empty name", with(&[("", "c")]), MALFORMED),
        ("4.1: trailers with a line break", trailers(&[("a", "b\r\nc: d")]), MALFORMED),
    ] {
        assert_eq!(of_request(&bytes), expected, "{section}");
    }
}

#[test]
fn forms_of_authority() {
    let [method, scheme, path] = [GET[0], GET[1], GET[3]];
    for (section, authority, expected) in [
        ("4.3.1: Host alone", &[("host", "a")][..], Taken),
        ("4.3.1: Host with a port alone", &[("host", "a:1234")], Taken),
        ("4.3.1: both are equal", &[(":authority", "a"), ("host", "a")], Taken),
        ("4.3.1: both are equal, with a port", &[(":authority", "a:1234"), ("host", "a:1234")], Taken),
        ("4.3.1: other ports", &[(":authority", "a:1234"), ("host", "a:5678")], Refused),
        ("4.3.1: an empty authority", &[(":authority", "")], MALFORMED),
        ("4.3.1: an empty Host", &[("host", "")], MALFORMED),
        ("4.3.1: user information", &[(":authority", "b@a")], Refused),
    ] {
        let fields = match authority {
            [(":authority", _), ..] => [&[method, scheme, authority[0], path][..], &authority[1..]].concat(),
            _ => [&[method, scheme, path][..], authority].concat(),
        };
        assert_eq!(of_request(&headers(&fields)), expected, "{section}");
    }
    // They are refused, whether by a response or by a reset.
    for (section, method, path) in [
        ("4.3.1: a control character in the path", "GET", "/\x02"),
        ("4.3.1: a space in the path", "GET", "/ a"),
        ("4.3.1: an empty method", "", "/"),
        ("4.3.1: a space in the method", "GET /a", "/"),
    ] {
        let fields = [(":method", method), scheme, GET[2], (":path", path)];
        assert_ne!(of_request(&headers(&fields)), Taken, "{section}");
    }
}

/// An unknown frame between others, longer than what is read at once, is no content.
#[test]
fn content_between_other_frames() {
    let unknown = [&[0x21, 0x41, 0x00][..], &[b'x'; 256]].concat();
    let announced = post(&[("content-length", "4")]);
    for (place, bytes) in [
        ("before", [&announced[..], &unknown, &data(b"TEST")].concat()),
        ("between", [&announced[..], &data(b"TE"), &unknown, &data(b"ST")].concat()),
        ("after", [&announced[..], &data(b"TEST"), &unknown].concat()),
        ("an empty one between", [&announced[..], &data(b"TE"), &[0x21, 0], &data(b"ST")].concat()),
        ("empty content between", [&announced[..], &data(b"TE"), &data(b""), &data(b"ST")].concat()),
    ] {
        assert_eq!(of_request(&bytes), Taken, "{place}");
    }
    let longer = [announced, data(b"ABCDEF"), unknown, data(b"GHIJK")].concat();
    assert_eq!(of_request(&longer), MALFORMED, "more content than announced");
}

#[test]
fn lengths_of_content() {
    let trailers = headers(&[("a", "b")]);
    let with_length = |value| post(&[("content-length", value)]);
    for (section, bytes, expected) in [
        ("4.1.2: more content", [with_length("1"), data(b"ab")].concat(), MALFORMED),
        (
            "4.1.2: more content in a second frame",
            [with_length("1"), data(b"a"), data(b"b")].concat(),
            MALFORMED,
        ),
        ("4.1.2: less content", [with_length("3"), data(b"ab")].concat(), MALFORMED),
        (
            "4.1.2: less content before trailers",
            [with_length("3"), data(b"ab"), trailers.clone()].concat(),
            MALFORMED,
        ),
        ("4.1.2: no content", with_length("3"), MALFORMED),
        ("4.1.2: as announced", [with_length("2"), data(b"ab"), trailers].concat(), Taken),
        ("RFC 9110 8.6: a length that is none", with_length("1x"), Refused),
        ("RFC 9110 8.6: a negative one", with_length("-1"), Refused),
        (
            "RFC 9110 8.6: two lengths",
            [post(&[("content-length", "1"), ("content-length", "2")]), data(b"ab")].concat(),
            Refused,
        ),
    ] {
        assert_eq!(of_request(&bytes), expected, "{section}");
    }
}

#[test]
fn forms_of_connect() {
    let connect = (":method", "CONNECT");
    let [scheme, authority, path] = [GET[1], GET[2], GET[3]];
    let protocol = (":protocol", "websocket");
    for (section, fields, expected) in [
        ("4.4: with scheme and path", &[connect, scheme, authority, path][..], MALFORMED),
        ("4.4: with a path", &[connect, authority, path], MALFORMED),
        ("4.4: with a scheme", &[connect, scheme, authority], MALFORMED),
        ("4.4: without authority", &[connect], MALFORMED),
        ("RFC 8441 4: a protocol without CONNECT", &[GET[0], protocol, scheme, authority, path], MALFORMED),
        ("RFC 8441 4: a protocol without path", &[connect, protocol, scheme, authority], MALFORMED),
        ("RFC 8441 4: a protocol without scheme", &[connect, protocol, authority, path], MALFORMED),
        ("RFC 9220 3: an unknown protocol", &[connect, (":protocol", "a"), scheme, authority, path], Refused),
        ("RFC 9220 3: WebSocket", &[connect, protocol, scheme, authority, path], Taken),
    ] {
        assert_eq!(of_request(&headers(fields)), expected, "{section}");
    }
}

#[test]
fn frames_of_the_control_stream() {
    let errors = [Ends(Code::FRAME_ERROR), Ends(Code::ID_ERROR)];
    let [broken, wrong_id] = errors;
    for (section, frames, expected) in [
        ("7.2.1: DATA", &[0, 0][..], UNEXPECTED),
        ("7.2.2: HEADERS", &[1, 0], UNEXPECTED),
        ("7.2.3: CANCEL_PUSH without pushes", &[3, 1, 0], wrong_id),
        ("7.2.3: CANCEL_PUSH above MAX_PUSH_ID", &[0xd, 1, 4, 3, 1, 5], wrong_id),
        ("7.2.3: CANCEL_PUSH without an id", &[3, 0], broken),
        ("7.2.4: SETTINGS twice", &[4, 0], UNEXPECTED),
        ("7.2.5: PUSH_PROMISE", &[5, 0], UNEXPECTED),
        ("5.2: a GOAWAY that grows", &[7, 1, 0, 7, 1, 4], wrong_id),
        ("5.2: a GOAWAY that shrinks", &[7, 1, 4, 7, 1, 0], Taken),
        ("7.2.6: GOAWAY without an id", &[7, 0], broken),
        ("7.1: GOAWAY with more than an id", &[7, 2, 0, 0], broken),
        ("7.1: GOAWAY with a cut id", &[7, 1, 0x40], broken),
        ("7.2.7: MAX_PUSH_ID that shrinks", &[0xd, 1, 4, 0xd, 1, 3], wrong_id),
        ("7.2.7: MAX_PUSH_ID again", &[0xd, 1, 4, 0xd, 1, 4], Taken),
        ("7.2.7: MAX_PUSH_ID with more than an id", &[0xd, 2, 4, 4], broken),
        ("7.2.8: PRIORITY of HTTP/2", &[2, 0], UNEXPECTED),
        ("7.2.8: PING of HTTP/2", &[6, 0], UNEXPECTED),
        ("7.2.8: WINDOW_UPDATE of HTTP/2", &[8, 0], UNEXPECTED),
        ("7.2.8: CONTINUATION of HTTP/2", &[9, 0], UNEXPECTED),
        ("7.2.8: a reserved frame", &[0x21, 3, 1, 2, 3], Taken),
        ("10.5: a frame without end", &[7, 0x80, 1, 0, 0], Ends(Code::EXCESSIVE_LOAD)),
        ("RFC 9218 7.2: a unidirectional stream", &[0x80, 0x0f, 7, 0, 1, 2], wrong_id),
        ("RFC 9218 7.2: a stream of the server", &[0x80, 0x0f, 7, 0, 1, 1], wrong_id),
        ("RFC 9218 7.2: no stream", &[0x80, 0x0f, 7, 0, 0], broken),
        ("RFC 9218 7.2: a push", &[0x80, 0x0f, 7, 1, 1, 0], wrong_id),
        ("RFC 9218 5: a priority that cannot be read", &[0x80, 0x0f, 7, 0, 2, 0, b'='], Taken),
    ] {
        assert_eq!(of_control(frames), expected, "{section}");
    }
}

#[test]
fn settings_of_a_client() {
    let (wrong, cut) = (Ends(Code::SETTINGS_ERROR), Ends(Code::FRAME_ERROR));
    for (section, payload, expected) in [
        ("7.2.4: a setting twice", &[6, 1, 6, 1][..], wrong),
        ("7.2.4: an unknown setting twice", &[0x21, 1, 0x21, 1], wrong),
        ("7.2.4.1: ENABLE_PUSH of HTTP/2", &[2, 0], wrong),
        ("7.2.4.1: MAX_CONCURRENT_STREAMS of HTTP/2", &[3, 1], wrong),
        ("7.2.4.1: INITIAL_WINDOW_SIZE of HTTP/2", &[4, 1], wrong),
        ("7.2.4.1: MAX_FRAME_SIZE of HTTP/2", &[5, 1], wrong),
        ("7.2.4: an identifier without a value", &[6], cut),
        ("7.2.4: a value that is cut off", &[6, 0x40], cut),
        ("7.2.4.1: reserved settings", &[0x21, 1, 0x40, 0x40, 2], Taken),
        ("RFC 9220 3: a value that is none", &[8, 2], wrong),
        ("RFC 9204 5: a table of the largest size", &[1, 0xff, 255, 255, 255, 255, 255, 255, 255], Taken),
    ] {
        assert_eq!(of_settings(payload), expected, "{section}");
    }
    let many: Vec<_> = (0..65).flat_map(|number| [0x40 + number / 64, 0x40 + number % 64, 0]).collect();
    let frame = [&[0, 4, 0x40, many.len() as u8][..], &many].concat();
    assert_eq!(outcome(control(&frame, 9)), wrong, "10.5: more settings than anybody needs");
}

#[test]
fn unidirectional_streams_of_a_client() {
    let creation = Ends(Code::STREAM_CREATION_ERROR);
    for (section, streams, expected) in [
        ("6.2.1: no SETTINGS", &[&[0, 7, 1, 0][..]][..], Ends(Code::MISSING_SETTINGS)),
        ("6.2.1: a reserved frame before SETTINGS", &[&[0, 0x21, 0]], Ends(Code::MISSING_SETTINGS)),
        ("6.2.1: a second control stream", &[&[0, 4, 0], &[0, 4, 0]], creation),
        ("6.2.2: a push of a client", &[&[1, 0]], creation),
        ("6.2.3: a reserved kind", &[&[0x21, 1, 2]], Taken),
        ("6.2: a kind that has not come whole", &[&[0x40]], Taken),
        ("RFC 9204 4.2: a second encoder stream", &[&[2], &[2]], creation),
        ("RFC 9204 4.2: a second decoder stream", &[&[3], &[3]], creation),
    ] {
        let mut connection = Connection::server(Settings::default(), NOW);
        let taken = streams.iter().try_for_each(|bytes| {
            let (mut stream, mut input) = (UniStream::new(), *bytes);
            while !input.is_empty() {
                connection.receive(&mut stream, &mut input, NOW)?;
            }
            Ok(())
        });
        assert_eq!(outcome(taken), expected, "{section}");
    }
}

/// The same by servers, towards a client.
#[test]
fn frames_of_a_server() {
    let of_server = |frames: &[u8]| {
        let mut connection = Connection::client(Settings::default(), NOW);
        let (mut stream, mut input) = (UniStream::new(), frames);
        let mut last = Ok(None);
        while !input.is_empty() && last.is_ok() {
            last = connection.receive(&mut stream, &mut input, NOW);
        }
        outcome(last)
    };
    let wrong_id = Ends(Code::ID_ERROR);
    for (section, frames, expected) in [
        ("5.2: GOAWAY with an id of no request", &[0, 4, 0, 7, 1, 3][..], wrong_id),
        ("5.2: GOAWAY", &[0, 4, 0, 7, 1, 4], Taken),
        ("6.2.2: a push that was not allowed", &[1, 0], wrong_id),
        ("7.2.7: MAX_PUSH_ID of a server", &[0, 4, 0, 0xd, 1, 0], UNEXPECTED),
        ("RFC 9218 7.2: PRIORITY_UPDATE of a server", &[0, 4, 0, 0x80, 0x0f, 7, 0, 1, 0], UNEXPECTED),
    ] {
        assert_eq!(of_server(frames), expected, "{section}");
    }
}
