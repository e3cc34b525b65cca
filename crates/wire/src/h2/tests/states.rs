//! Each frame in each state of a stream (RFC 9113 section 5.1).

use super::*;

const FRAMES: [&str; 8] = [
    "DATA 1 1",
    "TRAILERS 1",
    "HEADERS 1",
    "PRIORITY 1",
    "RST_STREAM 1",
    "WINDOW_UPDATE 1 1",
    "PUSH_PROMISE 1",
    "CONTINUATION 1",
];

/// The ways in which stream 1 comes into a state.
#[derive(Clone, Copy, Debug)]
enum Way {
    Idle,
    Open,
    /// A client's stream whose response has begun.
    Answered,
    HalfClosedRemote,
    HalfClosedLocal,
    ClosedByBoth,
    ResetByPeer,
    ResetByUs,
    Released,
}

fn server_in(way: Way) -> Party {
    let mut server = Party::server(LIMITS);
    let begin = match way {
        Way::Idle => "",
        Way::HalfClosedRemote | Way::ClosedByBoth => "HEADERS 1 end",
        Way::ResetByPeer => "HEADERS 1; RST_STREAM 1",
        _ => "HEADERS 1",
    };
    server.play(begin);
    match way {
        Way::HalfClosedLocal | Way::ClosedByBoth => server.respond(1, 200, true),
        Way::ResetByUs => server.connection.reset(server.key(1), Code::CANCEL),
        Way::Released => drop(server.connection.release(server.key(1))),
        _ => {}
    }
    server
}

fn client_in(way: Way) -> Party {
    let mut client = Party::client(LIMITS);
    if matches!(way, Way::Idle) {
        return client;
    }
    let key = client.open(matches!(way, Way::HalfClosedLocal | Way::ClosedByBoth)).unwrap();
    client.play(match way {
        Way::Answered => "HEADERS 1",
        Way::HalfClosedRemote | Way::ClosedByBoth => "HEADERS 1 end",
        Way::ResetByPeer => "RST_STREAM 1",
        _ => "",
    });
    match way {
        Way::ResetByUs => client.connection.reset(key, Code::CANCEL),
        Way::Released => drop(client.connection.release(key)),
        _ => {}
    }
    client
}

/// The verdict on a frame: `-` where it is taken or ignored, a code where the stream ends with it, and `!`
/// before it where the connection does.
fn verdict(party: &mut Party, frame: &str) -> String {
    party.written();
    let said = party.play(frame);
    if let Some(fault) = said.strip_prefix("fault ") {
        return format!("!{fault}");
    }
    match party.written().strip_prefix("RST_STREAM 1 ") {
        None => "-".to_owned(),
        Some(code) => {
            if let Some((_, key)) = party.keys.first() {
                assert!(!party.connection.may_send(*key), "{frame}: nothing may follow RST_STREAM");
            }
            code.to_owned()
        }
    }
}

fn check(party_in: fn(Way) -> Party, rows: &[(Way, [&str; 8])]) {
    for (way, verdicts) in rows {
        for (frame, expected) in FRAMES.iter().zip(verdicts) {
            assert_eq!(verdict(&mut party_in(*way), frame), *expected, "{frame} in {way:?}");
        }
    }
}

const PROTOCOL: &str = "PROTOCOL_ERROR";
const BAD: &str = "!PROTOCOL_ERROR";
const CLOSED: &str = "STREAM_CLOSED";
const GONE: &str = "!STREAM_CLOSED";

#[test]
fn a_server_takes_each_frame_where_the_state_allows_it() {
    check(
        server_in,
        &[
            // DATA, trailers, a second head, PRIORITY, RST_STREAM, WINDOW_UPDATE, PUSH_PROMISE, CONTINUATION
            (Way::Idle, [BAD, PROTOCOL, "-", "-", BAD, BAD, BAD, BAD]),
            (Way::Open, ["-", "-", PROTOCOL, "-", "-", "-", BAD, BAD]),
            (Way::HalfClosedRemote, [CLOSED, CLOSED, CLOSED, "-", "-", "-", BAD, BAD]),
            (Way::HalfClosedLocal, ["-", "-", PROTOCOL, "-", "-", "-", BAD, BAD]),
            (Way::ClosedByBoth, [CLOSED, GONE, GONE, "-", "-", "-", BAD, BAD]),
            (Way::ResetByPeer, [CLOSED, GONE, GONE, "-", "-", "-", BAD, BAD]),
            (Way::ResetByUs, ["-", "-", "-", "-", "-", "-", BAD, BAD]),
            (Way::Released, ["-", "-", "-", "-", "-", "-", BAD, BAD]),
        ],
    );
}

#[test]
fn a_client_takes_each_frame_where_the_state_allows_it() {
    check(
        client_in,
        &[
            (Way::Idle, [BAD, BAD, BAD, "-", BAD, BAD, BAD, BAD]),
            // A response begins with its status.
            (Way::Open, [PROTOCOL, PROTOCOL, "-", "-", "-", "-", BAD, BAD]),
            (Way::Answered, ["-", "-", PROTOCOL, "-", "-", "-", BAD, BAD]),
            (Way::HalfClosedRemote, [CLOSED, CLOSED, CLOSED, "-", "-", "-", BAD, BAD]),
            (Way::HalfClosedLocal, [PROTOCOL, PROTOCOL, "-", "-", "-", "-", BAD, BAD]),
            // A block of a stream that has ended is read for the sake of the table.
            (Way::ClosedByBoth, [CLOSED, "-", "-", "-", "-", "-", BAD, BAD]),
            (Way::ResetByPeer, [CLOSED, "-", "-", "-", "-", "-", BAD, BAD]),
            (Way::ResetByUs, ["-", "-", "-", "-", "-", "-", BAD, BAD]),
            (Way::Released, ["-", "-", "-", "-", "-", "-", BAD, BAD]),
        ],
    );
}

#[test]
fn a_stream_that_is_reset_for_a_fault_is_reported_once() {
    for frame in ["HEADERS 1", "DATA 1 1; DATA 1 1", "TRAILERS 1; TRAILERS 1", "WINDOW_UPDATE 1 0"] {
        let mut server = Party::server(LIMITS);
        server.play(if frame.starts_with("HEADERS") { "HEADERS 1" } else { "HEADERS 1 end" });
        let said = server.play(frame);
        assert_eq!(said.matches("reset 1 by Us").count(), 1, "{frame}: {said}");
        assert_eq!(server.written().matches("RST_STREAM").count(), 1, "{frame}");
        assert_eq!((server.connection.faults(), server.connection.open_streams()), (1, 0), "{frame}");
    }
}

#[test]
fn streams_are_opened_by_the_side_and_in_the_order_that_their_numbers_say() {
    for (frames, expected) in [
        ("HEADERS 0", "fault PROTOCOL_ERROR"),
        ("HEADERS 2", "fault PROTOCOL_ERROR"),
        ("HEADERS 5 end; HEADERS 3 end", "request 5 end, fault STREAM_CLOSED"),
        ("HEADERS 5 end; DATA 3 1", "request 5 end"),
        ("HEADERS 5 end; RST_STREAM 3; WINDOW_UPDATE 3 1", "request 5 end"),
        ("HEADERS 5 end; DATA 7 1", "request 5 end, fault PROTOCOL_ERROR"),
        ("HEADERS 5 end; DATA 2 1", "request 5 end, fault PROTOCOL_ERROR"),
        ("DATA 0 1", "fault PROTOCOL_ERROR"),
        ("RST_STREAM 0", "fault PROTOCOL_ERROR"),
        ("PRIORITY 0", "fault PROTOCOL_ERROR"),
        ("CONTINUATION 0", "fault PROTOCOL_ERROR"),
    ] {
        assert_eq!(Party::server(LIMITS).play(frames), expected, "{frames}");
    }
    for frames in ["HEADERS 2", "HEADERS 0", "DATA 2 1"] {
        let mut client = Party::client(LIMITS);
        client.open(true).unwrap();
        assert_eq!(client.play(frames), "fault PROTOCOL_ERROR", "{frames}");
    }
}

#[test]
fn nothing_comes_between_the_frames_of_a_head() {
    for frame in [
        "DATA 1 1",
        "HEADERS 1",
        "HEADERS 3",
        "PRIORITY 1",
        "RST_STREAM 1",
        "SETTINGS",
        "PING",
        "GOAWAY 0",
        "WINDOW_UPDATE 0 1",
        "CONTINUATION 3",
        "UNKNOWN 1",
        "PRIORITY_UPDATE 1 u=1",
    ] {
        let mut server = Party::server(LIMITS);
        assert_eq!(server.play("HEADERS 1 part"), "");
        assert_eq!(server.play(frame), "fault PROTOCOL_ERROR", "{frame}");
    }
    let mut server = Party::server(LIMITS);
    let frames = "HEADERS 1 part; CONTINUATION 1 part; CONTINUATION 1; CONTINUATION 1";
    assert_eq!(server.play(frames), "request 1, fault PROTOCOL_ERROR");
}

#[test]
fn frames_have_the_lengths_of_their_kinds() {
    for (frames, expected) in [
        ("RAW 0 7 kind=6", "fault FRAME_SIZE_ERROR"),
        ("RAW 0 9 kind=6", "fault FRAME_SIZE_ERROR"),
        ("RAW 1 8 kind=6", "fault PROTOCOL_ERROR"),
        ("RAW 0 5 kind=4", "fault FRAME_SIZE_ERROR"),
        ("RAW 0 6 kind=4 flags=1", "fault FRAME_SIZE_ERROR"),
        ("RAW 1 6 kind=4", "fault PROTOCOL_ERROR"),
        ("RAW 0 7 kind=7", "fault FRAME_SIZE_ERROR"),
        ("RAW 1 8 kind=7", "fault PROTOCOL_ERROR"),
        ("RAW 0 3 kind=8", "fault FRAME_SIZE_ERROR"),
        ("HEADERS 1; RAW 1 5 kind=8", "request 1, fault FRAME_SIZE_ERROR"),
        ("HEADERS 1; RAW 1 3 kind=3", "request 1, fault FRAME_SIZE_ERROR"),
        ("HEADERS 1; RAW 1 4 kind=2", "request 1, reset 1 by Us FRAME_SIZE_ERROR"),
        ("RAW 0 3 kind=16", "fault FRAME_SIZE_ERROR"),
        ("RAW 1 16385 kind=190", "fault FRAME_SIZE_ERROR"),
        ("RAW 1 16384 kind=190", ""),
        // HEADERS with the flag of a priority and no room for it, and padding that is longer than the frame.
        ("RAW 1 4 kind=1 flags=36", "fault FRAME_SIZE_ERROR"),
        ("RAW 1 0 kind=1 flags=12", "fault PROTOCOL_ERROR"),
        ("HEADERS 1; RAW 1 0 kind=0 flags=8", "request 1, fault FRAME_SIZE_ERROR"),
        ("HEADERS 1; RAW 1 1 kind=0 flags=8", "request 1, data 1 0"),
    ] {
        assert_eq!(Party::server(LIMITS).play(frames), expected, "{frames}");
    }
    for (frame, code) in [(&[5, 1, 1, 1, 1][..], "fault PROTOCOL_ERROR"), (&[4, 1, 1, 1, 1], "data 1 0")] {
        let mut server = Party::server(LIMITS);
        server.play("HEADERS 1");
        let mut out = Vec::new();
        frame::write(kind::DATA, flag::PADDED, 1, frame, &mut out);
        assert_eq!(server.take(&out), code);
    }
}

#[test]
fn a_connection_begins_with_preface_and_settings() {
    for (bytes, expected) in [
        (&b"GET / HTTP/1.1\r\n"[..], "fault PROTOCOL_ERROR"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", "fault PROTOCOL_ERROR"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\0", "fault PROTOCOL_ERROR"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\x01\0\0\0\0", "fault PROTOCOL_ERROR"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "room"),
        (b"PRI * HTTP/2.0\r\n\r\nSM", ""),
    ] {
        let mut server = Party::new(Connection::server(LIMITS, Duration::ZERO));
        assert_eq!(server.take(bytes), expected);
    }
    let mut client = Party::new(Connection::client(LIMITS, Duration::ZERO));
    assert!(client.connection.unwritten().starts_with(PREFACE));
    assert_eq!(client.connection.streams_allowed(), None);
    assert_eq!(client.play("PING"), "fault PROTOCOL_ERROR");
}

#[test]
fn a_priority_that_names_its_own_stream_is_a_fault_of_that_stream() {
    let mut server = Party::server(LIMITS);
    assert_eq!(server.play("HEADERS 1; PRIORITY 1 1"), "request 1, reset 1 by Us PROTOCOL_ERROR");
    let mut payload = vec![0, 0, 0, 3, 9];
    payload.extend(block(REQUEST));
    let mut frames = Vec::new();
    let flags = flag::PRIORITY | flag::END_HEADERS | flag::END_STREAM;
    frame::write(kind::HEADERS, flags, 3, &payload, &mut frames);
    payload[3] = 1;
    frame::write(kind::HEADERS, flags, 5, &payload, &mut frames);
    assert_eq!(server.take(&frames), "request 5 end");
    assert_eq!(server.written(), "RST_STREAM 1 PROTOCOL_ERROR, RST_STREAM 3 PROTOCOL_ERROR");
}

#[test]
fn a_block_whose_stream_is_reset_before_its_last_frame_is_dropped() {
    for is_held in [true, false] {
        let mut server = Party::server(LIMITS);
        server.play("HEADERS 1; TRAILERS 1 part");
        let key = server.key(1);
        server.connection.reset(key, Code::CANCEL);
        if !is_held {
            server.connection.release(key);
        }
        server.written();
        let said = server.play("CONTINUATION 1; HEADERS 3 end");
        assert!(said.ends_with("request 3 end") && !said.contains("trailers"), "{said}");
        assert_eq!((server.written().as_str(), server.connection.faults()), ("", 0), "{is_held}");

        let mut client = Party::client(LIMITS);
        let key = client.open(true).unwrap();
        client.play("HEADERS 1 part");
        client.connection.reset(key, Code::CANCEL);
        if !is_held {
            client.connection.release(key);
        }
        client.written();
        let said = client.play("CONTINUATION 1");
        assert!(!said.contains("response"), "{said}");
        assert_eq!((client.written().as_str(), client.connection.faults()), ("", 0), "{is_held}");
    }
}

#[test]
fn frames_of_as_many_resets_as_there_may_be_streams_are_ignored() {
    let limits = Limits { streams_max: 128, ..LIMITS };
    let mut server = Party::server(limits);
    for id in (1..256).step_by(2) {
        assert_eq!(server.play(&format!("HEADERS {id}")), format!("request {id}"));
    }
    for (_, key) in server.keys.clone() {
        server.connection.release(key);
    }
    for id in (1..256).step_by(2) {
        assert_eq!(server.play(&format!("TRAILERS {id}")), "", "{id}");
    }
}
