//! Heads of requests that the parser accepts and refuses.

use super::*;

const LIMITS: RequestLimits = RequestLimits { line_bytes_max: 256, head_bytes_max: 1024 };

fn parse(text: &str) -> Result<Option<Request>, Malformed> {
    parse_request(text.as_bytes(), LIMITS, Fields::default())
}

fn refused(text: &str) -> Malformed {
    parse(text).expect_err(text)
}

#[test]
fn a_plain_request() {
    let text = "GET /a?b=c HTTP/1.1\r\nHost: web.test.com:80\r\nX-A:  b \r\n\r\nrest";
    let request = parse(text).unwrap().unwrap();
    assert_eq!(&text[request.method.clone()], "GET");
    assert_eq!(&text[request.target.clone()], "/a?b=c");
    assert_eq!(&text[request.host.clone()], "web.test.com:80");
    assert_eq!(&text[request.len..], "rest");
    assert!(request.is_persistent() && !request.has_body() && !request.is_upgrade());
    let other = request.fields.iter().last().unwrap();
    assert_eq!(other.name(text.as_bytes()), b"X-A");
    assert_eq!(other.value(text.as_bytes()), b"b");
    assert_eq!(&text[other.line()], "X-A:  b \r\n");
}

#[test]
fn every_incomplete_head_waits_for_more() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(parse(&text[..end]), Ok(None), "{end}");
    }
}

#[test]
fn empty_lines_before_the_request_are_passed_over() {
    assert_eq!(parse("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().unwrap().start, 4);
}

#[test]
fn an_absolute_target_names_the_host() {
    let text = "GET http://b:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n";
    let request = parse(text).unwrap().unwrap();
    assert_eq!(&text[request.host.clone()], "b:81");
    assert_eq!(request.origin_target(text.as_bytes()), b"/x?y");
    let bare = "GET http://b HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(parse(bare).unwrap().unwrap().origin_target(bare.as_bytes()), b"/");
}

#[test]
fn persistence_follows_version_and_connection() {
    for (version, connection, persistent) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: x, CLOSE\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
    ] {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
        assert_eq!(parse(&text).unwrap().unwrap().is_persistent(), persistent, "{text}");
    }
}

#[test]
fn a_request_with_a_body_stays_in_its_protocol() {
    for (fields, is_upgrade) in [
        ("Connection: upgrade\r\nUpgrade: websocket\r\n", true),
        ("Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n", true),
        ("Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 1\r\n", false),
        ("Connection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n", false),
        ("Connection: upgrade\r\n", false),
        ("Upgrade: websocket\r\n", false),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(parse(&text).unwrap().unwrap().is_upgrade(), is_upgrade, "{fields}");
    }
}

#[test]
fn fields_that_connection_lists_are_not_there() {
    let text = "POST / HTTP/1.1\r\nX-Hop: 1\r\nX-Forwarded-For: 1\r\nHost: a\r\nTE: trailers\r\n\
        Connection: X-HOP , te, host\r\nconnection: content-length,x-forwarded-for, date\r\n\
        Content-Length: 3\r\nx-hop: 2\r\nX-Request-ID: 1\r\n\r\n";
    let Request { fields, host, .. } = parse(text).unwrap().unwrap();
    let names: Vec<_> = fields.iter().map(|field| field.name(text.as_bytes())).collect();
    let stay: [&[u8]; 6] = [b"Host", b"TE", b"Connection", b"connection", b"Content-Length", b"X-Request-ID"];
    assert_eq!(names, stay);
    assert_eq!((&text[host], fields.content_length), ("a", Some(3)));
    assert!(
        fields.find(Known::XForwardedFor).is_none() && fields.find_name(text.as_bytes(), b"x-hop").is_none()
    );
    assert_eq!(fields.find(Known::XRequestId).unwrap().value(text.as_bytes()), b"1");
    assert_eq!(fields.find(Known::Te).unwrap().value(text.as_bytes()), b"trailers");
    assert!(
        fields.is_listed(text.as_bytes(), b"date") && !fields.is_listed(text.as_bytes(), b"x-request-id")
    );
}

#[test]
fn the_names_that_connection_lists_have_a_bound() {
    let head = |names: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close{}\r\n\r\n", ", x".repeat(names))
    };
    assert!(parse(&head(64)).is_ok());
    assert_eq!(parse(&head(65)), Err(Malformed::TooManyFields));
}

#[test]
fn framing_that_two_readers_could_see_differently_is_refused() {
    for (fields, why) in [
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", Malformed::ConflictingFraming),
        ("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", Malformed::ConflictingFraming),
        ("Content-Length: 1\r\nContent-Length: 1\r\n", Malformed::ContentLength),
        ("Content-Length: 1, 1\r\n", Malformed::ContentLength),
        ("Content-Length: +1\r\n", Malformed::ContentLength),
        ("Content-Length: 0x1\r\n", Malformed::ContentLength),
        ("Content-Length: \r\n", Malformed::ContentLength),
        ("Content-Length: 99999999999999999999\r\n", Malformed::ContentLength),
        ("Transfer-Encoding: gzip, chunked\r\n", Malformed::TransferEncoding),
        ("Transfer-Encoding: identity\r\n", Malformed::TransferEncoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Malformed::TransferEncoding),
        ("Transfer-Encoding : chunked\r\n", Malformed::SpaceBeforeColon),
        ("X: a\r\n b\r\n", Malformed::ObsoleteFold),
        (" X: a\r\n", Malformed::ObsoleteFold),
        ("X: a\nY: b\r\n", Malformed::BareLineFeed),
        ("X: a\rb\r\n", Malformed::FieldValue),
        ("X: a\0b\r\n", Malformed::FieldValue),
        (": a\r\n", Malformed::FieldName),
        ("X Y: a\r\n", Malformed::FieldName),
        ("Expect: 200-ok\r\n", Malformed::Expect),
        ("Host: b\r\n", Malformed::DuplicateHost),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(refused(&text), why, "{fields:?}");
    }
}

#[test]
fn start_lines_and_hosts_that_are_none_are_refused() {
    for (text, why) in [
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::StartLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Malformed::StartLine),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Malformed::Version),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::StartLine),
        ("GET x HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::StartLine),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::StartLine),
        ("GET / HTTP/1.1\r\n\r\n", Malformed::MissingHost),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Malformed::Host),
        ("GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Host),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed::TransferEncoding),
    ] {
        assert_eq!(refused(text), why, "{text:?}");
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_complete() {
    let long = "a".repeat(300);
    assert_eq!(refused(&format!("GET /{long}")), Malformed::LineTooLong);
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n")), Malformed::HeadTooLarge);
    let many = "X: 12345678901234567890\r\n".repeat(60);
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}")), Malformed::HeadTooLarge);
    let fields = "A:b\r\n".repeat(200);
    assert!(parse(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", &fields[..900])).is_ok());
}

#[test]
fn a_target_has_no_fragment() {
    for (target, form) in [
        ("/x#/../admin/secret.txt", "/x"),
        ("/x?a=b#c?d", "/x?a=b"),
        ("/#", "/"),
        ("http://a#/x", "/"),
        ("http://a/x#y", "/x"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = parse(&text).unwrap().unwrap();
        assert_eq!(request.origin_target(text.as_bytes()), form.as_bytes(), "{target}");
        assert!(!text[request.target].contains('#'), "{target}");
    }
    for target in ["#", "#/x", "http://#a", "/x#\u{7f}"] {
        refused(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
}

#[test]
fn a_query_right_behind_the_host_lacks_a_slash() {
    let head = |target: &str| format!("\r\nGET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut text = head("HTTP://b.test:80?x=/y");
    assert_eq!(refused(&text), Malformed::Target);
    let at = missing_slash(text.as_bytes()).unwrap();
    text.insert(at, '/');
    let request = parse(&text).unwrap().unwrap();
    assert_eq!(request.origin_target(text.as_bytes()), b"/?x=/y");
    assert_eq!(&text[request.host], "b.test:80");
    for target in ["/a?b", "http://b/?x", "http://b", "http://?x", "http://b#?x", "ftp://b?x", "?x", "*"] {
        assert_eq!(missing_slash(head(target).as_bytes()), None, "{target}");
    }
    assert_eq!((missing_slash(b""), missing_slash(b"GET http://b")), (None, None));
}
