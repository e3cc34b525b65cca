//! One test body over all pairs of protocols: {HTTP/1, HTTP/2} in clear and over TLS towards clients, and the
//! same towards endpoints.

use std::thread;

use crate::pairs::{Client, Framing, H1, H1_TLS, H2, H2_TLS, Pair, Protocol};

macro_rules! pairs {
    ($($name:ident: $client:ident => $upstream:ident;)*) => {
        $(#[test]
        fn $name() {
            converse($client, $upstream);
        })*
    };
}

pairs! {
    http1_to_http1: H1 => H1;
    http1_to_http1_tls: H1 => H1_TLS;
    http1_to_http2: H1 => H2;
    http1_to_http2_tls: H1 => H2_TLS;
    http1_tls_to_http1: H1_TLS => H1;
    http1_tls_to_http1_tls: H1_TLS => H1_TLS;
    http1_tls_to_http2: H1_TLS => H2;
    http1_tls_to_http2_tls: H1_TLS => H2_TLS;
    http2_to_http1: H2 => H1;
    http2_to_http1_tls: H2 => H1_TLS;
    http2_to_http2: H2 => H2;
    http2_to_http2_tls: H2 => H2_TLS;
    http2_tls_to_http1: H2_TLS => H1;
    http2_tls_to_http1_tls: H2_TLS => H1_TLS;
    http2_tls_to_http2: H2_TLS => H2;
    http2_tls_to_http2_tls: H2_TLS => H2_TLS;
}

const LARGE_BYTES: usize = 3_000_000;

/// Content in which no two places look alike.
fn large() -> Vec<u8> {
    (0..LARGE_BYTES as u32 / 4).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn converse(client: Protocol, upstream: Protocol) {
    let pair = Pair::start(client, upstream);
    heads_pass(&pair);
    many_headers_pass(&pair);
    small_content_passes_as_it_comes(&pair);
    large_content_arrives_as_it_was_sent(&pair);
    trailers_pass_both_ways(&pair);
    responses_without_content_have_none(&pair);
    interim_responses_pass(&pair);
    a_client_is_invited_to_send(&pair);
    an_answer_may_come_before_the_request_ends(&pair);
    an_endpoint_that_breaks_off_is_seen_to(&pair);
    a_client_that_goes_away_is_seen_to(&pair);
    requests_do_not_wait_for_each_other(&pair);
    assert!(pair.is_left_alone(), "each request was taken once");
    let folder = tempfile::tempdir().unwrap();
    let to = format!("--body-buffer-dir={}", folder.path().display());
    let buffering = Pair::with(client, upstream, |setup| setup.arguments([to]));
    content_is_read_whole(&buffering, upstream);
    let delivering = Pair::with(client, upstream, |setup| {
        setup
            .annotation("proxy-buffering", "on")
            .annotation("proxy-buffer-size", "64k")
            .annotation("limit-rate", "100000")
            .annotation("proxy-redirect-from", "http://in.test/")
            .annotation("proxy-redirect-to", "https://out.test/")
            .annotation("proxy-cookie-path", "/a /")
    });
    responses_are_read_ahead(&delivering);
}

/// An endpoint of HTTP/1 is asked when all of a body has come; one of HTTP/2, which may speak first, as soon
/// as may be.
fn content_is_read_whole(pair: &Pair, upstream: Protocol) {
    let content = &*large();
    let mut client = pair.client();
    let mut exchange = client.begin("PUT", "/", &[], Framing::Open);
    exchange.send(&content[..1000]);
    let early = upstream.is_http2.then(|| pair.accept());
    if early.is_none() {
        let mut other = pair.client();
        let mut overtaking = other.get("/other");
        let mut peer = pair.accept();
        assert_eq!(peer.path, "/other");
        peer.answer(200, b"ok");
        assert_eq!(overtaking.response().1.content, b"ok");
        assert!(pair.is_left_alone());
    }
    let mut peer = thread::scope(|scope| {
        scope.spawn(|| {
            exchange.send(&content[1000..]);
            exchange.finish(&[("x-sum", "1")]);
        });
        let mut peer = early.unwrap_or_else(|| pair.accept());
        let received = peer.read_to_end();
        assert!(received.content == *content && received.trailers.is_some());
        peer
    });
    let length = (!upstream.is_http2).then(|| LARGE_BYTES.to_string());
    assert_eq!(peer.header("content-length"), length);
    peer.answer(200, b"ok");
    assert_eq!(exchange.response().1.content, b"ok");
}

fn responses_are_read_ahead(pair: &Pair) {
    let content = &*large();
    for framing in [Framing::Open, Framing::Length(LARGE_BYTES)] {
        let mut client = pair.client();
        let mut exchange = client.get("/");
        let mut peer = pair.accept();
        thread::scope(|scope| {
            scope.spawn(|| {
                let headers = [("location", "http://in.test/a"), ("set-cookie", "b=1; Path=/a/c")];
                peer.respond(201, &headers, framing);
                peer.send(content);
                peer.finish(&[]);
            });
            let (head, received) = exchange.response();
            assert_eq!(head.header("location").as_deref(), Some("https://out.test/a"));
            assert_eq!(head.header("set-cookie").as_deref(), Some("b=1; Path=//c"));
            assert!(received.content == *content && received.trailers.is_some(), "{framing:?}");
        });
    }
}

fn heads_pass(pair: &Pair) {
    let mut client = pair.client();
    let headers = [("x-one", "1"), ("accept", "a"), ("accept", "b"), ("cookie", "c=d; e=f")];
    let mut exchange = client.begin("GET", "/a%20b//c?d=e&f", &headers, Framing::Nothing);
    let mut peer = pair.accept();
    assert_eq!((&*peer.method, &*peer.path, &*peer.authority), ("GET", "/a%20b//c?d=e&f", "web.test"));
    for (name, value) in [("x-one", "1"), ("accept", "a, b"), ("cookie", "c=d; e=f")] {
        assert_eq!(peer.header(name).as_deref(), Some(value), "{name}");
    }
    let (scheme, port) =
        if pair.client.is_tls { ("https", 443) } else { ("http", pair.forebay.address().port()) };
    for (name, value) in [
        ("x-forwarded-proto", scheme),
        ("x-forwarded-scheme", scheme),
        ("x-scheme", scheme),
        ("x-forwarded-host", "web.test"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("x-forwarded-port", &port.to_string()),
    ] {
        assert_eq!(peer.header(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(peer.header("x-request-id").map(|id| id.len()), Some(32));
    assert_eq!(peer.header("transfer-encoding"), None);
    assert_eq!(peer.read_to_end().content, b"");
    peer.respond(200, &[("x-two", "2"), ("set-cookie", "a=b"), ("set-cookie", "c=d")], Framing::Length(2));
    peer.send(b"ok");
    peer.finish(&[]);
    let (head, received) = exchange.response();
    assert_eq!((head.status, &*received.content), (200, &b"ok"[..]));
    assert_eq!(head.header("x-two").as_deref(), Some("2"));
    assert_eq!(head.header("set-cookie").as_deref(), Some("a=b, c=d"));
    assert_eq!(head.header("content-length").as_deref(), Some("2"));
    assert!(head.header("date").is_some());
}

fn many_headers_pass(pair: &Pair) {
    let names: Vec<String> = (0..90).map(|number| format!("x-number-{number}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "some value or other")).collect();
    let mut client = pair.client();
    let mut exchange = client.begin("GET", "/", &headers, Framing::Nothing);
    let mut peer = pair.accept();
    assert!(names.iter().all(|name| peer.header(name).as_deref() == Some("some value or other")));
    peer.respond(200, &headers, Framing::Nothing);
    let head = exchange.head();
    assert!(names.iter().all(|name| head.header(name).as_deref() == Some("some value or other")));
}

fn small_content_passes_as_it_comes(pair: &Pair) {
    for framing in [Framing::Length(6), Framing::Open] {
        let mut client = pair.client();
        let mut exchange = client.begin("PUT", "/", &[], framing);
        exchange.send(b"abc");
        let mut peer = pair.accept();
        assert_eq!(peer.read_exactly(3), b"abc");
        exchange.send(b"def");
        assert_eq!(peer.read_exactly(3), b"def");
        exchange.finish(&[]);
        assert_eq!(peer.read_to_end().trailers, Some(Vec::new()));
        peer.respond(201, &[], framing);
        assert_eq!(exchange.head().status, 201, "the head does not wait for content");
        for piece in [b"ghi", b"jkl"] {
            peer.send(piece);
            assert_eq!(exchange.read_exactly(3), piece);
        }
        peer.finish(&[]);
        let rest = exchange.read_to_end();
        assert_eq!((&*rest.content, rest.trailers), (&b""[..], Some(Vec::new())));
    }
}

fn large_content_arrives_as_it_was_sent(pair: &Pair) {
    let content = &large();
    for framing in [Framing::Length(LARGE_BYTES), Framing::Open] {
        let mut client = pair.client();
        let mut exchange = client.begin("POST", "/", &[], framing);
        exchange.send(&content[..1]);
        let mut peer = pair.accept();
        thread::scope(|scope| {
            scope.spawn(|| {
                exchange.send(&content[1..]);
                exchange.finish(&[]);
            });
            let received = peer.read_to_end();
            assert!(received.content == *content && received.trailers.is_some(), "up, {framing:?}");
        });
        thread::scope(|scope| {
            scope.spawn(|| {
                peer.respond(200, &[], framing);
                peer.send(content);
                peer.finish(&[]);
            });
            let (head, received) = exchange.response();
            assert!(
                head.status == 200 && received.content == *content && received.trailers.is_some(),
                "down, {framing:?}"
            );
        });
    }
}

fn trailers_pass_both_ways(pair: &Pair) {
    let mut client = pair.client();
    let mut exchange = client.begin("POST", "/", &[("te", "trailers")], Framing::Open);
    exchange.send(b"up");
    let mut peer = pair.accept();
    exchange.finish(&[("x-sum", "1")]);
    let received = peer.read_to_end();
    assert_eq!(received.content, b"up");
    assert_eq!(received.trailers, Some(vec![("x-sum".to_owned(), "1".to_owned())]));
    peer.respond(200, &[], Framing::Open);
    peer.send(b"down");
    peer.finish(&[("x-sum", "2")]);
    let (_, received) = exchange.response();
    assert_eq!(received.content, b"down");
    assert_eq!(received.trailers, Some(vec![("x-sum".to_owned(), "2".to_owned())]));
}

fn responses_without_content_have_none(pair: &Pair) {
    let length: &[(&str, &str)] = &[("content-length", "1000")];
    let cases = [("HEAD", 200, length), ("GET", 204, &[]), ("GET", 304, &[]), ("GET", 200, &[])];
    let mut client = pair.client();
    for (method, status, headers) in cases {
        let mut exchange = client.begin(method, "/", &[], Framing::Nothing);
        let mut peer = pair.accept();
        peer.respond(status, headers, Framing::Nothing);
        let (head, received) = exchange.response();
        assert_eq!((head.status, &*received.content), (status, &b""[..]), "{method}");
        assert_eq!(received.trailers, Some(Vec::new()));
        if method == "HEAD" {
            assert_eq!(head.header("content-length").as_deref(), Some("1000"));
        }
    }
}

fn interim_responses_pass(pair: &Pair) {
    let mut client = pair.client();
    let mut exchange = client.get("/");
    let mut peer = pair.accept();
    for link in ["</a.css>", "</b.css>"] {
        peer.interim(103, &[("link", link)]);
        let interim = exchange.interim();
        assert_eq!((interim.status, interim.header("link").as_deref()), (103, Some(link)));
    }
    peer.answer(200, b"ok");
    assert_eq!(exchange.response().1.content, b"ok");
}

fn a_client_is_invited_to_send(pair: &Pair) {
    let mut client = pair.client();
    let mut exchange = client.begin("PUT", "/", &[("expect", "100-continue")], Framing::Length(4));
    assert_eq!(exchange.interim().status, 100);
    exchange.send(b"body");
    exchange.finish(&[]);
    let mut peer = pair.accept();
    assert_eq!(peer.header("expect"), None, "the expectation is met by the proxy");
    assert_eq!(peer.read_to_end().content, b"body");
    peer.answer(200, b"ok");
    assert_eq!(exchange.response().1.content, b"ok");
}

fn an_answer_may_come_before_the_request_ends(pair: &Pair) {
    let mut client = pair.client();
    let mut exchange = client.begin("POST", "/", &[], Framing::Open);
    exchange.send(b"part");
    let mut peer = pair.accept();
    peer.answer(403, b"enough");
    let (head, received) = exchange.response();
    assert_eq!((head.status, &*received.content), (403, &b"enough"[..]));
    assert!(received.trailers.is_some(), "a whole response");
}

fn an_endpoint_that_breaks_off_is_seen_to(pair: &Pair) {
    for framing in [Framing::Open, Framing::Length(1000)] {
        let mut client = pair.client();
        let mut exchange = client.get("/");
        let mut peer = pair.accept();
        peer.respond(200, &[], framing);
        peer.send(b"some");
        assert_eq!(exchange.head().status, 200);
        assert_eq!(exchange.read_exactly(4), b"some");
        peer.break_off();
        assert_eq!(exchange.read_to_end().trailers, None, "cut off, and not as if whole: {framing:?}");
    }
}

fn a_client_that_goes_away_is_seen_to(pair: &Pair) {
    let mut client = pair.client();
    let exchange = client.get("/");
    let mut waiting = pair.accept();
    drop(exchange);
    client.abort();
    waiting.await_abort();

    let mut client = pair.client();
    let mut exchange = client.begin("POST", "/", &[], Framing::Open);
    exchange.send(b"some");
    let mut receiving = pair.accept();
    assert_eq!(receiving.read_exactly(4), b"some");
    drop(exchange);
    client.abort();
    assert_eq!(receiving.read_to_end().trailers, None, "cut off, and not as if whole");

    let mut client = pair.client();
    let mut exchange = client.get("/");
    let mut answering = pair.accept();
    answering.respond(200, &[], Framing::Open);
    answering.send(b"some");
    exchange.head();
    drop(exchange);
    client.abort();
    answering.await_abort();
}

/// A hundred at once, answered in another order than they came.
fn requests_do_not_wait_for_each_other(pair: &Pair) {
    const REQUESTS: usize = 100;
    let paths: Vec<String> = (0..REQUESTS).map(|number| format!("/{number}")).collect();
    let Client::Http2(_) = pair.client() else { return one_after_the_other(pair) };
    let mut client = pair.client();
    let Client::Http2(connection) = &mut client else { unreachable!("as the one before") };
    let mut calls: Vec<_> =
        paths.iter().map(|path| connection.call("GET", "web.test", path, &[], true)).collect();
    let mut peers: Vec<_> = (0..REQUESTS).map(|_| pair.accept()).collect();
    for peer in peers.iter_mut().rev() {
        let path = peer.path.clone();
        peer.answer(200, path.as_bytes());
    }
    for (call, path) in calls.iter_mut().zip(&paths) {
        assert_eq!(call.read_response().said(), (200, &**path));
    }
}

fn one_after_the_other(pair: &Pair) {
    let mut client = pair.client();
    for path in ["/1", "/2", "/3"] {
        let mut exchange = client.get(path);
        let mut peer = pair.accept();
        assert_eq!(peer.path, path);
        peer.answer(200, path.as_bytes());
        assert_eq!(exchange.response().1.content, path.as_bytes());
    }
}
