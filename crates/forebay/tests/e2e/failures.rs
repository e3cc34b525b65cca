//! Endpoints that fail, and clients that go away.

use std::collections::HashSet;
use std::net::SocketAddr;

use testkit::{Canned, Ending, Forebay, Refusing, Setup, Upstream};

use crate::{GET, OK, serving, setup, streaming};

const POST: &str = "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 4\r\n\r\nbody";

pub(crate) fn awaits_fault(forebay: &Forebay, side: &str, reason: &str, count: u64) {
    forebay.await_metric("forebay_faults_total", &[("side", side), ("reason", reason)], count);
}

#[test]
fn an_endpoint_that_refuses_is_passed_by_whatever_the_method() {
    let (nobody, upstream) = (Refusing::default(), Upstream::new());
    let forebay = setup().endpoint(nobody.address()).endpoint(upstream.address()).start();
    let mut client = forebay.client();
    client.send(POST);
    let (mut peer, _) = upstream.accept_request();
    for _ in 0..4 {
        assert_eq!(peer.read_exactly(4), b"body");
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
        client.send(POST);
        peer.read_head();
    }
}

#[test]
fn an_endpoint_that_is_alone_is_tried_again_until_the_gateway_is_bad() {
    let nobody = Refusing::default();
    let forebay = setup().endpoint(nobody.address()).start();
    assert_eq!(forebay.get("/").said(), (502, "502 Bad Gateway\n"));
    awaits_fault(&forebay, "upstream", "connect_refused", 1);
    let labels = [("endpoint", &*nobody.address().to_string()), ("reason", "connect_error")];
    forebay.await_metric("forebay_upstream_failures_total", &labels, 3);
}

#[test]
fn all_endpoints_are_tried_before_one_is_tried_again() {
    let (first, second) = (Refusing::default(), Refusing::default());
    let setup = setup().endpoint(first.address()).endpoint(second.address());
    let forebay = setup.annotation("proxy-next-upstream-tries", "2").start();
    assert_eq!(forebay.get("/").status, 502);
    for nobody in [&first, &second] {
        let labels = [("endpoint", &*nobody.address().to_string()), ("reason", "connect_error")];
        forebay.await_metric("forebay_upstream_failures_total", &labels, 1);
    }
}

#[test]
fn without_endpoints_the_service_is_unavailable() {
    let forebay = setup().start();
    assert_eq!(forebay.get("/").said(), (503, "503 Service Unavailable\n"));
    awaits_fault(&forebay, "forebay", "no_endpoints", 1);
}

#[test]
fn an_endpoint_that_says_nothing_runs_out_of_time() {
    let upstream = Upstream::new();
    let setup = setup().endpoint(upstream.address()).annotation("proxy-read-timeout", "1");
    let forebay = setup.annotation("proxy-next-upstream-tries", "2").start();
    let mut client = forebay.client();
    client.send(GET);
    let mut peers = [(); 2].map(|()| upstream.accept_request().0);
    assert_eq!(client.read_response().status, 504, "each try had its own time");
    for peer in &mut peers {
        assert_eq!(peer.ending(), Ending::Reset);
    }
    awaits_fault(&forebay, "upstream", "upstream_read_timeout", 1);
    client.send(GET);
    upstream.accept_request().0.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"), "the client's connection goes on");
}

#[test]
fn an_endpoint_that_does_not_take_connections_runs_out_of_time() {
    let (_upstream, filling) = Upstream::full();
    let forebay =
        setup().endpoint(filling[0].peer_address()).annotation("proxy-connect-timeout", "1").start();
    assert_eq!(forebay.get("/").status, 504);
    awaits_fault(&forebay, "upstream", "connect_timeout", 1);
}

#[test]
fn an_endpoint_that_takes_nothing_of_a_body_runs_out_of_time() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-body-size", "0")
        .annotation("proxy-request-buffering", "off")
        .annotation("proxy-send-timeout", "1")
        .start();
    let mut client = forebay.client();
    client.send("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 1000000000\r\n\r\nx");
    let (_peer, _) = upstream.accept_request();
    let mut sender = client.sender();
    std::thread::scope(|scope| {
        // It ends when the connection does.
        scope.spawn(move || while sender.try_send([b'x'; 1 << 14]).is_ok() {});
        assert_eq!(client.read_response().status, 504);
        drop(client);
    });
    awaits_fault(&forebay, "upstream", "upstream_send_timeout", 1);
}

/// Endpoints 1 to `count` of an upstream whose order of being asked shows.
fn endpoints(count: u8) -> (Upstream, Setup) {
    let upstream = Upstream::everywhere();
    let setup = (1..=count).fold(setup(), |setup, number| setup.endpoint(upstream.endpoint(number)));
    (upstream, setup)
}

#[test]
fn a_get_that_an_endpoint_drops_goes_to_another() {
    let (upstream, setup) = endpoints(2);
    let forebay = setup.start();
    let mut client = forebay.client();
    client.send(GET);
    let (first, _) = upstream.accept_request();
    let first_address = first.address();
    drop(first);
    let (mut second, _) = upstream.accept_request();
    assert_ne!(first_address, second.address());
    second.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_request_is_tried_three_times_at_most() {
    let (upstream, setup) = endpoints(5);
    let forebay = setup.start();
    let mut client = forebay.client();
    client.send(GET);
    let tried: HashSet<SocketAddr> = (0..3).map(|_| upstream.accept_request().0.address()).collect();
    assert_eq!(client.read_response().status, 502);
    assert_eq!(tried.len(), 3, "each at another endpoint");
    assert!(upstream.is_left_alone());
}

#[test]
fn what_may_not_be_done_twice_is_not_tried_twice() {
    let (upstream, setup) = endpoints(2);
    let forebay = setup.start();
    let mut client = forebay.client();
    for method in ["POST", "PATCH", "LOCK"] {
        client.send(format!("{method} / HTTP/1.1\r\nHost: web.test\r\n\r\n"));
        drop(upstream.accept_request());
        assert_eq!(client.read_response().status, 502, "{method}");
        assert!(upstream.is_left_alone(), "{method}");
    }
}

#[test]
fn what_may_not_be_done_twice_is_tried_twice_where_that_is_asked_for() {
    let (upstream, setup) = endpoints(2);
    let forebay = setup.annotation("proxy-next-upstream", "error non_idempotent").start();
    let mut client = forebay.client();
    client.send(POST);
    drop(upstream.accept_request());
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(4), b"body", "the body is sent again");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_body_that_has_been_passed_on_and_not_kept_cannot_be_sent_again() {
    let (upstream, setup) = endpoints(2);
    let forebay = setup.annotation("proxy-request-buffering", "off").start();
    let mut client = forebay.client();
    client.send("PUT / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10\r\n\r\nhello");
    let (mut peer, _) = upstream.accept_request();
    peer.read_exactly(5);
    client.send("wo");
    peer.read_exactly(2);
    drop(peer);
    assert_eq!(client.read_response().status, 502);
    assert!(upstream.is_left_alone());
}

#[test]
fn nothing_is_repeated_once_the_client_has_seen_part_of_an_answer() {
    let (upstream, setup) = endpoints(2);
    let forebay = setup.start();
    for partial in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let mut client = forebay.client();
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send(partial);
        client.read_head();
        drop(peer);
        let (seen, _) = client.read_to_end();
        let seen = String::from_utf8_lossy(&seen);
        assert!(
            seen.contains("hello") && !seen.ends_with("0\r\n\r\n"),
            "truncated, and not as if whole: {seen:?}"
        );
        assert!(upstream.is_left_alone(), "{partial}");
    }
    awaits_fault(&forebay, "upstream", "upstream_reset", 3);
}

#[test]
fn a_status_leads_to_another_try_where_that_is_asked_for() {
    let (upstream, setup) = endpoints(2);
    let forebay = setup.annotation("proxy-next-upstream", "error http_503").start();
    let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";
    let mut client = forebay.client();
    for (last, said) in [(OK, (200, "ok")), (busy, (503, "busy"))] {
        client.send(GET);
        // They must not be there for the next round.
        let mut peers = [(); 3].map(|()| None);
        for (peer, answer) in peers.iter_mut().zip([busy, busy, last]) {
            peer.insert(upstream.accept_request().0).send(answer);
        }
        assert_eq!(client.read_response().said(), said, "the last answer stands, whatever it is");
    }
}

/// Not another try is what a POST is refused then, but not the answer.
#[test]
fn the_answer_to_what_may_not_be_done_twice_stands() {
    let (upstream, setup) = endpoints(2);
    let forebay = setup.annotation("proxy-next-upstream", "error http_503").start();
    let mut client = forebay.client();
    client.send(POST);
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    assert_eq!(client.read_response().said(), (503, "busy"));
    assert!(upstream.is_left_alone());
}

#[test]
fn a_malformed_response_makes_a_bad_gateway() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let too_many = "X: y\r\n".repeat(300);
    let answers = [
        "nonsense\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\n{too_many}\r\n"),
    ];
    let mut client = forebay.client();
    for (count, answer) in answers.iter().enumerate() {
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send(answer);
        assert_eq!(client.read_response().said(), (502, "502 Bad Gateway\n"), "{answer:?}");
        assert_eq!(peer.ending(), Ending::Reset, "{answer:?}");
        awaits_fault(&forebay, "upstream", "upstream_bad_response", count as u64 + 1);
    }
}

#[test]
fn a_response_head_without_end_makes_a_bad_gateway() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(70_000)));
    assert_eq!(client.read_response().status, 502);
    awaits_fault(&forebay, "upstream", "upstream_head_too_large", 1);
}

#[test]
fn interim_responses_without_end_make_a_bad_gateway() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 100 Continue\r\n\r\n".repeat(50));
    assert_eq!(client.read_response().status, 502);
}

#[test]
fn a_client_that_goes_away_takes_its_request_along() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    client.reset();
    assert_eq!(peer.ending(), Ending::Reset, "while it waits for an answer");
    awaits_fault(&forebay, "client", "client_aborted", 1);

    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    drop(client);
    assert_eq!(peer.ending(), Ending::Reset, "closed in order, too");

    let mut client = forebay.client();
    client.send("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10\r\n\r\nhello");
    let (mut peer, _) = upstream.accept_request();
    client.reset();
    assert_eq!(peer.read_to_end(), (b"hello".to_vec(), Ending::Reset), "while it sends its body");
    awaits_fault(&forebay, "client", "client_aborted", 3);
}

#[test]
fn a_client_that_goes_away_stops_the_response() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    client.read_head();
    client.reset();
    while peer.try_send([b'x'; 1 << 14]).is_ok() {}
    awaits_fault(&forebay, "client", "client_aborted", 1);
    let line = forebay.await_access_log("\" 200 ");
    assert!(!line.contains(" 1000000000 "), "only what was sent is counted: {line}");
}

#[test]
fn a_client_that_has_nothing_more_to_say_still_gets_its_answer() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = forebay.client();
    client.send(GET);
    client.shutdown_write();
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert_eq!(client.ending(), Ending::Closed);
}

#[test]
fn one_bad_endpoint_spoils_no_request() {
    let (nobody, good) = (Refusing::default(), Canned::saying("good"));
    let forebay = setup().endpoint(nobody.address()).endpoint(good.address()).start();
    let mut client = forebay.client();
    for _ in 0..20 {
        assert_eq!(client.get("web.test", "/").said(), (200, "good"));
    }
}
