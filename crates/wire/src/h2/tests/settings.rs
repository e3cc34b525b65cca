//! Settings (RFC 9113 section 6.5, RFC 8441 section 3, RFC 9218 section 2.1).

use super::*;

#[test]
fn each_value_out_of_range_has_its_code() {
    for (setting, to_server, to_client) in [
        ("1=0", "room", "room"),
        ("1=4294967295", "room", "room"),
        ("2=0", "room", "room"),
        // A server may not offer to take pushes.
        ("2=1", "room", "fault PROTOCOL_ERROR"),
        ("2=2", "fault PROTOCOL_ERROR", "fault PROTOCOL_ERROR"),
        ("3=0", "room", "room"),
        ("4=2147483647", "room", "room"),
        ("4=2147483648", "fault FLOW_CONTROL_ERROR", "fault FLOW_CONTROL_ERROR"),
        ("5=16383", "fault PROTOCOL_ERROR", "fault PROTOCOL_ERROR"),
        ("5=16384", "room", "room"),
        ("5=16777215", "room", "room"),
        ("5=16777216", "fault PROTOCOL_ERROR", "fault PROTOCOL_ERROR"),
        ("6=0", "room", "room"),
        ("8=1", "room", "room"),
        ("8=2", "fault PROTOCOL_ERROR", "fault PROTOCOL_ERROR"),
        ("9=1", "room", "room"),
        ("9=2", "fault PROTOCOL_ERROR", "fault PROTOCOL_ERROR"),
        // Unknown settings are ignored.
        ("4660=7", "room", "room"),
    ] {
        let frame = format!("SETTINGS {setting}");
        for (mut party, expected) in [(Party::server(LIMITS), to_server), (Party::client(LIMITS), to_client)]
        {
            assert_eq!(party.play(&frame), expected, "{frame}");
            let answer = if expected == "room" { "SETTINGS ack" } else { "" };
            assert_eq!(party.written(), answer, "{frame}");
        }
    }
}

#[test]
fn settings_are_announced_where_they_are_not_the_usual_ones() {
    let limits = Limits { streams_max: 7, table_bytes_max: 100, stream_window_bytes: 9, ..LIMITS };
    let server = Connection::<()>::server(limits, Duration::ZERO);
    let mut client = Party::new(Connection::client(limits, Duration::ZERO));
    assert_eq!(client.connection.streams_allowed(), None);
    let takes_connect = [0, 8, 0, 0, 0, 1];
    assert!(server.unwritten().windows(6).any(|setting| setting == takes_connect));
    client.take(server.unwritten());
    assert_eq!(client.connection.streams_allowed(), Some(7));
    assert_eq!(client.connection.peer.window_bytes, 9);
    assert_eq!(client.connection.send_window, 1 << 20);

    let client = Connection::<()>::client(limits, Duration::ZERO);
    let mut server = Party::new(Connection::server(limits, Duration::ZERO));
    assert_eq!(server.take(client.unwritten()), "room, room");
}

#[test]
fn an_acknowledgement_is_not_acknowledged() {
    let mut server = Party::server(LIMITS);
    assert_eq!(server.play("SETTINGS ack"), "");
    assert_eq!(server.written(), "");
}

#[test]
fn the_smallest_table_of_one_frame_of_settings_is_announced() {
    let mut client = Party::client(LIMITS);
    client.open(true).unwrap();
    client.written();
    client.play("SETTINGS 1=0 1=4096");
    client.written();
    client.open(true).unwrap();
    let out = client.connection.unwritten();
    // Changes to 0 and to 4096 (RFC 7541 section 6.3).
    assert_eq!(&out[frame::HEADER_BYTES..][..4], [0x20, 0x3f, 0xe1, 0x1f]);
}

#[test]
fn a_smaller_table_holds_once_it_has_been_acknowledged() {
    let limits = Limits { table_bytes_max: 100, ..LIMITS };
    let stored = |size: &[u8]| {
        let mut payload = size.to_vec();
        payload.extend(block(REQUEST));
        payload
    };
    let mut server = Party::server(limits);
    for (before, id, size, expected) in [
        // The usual table, until the acknowledgement.
        ("", 1, &[0x3f, 0xe1, 0x1f][..], "request 1 end"),
        ("SETTINGS ack", 3, &[0x3f, 0x45], "request 3 end"),
        ("", 5, &[0x3f, 0x46], "fault COMPRESSION_ERROR"),
    ] {
        server.play(before);
        let mut frames = Vec::new();
        frame::write(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, id, &stored(size), &mut frames);
        assert_eq!(server.take(&frames), expected, "{id}");
    }
    let mut server = Party::server(limits);
    // The table has to become smaller.
    assert_eq!(server.play("SETTINGS ack; HEADERS 1"), "fault COMPRESSION_ERROR");
}
