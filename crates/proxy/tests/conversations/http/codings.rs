//! Content codings: which responses are compressed and how they say so, how they are sent, and what
//! endpoints have compressed themselves.

use std::io::Read;
use std::sync::Arc;

use model::{CodingOffer, Compression, ContentCoding, Expression, ResponsePolicy};
use testkit::{Connection, Ending, H2Client, Response, Upstream};

use super::{await_fault, forward, goes_on};
use crate::world::World;

fn offer(coding: ContentCoding) -> CodingOffer {
    CodingOffer {
        coding,
        level: 4,
        media_types: Arc::from(["text/html".to_owned(), "text/event-stream".to_owned()]),
        bytes_min: 20,
        is_for_http_1_1: false,
        excluded_agents: None,
    }
}

fn offers() -> Vec<CodingOffer> {
    [ContentCoding::Zstd, ContentCoding::Brotli, ContentCoding::Gzip].map(offer).into()
}

fn world(upstream: &Upstream, compression: Compression) -> World {
    World::http(&[upstream.address()], |model| {
        let compression = Some(Arc::new(compression));
        let policy = ResponsePolicy { compression, ..ResponsePolicy::default() };
        forward(model, |forward| forward.transfer.response = Some(Box::new(policy)));
    })
}

fn get(accepted: &str) -> String {
    format!("GET /a HTTP/1.1\r\nHost: web.test\r\nAccept-Encoding: {accepted}\r\n\r\n")
}

/// Both ends of a request where everything is on offer.
fn asked(request: &str) -> (World, Connection, Connection) {
    let upstream = Upstream::new();
    let world = world(&upstream, Compression { offers: offers(), decodes: true });
    let mut client = world.http_client();
    client.send(request);
    let (peer, _) = upstream.accept_request();
    (world, client, peer)
}

fn page(fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n{fields}\r\n{body}",
        body.len()
    )
}

fn html() -> String {
    "<p>a paragraph like all the others</p>\n".repeat(50)
}

fn plain(coding: &str, coded: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        "gzip" => _ = flate2::read::GzDecoder::new(coded).read_to_end(&mut out).expect("it is gzip"),
        "br" => _ = brotli::Decompressor::new(coded, 4096).read_to_end(&mut out).expect("it is brotli"),
        "zstd" => out = zstd::decode_all(coded).expect("it is zstd"),
        other => panic!("{other:?}"),
    }
    out
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let level = flate2::Compression::new(6);
    flate2::read::GzEncoder::new(content, level).read_to_end(&mut out).expect("nothing is in the way");
    out
}

fn values<'r>(response: &'r Response, name: &str) -> Vec<&'r str> {
    let named = response.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn a_small_content_is_compressed_whole_and_goes_with_its_length() {
    for coding in ["gzip", "br", "zstd"] {
        let (world, mut client, mut peer) = asked(&get(coding));
        peer.send(page("ETag: \"v1\"\r\nAccept-Ranges: bytes\r\nVary: Origin\r\n", &html()));
        let response = client.read_response();
        assert_eq!(values(&response, "content-encoding"), [coding]);
        assert_eq!(values(&response, "content-length"), [response.body.len().to_string()]);
        assert_eq!(values(&response, "vary"), ["Origin", "Accept-Encoding"]);
        assert_eq!(
            (values(&response, "etag"), values(&response, "accept-ranges").len()),
            (vec!["W/\"v1\""], 0)
        );
        assert!(response.body.len() < 200 && plain(coding, &response.body) == html().as_bytes());
        world.await_metric("forebay_coded_contents_total", &[("coding", coding)], 1);
        world.await_metric("forebay_coded_read_bytes_total", &[("coding", coding)], html().len() as u64);
        goes_on(&mut client, &mut peer);
    }
}

#[test]
fn weights_decide_between_codings() {
    for (accepted, expected) in [
        ("gzip, br, zstd", Some("zstd")),
        ("gzip, br;q=0.9", Some("gzip")),
        ("gzip;q=0, br;q=0.1", Some("br")),
        ("*;q=0.1, zstd;q=0", Some("br")),
        ("identity, gzip;q=0.9", None),
        ("gzip;q=0", None),
        ("deflate", None),
    ] {
        let (_world, mut client, mut peer) = asked(&get(accepted));
        peer.send(page("", &html()));
        let response = client.read_response();
        assert_eq!(values(&response, "content-encoding").first().copied(), expected, "{accepted}");
        assert_eq!(values(&response, "vary"), ["Accept-Encoding"], "whoever asks: {accepted}");
        if expected.is_none() {
            assert!(response.body == html().as_bytes(), "{accepted}");
        }
    }
}

#[test]
fn what_may_not_be_compressed_stays_as_it_is() {
    let upstream = Upstream::new();
    let world = world(&upstream, Compression { offers: offers(), decodes: false });
    let mut client = world.http_client();
    client.send(get("gzip"));
    let (mut peer, _) = upstream.accept_request();
    let html = html();
    let length = html.len();
    let responses = [
        page("Cache-Control: no-transform\r\n", &html),
        page("Content-Encoding: gzip\r\n", &html),
        page("Content-Digest: sha-256=:x:\r\n", &html),
        page("", "short"),
        page("", "").replace("text/html", "image/png"),
        page("", &html).replace("text/html", "image/png"),
        page("", &html).replace("200 OK", "500 Oh"),
        page(&format!("Content-Range: bytes 0-{}/9999\r\n", length - 1), &html).replace("200 OK", "206 Part"),
        page("", &html).replace("Content-Type: text/html\r\n", ""),
    ];
    for (at, response) in responses.iter().enumerate() {
        if at > 0 {
            client.send(get("gzip"));
            peer.read_head();
        }
        peer.send(response);
        let got = client.read_response();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(got.body == body.as_bytes(), "{response}");
        assert_eq!(values(&got, "vary").len(), 0, "{response}");
    }
}

#[test]
fn an_event_leaves_at_once() {
    for coding in ["gzip", "br", "zstd"] {
        let (_world, mut client, mut peer) = asked(&get(coding));
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        let head = client.read_response_to_head();
        assert_eq!(
            (values(&head, "content-encoding"), values(&head, "transfer-encoding")),
            (vec![coding], vec!["chunked"])
        );
        let mut coded = Vec::new();
        for event in ["data: one\n\n", "data: two\n\n"] {
            peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
            // The next is not sent before this one has come.
            let len = usize::from_str_radix(&client.read_line(), 16).unwrap();
            coded.extend(client.read_exactly(len));
            assert_eq!(client.read_line(), "");
        }
        peer.send("0\r\nX-Sum: 1\r\n\r\n");
        loop {
            let len = usize::from_str_radix(&client.read_line(), 16).unwrap();
            if len == 0 {
                break;
            }
            coded.extend(client.read_exactly(len));
            assert_eq!(client.read_line(), "");
        }
        assert_eq!(
            (client.read_line().as_str(), client.read_line().as_str()),
            ("X-Sum: 1", ""),
            "trailers are kept"
        );
        assert_eq!(plain(coding, &coded), b"data: one\n\ndata: two\n\n");
        goes_on(&mut client, &mut peer);
    }
}

#[test]
fn a_long_content_is_compressed_as_it_comes() {
    let long = html().repeat(500);
    for coding in ["gzip", "br", "zstd"] {
        let (_world, mut client, mut peer) = asked(&get(coding));
        let mut sender = peer.sender();
        let response = page("", &long);
        let sending = std::thread::spawn(move || sender.send(response));
        let response = client.read_response();
        sending.join().unwrap();
        assert!(plain(coding, &response.body) == long.as_bytes(), "{coding}");
        assert!(response.body.len() < long.len() / 20);
        goes_on(&mut client, &mut peer);
    }
}

#[test]
fn head_is_answered_as_get_is() {
    let (_world, mut client, mut peer) = asked(&get("gzip").replace("GET", "HEAD"));
    peer.send(page("ETag: \"v1\"\r\n", &html()).split_inclusive("\r\n\r\n").next().unwrap());
    let response = client.read_response_to_head();
    assert_eq!(values(&response, "content-encoding"), ["gzip"]);
    assert_eq!(
        (values(&response, "etag"), values(&response, "vary")),
        (vec!["W/\"v1\""], vec!["Accept-Encoding"])
    );
    assert!(
        values(&response, "content-length").is_empty() && values(&response, "transfer-encoding").is_empty()
    );
    goes_on(&mut client, &mut peer);
}

#[test]
fn a_client_of_http_1_0_is_told_the_end_by_the_end() {
    let (_world, mut client, mut peer) =
        asked("GET /a HTTP/1.0\r\nHost: web.test\r\nAccept-Encoding: br\r\nConnection: keep-alive\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n");
    let head = client.read_response_to_head();
    assert_eq!((values(&head, "content-encoding"), values(&head, "connection")), (vec!["br"], vec!["close"]));
    peer.send(format!("{:x}\r\n{}\r\n0\r\n\r\n", html().len(), html()));
    let (coded, ending) = client.read_to_end();
    assert!(plain("br", &coded) == html().as_bytes() && matches!(ending, Ending::Closed));
}

#[test]
fn http_1_0_and_some_agents_may_be_left_out() {
    let upstream = Upstream::new();
    let excluded_agents = Some(Expression::anywhere("old").unwrap());
    let gzip = CodingOffer { is_for_http_1_1: true, excluded_agents, ..offer(ContentCoding::Gzip) };
    let world = world(&upstream, Compression { offers: vec![gzip], decodes: false });
    let with = |request: &str| {
        let mut client = world.http_client();
        client.send(request);
        let (mut peer, _) = upstream.accept_request();
        peer.send(page("Connection: close\r\n", &html()));
        values(&client.read_response(), "content-encoding").len()
    };
    assert_eq!(with(&get("gzip")), 1);
    assert_eq!(with(&get("gzip").replace("\r\n\r\n", "\r\nUser-Agent: An Old one\r\n\r\n")), 0);
    assert_eq!(with(&get("gzip").replace("HTTP/1.1", "HTTP/1.0")), 0);
}

#[test]
fn streams_of_http_2_are_compressed_too() {
    let upstream = Upstream::new();
    let world = world(&upstream, Compression { offers: offers(), decodes: false });
    let client = H2Client::clear(world.http_address());
    let mut call = client.call("GET", "web.test", "/a", &[("accept-encoding", "gzip")], true);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    let (head, mut body) = call.head().unwrap();
    assert_eq!((values(&head, "content-encoding"), values(&head, "content-length").len()), (vec!["gzip"], 0));
    peer.send("5\r\nevent\r\n");
    let mut coded = body.read().unwrap().expect("the first event is there before the second").to_vec();
    peer.send("3\r\nend\r\n0\r\nX-Sum: 1\r\n\r\n");
    let (rest, trailers) = body.read_to_end();
    coded.extend(rest);
    assert_eq!(plain("gzip", &coded), b"eventend");
    assert_eq!(trailers.unwrap(), [("x-sum".to_owned(), "1".to_owned())]);
    let mut call = client.call("GET", "web.test", "/a", &[("accept-encoding", "zstd")], true);
    peer.read_head();
    peer.send(page("", &html()));
    let response = call.read_response();
    assert!(plain("zstd", &response.body) == html().as_bytes());
    assert_eq!(values(&response, "content-length"), [response.body.len().to_string()]);
}

#[test]
fn a_content_that_breaks_off_does_not_end_as_a_whole_one() {
    for coding in ["gzip", "br", "zstd"] {
        let (world, mut client, mut peer) = asked(&get(coding));
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n");
        client.read_head();
        peer.send("<p>some of it");
        let len = usize::from_str_radix(&client.read_line(), 16).unwrap();
        assert!(!client.read_exactly(len).is_empty());
        drop(peer);
        let (rest, ending) = client.read_to_end();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{coding}");
        assert!(matches!(ending, Ending::Closed | Ending::Reset));
        await_fault(&world, "upstream_reset");
    }
}

#[test]
fn a_client_that_goes_away_gives_its_coder_back() {
    let (world, mut client, mut peer) = asked(&get("zstd"));
    peer.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
    );
    client.read_head();
    client.reset();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    while peer.try_send(&chunk).is_ok() {}
    world.await_metric("forebay_coded_contents_total", &[("coding", "zstd")], 1);
}

#[test]
fn codings_of_endpoints_are_taken_away_for_who_does_not_take_them() {
    let coded = gzip(html().as_bytes());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nETag: \"v1\"\r\nContent-Length: {}\r\n\r\n",
        coded.len()
    );
    let (_world, mut client, mut peer) = asked(&get("br"));
    peer.send([head.as_bytes(), &coded].concat());
    let response = client.read_response();
    assert!(response.body == html().as_bytes());
    assert_eq!(
        (values(&response, "content-encoding").len(), values(&response, "etag")),
        (0, vec!["W/\"v1\""])
    );
    assert_eq!(values(&response, "vary"), ["Accept-Encoding"]);
    // Piece by piece, and then for one who does take it.
    client.send(super::GET);
    peer.read_head();
    peer.send([head.as_bytes(), &coded[..30]].concat());
    let mut sender = peer.sender();
    let rest = coded[30..].to_vec();
    let head_of_response = client.read_response_to_head();
    assert_eq!(values(&head_of_response, "transfer-encoding"), ["chunked"]);
    sender.send(rest);
    assert!(client.read_raw_chunks().contains("a paragraph"));
    client.send(get("gzip"));
    peer.read_head();
    peer.send([head.as_bytes(), &coded].concat());
    let response = client.read_response();
    assert!(response.body == coded && values(&response, "etag") == ["\"v1\""]);
    assert_eq!(values(&response, "vary"), ["Accept-Encoding"]);
}

#[test]
fn what_is_no_coded_content_and_what_is_a_bomb_are_refused() {
    let bomb = gzip(&vec![0; 8 << 20]);
    let head =
        |len: usize| format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len}\r\n\r\n");
    let (world, mut client, mut peer) = asked(super::GET);
    peer.send([head(20).as_bytes(), b"this is no gzip at a"].concat());
    assert_eq!(client.read_response().status, 502, "nothing had been sent");
    await_fault(&world, "upstream_bad_coding");
    let (world, mut client, mut peer) = asked(super::GET);
    peer.send([head(bomb.len()).as_bytes(), &bomb].concat());
    client.read_head();
    let (content, _) = client.read_to_end();
    assert!(content.len() < 3 << 20 && !content.ends_with(b"0\r\n\r\n"), "{}", content.len());
    await_fault(&world, "upstream_bad_coding");
}
