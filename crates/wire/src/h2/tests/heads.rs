//! Heads of requests and responses (RFC 9113 sections 8.2 and 8.3, RFC 8441 section 4).

use super::*;

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "https");
const AUTHORITY: (&str, &str) = (":authority", "a.test");
const PATH: (&str, &str) = (":path", "/x");

/// The event of a request with these fields, and its head in the form of HTTP/1.
fn request(fields: &[(&str, &str)], is_end: bool) -> (String, String) {
    let mut server = Party::server(LIMITS);
    let said = server.take(&script(if is_end { "HEADERS 1 end" } else { "HEADERS 1" }, fields));
    if said.starts_with("broken") {
        assert_eq!(server.written(), "RST_STREAM 1 PROTOCOL_ERROR", "{fields:?}");
        assert_eq!(server.connection.faults(), 1);
    }
    (said, server.lines)
}

#[test]
fn requests_have_the_pseudo_fields_of_their_method() {
    let get = [METHOD, SCHEME, AUTHORITY, PATH];
    assert_eq!(request(&get, true).1, "GET /x HTTP/1.1\r\nhost: a.test\r\n\r\n");
    let reversed = [PATH, AUTHORITY, SCHEME, METHOD];
    assert_eq!(request(&reversed, true).1, "GET /x HTTP/1.1\r\nhost: a.test\r\n\r\n");
    for at in 0..4 {
        let mut fields = get.to_vec();
        let (name, _) = fields.remove(at);
        let expected = if name == ":authority" { "malformed 1 MissingHost" } else { "broken request" };
        assert_eq!(request(&fields, true).0, expected, "without {name}");
        fields.insert(at, get[at]);
        fields.push(get[at]);
        assert_eq!(request(&fields, true).0, "broken request", "{name} twice");
        fields.insert(4, ("a", "1"));
        assert_eq!(request(&fields, true).0, "broken request", "{name} after a field");
        fields.truncate(4);
        fields[at].1 = "";
        let (said, head) = request(&fields, true);
        // An empty host is a host, as in HTTP/1, and a scheme is ignored.
        let is_taken = [":scheme", ":authority"].contains(&name);
        assert_eq!(said.starts_with("request"), is_taken, "{name} is empty: {said} {head}");
    }
    for (more, expected) in [
        ((":status", "200"), "broken request"),
        ((":unknown", "1"), "broken request"),
        ((":protocol", "websocket"), "broken request"),
        (("", "1"), "broken request"),
        (("a", "1"), "request 1 end"),
    ] {
        assert_eq!(request(&[&get[..], &[more]].concat(), true).0, expected, "{more:?}");
    }
}

#[test]
fn a_target_is_a_path() {
    for (method, path, expected) in [
        ("GET", "/", "request 1 end"),
        ("GET", "/a?b=c", "request 1 end"),
        ("OPTIONS", "*", "request 1 end"),
        ("GET", "*", "malformed 1 StartLine"),
        ("GET", "a", "malformed 1 StartLine"),
        ("GET", "?a", "malformed 1 StartLine"),
        ("GET", "http://b.test/", "malformed 1 StartLine"),
        ("GET", "/a b", "malformed 1 StartLine"),
        ("GET", "/ HTTP/1.1\r\nx: ", "broken request"),
        ("GET /b HTTP/1.1\r\nx:", "/", "broken request"),
        ("GET /b", "/", "malformed 1 StartLine"),
        ("G(T", "/", "malformed 1 StartLine"),
    ] {
        let fields = [(":method", method), SCHEME, AUTHORITY, (":path", path)];
        assert_eq!(request(&fields, true).0, expected, "{method} {path}");
    }
}

#[test]
fn the_authority_is_the_host() {
    let with = |authority: &'static str, host: &'static str| {
        let mut fields = vec![METHOD, SCHEME, PATH];
        if !authority.is_empty() {
            fields.push((":authority", authority));
        }
        if !host.is_empty() {
            fields.push(("host", host));
        }
        request(&fields, true)
    };
    for (authority, host, expected) in [
        ("a.test", "", "request 1 end"),
        ("", "a.test", "request 1 end"),
        ("a.test", "a.test", "request 1 end"),
        ("a.test", "A.TEST", "request 1 end"),
        ("a.test", "b.test", "malformed 1 DuplicateHost"),
        ("a.test:443", "a.test", "malformed 1 DuplicateHost"),
        ("user@a.test", "", "malformed 1 Host"),
        ("a.test/b", "", "malformed 1 Host"),
        ("a.test:x", "", "malformed 1 Host"),
        ("a.test\r\nx: 1", "", "broken request"),
    ] {
        let (said, head) = with(authority, host);
        assert_eq!(said, expected, "{authority} {host}");
        if expected == "request 1 end" {
            assert_eq!(head.matches("host: ").count(), 1, "{head}");
        }
    }
}

#[test]
fn connect_has_an_authority_alone_unless_it_is_extended() {
    let connect = (":method", "CONNECT");
    let websocket = (":protocol", "websocket");
    for (fields, expected) in [
        (&[connect, AUTHORITY][..], "request 1"),
        (&[connect], "broken request"),
        (&[connect, AUTHORITY, SCHEME], "broken request"),
        (&[connect, AUTHORITY, PATH], "broken request"),
        (&[connect, AUTHORITY, SCHEME, PATH], "broken request"),
        (&[connect, AUTHORITY, websocket], "broken request"),
        (&[connect, AUTHORITY, SCHEME, websocket], "broken request"),
        (&[connect, AUTHORITY, SCHEME, PATH, websocket], "request 1"),
        (&[connect, SCHEME, PATH, websocket], "malformed 1 MissingHost"),
        (&[connect, AUTHORITY, SCHEME, PATH, (":protocol", "other")], "malformed 1 Upgrade"),
        (&[METHOD, AUTHORITY, SCHEME, PATH, websocket], "broken request"),
    ] {
        assert_eq!(request(fields, false).0, expected, "{fields:?}");
    }
    let (_, head) = request(&[connect, AUTHORITY, SCHEME, PATH, websocket], false);
    assert_eq!(
        head,
        "GET /x HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-key: a2V5\r\n\r\n"
    );
}

#[test]
fn names_and_values_have_the_form_of_http2() {
    for (name, value, expected) in [
        ("a", "", "request 1 end"),
        ("x_y.z~1", "b", "request 1 end"),
        ("a", "tab\tinside", "request 1 end"),
        ("a", "\u{e4}", "request 1 end"),
        ("Upper", "b", "broken request"),
        ("a b", "b", "broken request"),
        ("a:", "b", "broken request"),
        ("a\r\nb", "c", "broken request"),
        ("a", "b\r\nc: d", "broken request"),
        ("a", "b\nc", "broken request"),
        ("a", "b\0", "broken request"),
        ("a", " b", "broken request"),
        ("a", "b\t", "broken request"),
        ("connection", "close", "broken request"),
        ("keep-alive", "1", "broken request"),
        ("proxy-connection", "close", "broken request"),
        ("transfer-encoding", "chunked", "broken request"),
        ("upgrade", "websocket", "broken request"),
        ("te", "trailers", "request 1 end"),
        ("te", "gzip", "broken request"),
        ("te", "trailers, gzip", "broken request"),
        ("content-length", "x", "malformed 1 ContentLength"),
        ("content-length", "-0", "malformed 1 ContentLength"),
        ("content-length", "0, 0", "malformed 1 ContentLength"),
        ("expect", "other", "malformed 1 Expect"),
    ] {
        let fields = [METHOD, SCHEME, AUTHORITY, PATH, (name, value)];
        assert_eq!(request(&fields, true).0, expected, "{name}: {value}");
    }
    let fields = [METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "1"), ("content-length", "1")];
    assert_eq!(request(&fields, false).0, "malformed 1 ContentLength");
}

#[test]
fn crumbs_of_a_cookie_are_one_field() {
    let fields =
        [METHOD, SCHEME, AUTHORITY, PATH, ("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("z", "")];
    let (said, head) = request(&fields, true);
    assert_eq!(said, "request 1 end");
    assert_eq!(head, "GET /x HTTP/1.1\r\nhost: a.test\r\nx: y\r\nz: \r\ncookie: a=1; b=2\r\n\r\n");
}

#[test]
fn content_without_a_length_is_chunked_in_the_form_of_http1() {
    let get = [METHOD, SCHEME, AUTHORITY, PATH];
    for (length, is_end, expected) in [
        ("", true, ""),
        ("", false, "transfer-encoding: chunked\r\n"),
        ("5", false, "content-length: 5\r\n"),
        ("0", true, "content-length: 0\r\n"),
    ] {
        let mut fields = get.to_vec();
        if !length.is_empty() {
            fields.push(("content-length", length));
        }
        let (_, head) = request(&fields, is_end);
        assert_eq!(head, format!("GET /x HTTP/1.1\r\nhost: a.test\r\n{expected}\r\n"));
    }
}

#[test]
fn a_list_that_is_too_large_is_malformed_and_leaves_the_table_in_step() {
    let long = "x".repeat(1500);
    for (count, expected) in [(2, "request 1 end"), (3, "malformed 1 HeadTooLarge")] {
        let limits = RequestLimits { line_bytes_max: 8192, head_bytes_max: 8192 };
        let mut server = Party::server(LIMITS);
        let mut payload = block(&[METHOD, SCHEME, AUTHORITY, PATH]);
        for _ in 0..count {
            payload.extend(block(&[("a", &long)]));
        }
        // A stored field at the end.
        payload.extend_from_slice(b"\x40\x03x-a\x031st");
        let mut frames = Vec::new();
        let flags = flag::END_HEADERS | flag::END_STREAM;
        frame::write(kind::HEADERS, flags, 1, &payload, &mut frames);
        let mut payload = block(&[METHOD, SCHEME, AUTHORITY, PATH]);
        payload.push(0xbe);
        frame::write(kind::HEADERS, flags, 3, &payload, &mut frames);
        assert!(limits.head_bytes_max > REQUEST_LIMITS.head_bytes_max);
        let said = server.take(&frames);
        if count == 3 {
            assert_eq!(said, format!("{expected}, request 3 end"));
        }
        assert!(server.lines.contains("x-a: 1st\r\n"), "{count}: {}", server.lines);
        if count == 3 {
            // A malformed request is answered.
            server.respond(1, 431, true);
            assert_eq!(server.written(), "HEADERS 1 end");
        }
    }
}

#[test]
fn a_name_that_is_longer_than_its_position_can_say_is_too_large() {
    let name = format!("x-real-name{}", "x".repeat(1 << 16));
    let limits = Limits { head_bytes_max: 1 << 20, table_bytes_max: 0, ..LIMITS };
    let mut client = Party::client(limits);
    client.open(true).unwrap();
    let payload = block(&[(":status", "200"), (&name, "1")]);
    let mut frames = Vec::new();
    frame::write(kind::HEADERS, flag::END_STREAM, 1, &[], &mut frames);
    for (at, piece) in payload.chunks(16_000).enumerate() {
        let flags = if (at + 1) * 16_000 < payload.len() { 0 } else { flag::END_HEADERS };
        frame::write(kind::CONTINUATION, flags, 1, piece, &mut frames);
    }
    assert_eq!(client.take(&frames), "broken 1");
}

#[test]
fn blocks_that_do_not_decode_end_the_connection() {
    for payload in [&b"\xff\xff\xff\xff\xff\xff"[..], b"\xbe", b"\x80", b"\x00\x05ab", b"\x82\x3f\xe1\x1f"] {
        for (begin, id) in [("", 1), ("HEADERS 1; ", 1)] {
            let mut server = Party::server(LIMITS);
            server.play(begin.trim_end_matches("; "));
            let mut out = Vec::new();
            frame::write(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, payload, &mut out);
            assert_eq!(server.take(&out), "fault COMPRESSION_ERROR", "{begin} {payload:?}");
        }
    }
}

#[test]
fn responses_have_a_status_and_no_fields_of_a_connection() {
    for (fields, expected) in [
        (&[(":status", "200")][..], "response 1 200 end"),
        (&[(":status", "599"), ("a", "b")], "response 1 599 end"),
        (&[], "broken 1"),
        (&[("a", "b")], "broken 1"),
        (&[("a", "b"), (":status", "200")], "broken 1"),
        (&[(":status", "200"), (":status", "200")], "broken 1"),
        (&[(":status", "101")], "broken 1"),
        (&[(":status", "20")], "broken 1"),
        (&[(":status", "2000")], "broken 1"),
        (&[(":status", "099")], "broken 1"),
        (&[(":status", "2 0")], "broken 1"),
        (&[(":status", "200"), (":path", "/")], "broken 1"),
        (&[(":status", "200"), ("connection", "close")], "broken 1"),
        (&[(":status", "200"), ("transfer-encoding", "chunked")], "broken 1"),
        (&[(":status", "200"), ("Upper", "1")], "broken 1"),
        (&[(":status", "200"), ("a", "1\r\nb: 2")], "broken 1"),
        (&[(":status", "200"), ("content-length", "x")], "broken 1"),
    ] {
        let mut client = Party::client(LIMITS);
        client.open(true).unwrap();
        client.written();
        assert_eq!(client.take(&script("HEADERS 1 end", fields)), expected, "{fields:?}");
        let reset = if expected == "broken 1" { "RST_STREAM 1 PROTOCOL_ERROR" } else { "" };
        assert_eq!(client.written(), reset, "{fields:?}");
    }
    let mut client = Party::client(LIMITS);
    client.open(true).unwrap();
    client.take(&script("HEADERS 1", &[(":status", "200"), ("set-cookie", "a"), ("set-cookie", "b")]));
    assert_eq!(
        client.lines,
        "HTTP/1.1 200 \r\nset-cookie: a\r\nset-cookie: b\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let long = "x".repeat(5000);
    let mut client = Party::client(LIMITS);
    client.open(true).unwrap();
    assert_eq!(client.take(&script("HEADERS 1", &[(":status", "200"), ("a", &long)])), "broken 1");
}

#[test]
fn a_head_of_http1_becomes_fields_without_those_of_the_connection() {
    let head = b"GET /p?q HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nX-A:  1 \r\nbad name: 1\r\n\
                 Transfer-Encoding: chunked\r\nUpgrade: h\r\nKeep-Alive: 1\r\nx-b:\r\n\r\n";
    let named: Vec<_> = lines(head).map(|(_, name, value)| (name, value)).collect();
    let expected: [(&[u8], &[u8]); 3] = [(b"Host", b"a.test"), (b"X-A", b"1"), (b"x-b", b"")];
    assert_eq!(named, expected);
    let head = RequestHead::of(head, true).unwrap();
    assert_eq!((head.method, head.authority, head.path), (&b"GET"[..], &b"a.test"[..], &b"/p?q"[..]));
    assert!(RequestHead::of(b"GET / HTTP/1.1\r\n\r\n", true).is_none());
}
