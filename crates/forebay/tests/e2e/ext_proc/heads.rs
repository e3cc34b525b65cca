//! Heads, immediate responses, and what is said about it all.

use deciders::proto::processing::{ProcessingMode, ProcessingResponse, RequestPart, ResponseStatus};
use testkit::{Canned, Connection, H2Client, H2Upstream};

use super::*;

/// A processor that adds a header to each head.
fn adding() -> (GrpcServer, Seen) {
    processor(|part| match part {
        RequestPart::RequestHeaders(_) => {
            let mut headers = set(&[("x-added", "1"), (":path", "/other?x"), ("host", "evil.test")]);
            headers.remove_headers.push("X-Gone".to_owned());
            changed(part, with_headers(headers))
        }
        RequestPart::ResponseHeaders(_) => {
            changed(part, with_headers(set(&[("x-seen", "2"), (":status", "201"), ("content-length", "9")])))
        }
        _ => unchanged(part),
    })
}

#[test]
fn heads_are_changed_in_both_directions() {
    let (processor, seen) = adding();
    let upstream = Canned::saying("hello");
    let forebay = start(&[], upstream.address(), &processor);
    let mut client = forebay.client();
    for _ in 0..2 {
        let answer = client.ask("GET /own HTTP/1.1\r\nHost: web.test\r\nX-Gone: 1\r\nX-Kept: 2\r\n\r\n");
        assert_eq!(answer.said(), (201, "hello"));
        assert_eq!(answer.header("x-seen").as_deref(), Some("2"));
        assert_eq!(answer.header("content-length").as_deref(), Some("5"));
    }
    let heads = upstream.heads();
    let head = heads[1].to_ascii_lowercase();
    assert!(head.starts_with("get /other?x http/1.1\r\nhost: web.test\r\n"), "{head}");
    assert!(head.contains("x-added: 1\r\n") && head.contains("x-kept: 2\r\n"), "{head}");
    assert!(!head.contains("x-gone") && !head.contains("evil"), "{head}");
    assert_eq!(names(&seen)[..2], ["request headers", "response headers"]);
    let seen = seen.lock().unwrap();
    let RequestPart::RequestHeaders(request) = &seen[0] else { panic!("the head comes first") };
    assert!(request.end_of_stream);
    for (name, expected) in [
        (":method", "GET"),
        (":path", "/own"),
        (":authority", "web.test"),
        (":scheme", "http"),
        ("x-gone", "1"),
    ] {
        assert_eq!(value(request.headers.as_ref(), name).as_deref(), Some(expected), "{name}");
    }
    let RequestPart::ResponseHeaders(response) = &seen[1] else { panic!("then the response") };
    assert!(!response.end_of_stream);
    assert_eq!(value(response.headers.as_ref(), ":status").as_deref(), Some("200"));
    assert_eq!((processor.begun(), processor.connections()), (2, 1), "streams share a connection");
    forebay.await_that("the streams end", || processor.ended() == 2);
    forebay.await_metric("forebay_ext_proc_requests_total", &[("result", "processed")], 2);
    forebay.await_metric("forebay_ext_proc_messages_total", &[], 4);
}

#[test]
fn all_versions_of_http_go_through() {
    let (processor, _) = adding();
    let upstream = H2Upstream::clear();
    let forebay = start_h2(&[], &upstream, &processor);
    let client = H2Client::clear(forebay.address());
    let mut call = client.call("GET", "web.test", "/own", &[("x-gone", "1")], true);
    let mut peer = upstream.accept_request();
    assert_eq!(peer.request.uri().path(), "/other");
    assert_eq!(peer.header("x-added").as_deref(), Some("1"));
    assert_eq!(peer.header("x-gone"), None);
    peer.answer(200, &[("x-own", "3")], b"hello");
    let response = call.read_response();
    assert_eq!(response.said(), (201, "hello"));
    assert_eq!(response.header("x-seen").as_deref(), Some("2"));
    assert_eq!(response.header("x-own").as_deref(), Some("3"));
}

#[test]
fn a_processor_answers_in_place_of_the_endpoint() {
    let upstream = Canned::saying("hello");
    for phase in ["request headers", "response headers"] {
        let (processor, _) = processor(move |part| {
            if name(part) == phase {
                immediate(403, &[("x-why", "because"), ("content-type", "text/html")], "<p>no</p>")
            } else {
                unchanged(part)
            }
        });
        let forebay = start(&[], upstream.address(), &processor);
        let mut client = forebay.client();
        for _ in 0..2 {
            let answer = client.get("web.test", "/");
            assert_eq!(answer.said(), (403, "<p>no</p>"), "{phase}");
            assert_eq!(answer.header("x-why").as_deref(), Some("because"));
            assert_eq!(answer.header("content-type").as_deref(), Some("text/html"));
        }
        let labels = [("side", "upstream"), ("reason", "processor_answered")];
        forebay.await_metric("forebay_faults_total", &labels, 2);
        forebay.await_metric("forebay_ext_proc_requests_total", &[("result", "answered")], 2);
    }
    assert_eq!(upstream.heads().len(), 2, "the first one asked no endpoint");
}

#[test]
fn a_client_that_speaks_grpc_is_answered_so() {
    let (processor, _) = processor(|_| immediate(403, &[], "not\nyou"));
    let upstream = H2Upstream::clear();
    let forebay = start_h2(&[], &upstream, &processor);
    let client = H2Client::clear(forebay.address());
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    // A body that comes behind the head may find its stream ended.
    let response = client.call("POST", "web.test", "/a.B/C", &headers, true).read_response();
    assert_eq!(response.status, 200);
    assert_eq!(response.header("grpc-status").as_deref(), Some("7"));
    assert_eq!(response.header("grpc-message").as_deref(), Some("not%0Ayou"));
    assert!(upstream.is_left_alone());
}

#[test]
fn a_processor_may_choose_the_parts() {
    let (processor, seen) = processor(|part| {
        let mode =
            ProcessingMode { response_header_mode: 2, request_body_mode: 2, ..ProcessingMode::default() };
        let answered = answer(part, CommonResponse::default());
        vec![message(&ProcessingResponse { mode_override: Some(mode), ..answered })]
    });
    let upstream = Canned::saying("hello");
    let post = "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 3\r\n\r\nabc";
    for (allowed, expected) in
        [("true", ["request headers", "request body"]), ("false", ["request headers", "response headers"])]
    {
        seen.lock().unwrap().clear();
        let forebay = start(&[("allow-mode-override", allowed)], upstream.address(), &processor);
        assert_eq!(forebay.client().ask(post).said(), (200, "hello"));
        assert_eq!(names(&seen), expected, "{allowed}");
    }
}

#[test]
fn a_request_gets_another_body_and_method() {
    let (processor, seen) = processor(|part| {
        let RequestPart::RequestHeaders(_) = part else { return unchanged(part) };
        let status = ResponseStatus::ContinueAndReplace.into();
        let headers = set(&[(":method", "PUT")]);
        changed(
            part,
            CommonResponse { status, header_mutation: Some(headers), ..with_content(b"other body") },
        )
    });
    let upstream = testkit::Upstream::new();
    let mode = [("mode", "request-body=buffered, response-headers=skip")];
    let forebay = start(&mode, upstream.address(), &processor);
    let mut client = forebay.client();
    for request in [
        "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ] {
        client.send(request);
        let (mut peer, head): (Connection, String) = upstream.accept_request();
        assert!(head.starts_with("PUT / HTTP/1.1\r\n") && head.contains("Content-Length: 10\r\n"), "{head}");
        assert!(!head.contains("Transfer-Encoding"), "{head}");
        assert_eq!(peer.read_exactly(10), b"other body");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
    assert_eq!(names(&seen), ["request headers"; 3], "nothing else is sent");
}

#[test]
fn explain_says_what_the_processor_gets() {
    let (processor, _) = adding();
    let upstream = Canned::saying("hello");
    let mode = [("mode", "request-body=streamed,response-trailers=send"), ("fail-open", "true")];
    let forebay = start(&mode, upstream.address(), &processor);
    let told = forebay.admin("/explain?url=http://web.test/");
    let text = String::from_utf8_lossy(&told.body).into_owned();
    assert!(
        text.contains(
            "gets the head, the body piece by piece of the request, and the head, trailers of the response"
        ),
        "{text}"
    );
    assert_eq!(processor.begun(), 0, "a request that is only explained goes nowhere");
}
