//! Processors that fail, are silent, or want what they may not have.

use std::time::{Duration, Instant};

use deciders::proto::Time;
use deciders::proto::processing::{HttpHeaders, ProcessingResponse, RequestPart};
use testkit::{Canned, Refusing, Upstream};

use super::*;

/// Status and reason where a processor does this with the head of a request, closed and open.
fn with_fault(fault: &'static [&'static str], status: u16, reason: &str) {
    let upstream = Canned::saying("hello");
    for kind in fault {
        let (processor, _) = processor(move |part| match *kind {
            "silent" => Vec::new(),
            "error" => vec![GrpcReply::End(13)],
            "reset" => vec![GrpcReply::Reset],
            "close" => vec![GrpcReply::Close],
            "compressed" => vec![GrpcReply::Bytes(vec![1, 0, 0, 0, 0])],
            "too long" => vec![GrpcReply::Bytes(vec![0, 255, 255, 255, 255])],
            "no message" => vec![GrpcReply::Message(vec![0xff; 9])],
            "empty" => vec![GrpcReply::Message(Vec::new())],
            "unasked" => {
                let other = RequestPart::ResponseHeaders(HttpHeaders::default());
                changed(
                    if name(part) == "request headers" { &other } else { part },
                    CommonResponse::default(),
                )
            }
            kind => panic!("{kind} is no fault"),
        });
        for open in ["false", "true"] {
            let settings = [("fail-open", open), ("message-timeout", "100ms")];
            let forebay = start(&settings, upstream.address(), &processor);
            let answer = forebay.client().get("web.test", "/");
            if open == "true" {
                assert_eq!(answer.said(), (200, "hello"), "{kind}");
                forebay.await_metric("forebay_ext_proc_requests_total", &[("result", "passed_by")], 1);
            } else {
                assert_eq!(answer.status, status, "{kind}");
                forebay.await_metric("forebay_faults_total", &[("side", "upstream"), ("reason", reason)], 1);
            }
        }
    }
    assert_eq!(upstream.heads().len(), fault.len(), "closed means that no endpoint is asked");
}

#[test]
fn a_processor_that_fails_closes_its_route_or_leaves_it_open() {
    with_fault(
        &["error", "reset", "close", "compressed", "too long", "no message", "empty", "unasked"],
        500,
        "processor_failed",
    );
}

#[test]
fn a_processor_that_is_silent_has_its_time() {
    with_fault(&["silent"], 504, "processor_timeout");
}

#[test]
fn a_processor_that_is_not_there_is_a_fault_too() {
    let upstream = Canned::saying("hello");
    let gone = Refusing::default();
    for (open, expected) in [("false", 500), ("true", 200)] {
        for endpoints in [service("proc", &[gone.address()]), service("proc", &[])] {
            let documents = [
                ingress(&[("fail-open", open)]).document(),
                service("svc", &[upstream.address()]),
                endpoints,
            ];
            let forebay = setup().manifest("house.yaml", documents.join("---\n")).start();
            assert_eq!(forebay.client().get("web.test", "/").status, expected);
        }
    }
}

#[test]
fn a_processor_that_ends_its_stream_wants_to_hear_nothing_else() {
    let (processor, seen) = processor(|part| match part {
        RequestPart::RequestHeaders(_) => vec![GrpcReply::End(0)],
        _ => unchanged(part),
    });
    let upstream = Canned::saying("hello");
    let forebay = start(&[("mode", "response-body=streamed")], upstream.address(), &processor);
    assert_eq!(forebay.client().get("web.test", "/").said(), (200, "hello"));
    assert_eq!(names(&seen), ["request headers"]);
}

#[test]
fn a_processor_may_ask_for_more_time_within_bounds() {
    let ask = |seconds| {
        let time = Some(Time { seconds, nanos: 0 });
        message(&ProcessingResponse { override_message_timeout: time, ..ProcessingResponse::default() })
    };
    let upstream = Canned::saying("hello");
    // More than may be asked for is ignored, and not cut down to the most: nobody waits for half an hour.
    for (seconds, least) in [(1, Duration::from_secs(1)), (3600, Duration::ZERO)] {
        let (processor, _) = processor(move |_| vec![ask(seconds)]);
        let settings = [("message-timeout", "100ms"), ("max-message-timeout", "30m")];
        let forebay = start(&settings, upstream.address(), &processor);
        let begin = Instant::now();
        assert_eq!(forebay.client().get("web.test", "/").status, 504);
        assert!(begin.elapsed() >= least, "{seconds}");
    }
}

#[test]
fn a_stream_that_dies_in_the_middle_breaks_the_body_off() {
    let upstream = Upstream::new();
    for (open, is_whole) in [("false", false), ("true", true)] {
        let (processor, _) = processor(|part| match part {
            RequestPart::ResponseBody(_) => vec![GrpcReply::Reset],
            _ => unchanged(part),
        });
        let settings = [("mode", "response-body=streamed"), ("fail-open", open)];
        let forebay = start(&settings, upstream.address(), &processor);
        let mut client = forebay.client();
        client.send(crate::GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        let head = client.read_response_to_head();
        assert_eq!(head.status, 200);
        if is_whole {
            assert!(client.read_raw_chunks().contains("hello"));
        } else {
            let (rest, _) = client.read_to_end();
            assert!(!rest.ends_with(b"0\r\n\r\n"), "the end is missing: {rest:?}");
        }
    }
}

#[test]
fn a_processor_answers_while_a_body_is_sent() {
    let upstream = Upstream::new();
    let (processor, _) = processor(|part| match part {
        RequestPart::RequestBody(_) => immediate(418, &[], "stop"),
        _ => unchanged(part),
    });
    for mode in ["request-body=streamed", "request-body=buffered"] {
        let forebay = start(&[("mode", mode)], upstream.address(), &processor);
        let mut client = forebay.client();
        client.send("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(client.read_response().said(), (418, "stop"), "{mode}");
    }
}

#[test]
fn changes_that_would_break_a_message_are_refused() {
    let upstream = Canned::saying("hello");
    for (field, text) in [
        ("x-a", "1\r\nX-B: 2"),
        ("x a", "1"),
        ("x-a\r\nx-b", "1"),
        (":path", "/ HTTP/1.1\r\nX: 1"),
        (":path", "x"),
    ] {
        let (processor, _) = processor(move |part| changed(part, with_headers(set(&[(field, text)]))));
        // It is no absence of the processor, which fail-open is about.
        let forebay = start(&[("fail-open", "true")], upstream.address(), &processor);
        assert_eq!(forebay.client().get("web.test", "/").status, 500, "{field} {text}");
    }
    let long = "x".repeat(100_000);
    let (processor, _) = processor(move |part| changed(part, with_headers(set(&[("x-a", &long)]))));
    let forebay = start(&[], upstream.address(), &processor);
    assert_eq!(forebay.client().get("web.test", "/").status, 500);
    assert!(upstream.heads().is_empty());
}

#[test]
fn a_processor_that_restarts_is_found_again() {
    let upstream = Canned::saying("hello");
    let (processor, _) = processor(unchanged);
    let forebay = start(&[], upstream.address(), &processor);
    assert_eq!(forebay.client().get("web.test", "/").status, 200);
    let (other, _) = super::processor(unchanged);
    forebay.replace(
        "house.yaml",
        &[
            ingress(&[]).document(),
            service("svc", &[upstream.address()]),
            service("proc", &[other.address()]),
        ]
        .join("---\n"),
    );
    drop(processor);
    forebay.await_that("the other one is asked", || {
        forebay.client().get("web.test", "/").status == 200 && other.begun() > 0
    });
}

#[test]
fn a_setting_that_cannot_be_read_closes_its_location() {
    let upstream = Canned::saying("hello");
    let (processor, _) = processor(unchanged);
    for setting in [
        ("url", "http://proc:80"),
        ("mode", "request-body=all"),
        ("message-timeout", "soon"),
        ("fail-open", "perhaps"),
        ("body-max", "1g"),
    ] {
        let forebay = start(&[setting], upstream.address(), &processor);
        assert_eq!(forebay.client().get("web.test", "/").status, 503, "{setting:?}");
        forebay.await_log(&format!("ext-proc-{}", setting.0));
    }
    assert!(upstream.heads().is_empty() && processor.begun() == 0);
}

#[test]
fn a_client_that_leaves_ends_the_stream() {
    let upstream = Upstream::new();
    let (processor, _) = processor(unchanged);
    let forebay = start(&[], upstream.address(), &processor);
    let mut client = forebay.client();
    client.send(crate::GET);
    let (_peer, _) = upstream.accept_request();
    assert_eq!((processor.begun(), processor.ended()), (1, 0));
    client.reset();
    forebay.await_that("the stream ends", || processor.ended() == 1);
}
