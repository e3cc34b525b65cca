//! TLS towards clients: which certificate is shown, what is offered, sessions, redirects, and what is no
//! handshake.

use std::io::ErrorKind;
use std::time::Instant;

use testkit::manifest::{Ingress, tls_secret};
use testkit::{
    Authority, Canned, Certificate, Connection, Ending, Forebay, Setup, TlsClient, TlsServer, Upstream,
};

use crate::failures::awaits_fault;
use crate::{GET, OK, setup};

const HANDSHAKES: &str = "forebay_tls_handshakes_total";

/// `web.test` with this certificate.
fn with_certificate(certificate: &Certificate) -> Setup {
    setup().tls("web.test").manifest("certificate.yaml", tls_secret("certificate", certificate))
}

fn hello() -> Canned {
    Canned::saying("hello")
}

/// The certificate among these that a client gets for `name`.
fn shown<'c>(forebay: &Forebay, name: &str, among: &[(&'c str, &Certificate)]) -> &'c str {
    let info = forebay.tls_client(&TlsClient::new(name)).tls_info();
    among.iter().find(|(_, certificate)| info.shows(certificate)).map_or("another", |(label, _)| label)
}

#[test]
fn the_name_picks_the_certificate() {
    let authority = Authority::new("authority");
    let [web, exact, wild, fallback] = [["web.test"], ["a.wild.test"], ["*.wild.test"], ["default.test"]]
        .map(|names| authority.server(&names));
    let upstream = hello();
    let more = Ingress::new("more")
        .path("a.wild.test", "Prefix", "/", "web")
        .path("*.wild.test", "Prefix", "/", "web")
        .path("bare.test", "Prefix", "/", "web")
        .tls_from(&["a.wild.test"], "exact")
        .tls_from(&["*.wild.test"], "wild")
        .document();
    let secrets =
        tls_secret("exact", &exact) + &tls_secret("wild", &wild) + &tls_secret("default", &fallback);
    let forebay = with_certificate(&web)
        .endpoint(upstream.address())
        .manifest("more.yaml", more)
        .manifest("secrets.yaml", secrets)
        .arguments(["--default-ssl-certificate=default/default"])
        .start();
    let among = [("web", &web), ("exact", &exact), ("wild", &wild), ("default", &fallback)];
    for (name, expected) in [
        ("web.test", "web"),
        ("WEB.test", "web"),
        ("a.wild.test", "exact"),
        ("b.wild.test", "wild"),
        ("wild.test", "default"),
        ("a.b.wild.test", "default"),
        ("bare.test", "default"),
        ("unknown.test", "default"),
    ] {
        assert_eq!(shown(&forebay, name, &among), expected, "{name}");
    }
    let nameless = forebay.tls_client(&TlsClient::nameless());
    assert!(nameless.tls_info().shows(&fallback));
    for host in ["web.test", "a.wild.test", "b.wild.test", "bare.test"] {
        assert_eq!(forebay.tls_client(&TlsClient::new(host)).get(host, "/").said(), (200, "hello"), "{host}");
    }
    let aliased = Ingress::new("aliased")
        .path("aliased.test", "Prefix", "/", "web")
        .annotation("server-alias", "b.wild.test, x.wild.test, other.test, ~^[0-9]+[.]wild[.]test$")
        .tls_from(&["aliased.test"], "aliased")
        .document();
    let covering = authority.server(&["aliased.test", "x.wild.test"]);
    forebay.replace("aliased.yaml", &(aliased + &tls_secret("aliased", &covering)));
    let among = [&among[..], &[("aliased", &covering)]].concat();
    forebay.await_that("the names", || shown(&forebay, "aliased.test", &among) == "aliased");
    for (name, expected) in [
        ("x.wild.test", "aliased"),
        ("other.test", "default"),
        ("1.wild.test", "wild"),
        ("a.wild.test", "exact"),
    ] {
        assert_eq!(shown(&forebay, name, &among), expected, "{name}");
    }
    let mut other = forebay.tls_client(&TlsClient::new("other.test"));
    assert_eq!(other.get("other.test", "/").said(), (200, "hello"));
    let mut unknown = forebay.tls_client(&TlsClient::new("unknown.test"));
    assert_eq!(unknown.get("unknown.test", "/").status, 404);
}

#[test]
fn without_any_certificate_one_is_made_up() {
    let upstream = hello();
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    let leaf = client.tls_info().peer_chain[0].clone();
    let name = b"Kubernetes Ingress Controller Fake Certificate";
    assert!(leaf.windows(name.len()).any(|window| window == name));
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
}

#[test]
fn rsa_and_ecdsa_are_served_with_the_whole_chain() {
    let root = Authority::new("root");
    let below = root.below("below");
    for (certificate, key) in
        [(below.server(&["web.test"]), "ecdsa"), (below.rsa_server(&["web.test"]), "rsa")]
    {
        let forebay = with_certificate(&certificate).start();
        for client in [TlsClient::new("web.test").only_12(), TlsClient::new("web.test").only_13()] {
            let info = forebay.tls_client(&client.believing(&root)).tls_info();
            assert!(info.shows(&certificate) && info.peer_chain.len() == 2);
        }
        forebay.await_metric(HANDSHAKES, &[("kind", "full"), ("key", key)], 2);
    }
}

/// A certificate that is replaced is shown from the next handshake on, and costs no connection.
#[test]
fn a_new_certificate_takes_effect_and_drops_nobody() {
    let authority = Authority::new("authority");
    let (old, new) = (authority.server(&["web.test"]), authority.server(&["web.test"]));
    let upstream = hello();
    let forebay = with_certificate(&old).endpoint(upstream.address()).start();
    let client = TlsClient::new("web.test");
    let mut connection = forebay.tls_client(&client);
    assert!(connection.tls_info().shows(&old));
    assert_eq!(connection.get("web.test", "/").said(), (200, "hello"));
    forebay.replace("certificate.yaml", &tls_secret("certificate", &new));
    let fresh = || forebay.tls_client(&TlsClient::new("web.test")).tls_info();
    forebay.await_that("the new certificate", || fresh().shows(&new));
    assert_eq!(connection.get("web.test", "/").said(), (200, "hello"), "the connection from before goes on");
}

#[test]
fn a_certificate_that_cannot_be_used_is_reported_and_the_default_shown() {
    let authority = Authority::new("authority");
    let fallback = authority.server(&["default.test"]);
    let [expired, foreign] = [authority.expired_server(&["web.test"]), authority.server(&["other.test"])];
    let mismatched = testkit::manifest::secret(
        "certificate",
        "kubernetes.io/tls",
        &[("tls.crt", &foreign.chain_pem()), ("tls.key", &fallback.key_pem())],
    );
    let broken =
        testkit::manifest::secret("certificate", "kubernetes.io/tls", &[("tls.crt", "x"), ("tls.key", "y")]);
    let upstream = hello();
    for secret in [
        String::new(),
        broken,
        mismatched,
        tls_secret("certificate", &foreign),
        tls_secret("certificate", &expired),
    ] {
        let forebay = setup()
            .endpoint(upstream.address())
            .tls("web.test")
            .manifest("certificate.yaml", secret)
            .manifest("default.yaml", tls_secret("default", &fallback))
            .arguments(["--default-ssl-certificate=default/default"])
            .start();
        let line = forebay.await_log(" WARN ");
        assert!(line.contains("default/web") && line.contains("certificate"), "{line}");
        assert_eq!(shown(&forebay, "web.test", &[("default", &fallback)]), "default", "{line}");
        let mut client = forebay.tls_client(&TlsClient::new("web.test"));
        assert_eq!(client.get("web.test", "/").said(), (200, "hello"), "and served all the same");
    }
}

#[test]
fn clients_in_clear_are_sent_to_tls_where_there_is_a_certificate() {
    let upstream = hello();
    let certificate = Authority::new("authority").server(&["web.test"]);
    let forebay = with_certificate(&certificate).endpoint(upstream.address()).start();
    let response = forebay.get("/a?b");
    assert_eq!(
        (response.status, response.header("location").as_deref()),
        (308, Some("https://web.test/a?b"))
    );
    assert_eq!(response.header("strict-transport-security"), None);
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    assert_eq!(client.get("web.test", "/a?b").said(), (200, "hello"));
    let forebay = with_certificate(&certificate)
        .endpoint(upstream.address())
        .annotation("ssl-redirect", "false")
        .start();
    assert_eq!(forebay.get("/").said(), (200, "hello"));
}

#[test]
fn clients_over_tls_are_told_to_stay() {
    let upstream = Canned::answering(
        "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nContent-Length: 0\r\n\r\n",
    );
    let hsts = |forebay: &Forebay, path: &str| {
        forebay
            .tls_client(&TlsClient::new("web.test"))
            .get("web.test", path)
            .header("strict-transport-security")
    };
    let forebay = setup().endpoint(upstream.address()).start();
    assert_eq!(hsts(&forebay, "/").as_deref(), Some("max-age=31536000; includeSubDomains"));
    let rooted = setup().endpoint(upstream.address()).annotation("app-root", "/app").start();
    assert_eq!(hsts(&rooted, "/"), None, "ingress-nginx answers this before it has found a location");
    assert!(hsts(&rooted, "/app").is_some());
    let nobody = setup().start();
    assert_eq!(hsts(&nobody, "/").as_deref(), Some("max-age=31536000; includeSubDomains"), "errors too");
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("hsts-max-age", "5")
        .setting("hsts-include-subdomains", "false")
        .setting("hsts-preload", "true")
        .start();
    assert_eq!(hsts(&forebay, "/").as_deref(), Some("max-age=5; preload"));
    let forebay = setup().endpoint(upstream.address()).setting("hsts", "false").start();
    assert_eq!(hsts(&forebay, "/").as_deref(), Some("max-age=1"), "the endpoint's own");
}

#[test]
fn the_protocol_is_agreed_upon() {
    let forebay = setup().start();
    let agreed =
        |offered: &[&str]| forebay.tls_client(&TlsClient::new("web.test").alpn(offered)).tls_info().alpn;
    assert_eq!(agreed(&["h2", "http/1.1"]).as_deref(), Some("h2"));
    assert_eq!(agreed(&["http/1.1", "h2"]).as_deref(), Some("h2"), "the server's order");
    assert_eq!(agreed(&["http/1.1"]).as_deref(), Some("http/1.1"));
    assert_eq!(agreed(&[]), None);
    let forebay = setup().setting("use-http2", "false").start();
    let info = forebay.tls_client(&TlsClient::new("web.test").alpn(&["h2", "http/1.1"])).tls_info();
    assert_eq!(info.alpn.as_deref(), Some("http/1.1"));
}

/// Whether a suite of TLS 1.2 is for RSA, and its name.
const SUITES: [(bool, &str); 6] = [
    (true, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (true, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (true, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (false, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (false, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (false, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];

#[test]
fn versions_and_suites_are_offered_as_told() {
    let authority = Authority::new("authority");
    let (rsa, ecdsa) = (authority.rsa_server(&["web.test"]), authority.server(&["web.test"]));
    let offers = |forebay: &Forebay, suite| {
        TlsClient::new("web.test").suite(suite).try_connect(forebay.https_address())
    };
    for (certificate, is_rsa) in [(&rsa, true), (&ecdsa, false)] {
        let forebay = with_certificate(certificate).start();
        for (_, suite) in SUITES.iter().filter(|(of_rsa, _)| *of_rsa == is_rsa) {
            assert_eq!(offers(&forebay, suite).expect("it is offered").tls_info().suite, *suite);
        }
        for suite in
            ["TLS13_AES_128_GCM_SHA256", "TLS13_AES_256_GCM_SHA384", "TLS13_CHACHA20_POLY1305_SHA256"]
        {
            assert_eq!(offers(&forebay, suite).expect("it is offered").tls_info().suite, suite);
        }
    }
    // The certificate that field case C measures with.
    let only = with_certificate(&rsa)
        .setting("ssl-ciphers", "ECDHE-RSA-AES256-GCM-SHA384")
        .setting("ssl-protocols", "TLSv1.2")
        .start();
    for (_, suite) in SUITES {
        assert_eq!(offers(&only, suite).is_ok(), suite == "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "{suite}");
    }
    assert!(TlsClient::new("web.test").only_13().try_connect(only.https_address()).is_err());
    let only = with_certificate(&rsa).setting("ssl-protocols", "TLSv1.3").start();
    assert!(TlsClient::new("web.test").only_12().try_connect(only.https_address()).is_err());
    assert!(TlsClient::new("web.test").only_13().try_connect(only.https_address()).is_ok());
}

/// Whichever worker takes the connection.
#[test]
fn sessions_are_resumed() {
    let upstream = hello();
    for tickets in ["false", "true"] {
        let forebay = setup()
            .endpoint(upstream.address())
            .setting("ssl-session-tickets", tickets)
            .arguments(["--workers=4"])
            .start();
        for client in [
            TlsClient::new("web.test").only_13(),
            TlsClient::new("web.test").only_12(),
            TlsClient::new("web.test").only_12().session_ids_only(),
        ] {
            let mut resumed = 0;
            for _ in 0..33 {
                let mut connection = forebay.tls_client(&client);
                assert_eq!(connection.get("web.test", "/").said(), (200, "hello"));
                resumed += u32::from(connection.tls_info().is_resumed);
            }
            assert_eq!(resumed, 32, "tickets {tickets}, {client:?}");
        }
        forebay.await_metric(HANDSHAKES, &[("kind", "full"), ("key", "ecdsa")], 3);
        forebay.await_metric(HANDSHAKES, &[("kind", "resumed"), ("key", "none")], 3 * 32);
    }
}

#[test]
fn handshakes_for_unknown_names_are_refused_where_that_is_asked_for() {
    let upstream = hello();
    let forebay = setup().endpoint(upstream.address()).setting("ssl-reject-handshake", "true").start();
    let mut known = forebay.tls_client(&TlsClient::new("web.test"));
    assert_eq!(known.get("web.test", "/").said(), (200, "hello"));
    for client in [TlsClient::new("unknown.test"), TlsClient::nameless()] {
        let refused = client.try_connect(forebay.https_address()).expect_err("nobody serves it");
        assert_eq!(refused.kind(), ErrorKind::InvalidData, "an alert: {refused}");
        assert!(
            refused.to_string().contains("UnrecognisedName") || refused.to_string().contains("unrecognised"),
            "{refused}"
        );
    }
}

#[test]
fn plain_http_on_the_tls_port_is_told_so() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = Connection::to(forebay.https_address());
    client.send(GET);
    let response = client.read_response();
    assert_eq!(response.status, 400);
    assert!(response.text().contains("plain HTTP request was sent to the HTTPS port"), "{response:?}");
    client.read_to_end();
    awaits_fault(&forebay, "client", "plain_http", 1);
    assert!(upstream.is_left_alone());
}

#[test]
fn what_is_no_handshake_is_refused_and_counted() {
    let upstream = hello();
    let forebay = setup().endpoint(upstream.address()).start();
    // A record of a kind that there is not; a ClientHello whose length lies; a version that never was.
    let nonsense: [&[u8]; 4] = [
        &[0xff; 64],
        b"\x16\x03\x01\x00\x05\x01\x00\x00\xff\xff",
        b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x00\x00",
        b"\x16\x09\x09\xff\xff",
    ];
    for bytes in nonsense {
        let mut client = Connection::to(forebay.https_address());
        client.send(bytes);
        client.shutdown_write();
        client.read_to_end();
    }
    forebay.await_that("them to be counted", || {
        forebay.metrics().sum("forebay_faults_total", &[("side", "client")]) >= 3
    });
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
}

#[test]
fn handshakes_that_stall_hold_nobody_up_and_run_out_of_time() {
    let upstream = hello();
    let forebay = setup().endpoint(upstream.address()).setting("client-header-timeout", "1").start();
    let mut established = forebay.tls_client(&TlsClient::new("web.test"));
    let begin = Instant::now();
    let mut stalled: Vec<Connection> = (0..200)
        .map(|number| {
            let mut client = Connection::to(forebay.https_address());
            // Nothing, or the beginning of a ClientHello.
            client.send(&b"\x16\x03\x01\x02\x00\x01\x00"[..number % 8]);
            client
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(established.get("web.test", "/").said(), (200, "hello"));
        let mut fresh = forebay.tls_client(&TlsClient::new("web.test"));
        assert_eq!(fresh.get("web.test", "/").said(), (200, "hello"));
    }
    for client in &mut stalled {
        client.read_to_end();
    }
    assert!(begin.elapsed() >= std::time::Duration::from_millis(900), "they had their time");
}

#[test]
fn an_end_is_announced_and_needs_no_announcement() {
    let upstream = hello();
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    client.send("GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
    assert_eq!(client.read_response().said(), (200, "hello"));
    assert_eq!(client.ending(), Ending::Closed, "close_notify");
    // A client that has nothing more to say still gets its answer.
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    client.send(GET);
    client.shutdown_write();
    assert_eq!(client.read_response().said(), (200, "hello"));
}

#[test]
fn what_is_passed_through_is_decrypted_by_the_endpoint() {
    let authority = Authority::new("authority");
    let (theirs, ours) = (authority.server(&["pass.test"]), authority.server(&["web.test"]));
    let (upstream, other) = (Upstream::new(), hello());
    let passed = Ingress::new("passed")
        .annotation("ssl-passthrough", "true")
        .path("pass.test", "Prefix", "/", "passed")
        .document()
        + &testkit::manifest::service("passed", &[upstream.address()]);
    let forebay = with_certificate(&ours)
        .endpoint(other.address())
        .manifest("passed.yaml", passed)
        .arguments(["--enable-ssl-passthrough"])
        .start();
    let server = TlsServer::new(&theirs).alpn(&["http/1.1"]);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut peer = upstream.accept_tls(&server);
            assert_eq!(peer.tls_info().name.as_deref(), Some("pass.test"));
            let head = peer.read_head();
            peer.send(OK);
            peer.shutdown_write();
            (head, peer.read_to_end().1)
        });
        let mut client = forebay.tls_client(&TlsClient::new("pass.test").alpn(&["h2", "http/1.1"]));
        let info = client.tls_info();
        assert!(info.shows(&theirs) && info.alpn.as_deref() == Some("http/1.1"));
        assert_eq!(client.get("pass.test", "/").said(), (200, "ok"));
        assert_eq!(client.ending(), Ending::Closed, "the endpoint's own close_notify");
        client.shutdown_write();
        let (head, ending) = serving.join().expect("it does not panic");
        assert!(!head.contains("X-Forwarded-For"), "passed on as it is: {head}");
        assert_eq!(ending, Ending::Closed);
    });
    let mut web = forebay.tls_client(&TlsClient::new("web.test"));
    assert!(web.tls_info().shows(&ours), "other names are served here");
    assert_eq!(web.get("web.test", "/").said(), (200, "hello"));
}
