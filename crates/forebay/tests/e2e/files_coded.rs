//! Files that are compressed on their way: in memory once, long ones each time, and forms that stand beside a
//! file.

use std::fs;
use std::io::Read;

use tempfile::TempDir;
use testkit::{Forebay, H2Client, Response};

use super::files::{header, root, said, site, write};

const CODED: &str = "forebay_coded_contents_total";
const COMPRESSION: (&str, &str) = ("forebay.io/compression", "br:4, zstd:3, gzip:5");
const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];

fn page() -> String {
    "<p>a paragraph like all the others</p>\n".repeat(500)
}

/// More than is kept in memory, in words that no two lines have alike.
fn long() -> String {
    let words = (0_u32..40_000).map(|number| format!("{:x} ", number.wrapping_mul(2_654_435_761)));
    words.collect::<Vec<_>>().concat()
}

fn compressing(root: &TempDir, more: &[(&str, &str)]) -> Forebay {
    site(root, &[&[COMPRESSION], more].concat())
}

/// The responses to the same request over HTTP/1 and HTTP/2.
fn by_both(
    forebay: &Forebay,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> [(&'static str, Response); 2] {
    let lines: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let lines = lines.concat();
    let mut client = forebay.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: web.test\r\n{lines}\r\n"));
    let h1 = if method == "HEAD" { client.read_response_to_head() } else { client.read_response() };
    let h2 = H2Client::clear(forebay.address());
    let h2 = h2.call(method, "web.test", target, headers, true).read_response();
    [("HTTP/1", h1), ("HTTP/2", h2)]
}

/// The content before it was compressed.
fn plain(coding: &str, coded: &[u8]) -> String {
    let mut out = String::new();
    match coding {
        "gzip" => _ = flate2::read::GzDecoder::new(coded).read_to_string(&mut out).expect("it is gzip"),
        "br" => _ = brotli::Decompressor::new(coded, 4096).read_to_string(&mut out).expect("it is brotli"),
        "zstd" => out = String::from_utf8(zstd::decode_all(coded).expect("it is zstd")).expect("it is text"),
        other => panic!("{other:?}"),
    }
    out
}

#[test]
fn a_short_file_is_compressed_once_for_each_coding() {
    let root = root();
    write(&root, "a.html", page());
    let forebay = compressing(&root, &[("forebay.io/files-cache-control", "public, max-age=60")]);
    let tag = header(&forebay.get("/a.html"), "etag");
    for coding in CODINGS {
        let accepted = [("accept-encoding", coding)];
        for (protocol, response) in
            [0, 1].into_iter().flat_map(|_| by_both(&forebay, "GET", "/a.html", &accepted))
        {
            assert_eq!(header(&response, "content-encoding"), coding, "{protocol}");
            assert_eq!(header(&response, "content-length"), response.body.len().to_string(), "{protocol}");
            assert_eq!(header(&response, "etag"), format!("W/{tag}"), "{protocol}");
            assert_eq!(header(&response, "vary"), "Accept-Encoding", "{protocol}");
            assert_eq!(header(&response, "cache-control"), "public, max-age=60", "{protocol}");
            assert!(response.header("accept-ranges").is_none() && response.header("last-modified").is_some());
            assert!(plain(coding, &response.body) == page(), "{protocol}, {coding}");
            let length = response.body.len().to_string();
            for (protocol, head) in by_both(&forebay, "HEAD", "/a.html", &accepted) {
                assert_eq!(header(&head, "content-length"), length, "{protocol}: of the form that is kept");
                assert_eq!(header(&head, "etag"), format!("W/{tag}"), "{protocol}");
            }
        }
        forebay.await_metric(CODED, &[("coding", coding)], 1);
    }
    for (protocol, response) in by_both(&forebay, "GET", "/a.html", &[]) {
        assert_eq!((said(&response), header(&response, "etag")), ((200, page()), tag.clone()), "{protocol}");
        assert_eq!(header(&response, "vary"), "Accept-Encoding", "{protocol}");
    }
    // A changed file is compressed anew.
    write(&root, "a.html", page() + "more");
    forebay.await_that("the change to be seen", || {
        let [_, (_, response)] = by_both(&forebay, "GET", "/a.html", &[("accept-encoding", "zstd")]);
        plain("zstd", &response.body) == page() + "more"
    });
    forebay.await_metric(CODED, &[("coding", "zstd")], 2);
}

#[test]
fn a_long_file_passes_the_coder_each_time() {
    let (root, long) = (root(), long());
    assert!(long.len() > 256 << 10);
    write(&root, "long.txt", &long);
    let forebay = compressing(&root, &[("forebay.io/compression-types", "text/plain")]);
    for coding in CODINGS {
        let accepted = [("accept-encoding", coding)];
        for (protocol, head) in by_both(&forebay, "HEAD", "/long.txt", &accepted) {
            assert_eq!(
                (head.status, header(&head, "content-encoding").as_str()),
                (200, coding),
                "{protocol}"
            );
            assert!(head.header("content-length").is_none(), "{protocol}: nobody knows it");
        }
        for (protocol, response) in by_both(&forebay, "GET", "/long.txt", &accepted) {
            assert_eq!(header(&response, "content-encoding"), coding, "{protocol}");
            assert!(header(&response, "etag").starts_with("W/\""), "{protocol}");
            assert!(response.header("content-length").is_none(), "{protocol}");
            assert!(
                response.body.len() < long.len() * 3 / 4,
                "{protocol}, {coding}: {}",
                response.body.len()
            );
            assert!(plain(coding, &response.body) == long, "{protocol}, {coding}");
        }
        forebay.await_metric(CODED, &[("coding", coding)], 2);
    }
    // A part is one of the file as it is.
    for (protocol, part) in
        by_both(&forebay, "GET", "/long.txt", &[("accept-encoding", "br"), ("range", "bytes=70000-70099")])
    {
        assert_eq!(said(&part), (206, long[70_000..70_100].to_owned()), "{protocol}");
        assert!(part.header("content-encoding").is_none() && header(&part, "etag").starts_with('"'));
        assert_eq!(header(&part, "vary"), "Accept-Encoding", "{protocol}");
    }
}

#[test]
fn a_form_beside_a_file_is_preferred() {
    let root = root();
    write(&root, "a.html", page());
    for coding in ["br", "gz", "zst"] {
        write(&root, &format!("all.html.{coding}"), coding);
    }
    write(&root, "all.html", page());
    write(&root, "a.html.gz", "beside");
    let forebay = compressing(&root, &[]);
    for (accepted, body, coding) in [
        ("gzip, br, zstd", "br", "br"),
        ("gzip, zstd", "zst", "zstd"),
        ("gzip;q=0.9, br;q=0.1", "gz", "gzip"),
    ] {
        for (protocol, response) in by_both(&forebay, "GET", "/all.html", &[("accept-encoding", accepted)]) {
            assert_eq!(said(&response), (200, body.to_owned()), "{protocol}, {accepted}");
            assert_eq!(header(&response, "content-encoding"), coding, "{protocol}");
            assert!(header(&response, "etag").starts_with('"'), "{protocol}: a file of its own");
            assert_eq!(header(&response, "accept-ranges"), "bytes", "{protocol}");
            assert_eq!(header(&response, "vary"), "Accept-Encoding", "{protocol}");
        }
    }
    for (protocol, response) in by_both(&forebay, "GET", "/a.html", &[("accept-encoding", "gzip, br")]) {
        assert_eq!(said(&response), (200, "beside".to_owned()), "{protocol}: what costs nothing is sent");
    }
    assert_eq!(forebay.metrics().sum(CODED, &[]), 0);
    for (protocol, response) in by_both(&forebay, "GET", "/a.html", &[("accept-encoding", "br")]) {
        assert_eq!(plain("br", &response.body), page(), "{protocol}: not the form that it does not take");
    }
    for (protocol, part) in
        by_both(&forebay, "GET", "/a.html", &[("accept-encoding", "gzip"), ("range", "bytes=1-2")])
    {
        assert_eq!(said(&part), (206, "es".to_owned()), "{protocol}");
        assert_eq!(header(&part, "content-encoding"), "gzip", "{protocol}: a part of the form");
    }
}

#[test]
fn each_form_is_known_by_its_tag() {
    let root = root();
    write(&root, "a.html", page());
    write(&root, "b.html", page());
    write(&root, "b.html.gz", "beside");
    write(&root, "long.html", long());
    let forebay = compressing(&root, &[]);
    for (target, accepted, coding) in [
        ("/a.html", "identity", None),
        ("/a.html", "br", Some("br")),
        ("/b.html", "gzip", Some("gzip")),
        ("/long.html", "zstd", Some("zstd")),
    ] {
        let accepted = ("accept-encoding", accepted);
        let [(_, response), _] = by_both(&forebay, "GET", target, &[accepted]);
        assert_eq!(response.header("content-encoding").as_deref(), coding);
        let (tag, modified) = (header(&response, "etag"), header(&response, "last-modified"));
        for method in ["GET", "HEAD"] {
            for condition in
                [("if-none-match", tag.as_str()), ("if-none-match", "*"), ("if-modified-since", &modified)]
            {
                for (protocol, known) in by_both(&forebay, method, target, &[accepted, condition]) {
                    let what = format!("{method} {target} {condition:?} over {protocol}");
                    assert_eq!((known.status, known.body.len()), (304, 0), "{what}");
                    assert_eq!(header(&known, "etag"), tag, "{what}");
                    assert_eq!(header(&known, "vary"), "Accept-Encoding", "{what}");
                    assert!(known.header("content-encoding").is_none(), "{what}");
                }
            }
            for (protocol, other) in
                by_both(&forebay, method, target, &[accepted, ("if-none-match", "\"other\"")])
            {
                assert_eq!((other.status, header(&other, "etag")), (200, tag.clone()), "{protocol}");
            }
        }
    }
    // The form of one coding is none of another, where that is a file of its own.
    let tag = header(&forebay.get("/b.html"), "etag");
    for (protocol, other) in
        by_both(&forebay, "GET", "/b.html", &[("accept-encoding", "gzip"), ("if-none-match", &tag)])
    {
        assert_eq!(said(&other), (200, "beside".to_owned()), "{protocol}");
    }
}

#[test]
fn a_page_that_says_that_there_is_nothing_is_compressed_once() {
    let root = root();
    write(&root, "404.html", page());
    let forebay = compressing(&root, &[("forebay.io/files-404", "/404.html")]);
    let accepted = [("accept-encoding", "gzip")];
    for (protocol, response) in
        ["/x", "/y/z"].into_iter().flat_map(|it| by_both(&forebay, "GET", it, &accepted))
    {
        assert_eq!((response.status, plain("gzip", &response.body)), (404, page()), "{protocol}");
        assert!(response.header("etag").is_none(), "{protocol}");
        assert_eq!(header(&response, "content-length"), response.body.len().to_string(), "{protocol}");
    }
    for (protocol, head) in by_both(&forebay, "HEAD", "/x", &accepted) {
        assert_eq!((head.status, header(&head, "content-encoding").as_str()), (404, "gzip"), "{protocol}");
    }
    for (protocol, response) in by_both(&forebay, "GET", "/404.html", &accepted) {
        assert_eq!((response.status, plain("gzip", &response.body)), (200, page()), "{protocol}");
    }
    forebay.await_metric(CODED, &[("coding", "gzip")], 1);
}

#[test]
fn what_is_not_to_be_changed_is_sent_as_it_is() {
    let root = root();
    write(&root, "a.html", page());
    write(&root, "short.html", "<p>");
    write(&root, "a.png", page());
    let accepted = [("accept-encoding", "gzip, br, zstd")];
    let forebay = compressing(&root, &[("forebay.io/files-cache-control", "public, no-transform")]);
    for (protocol, response) in by_both(&forebay, "GET", "/a.html", &accepted) {
        assert_eq!(
            (said(&response), response.header("content-encoding")),
            ((200, page()), None),
            "{protocol}"
        );
    }
    drop(forebay);
    let forebay = compressing(&root, &[]);
    for (target, content) in [("/short.html", "<p>".to_owned()), ("/a.png", page())] {
        for (protocol, response) in by_both(&forebay, "GET", target, &accepted) {
            let said = (said(&response), response.header("content-encoding"), response.header("vary"));
            assert_eq!(said, ((200, content.clone()), None, None), "{target} over {protocol}");
        }
    }
    assert_eq!(forebay.metrics().sum(CODED, &[]), 0);
}

/// Numbers without any order, so that compressed it is not much shorter: more than sockets hold.
fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    let number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    std::iter::repeat_with(number).take(6 << 20).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn a_file_that_becomes_shorter_is_no_whole_content() {
    let (root, noise) = (root(), noise());
    let path = root.path().join("site/huge.html");
    let request = "GET /huge.html HTTP/1.1\r\nHost: web.test\r\nAccept-Encoding: gzip\r\n\r\n";
    for is_h2 in [false, true] {
        fs::write(&path, &noise).unwrap();
        let forebay = site(&root, &[("forebay.io/compression", "gzip:1")]);
        let cut = || fs::File::options().write(true).open(&path).unwrap().set_len(4000).unwrap();
        let rest = if is_h2 {
            let client = H2Client::clear(forebay.address());
            let accepted = [("accept-encoding", "gzip")];
            let (_, mut body) = client.call("GET", "web.test", "/huge.html", &accepted, true).head().unwrap();
            body.read_exactly(1000);
            cut();
            let (rest, ending) = body.read_to_end();
            assert!(ending.is_err(), "{ending:?}");
            rest
        } else {
            let mut client = forebay.client();
            client.send(request);
            assert!(client.read_head().contains("Transfer-Encoding: chunked"));
            client.read_exactly(1000);
            cut();
            let (rest, _) = client.read_to_end();
            assert!(!rest.ends_with(b"0\r\n\r\n"), "no end that looks like one");
            rest
        };
        assert!(rest.len() < noise.len());
        forebay.await_metric("forebay_faults_total", &[("reason", "file_unreadable")], 1);
    }
}

#[test]
fn a_file_that_is_replaced_is_compressed_as_it_was_opened() {
    let (root, noise) = (root(), noise());
    let path = root.path().join("site/huge.html");
    fs::write(&path, &noise).unwrap();
    let forebay = site(&root, &[("forebay.io/compression", "gzip:1")]);
    let client = H2Client::clear(forebay.address());
    let accepted = [("accept-encoding", "gzip")];
    let (_, mut body) = client.call("GET", "web.test", "/huge.html", &accepted, true).head().unwrap();
    let mut coded = body.read_exactly(1000);
    let other = root.path().join("other");
    fs::write(&other, "other").unwrap();
    fs::rename(&other, &path).unwrap();
    forebay.await_that("the other to be seen", || forebay.get("/huge.html").body == b"other");
    let (rest, ending) = body.read_to_end();
    coded.extend(rest);
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(&coded[..]).read_to_end(&mut content).expect("it is gzip");
    assert!(ending.is_ok() && content == noise);
}
