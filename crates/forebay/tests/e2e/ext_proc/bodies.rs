//! Bodies and trailers.

use deciders::proto::processing::RequestPart;
use testkit::{H2Client, H2Upstream, Upstream};

use super::*;

const MEGABYTE: usize = 1 << 20;

/// A processor that has all content in upper case.
fn upper() -> (GrpcServer, Seen) {
    processor(|part| match part {
        RequestPart::RequestBody(body) | RequestPart::ResponseBody(body) => {
            changed(part, with_content(&body.body.to_ascii_uppercase()))
        }
        RequestPart::RequestTrailers(_) | RequestPart::ResponseTrailers(_) => {
            changed(part, with_headers(set(&[("x-checked", "yes"), ("transfer-encoding", "chunked")])))
        }
        _ => unchanged(part),
    })
}

fn long(byte: u8) -> Vec<u8> {
    vec![byte; MEGABYTE]
}

fn post(length: usize) -> String {
    format!("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn whole_bodies_are_replaced() {
    let (processor, seen) = upper();
    let upstream = Upstream::new();
    let mode = [("mode", "request-body=buffered, response-body=buffered")];
    let forebay = start(&mode, upstream.address(), &processor);
    let mut client = forebay.client();
    for request in [
        format!("{}hello", post(5)),
        "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
            .to_owned(),
    ] {
        client.send(request);
        let (mut peer, head) = upstream.accept_request();
        assert!(head.contains("Content-Length: 5\r\n") && !head.contains("chunked"), "{head}");
        assert_eq!(peer.read_exactly(5), b"HELLO");
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nwor\r\n2\r\nld\r\n0\r\n\r\n");
        let response = client.read_response();
        assert_eq!(response.said(), (200, "WORLD"));
        assert_eq!(response.header("content-length").as_deref(), Some("5"));
    }
    let expected = ["request headers", "request body", "response headers", "response body"];
    assert_eq!(names(&seen)[..4], expected);
}

#[test]
fn a_body_that_is_too_long_to_be_buffered_is_refused() {
    let (processor, seen) = upper();
    let upstream = Upstream::new();
    let mode = [("mode", "request-body=buffered, response-body=buffered"), ("body-max", "1k")];
    let forebay = start(&mode, upstream.address(), &processor);
    let mut client = forebay.client();
    client.send(post(1025) + &"a".repeat(1025));
    assert_eq!(client.read_response().status, 413);
    let mut client = forebay.client();
    client.send(post(1024) + &"a".repeat(1024));
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(1024), b"A".repeat(1024));
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1025\r\n\r\n";
    peer.send(head.to_owned() + &"b".repeat(1025));
    assert_eq!(client.read_response().status, 500);
    assert!(!names(&seen).contains(&"response body"));
}

#[test]
fn as_much_of_a_body_as_is_buffered_is_replaced() {
    let (processor, seen) = upper();
    let upstream = Upstream::new();
    let mode =
        [("mode", "request-body=buffered-partial, response-body=buffered-partial"), ("body-max", "1k")];
    let forebay = start(&mode, upstream.address(), &processor);
    let mut client = forebay.client();
    client.send(post(200_000));
    client.send("a".repeat(200_000));
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("Transfer-Encoding: chunked\r\n") && !head.contains("Content-Length"), "{head}");
    let body = peer.read_raw_chunks();
    let (upper, lower) = (body.matches('A').count(), body.matches('a').count());
    // Sizes of chunks may have the letter too.
    assert!(upper >= 1024 && lower > 50_000, "{upper} {lower}");
    peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{}", "x".repeat(200_000)));
    let response = client.read_response();
    let upper = response.text().matches('X').count();
    assert!((1024..150_000).contains(&upper), "{upper}");
    assert_eq!((response.status, response.body.len()), (200, 200_000));
    assert_eq!(names(&seen).iter().filter(|name| name.ends_with("body")).count(), 2);
}

#[test]
fn a_megabyte_streams_through_both_ways() {
    let (processor, seen) = upper();
    let upstream = Upstream::new();
    let mode = [("mode", "request-body=streamed, response-body=streamed")];
    let forebay = start(&mode, upstream.address(), &processor);
    let mut client = forebay.client();
    let mut sender = client.sender();
    let sending = std::thread::spawn(move || {
        sender.send(post(MEGABYTE));
        sender.send(long(b'q'));
    });
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("Transfer-Encoding: chunked\r\n") && !head.contains("Content-Length"), "{head}");
    let body = peer.read_raw_chunks();
    assert_eq!(body.matches('Q').count(), MEGABYTE);
    sending.join().unwrap();
    let mut answering = peer.sender();
    let answering = std::thread::spawn(move || {
        answering.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {MEGABYTE}\r\n\r\n"));
        answering.send(long(b'r'));
    });
    let response = client.read_response();
    answering.join().unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-length"), None);
    assert!(response.body == b"R".repeat(MEGABYTE), "{} bytes", response.body.len());
    let seen = seen.lock().unwrap();
    let longest = seen.iter().map(|part| match part {
        RequestPart::RequestBody(body) | RequestPart::ResponseBody(body) => body.body.len(),
        _ => 0,
    });
    assert!(longest.max().unwrap() <= 256 << 10, "pieces are sent as they come");
    let ends = seen.iter().filter(
        |part| matches!(part, RequestPart::RequestBody(body) | RequestPart::ResponseBody(body) if body.end_of_stream),
    );
    assert_eq!(ends.count(), 2, "each end is said once");
}

#[test]
fn a_slow_reader_holds_the_sender_back() {
    let (processor, seen) = upper();
    let upstream = Upstream::new();
    let mode = [("mode", "response-body=streamed")];
    let forebay = start(&mode, upstream.address(), &processor);
    let mut client = testkit::Connection::narrow_to(forebay.address());
    client.send(crate::GET);
    let (mut peer, _) = upstream.accept_request();
    let before = forebay.resident_kib();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    let passed = peer.send_until_blocked(std::time::Duration::from_millis(500), 64 << 20);
    assert!(passed < 64 << 20, "nothing holds the endpoint back");
    let grown = forebay.resident_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB for one response");
    let bytes: usize = seen
        .lock()
        .unwrap()
        .iter()
        .map(|part| match part {
            RequestPart::ResponseBody(body) => body.body.len(),
            _ => 0,
        })
        .sum();
    assert!(bytes < 64 << 20, "{bytes} bytes went to the processor");
    drop(client);
    forebay.await_that("the stream ends", || processor.ended() == 1);
}

#[test]
fn messages_of_grpc_and_trailers_go_through() {
    let (processor, seen) = upper();
    let upstream = H2Upstream::clear();
    let mode = [(
        "mode",
        "request-body=streamed, response-body=streamed, request-trailers=send, response-trailers=send",
    )];
    let forebay = start_h2(&mode, &upstream, &processor);
    let client = H2Client::clear(forebay.address());
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    let mut call = client.call("POST", "web.test", "/echo.Echo/Call", &headers, false);
    let mut peer = upstream.accept_request();
    let mut answers = peer.respond(200, &[("content-type", "application/grpc")], false);
    let (_, mut received) = call.head().expect("the head does not wait for a message");
    for text in ["one", "two", "three"] {
        call.sender.send(text, false);
        assert_eq!(peer.body.read_exactly(text.len()), text.to_ascii_uppercase().as_bytes());
        answers.send(text, false);
        assert_eq!(received.read_exactly(text.len()), text.to_ascii_uppercase().as_bytes());
    }
    call.sender.send_trailers(&[("x-own", "1")]);
    let (rest, trailers) = peer.body.read_to_end();
    let trailers = trailers.expect("an end");
    assert_eq!(rest, b"");
    for field in [("x-own", "1"), ("x-checked", "yes")] {
        assert!(trailers.contains(&(field.0.to_owned(), field.1.to_owned())), "{trailers:?}");
    }
    answers.send_trailers(&[("grpc-status", "0")]);
    let (_, trailers) = received.read_to_end();
    let trailers = trailers.expect("an end");
    for field in [("grpc-status", "0"), ("x-checked", "yes")] {
        assert!(trailers.contains(&(field.0.to_owned(), field.1.to_owned())), "{trailers:?}");
    }
    assert!(trailers.iter().all(|(name, _)| name != "transfer-encoding"), "{trailers:?}");
    for part in ["request trailers", "response trailers"] {
        assert!(names(&seen).contains(&part), "{part}");
    }
}

#[test]
fn trailers_of_chunks_go_through_with_whole_bodies_too() {
    let (processor, _) = upper();
    let upstream = Upstream::new();
    for body in ["none", "buffered", "streamed"] {
        let mode = format!("response-body={body}, response-trailers=send");
        let forebay = start(&[("mode", mode.as_str())], upstream.address(), &processor);
        let mut client = forebay.client();
        client.send(crate::GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Own: 1\r\n\r\n");
        let response = client.read_response();
        let expected = if body == "none" { "ab" } else { "AB" };
        assert_eq!(response.said(), (200, expected), "{body}");
        let field = |name: &str| {
            let found = response.trailers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!((field("x-own"), field("x-checked")), (Some("1"), Some("yes")), "{body}");
    }
}

#[test]
fn a_request_is_processed_once_however_often_it_is_tried() {
    let (processor, seen) = upper();
    let upstream = Upstream::everywhere();
    let mode = [("mode", "request-body=buffered")];
    let endpoints = service("svc", &[upstream.endpoint(2), upstream.endpoint(3)]);
    let forebay = house(setup(), &ingress(&mode), &endpoints, &processor);
    let mut client = forebay.client();
    client.send("PUT / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\n\r\nhello");
    let (mut first, _) = upstream.accept_request();
    assert_eq!(first.read_exactly(5), b"HELLO");
    drop(first);
    let (mut second, _) = upstream.accept_request();
    assert_eq!(second.read_exactly(5), b"HELLO");
    second.send(crate::OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(names(&seen), ["request headers", "request body", "response headers"]);
}

#[test]
fn changed_bodies_are_compressed() {
    let (processor, _) = upper();
    let upstream = Upstream::new();
    for body in ["streamed", "buffered"] {
        let mode = format!("response-body={body}");
        let settings = [("mode", mode.as_str()), ("forebay.io/compression", "zstd:3")];
        let forebay = start(&settings, upstream.address(), &processor);
        let mut client = forebay.client();
        client.send("GET / HTTP/1.1\r\nHost: web.test\r\nAccept-Encoding: zstd\r\n\r\n");
        let (mut peer, _) = upstream.accept_request();
        let text = "hello ".repeat(2000);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
        peer.send(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()));
        let response = client.read_response();
        assert_eq!(response.header("content-encoding").as_deref(), Some("zstd"), "{body}");
        let plain = zstd::decode_all(&*response.body).expect("it is zstd");
        assert!(plain == text.to_ascii_uppercase().as_bytes(), "{body}: {} bytes", plain.len());
    }
}

#[test]
fn a_firewall_sees_what_the_client_sent_and_what_it_gets() {
    const RULES: &str = "SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecRule REQUEST_BODY \"@contains ATTACK\" \"id:1,phase:2,deny\"
SecRule RESPONSE_BODY \"@contains SECRET\" \"id:2,phase:4,deny\"
";
    let (processor, _) = upper();
    let upstream = Upstream::new();
    for body in ["streamed", "buffered", "none"] {
        let mode = format!("request-body={body}, response-body={body}");
        let settings = [
            ("mode", mode.as_str()),
            ("nginx.ingress.kubernetes.io/enable-modsecurity", "true"),
            ("nginx.ingress.kubernetes.io/modsecurity-snippet", RULES),
        ];
        let allowed = setup()
            .setting("annotations-risk-level", "Critical")
            .setting("allow-snippet-annotations", "true");
        let endpoints = service("svc", &[upstream.address()]);
        let forebay = house(allowed, &ingress(&settings), &endpoints, &processor);
        let ask = |sent: &str, answered: &str| {
            let mut client = forebay.client();
            let form = "Content-Type: application/x-www-form-urlencoded";
            let length = sent.len();
            client.send(format!(
                "POST / HTTP/1.1\r\nHost: web.test\r\n{form}\r\nContent-Length: {length}\r\n\r\n{sent}"
            ));
            let (mut peer, head) = upstream.accept_request();
            let got = if head.contains("chunked") {
                peer.read_raw_chunks()
            } else {
                String::from_utf8(peer.read_exactly(sent.len())).unwrap()
            };
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            peer.send(format!("{head}Content-Length: {}\r\n\r\n{answered}", answered.len()));
            (got, client.read_response().status)
        };
        let (got, status) = ask("a=attack", "open");
        let expected = if body == "none" { "a=attack" } else { "A=ATTACK" };
        assert!(got.contains(expected), "{body}: {got}");
        assert_eq!(status, 200, "{body}");
        // The rule looks for what the processor makes of it.
        let (_, status) = ask("a=b", "secret");
        assert_eq!(status, if body == "none" { 200 } else { 403 }, "{body}");
    }
}
