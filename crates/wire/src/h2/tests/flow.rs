//! Windows in both directions (RFC 9113 section 5.2 and 6.9).

use super::*;

/// A server with stream 1 open, whose content is not read as it comes.
fn server(limits: Limits) -> Party {
    let mut server = Party::server(limits);
    server.play("SETTINGS ack");
    server.play("HEADERS 1");
    server.reads = false;
    server.written();
    server
}

/// Stream 1 of a client, and what it sends at most.
fn send(client: &mut Party, len: usize, is_end: bool) -> usize {
    let key = client.key(1);
    client.connection.send(key, &vec![b'x'; len], is_end).unwrap()
}

#[test]
fn content_is_sent_as_far_as_the_windows_of_stream_and_connection_go() {
    for (grants, sent) in [
        ("", 65_535),
        ("WINDOW_UPDATE 1 10", 65_535),
        ("WINDOW_UPDATE 0 10", 65_535),
        ("WINDOW_UPDATE 1 10; WINDOW_UPDATE 0 7", 65_542),
        ("SETTINGS 4=5", 5),
        ("SETTINGS 4=5; WINDOW_UPDATE 1 3", 8),
        ("SETTINGS 4=0", 0),
        ("SETTINGS 4=70000; WINDOW_UPDATE 0 10000", 70_000),
        ("SETTINGS 4=5 4=9", 9),
    ] {
        let mut client = Party::client(Limits { unwritten_bytes_max: 1 << 20, ..LIMITS });
        client.open(false).unwrap();
        client.play(grants);
        client.written();
        assert_eq!(send(&mut client, 80_000, true), sent, "{grants}");
        assert_eq!(send(&mut client, 80_000, true), 0, "{grants}");
        assert!(client.connection.is_held_by_peer(client.key(1)));
        assert!(!client.written().contains("end"), "{grants}");
        client.play("WINDOW_UPDATE 1 100000; WINDOW_UPDATE 0 100000");
        assert_eq!(send(&mut client, 80_000 - sent, true), 80_000 - sent);
        assert!(client.written().ends_with(" end"));
    }
}

#[test]
fn a_window_that_settings_make_smaller_may_be_below_zero() {
    let mut client = Party::client(LIMITS);
    client.open(false).unwrap();
    assert_eq!(send(&mut client, 1000, false), 1000);
    assert_eq!(client.play("SETTINGS 4=100; WINDOW_UPDATE 1 900"), "room, room 1");
    assert_eq!(send(&mut client, 1000, false), 0);
    client.play("WINDOW_UPDATE 1 1");
    assert_eq!(send(&mut client, 1000, false), 1);
    // A stream that is opened later begins with the new size.
    let key = client.open(false).unwrap();
    assert_eq!(client.connection.send(key, &[0; 1000], false), Ok(100));
    // An end without content needs no room.
    assert_eq!(send(&mut client, 0, true), 0);
    assert!(client.written().ends_with("DATA 1 0 end"));
}

#[test]
fn windows_above_two_gigabytes_are_faults() {
    for (frames, expected) in [
        ("WINDOW_UPDATE 0 2147418112", "room"),
        ("WINDOW_UPDATE 0 2147418113", "fault FLOW_CONTROL_ERROR"),
        ("WINDOW_UPDATE 1 2147418112", "room 1"),
        ("WINDOW_UPDATE 1 2147418113", "reset 1 by Us FLOW_CONTROL_ERROR"),
        ("WINDOW_UPDATE 0 0", "fault PROTOCOL_ERROR"),
        ("WINDOW_UPDATE 1 0", "reset 1 by Us PROTOCOL_ERROR"),
        ("WINDOW_UPDATE 1 2147418112; SETTINGS 4=65536", "room 1, fault FLOW_CONTROL_ERROR"),
        // A stream that has ended has no window.
        (
            "WINDOW_UPDATE 1 2147418112; RST_STREAM 1; SETTINGS 4=65536",
            "room 1, reset 1 by Peer CANCEL, room",
        ),
    ] {
        assert_eq!(server(LIMITS).play(frames), expected, "{frames}");
    }
}

#[test]
fn more_content_than_a_window_allows_is_a_fault() {
    let limits = Limits { stream_window_bytes: 70_000, connection_window_bytes: 70_000, ..LIMITS };
    for (frames, expected) in [
        (
            "DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000",
            "data 1 10000",
        ),
        // 6 times a frame of 10,000 bytes, then one of 10,000 bytes and its length of padding.
        (
            "DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 9990 pad=10",
            "fault FLOW_CONTROL_ERROR",
        ),
        (
            "DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 10000; DATA 1 9990 pad=9",
            "data 1 9990",
        ),
    ] {
        let said = server(limits).play(frames);
        assert!(said.ends_with(expected), "{said}");
    }
    let limits = Limits { connection_window_bytes: 80_000, ..limits };
    let said = server(limits).play("DATA 1 16000; DATA 1 16000; DATA 1 16000; DATA 1 16000; DATA 1 6001");
    assert!(said.ends_with("data 1 16000, reset 1 by Us FLOW_CONTROL_ERROR"), "{said}");
}

#[test]
fn a_peer_that_does_not_know_a_small_window_yet_may_use_the_usual_one() {
    let limits = Limits { stream_window_bytes: 1000, ..LIMITS };
    let mut server = Party::server(limits);
    server.reads = false;
    let said = server.play("HEADERS 1; DATA 1 16000; DATA 1 16000; DATA 1 16000; DATA 1 16000; DATA 1 1535");
    assert!(said.ends_with("data 1 1535"), "{said}");
    server.play("SETTINGS ack");
    let said = server.play("HEADERS 3; DATA 3 1000; DATA 3 1; DATA 1 1");
    assert_eq!(
        said,
        "request 3, data 3 1000, reset 3 by Us FLOW_CONTROL_ERROR, reset 1 by Us FLOW_CONTROL_ERROR"
    );
}

#[test]
fn content_that_has_been_read_is_granted_again() {
    let limits = Limits { stream_window_bytes_max: 65_535, connection_window_bytes: 65_535, ..LIMITS };
    let mut server = server(limits);
    server.play("DATA 1 16000; DATA 1 16000; DATA 1 8000");
    let key = server.key(1);
    assert_eq!(server.written(), "", "nothing has been read");
    server.connection.note_read(key, 10_000);
    assert_eq!(server.written(), "", "less than half of what may be granted");
    server.connection.note_read(key, 22_000);
    assert_eq!(server.written(), "WINDOW_UPDATE 0 32000", "less than half of the stream's window");
    server.connection.note_read(key, 8000);
    assert_eq!(server.written(), "WINDOW_UPDATE 1 40000");
    // More than has come is not granted.
    server.connection.note_read(key, 100_000);
    assert_eq!(server.written(), "");
}

#[test]
fn padding_is_granted_again_without_being_read() {
    let limits = Limits { stream_window_bytes_max: 65_535, connection_window_bytes: 65_535, ..LIMITS };
    for len in [0, 1] {
        let mut server = server(limits);
        server.reads = true;
        for _ in 0..600 {
            let said = server.play(&format!("DATA 1 {len} pad=255"));
            assert_eq!(said, format!("data 1 {len}"));
        }
        let granted = server.written();
        assert!(granted.matches("WINDOW_UPDATE 1 ").count() >= 3, "{granted}");
        assert!(granted.matches("WINDOW_UPDATE 0 ").count() >= 3, "{granted}");
    }
}

#[test]
fn a_window_grows_for_a_peer_that_is_read_fast_and_not_while_memory_is_scarce() {
    for (is_pressed, reads, size) in [(false, true, 1 << 18), (true, true, 65_535), (false, false, 65_535)] {
        let mut server = server(LIMITS);
        server.connection.set_pressed(is_pressed);
        let key = server.key(1);
        for _ in 0..100 {
            server.play("DATA 1 10000");
            if reads {
                server.connection.note_read(key, 10_000);
            } else {
                // Half of what has come stays unread.
                server.play("DATA 1 10000");
                server.connection.note_read(key, 10_000);
                server.connection.note_read(key, 9999);
            }
        }
        let stream = server.connection.streams.get(key).unwrap();
        assert_eq!(stream.receive_window_max, size, "{is_pressed} {reads}");
        assert!(stream.receive_window <= i64::from(size));
    }
    // Bytes that were granted stay granted, and no more is until it is used.
    let mut server = server(LIMITS);
    server.reads = true;
    for _ in 0..100 {
        server.play("DATA 1 10000");
    }
    server.connection.set_pressed(true);
    server.written();
    for _ in 0..16 {
        server.play("DATA 1 10000");
    }
    assert!(!server.written().contains("WINDOW_UPDATE 1 "), "a window of 64 KiB is not used yet");
}

#[test]
fn unread_content_of_a_stream_that_is_let_go_is_granted_to_the_connection() {
    let limits = Limits { connection_window_bytes: 65_535, ..LIMITS };
    for is_reset in [false, true] {
        let mut server = server(limits);
        server.play("DATA 1 16000; DATA 1 16000; DATA 1 8000");
        if is_reset {
            server.play("RST_STREAM 1");
        }
        assert_eq!(server.written(), "");
        server.connection.release(server.key(1));
        assert!(server.written().ends_with("WINDOW_UPDATE 0 40000"));
        // Frames that are still on the way are dropped, and granted too.
        server.play("DATA 1 16000; DATA 1 16000; DATA 1 8000");
        assert!(server.written().ends_with("WINDOW_UPDATE 0 40000") || is_reset);
        assert_eq!(server.connection.receive_window + i64::from(server.connection.unread), 65_535);
    }
}

#[test]
fn a_stream_that_is_not_read_leaves_room_for_others() {
    let limits = Limits { connection_window_bytes: 65_535, ..LIMITS };
    let mut server = server(limits);
    server.play("HEADERS 3; DATA 1 16000; DATA 1 16000; DATA 1 8000");
    // Of the window of the connection, 25,535 bytes are left for stream 3.
    for _ in 0..10 {
        assert_eq!(server.play("DATA 3 10000"), "data 3 10000");
        server.connection.note_read(server.key(3), 10_000);
    }
    assert!(server.connection.receive_window + i64::from(server.connection.unread) <= 65_535);
}

#[test]
fn no_more_is_granted_than_the_window_while_a_frame_is_coming() {
    let limits = Limits { stream_window_bytes_max: 65_535, connection_window_bytes: 65_535, ..LIMITS };
    let mut server = server(limits);
    server.reads = true;
    for _ in 0..8 {
        let bytes = script("DATA 1 16000", REQUEST);
        for piece in bytes.chunks(100) {
            server.take(piece);
            let left = server.connection.content.map_or(0, |content| frame::signed(content.left));
            let stream = server.connection.streams.get(server.key(1)).unwrap();
            assert!(stream.receive_window + i64::from(stream.unread) + left <= 65_535);
            assert!(server.connection.receive_window + i64::from(server.connection.unread) + left <= 65_535);
        }
    }
}

#[test]
fn frames_that_wait_to_be_written_are_bounded() {
    let limits = Limits { unwritten_bytes_max: 10_000, ..LIMITS };
    let mut client = Party::client(limits);
    client.open(false).unwrap();
    client.play("WINDOW_UPDATE 0 100000000; WINDOW_UPDATE 1 100000000");
    client.written();
    let mut sent = 0;
    for _ in 0..10_000 {
        sent += send(&mut client, 1000, false);
        let len = client.connection.unwritten().len();
        assert!(len < 10_200, "{len} bytes wait");
        assert_eq!(client.connection.room(client.key(1)), 10_000_usize.saturating_sub(len));
        assert_eq!(client.connection.has_room(), len < 10_000);
        // The socket never takes all of it.
        client.connection.note_written(len.min(700));
        assert!(client.connection.out.len() < 40_000, "what was written is kept");
    }
    assert!(sent > 6_000_000, "{sent}");
}
