//! Copies of requests, from the annotation to the wire.

use testkit::manifest::service;
use testkit::{Forebay, H2Client, Upstream};

use crate::{OK, setup};

const MIRROR: &str = "http://copies.default.svc/copy";

fn mirroring(upstream: &Upstream, copies: &Upstream) -> Forebay {
    setup()
        .endpoint(upstream.address())
        .manifest("copies.yaml", service("copies", &[copies.address()]))
        .annotation("mirror-target", MIRROR)
        .start()
}

#[test]
fn each_request_is_copied_whatever_its_client_speaks() {
    let (upstream, copies) = (Upstream::new(), Upstream::new());
    let forebay = mirroring(&upstream, &copies);
    let mut client = forebay.client();
    client.send("PUT /a?b HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    client.send("1\r\nc\r\n0\r\n\r\n");
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(3), b"abc");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    let (mut copy, head) = copies.accept_request();
    assert!(head.starts_with("PUT /copy?b HTTP/1.1\r\nHost: copies.default.svc\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Length: 3\r\n"), "{head}");
    assert_eq!(copy.read_exactly(3), b"abc");
    drop((peer, copy));

    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", "web.test", "/c", &[("x-one", "1")], false);
    call.sender.send("body", true);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\nContent-Length: 4\r\n"), "{head}");
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send(OK);
    assert_eq!(call.read_response().said(), (200, "ok"));
    let (mut copy, head) = copies.accept_request();
    assert!(head.starts_with("POST /copy HTTP/1.1\r\n") && head.contains("\r\nx-one: 1\r\n"), "{head}");
    assert_eq!(copy.read_exactly(4), b"body");
}
