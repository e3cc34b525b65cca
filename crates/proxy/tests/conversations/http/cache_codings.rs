//! Responses that are kept, in the codings that clients take.

use std::io::Read as _;
use std::sync::Arc;

use model::{CachePolicy, CodingOffer, Compression, ContentCoding, ResponsePolicy};
use testkit::{Connection, H2Client, Upstream};

use super::cache::{House, get};
use super::{GET, forward};
use crate::world::World;

const CODED: &str = "forebay_coded_contents_total";

/// A house whose route compresses.
fn compressing_house() -> House {
    let upstream = Upstream::new();
    let offer = |coding| CodingOffer {
        coding,
        level: 4,
        media_types: Arc::from(["text/html".to_owned()]),
        bytes_min: 20,
        is_for_http_1_1: false,
        excluded_agents: None,
    };
    let world = World::http(&[upstream.address()], |model| {
        forward(model, |forward| {
            forward.cache = Some(Arc::new(CachePolicy::default()));
            let offers = [ContentCoding::Zstd, ContentCoding::Gzip].map(offer).into();
            let compression = Some(Arc::new(Compression { offers, decodes: true }));
            forward.transfer.response =
                Some(Box::new(ResponsePolicy { compression, ..ResponsePolicy::default() }));
        });
    });
    House { world, upstream }
}

fn page(tag: &str, max_age: u32, text: &str) -> String {
    let body = text.repeat(100);
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age={max_age}\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn zstd(response: &testkit::Response) -> String {
    assert_eq!(response.header("content-encoding").as_deref(), Some("zstd"));
    String::from_utf8(zstd::decode_all(&*response.body).unwrap()).unwrap()
}

#[test]
fn what_is_kept_is_compressed_once_for_each_coding() {
    let house = compressing_house();
    let (plain, _) = house.ask(GET, &page("\"v1\"", 60, "<p>kept</p>\n"));
    assert_eq!(
        (plain.header("content-encoding"), plain.header("vary").as_deref()),
        (None, Some("Accept-Encoding"))
    );
    for _ in 0..3 {
        let response = house.hit(&get("Accept-Encoding: zstd\r\n"));
        assert_eq!(zstd(&response), "<p>kept</p>\n".repeat(100));
        assert_eq!(response.header("content-length").unwrap(), response.body.len().to_string());
        assert_eq!(response.header("etag").as_deref(), Some("W/\"v1\""));
        assert_eq!(response.header("vary").as_deref(), Some("Accept-Encoding"));
    }
    house.world.await_metric(CODED, &[("coding", "zstd")], 1);
    let gzip = house.hit(&get("Accept-Encoding: gzip\r\n"));
    assert_eq!(gzip.header("content-encoding").as_deref(), Some("gzip"));
    house.world.await_metric(CODED, &[("coding", "gzip")], 1);
    let again = house.hit(GET);
    assert_eq!((again.header("etag").as_deref(), again.body.len()), (Some("\"v1\""), 1200));
    // HTTP/2 gets the same form.
    let client = H2Client::clear(house.world.http_address());
    let (status, body) = (200, "<p>kept</p>\n".repeat(100));
    assert_eq!(client.get("web.test", "/a").said(), (status, body.as_str()));
    house.world.await_metric(CODED, &[("coding", "zstd")], 1);
}

#[test]
fn a_compressed_form_is_compared_by_its_weak_tag_and_has_no_parts() {
    let house = compressing_house();
    house.ask(GET, &page("\"v1\"", 60, "<p>kept</p>\n"));
    let mut client = house.world.http_client();
    client.send(get("Accept-Encoding: zstd\r\nIf-None-Match: W/\"v1\"\r\n"));
    let known = client.read_response_to_head();
    assert_eq!((known.status, known.header("etag").as_deref()), (304, Some("W/\"v1\"")));
    assert_eq!(
        (known.header("content-encoding"), known.header("vary").as_deref()),
        (None, Some("Accept-Encoding"))
    );
    // A part is one of what the endpoint sent, and says so.
    let part = house.hit(&get("Accept-Encoding: zstd\r\nRange: bytes=3-6\r\n"));
    assert_eq!((part.said(), part.header("etag").as_deref()), ((206, "kept"), Some("\"v1\"")));
    let whole = house.hit(&get("Accept-Encoding: zstd\r\nRange: bytes=3-6\r\nIf-Range: W/\"v1\"\r\n"));
    assert_eq!((whole.status, zstd(&whole).len()), (200, 1200));
    let mut client = house.world.http_client();
    client.send("HEAD /a HTTP/1.1\r\nHost: web.test\r\nAccept-Encoding: zstd\r\n\r\n");
    let head = client.read_response_to_head();
    let length = whole.body.len().to_string();
    assert_eq!(head.header("content-encoding").as_deref(), Some("zstd"));
    assert_eq!(head.header("content-length").as_deref(), Some(length.as_str()), "of the form that is kept");
}

#[test]
fn what_has_changed_is_compressed_anew() {
    let house = compressing_house();
    house.ask(GET, &page("\"v1\"", 60, "<p>first</p>"));
    let coded = get("Accept-Encoding: zstd\r\n");
    assert_eq!(zstd(&house.hit(&coded)), "<p>first</p>".repeat(100));
    let refresh = get("Cache-Control: no-cache\r\n");
    house.ask(&refresh, &page("\"v2\"", 60, "<p>second</p>"));
    assert_eq!(zstd(&house.hit(&coded)), "<p>second</p>".repeat(100));
    // A response that is still valid is unchanged, and so is its coded form.
    house.ask(&refresh, "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"v2\"\r\n\r\n");
    assert_eq!(zstd(&house.hit(&coded)), "<p>second</p>".repeat(100));
    house.world.await_metric(CODED, &[("coding", "zstd")], 2);
}

/// A house in which a response is on its way, of which half has come, to a client that takes no coding.
fn half_come(text: &str) -> (House, Connection, Connection) {
    let house = compressing_house();
    let mut client = house.world.http_client();
    client.send(GET);
    let (mut peer, _) = house.upstream.accept_request();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=60\r\nETag: \"v1\"\r\n";
    peer.send(format!("{head}Content-Length: {}\r\n\r\n{text}", 2 * text.len()));
    assert!(client.read_head().contains(" 200 "));
    assert_eq!(client.read_exactly(text.len()), text.as_bytes());
    (house, client, peer)
}

/// The content of whole chunks.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = chunks.windows(2).position(|pair| pair == b"\r\n").expect("a size has an end");
        let size = std::str::from_utf8(&chunks[..end]).expect("a size is text");
        let size = usize::from_str_radix(size, 16).expect("a size");
        content.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 4 + size..];
        if size == 0 {
            assert!(chunks.is_empty());
            return content;
        }
    }
}

#[test]
fn what_is_still_coming_is_compressed_for_who_comes_later() {
    let text = "<p>half</p>\n".repeat(2000);
    let (house, mut first, mut peer) = half_come(&text);
    let mut zstd_client = house.world.http_client();
    zstd_client.send(get("Accept-Encoding: zstd\r\nConnection: close\r\n"));
    let head = zstd_client.read_head();
    assert!(head.contains("Content-Encoding: zstd") && head.contains("ETag: W/\"v1\""), "{head}");
    assert!(head.contains("Transfer-Encoding: chunked") && !head.contains("Content-Length"), "{head}");
    let h2 = H2Client::clear(house.world.http_address());
    let (gzip_head, mut gzip_body) =
        h2.call("GET", "web.test", "/a", &[("accept-encoding", "gzip")], true).head().unwrap();
    assert_eq!(gzip_head.header("content-encoding").as_deref(), Some("gzip"));
    // The part that has come can be read before the rest has come.
    let begun = gzip_body.read().unwrap().expect("there is a beginning");
    let mut begin = vec![0; text.len()];
    flate2::read::GzDecoder::new(&begun[..]).read_exact(&mut begin).expect("all of the first half");
    assert!(begin == text.as_bytes());
    peer.send(&text);
    assert_eq!(first.read_exactly(text.len()), text.as_bytes());
    let (rest, ending) = gzip_body.read_to_end();
    let mut whole = String::new();
    flate2::read::GzDecoder::new(&[&begun[..], &rest].concat()[..]).read_to_string(&mut whole).unwrap();
    assert!(ending.is_ok() && whole == text.repeat(2));
    let coded = joined(&zstd_client.read_to_end().0);
    assert!(zstd::decode_all(&*coded).unwrap() == text.repeat(2).as_bytes());
    assert!(house.upstream.is_left_alone());
    // From then on there is a form of known length.
    let kept = house.hit(&get("Accept-Encoding: zstd\r\n"));
    assert_eq!(
        (zstd(&kept), kept.header("content-length")),
        (text.repeat(2), Some(kept.body.len().to_string()))
    );
}

#[test]
fn what_breaks_off_is_no_whole_content_for_who_compresses_it() {
    let text = "<p>half</p>\n".repeat(2000);
    let (house, mut first, peer) = half_come(&text);
    let mut second = house.world.http_client();
    second.send(get("Accept-Encoding: zstd\r\n"));
    assert!(second.read_head().contains("Content-Encoding: zstd"));
    let h2 = H2Client::clear(house.world.http_address());
    let (_, mut third) =
        h2.call("GET", "web.test", "/a", &[("accept-encoding", "gzip")], true).head().unwrap();
    drop(peer);
    let (rest, _) = second.read_to_end();
    assert!(!rest.ends_with(b"0\r\n\r\n"));
    assert!(third.read_to_end().1.is_err() && first.read_to_end().0.is_empty());
    // Nothing of it is kept, in no form.
    let (again, _) = house.ask(&get("Accept-Encoding: zstd\r\n"), &page("\"v2\"", 60, "<p>whole</p>"));
    assert_eq!(zstd(&again), "<p>whole</p>".repeat(100));
}
