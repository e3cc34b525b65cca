//! Long downloads over HTTP/3 while the configuration changes, certificates among it.

use testkit::manifest::{config_map, tls_secret};
use testkit::{Authority, Connection, Forebay, H3Call, H3Client, QuicClient, TlsClient, Upstream};

use crate::setup;

const PIECE: &[u8] = &[b'x'; 1 << 10];

/// A response that is being downloaded, and the endpoint that sends it.
struct Download {
    call: H3Call,
    peer: Connection,
}

impl Download {
    fn begin(client: &H3Client, upstream: &Upstream, pieces: usize) -> Self {
        let mut call = client.call("GET", "web.test", "/", &[]);
        call.finish();
        let (mut peer, _) = upstream.accept_request();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", pieces * PIECE.len()));
        assert_eq!(call.read_head().status, 200);
        Self { call, peer }
    }

    fn go_on(&mut self) {
        self.peer.send(PIECE);
        let mut len = 0;
        while len < PIECE.len() {
            len += self.call.read().expect("the download goes on").len();
        }
        assert_eq!(len, PIECE.len());
    }

    fn end(mut self) {
        assert_eq!(self.call.read(), None);
    }
}

fn acknowledged(forebay: &Forebay) -> u64 {
    forebay.configuration()["acknowledged"].as_u64().expect("a number")
}

/// Makes so many changes under so many downloads, a few to a connection.
fn downloads_survive(changes: usize, downloads: usize, per_connection: usize) {
    let authority = Authority::new("authority");
    let certificate = || authority.server(&["web.test"]);
    let upstream = Upstream::new();
    let forebay = setup()
        .tls("web.test")
        .setting("forebay-http3", "on")
        .annotation("proxy-buffering", "off")
        .arguments(["--workers=2"])
        .manifest("certificate.yaml", tls_secret("certificate", &certificate()))
        .endpoint(upstream.address())
        .start();
    let connect = || H3Client::connect(forebay.https_address(), &TlsClient::new("web.test"));
    let clients: Vec<_> = (0..downloads.div_ceil(per_connection)).map(|_| connect()).collect();
    let mut running: Vec<_> = (0..downloads)
        .map(|number| Download::begin(&clients[number / per_connection], &upstream, changes))
        .collect();
    for change in 0..changes {
        let before = acknowledged(&forebay);
        if change.is_multiple_of(2) {
            let next = certificate();
            forebay.replace("certificate.yaml", &tls_secret("certificate", &next));
            forebay.await_that("the new certificate", || {
                QuicClient::connect(forebay.https_address(), &TlsClient::new("web.test")).shows(&next)
            });
        } else {
            let age = change.to_string();
            let settings = [("forebay-http3", "on"), ("hsts-max-age", age.as_str())];
            forebay.replace("settings.yaml", &config_map("settings", &settings));
            forebay.await_that("the new settings", || acknowledged(&forebay) > before);
        }
        running.iter_mut().for_each(Download::go_on);
    }
    running.into_iter().for_each(Download::end);
    let faults = forebay.metrics().sum("forebay_faults_total", &[]);
    assert_eq!(faults, 0);
}

#[test]
fn downloads_go_on_while_certificates_and_settings_change() {
    downloads_survive(20, 12, 4);
}

/// It takes some minutes.
#[test]
#[ignore = "it is the size that docs/http3.md speaks of"]
fn five_hundred_downloads_go_on_over_a_thousand_changes() {
    downloads_survive(1000, 500, 5);
}
