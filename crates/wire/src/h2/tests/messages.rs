//! Interim responses, lengths, trailers and priorities (RFC 9113 section 8.1, RFC 9218).

use super::*;

/// A client whose request on stream 1 is whole.
fn client(answers_head: bool) -> Party {
    let mut client = Party::client(LIMITS);
    client.open(true).unwrap();
    client.answers_head = answers_head;
    client.written();
    client
}

fn response(id: u32, is_end: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let end = if is_end { flag::END_STREAM } else { 0 };
    headers(id, flag::END_HEADERS | end, fields, &mut out);
    out
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let interim = |is_end| response(1, is_end, &[(":status", "103"), ("link", "</a>")]);
    let mut said = client(false);
    assert_eq!(said.take(&interim(false)), "response 1 103");
    assert_eq!(said.lines, "HTTP/1.1 103 \r\nlink: </a>\r\n\r\n");
    assert_eq!(said.take(&interim(false)), "response 1 103");
    assert_eq!(said.play("HEADERS 1; DATA 1 5 end"), "response 1 200, data 1 5 end");
    // It cannot be the end, and no content follows it.
    assert_eq!(client(false).take(&interim(true)), "broken 1");
    let mut early = client(false);
    early.take(&interim(false));
    assert_eq!(early.play("DATA 1 5"), "reset 1 by Us PROTOCOL_ERROR");
    let mut late = client(false);
    late.play("HEADERS 1");
    assert_eq!(late.take(&interim(false)), "reset 1 by Us PROTOCOL_ERROR");
}

#[test]
fn the_content_has_the_length_that_its_head_says() {
    for (status, answers_head, length, frames, is_right) in [
        ("200", false, "5", "DATA 1 5 end", true),
        ("200", false, "5", "DATA 1 2; DATA 1 3 pad=7; DATA 1 0 end", true),
        ("200", false, "5", "DATA 1 2; DATA 1 3; TRAILERS 1", true),
        ("200", false, "5", "DATA 1 4 end", false),
        ("200", false, "5", "DATA 1 6 end", false),
        ("200", false, "5", "DATA 1 4; TRAILERS 1", false),
        ("200", false, "0", "DATA 1 0 end", true),
        ("200", false, "0", "DATA 1 1", false),
        // A response without content may have the length that another would have.
        ("200", true, "5", "DATA 1 0 end", true),
        ("200", true, "5", "TRAILERS 1", true),
        ("200", true, "5", "DATA 1 5 end", false),
        ("304", false, "5", "DATA 1 0 end", true),
        ("304", false, "5", "DATA 1 1", false),
        ("204", false, "0", "DATA 1 1", false),
    ] {
        let mut client = client(answers_head);
        let fields = [(":status", status), ("content-length", length)];
        let said = client.take(&response(1, false, &fields));
        assert_eq!(said, format!("response 1 {status}"), "{length} {frames}");
        let said = client.play(frames);
        let is_reset = said.contains("reset 1 by Us PROTOCOL_ERROR") || said.contains("broken 1");
        assert_eq!(!is_reset, is_right, "{status} {answers_head} {length} {frames}: {said}");
        assert_eq!(client.written().contains("RST_STREAM 1 PROTOCOL_ERROR"), !is_right);
    }
    for (status, answers_head, is_right) in
        [("200", false, false), ("200", true, true), ("304", false, true), ("204", false, true)]
    {
        let mut client = client(answers_head);
        let fields = [(":status", status), ("content-length", "5")];
        let said = client.take(&response(1, true, &fields));
        assert_eq!(said == format!("response 1 {status} end"), is_right, "{status} {answers_head}: {said}");
    }
}

#[test]
fn a_request_has_the_content_that_its_length_says() {
    let length = |value: &'static str| [REQUEST, &[("content-length", value)]].concat();
    for (frames, expected) in [
        ("HEADERS 1; DATA 1 5 end", "request 1, data 1 5 end"),
        ("HEADERS 1; DATA 1 4 end", "request 1, reset 1 by Us PROTOCOL_ERROR"),
        ("HEADERS 1; DATA 1 6", "request 1, reset 1 by Us PROTOCOL_ERROR"),
        ("HEADERS 1; TRAILERS 1", "request 1, broken 1"),
        ("HEADERS 1 end", "broken request"),
    ] {
        let mut server = Party::server(LIMITS);
        assert_eq!(server.take(&script(frames, &length("5"))), expected, "{frames}");
    }
    let mut server = Party::server(LIMITS);
    assert_eq!(server.take(&script("HEADERS 1 end", &length("0"))), "request 1 end");
}

#[test]
fn trailers_are_lines_and_end_the_content() {
    let mut server = Party::server(LIMITS);
    let said = server.play("HEADERS 1; DATA 1 3; TRAILERS 1; DATA 1 1");
    assert_eq!(said, "request 1, data 1 3, trailers 1, reset 1 by Us STREAM_CLOSED");
    assert_eq!(server.lines, "x-sum: 1\r\n");
    for (fields, expected) in [
        (&[("grpc-status", "0"), ("x", "")][..], Some("grpc-status: 0\r\nx: \r\n")),
        // Fields that frame or route the message are left out.
        (
            &[("content-length", "1"), ("a", "1"), ("host", "b"), ("transfer-encoding", "chunked")],
            Some("a: 1\r\n"),
        ),
        (&[], Some("")),
        (&[(":path", "/")], None),
        (&[(":status", "200")], None),
        (&[("a", "1"), (":x", "1")], None),
        (&[("Upper", "1")], None),
        (&[("a b", "1")], None),
        (&[("a", "1\r\nb: 2")], None),
    ] {
        let mut server = Party::server(LIMITS);
        server.play("HEADERS 1");
        let said = server.take(&response(1, true, fields));
        match expected {
            Some(lines) => assert_eq!((said.as_str(), server.lines.as_str()), ("trailers 1", lines)),
            None => assert_eq!(said, "broken 1", "{fields:?}"),
        }
    }
}

#[test]
fn the_priority_is_that_of_the_field_until_a_frame_changes_it() {
    let message = [REQUEST, &[("priority", "u=1, i")]].concat();
    let mut server = Party::server(LIMITS);
    server.take(&script("HEADERS 1; HEADERS 3", &message));
    server.play("HEADERS 5; PRIORITY_UPDATE 3 u=6; PRIORITY_UPDATE 9 u=6; PRIORITY_UPDATE 1 !");
    server.play("HEADERS 9");
    for (id, urgency, is_incremental) in [(1, 3, false), (3, 6, false), (5, 3, false), (9, 3, false)] {
        let priority = server.connection.priority(server.key(id));
        assert_eq!(priority, Priority { urgency, is_incremental }, "{id}");
    }
    let mut server = Party::server(LIMITS);
    server.take(&script("HEADERS 1", &message));
    let priority = server.connection.priority(server.key(1));
    assert_eq!(priority, Priority { urgency: 1, is_incremental: true });
    assert_eq!(server.play("PRIORITY_UPDATE 0 u=1"), "fault PROTOCOL_ERROR");
    assert_eq!(Party::client(LIMITS).play("PRIORITY_UPDATE 1 u=1"), "fault PROTOCOL_ERROR");
}

#[test]
fn a_stream_that_is_let_go_before_its_end_is_reset_with_the_right_code() {
    for (frames, responds, expected) in [
        ("HEADERS 1", false, "RST_STREAM 1 CANCEL"),
        ("HEADERS 1 end", false, "RST_STREAM 1 CANCEL"),
        // The response is whole, and the rest of the request is not needed.
        ("HEADERS 1", true, "HEADERS 1 end, RST_STREAM 1 NO_ERROR"),
        ("HEADERS 1 end", true, "HEADERS 1 end"),
        ("HEADERS 1; RST_STREAM 1", false, ""),
    ] {
        let mut server = Party::server(LIMITS);
        server.play(frames);
        if responds {
            server.respond(1, 200, true);
        }
        let key = server.key(1);
        server.connection.release(key);
        assert_eq!(server.written(), expected, "{frames}");
        assert_eq!(server.connection.release(key), None);
        assert!(server.connection.reset_of(key).is_some() && !server.connection.may_send(key));
    }
}
