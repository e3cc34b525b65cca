//! Snippets that change contents or send requests elsewhere, where the cookbook's requests do not reach:
//! contents in pieces, coded contents, HTTP/2, and what guards a host.

use std::io::Read;

use testkit::manifest::{Ingress, service};
use testkit::{Canned, Forebay, H2Client, Setup, Upstream};

use crate::setup;

const GET: &str = "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n";

fn allowed() -> Setup {
    setup().setting("allow-snippet-annotations", "true").setting("annotations-risk-level", "Critical")
}

fn with_snippet(upstream: &Upstream, snippet: &str) -> Forebay {
    allowed().endpoint(upstream.address()).annotation("configuration-snippet", snippet).start()
}

const REPLACING: &str =
    "sub_filter '<head>' '<head><base>'; sub_filter needle haystack; sub_filter_once off;";

/// A response of chunks, the next of which is sent once the client has the last one.
#[test]
fn a_text_is_found_across_chunks_and_others_are_not_held_back() {
    let upstream = Upstream::new();
    let forebay = with_snippet(&upstream, REPLACING);
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n");
    peer.send("9\r\n<HEAD>nee\r\n");
    let head = client.read_head().to_ascii_lowercase();
    assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "{head}");
    // The beginning of a text is held back, and no more.
    let mut begin = client.read_line();
    begin += &String::from_utf8(client.read_exactly(12)).expect("text");
    assert!(begin.ends_with("<head><base>"), "{begin}");
    peer.send("6\r\ndle.ne\r\n0\r\n\r\n");
    let rest = client.read_raw_chunks();
    let content: String =
        rest.split("\r\n").filter(|line| usize::from_str_radix(line, 16).is_err()).collect();
    assert_eq!(content, "haystack.ne");
}

#[test]
fn contents_are_compressed_after_texts_are_replaced() {
    let page = format!("<head></head>{}", "needle ".repeat(10_000));
    let canned = Canned::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nETag: \"1\"\r\n\r\n{page}",
        page.len()
    ));
    let forebay = allowed()
        .setting("use-gzip", "true")
        .endpoint(canned.address())
        .annotation("configuration-snippet", &format!("{REPLACING} gzip_types text/html;"))
        .start();
    let expected = page.replace("<head>", "<head><base>").replace("needle", "haystack");
    let plain = forebay.get("/");
    assert_eq!((plain.status, plain.text()), (200, expected.as_str()));
    assert_eq!(plain.header("etag"), None);
    let coded = forebay.client().ask("GET / HTTP/1.1\r\nHost: web.test\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(coded.header("content-encoding").as_deref(), Some("gzip"));
    let mut content = String::new();
    flate2::read::GzDecoder::new(&coded.body[..]).read_to_string(&mut content).expect("it is gzip");
    assert!(content == expected, "{} bytes", content.len());
    let client = H2Client::clear(forebay.address());
    assert!(client.get("web.test", "/").text() == expected, "over HTTP/2");
    let head = forebay.client().ask("HEAD / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.header("content-length")), (200, None), "as in nginx");
}

#[test]
fn coded_contents_and_parts_pass_unchanged() {
    for (status, fields) in
        [("200 OK", "Content-Encoding: br\r\n"), ("206 Partial Content", "Content-Range: bytes 0-5/9\r\n")]
    {
        let canned = Canned::answering(format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{fields}Content-Length: 6\r\n\r\nneedle"
        ));
        let forebay =
            allowed().endpoint(canned.address()).annotation("configuration-snippet", REPLACING).start();
        assert_eq!(forebay.get("/").text(), "needle", "{status}");
    }
}

/// A location of a snippet has nothing of an Ingress's locations, but what closes the host closes it.
#[test]
fn what_guards_a_host_guards_what_its_snippet_forwards() {
    let (web, other) = (Canned::saying("web"), Canned::saying("other"));
    let snippet = "location /open { proxy_pass http://other.default.svc.cluster.local; }";
    let services = service("web", &[web.address()]) + &service("other", &[other.address()]);
    let ingress = || Ingress::new("web").path("web.test", "Prefix", "/", "web");
    let denied =
        ingress().annotation("server-snippet", snippet).annotation("denylist-source-range", "127.0.0.0/8");
    let forebay = allowed().manifest("web.yaml", denied.document() + &services).start();
    assert_eq!(forebay.get("/").status, 403);
    assert_eq!(forebay.get("/open").said(), (200, "other"), "as in nginx");
    let closed = ingress().annotation("server-snippet", &format!("{snippet} nonsense;"));
    let forebay = allowed().manifest("web.yaml", closed.document() + &services).start();
    assert_eq!((forebay.get("/").status, forebay.get("/open").status), (503, 503));
    let missing = snippet.replace("other.default", "missing.default");
    let missing = ingress().annotation("server-snippet", &missing);
    let forebay = allowed().manifest("web.yaml", missing.document() + &services).start();
    assert_eq!(forebay.get("/").said(), (200, "web"));
    assert!(matches!(forebay.get("/open").status, 502 | 503), "no endpoint");
}

#[test]
fn an_explanation_names_the_texts() {
    let upstream = Upstream::new();
    let forebay = with_snippet(&upstream, REPLACING);
    let explained = forebay.admin("/explain?url=http://web.test/").text().to_owned();
    assert!(explained.contains("texts in responses"), "{explained}");
    for text in ["<head>", "<head><base>", "needle", "haystack", "each time", "text/html"] {
        assert!(explained.contains(text), "{text}: {explained}");
    }
}
