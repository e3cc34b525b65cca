//! QUIC that is passed through by the name in its first packets (`ssl-passthrough`). The endpoint is another
//! Forebay.

use std::sync::Arc;

use testkit::manifest::{Ingress, service, tls_secret};
use testkit::{Authority, Canned, Certificate, Forebay, H3Client, QuicClient, TlsClient, Upstream};

use crate::setup;

/// An endpoint for `web.test`, with its own certificate.
struct Behind {
    forebay: Forebay,
    certificate: Certificate,
}

fn behind(upstream: &Canned) -> Behind {
    let certificate = Authority::new("authority").server(&["web.test"]);
    let forebay = setup()
        .tls("web.test")
        .setting("forebay-http3", "on")
        .manifest("certificate.yaml", tls_secret("certificate", &certificate))
        .endpoint(upstream.address())
        .start();
    Behind { forebay, certificate }
}

/// Passes `web.test` through, and serves `own.test`.
fn front(behind: &Behind, own: &Canned, workers: u32) -> Forebay {
    let ingress = Ingress::new("own").path("own.test", "Prefix", "/", "own");
    setup()
        .setting("forebay-http3", "on")
        .annotation("ssl-passthrough", "true")
        .arguments(["--enable-ssl-passthrough".to_owned(), format!("--workers={workers}")])
        .manifest("own.yaml", format!("{}---\n{}", ingress.document(), service("own", &[own.address()])))
        .endpoint(behind.forebay.https_address())
        .start()
}

fn client(forebay: &Forebay) -> H3Client {
    H3Client::connect(forebay.https_address(), &TlsClient::new("web.test"))
}

#[test]
fn a_connection_goes_to_the_endpoint_of_its_name_and_others_end_here() {
    let (web, own) = (Canned::saying("web"), Canned::saying("own"));
    let behind = behind(&web);
    let front = front(&behind, &own, 4);
    for _ in 0..8 {
        let client = client(&front);
        assert!(client.quic().shows(&behind.certificate));
        assert_eq!(client.get("web.test", "/").said(), (200, "web"));
        let here = H3Client::connect(front.https_address(), &TlsClient::new("own.test"));
        assert!(!here.quic().shows(&behind.certificate));
        assert_eq!(here.get("own.test", "/").said(), (200, "own"));
    }
}

#[test]
fn a_hello_in_several_packets_is_put_together() {
    let (web, own) = (Canned::saying("web"), Canned::saying("own"));
    let behind = behind(&web);
    let front = front(&behind, &own, 2);
    let names: Vec<_> = (0..40).map(|number| format!("{number:0>100}")).collect();
    let alpn: Vec<_> = names.iter().map(String::as_str).chain(["h3"]).collect();
    for name in ["web.test", "own.test"] {
        let tls = TlsClient::new(name).alpn(&alpn);
        let client = QuicClient::connect(front.https_address(), &tls);
        assert_eq!(client.shows(&behind.certificate), name == "web.test");
    }
}

#[test]
fn megabytes_pass_both_ways_over_four_workers() {
    const LEN: usize = 4 << 20;
    let upstream = Upstream::new();
    let certificate = Authority::new("authority").server(&["web.test"]);
    let forebay = setup()
        .tls("web.test")
        .setting("forebay-http3", "on")
        .setting("proxy-body-size", "0")
        .setting("proxy-request-buffering", "off")
        .manifest("certificate.yaml", tls_secret("certificate", &certificate))
        .endpoint(upstream.address())
        .start();
    let behind = Behind { forebay, certificate };
    let front = front(&behind, &Canned::saying("own"), 4);
    let client = client(&front);
    let content: Arc<[u8]> = (0..LEN).map(|at| (at * 7 % 251) as u8).collect();
    let expected = Arc::clone(&content);
    let peer = std::thread::spawn(move || {
        let (mut peer, _) = upstream.accept_request();
        let received = peer.read_exactly(LEN);
        assert!(received == *expected, "the endpoint got something else");
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
        peer.send(&received);
    });
    let response = client.post("web.test", "/", &[("content-length", &LEN.to_string())], &content);
    peer.join().expect("the endpoint is content");
    assert!(response.status == 200 && response.body == *content, "{}", response.body.len());
}

/// A host that is no longer passed through is served here; connections that were passed through go on.
#[test]
fn a_change_is_for_new_connections() {
    let (web, own) = (Canned::saying("web"), Canned::saying("own"));
    let behind = behind(&web);
    let front = front(&behind, &own, 1);
    let old = client(&front);
    assert_eq!(old.get("web.test", "/").said(), (200, "web"));
    let ingress = Ingress::new("web").path("web.test", "Prefix", "/", "own").tls("web.test");
    front.replace("web.yaml", &ingress.document());
    front.await_that("the host to be served here", || {
        QuicClient::try_connect(front.https_address(), &TlsClient::new("web.test"))
            .is_ok_and(|client| !client.shows(&behind.certificate))
    });
    assert_eq!(client(&front).get("web.test", "/").said(), (200, "own"));
    assert_eq!(old.get("web.test", "/").said(), (200, "web"));
}

#[test]
fn without_its_endpoint_a_name_is_not_served_and_others_are() {
    let (web, own) = (Canned::saying("web"), Canned::saying("own"));
    let behind = behind(&web);
    let front = front(&behind, &own, 1);
    assert_eq!(client(&front).get("web.test", "/").said(), (200, "web"));
    let Behind { forebay, .. } = behind;
    drop(forebay);
    let quick = H3Client::connect(front.https_address(), &TlsClient::new("own.test"));
    assert_eq!(quick.get("own.test", "/").said(), (200, "own"));
}
