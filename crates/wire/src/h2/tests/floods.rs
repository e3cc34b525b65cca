//! Frames that cost more than they bring, incomplete heads, and streams above the limit.

use super::*;

#[test]
fn each_kind_of_useless_frame_has_an_end_that_time_puts_off() {
    for frame in [
        "PING",
        "PING ack",
        "SETTINGS",
        "SETTINGS ack",
        "DATA 1 0",
        "DATA 1 0 pad=0",
        "WINDOW_UPDATE 0 1",
        "WINDOW_UPDATE 1 1",
        "RST_STREAM 3",
        "PRIORITY 1",
        "PRIORITY_UPDATE 1 u=1",
        "UNKNOWN 1",
        "GOAWAY 0 0",
        // Trailers of a stream that was reset here.
        "TRAILERS 3",
    ] {
        let mut server = Party::server(LIMITS);
        server.play("HEADERS 1; HEADERS 3");
        server.connection.release(server.key(3));
        let bytes = script(&vec![frame; 2000].join("; "), REQUEST);
        assert!(server.take(&bytes).ends_with("fault ENHANCE_YOUR_CALM"), "{frame}");

        let mut server = Party::server(LIMITS);
        server.play("HEADERS 1; HEADERS 3");
        server.connection.release(server.key(3));
        let bytes = script(&vec![frame; 100].join("; "), REQUEST);
        for second in 0..60 {
            server.now = Duration::from_secs(second);
            let said = server.take(&bytes);
            assert!(!said.contains("fault"), "{frame} after {second} s: {said}");
            server.written();
        }
    }
}

#[test]
fn a_head_in_pieces_without_end_is_a_flood() {
    let mut server = Party::server(LIMITS);
    server.play("HEADERS 1 part");
    let bytes = script(&vec!["CONTINUATION 1 part"; 2000].join("; "), REQUEST);
    assert_eq!(server.take(&bytes), "fault ENHANCE_YOUR_CALM");
    // A long one is, after few pieces, on either side.
    for mut party in [Party::server(LIMITS), Party::client(LIMITS)] {
        let _ = party.open(true);
        party.play("HEADERS 1 part");
        let bytes = script(&["RAW 1 16000 kind=9"; 3].join("; "), REQUEST);
        assert_eq!(party.take(&bytes), "fault ENHANCE_YOUR_CALM");
    }
}

#[test]
fn streams_above_the_limit_are_refused_and_their_heads_are_read() {
    let mut server = Party::server(LIMITS);
    let said = server.play("HEADERS 1; HEADERS 3; HEADERS 5; HEADERS 7");
    assert_eq!(said, "request 1, request 3, request 5, request 7");
    server.written();
    // The block stores its field, which the next one refers to.
    let stored = |id: u32, fields: &[u8]| {
        let mut payload = block(REQUEST);
        payload.extend_from_slice(fields);
        let mut out = Vec::new();
        frame::write(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &payload, &mut out);
        out
    };
    assert_eq!(server.take(&stored(9, b"\x40\x03x-a\x031st")), "");
    assert_eq!(server.written(), "RST_STREAM 9 REFUSED_STREAM");
    assert_eq!(server.connection.faults(), 0);
    server.respond(1, 200, true);
    server.play("RST_STREAM 1");
    assert_eq!(server.take(&stored(11, &[0xbe])), "request 11 end");
    assert!(server.lines.contains("x-a: 1st\r\n"), "{}", server.lines);
}

#[test]
fn streams_that_end_faster_than_their_owners_are_refused() {
    let mut server = Party::server(LIMITS);
    let mut served = 0;
    for id in (1..100).step_by(2) {
        let said = server.play(&format!("HEADERS {id}; RST_STREAM {id}"));
        served += u32::from(said.contains("request"));
    }
    assert_eq!(served, 2 * LIMITS.streams_max);
    for (_, key) in std::mem::take(&mut server.keys) {
        server.connection.release(key);
    }
    assert_eq!(server.play("HEADERS 101"), "request 101");
}

#[test]
fn refused_streams_without_end_are_a_flood() {
    let mut server = Party::server(LIMITS);
    server.play("HEADERS 1; HEADERS 3; HEADERS 5; HEADERS 7");
    let mut said = (9..5000).step_by(2).map(|id| server.play(&format!("HEADERS {id} end")));
    assert!(said.any(|said| said == "fault ENHANCE_YOUR_CALM"));
}

#[test]
fn a_head_that_comes_byte_by_byte_has_begun_with_its_first() {
    let mut server = Party::server(LIMITS);
    assert_eq!(server.connection.begun(), None);
    let bytes = script("HEADERS 1 part; CONTINUATION 1 part; CONTINUATION 1", REQUEST);
    let start = Duration::from_secs(5);
    for (at, byte) in bytes.iter().enumerate() {
        server.now = start + Duration::from_millis(at as u64);
        let said = server.take(&[*byte]);
        if at + 1 < bytes.len() {
            assert_eq!(server.connection.begun(), Some(Begun { since: start, bytes: at + 1 }));
        } else {
            assert_eq!((said.as_str(), server.connection.begun()), ("request 1", None));
        }
    }
    // The next frame begins at its own time, and content is not counted.
    server.now = Duration::from_secs(9);
    server.take(&script("DATA 1 100", REQUEST)[..50]);
    assert_eq!(server.connection.begun(), None);
    server.take(&script("DATA 1 100; PING", REQUEST)[50..112]);
    assert_eq!(server.connection.begun(), Some(Begun { since: Duration::from_secs(9), bytes: 3 }));
    server.now = Duration::from_secs(10);
    let rest = [&script("PING", REQUEST)[3..], &script("PING", REQUEST)[..1]].concat();
    server.take(&rest);
    assert_eq!(server.connection.begun(), Some(Begun { since: Duration::from_secs(10), bytes: 1 }));
}

#[test]
fn the_preface_has_begun_with_its_first_byte() {
    let mut server = Party::new(Connection::server(LIMITS, Duration::ZERO));
    server.now = Duration::from_secs(1);
    server.take(&PREFACE[..5]);
    assert_eq!(server.connection.begun(), Some(Begun { since: Duration::from_secs(1), bytes: 5 }));
    server.take(&PREFACE[5..]);
    assert_eq!(server.connection.begun(), None);
}
