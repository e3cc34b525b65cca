//! TLS listeners of the Gateway API: bytes that are passed on, decrypted or not, connections of one listener
//! and hosts of another, several certificates of a host, and handshakes that need a certificate.

use std::sync::Arc;

use model::{
    Action, Authorities, Backend, Backends, Certificate, CertificateInfo, ClientAuth, ClusterId,
    DirectResponse, Host, HostName, HostTls, KeyEncoding, LabelTexts, Labels, Listener, PathMatch,
    PrivateKey, Protocol, Route, Split, TlsStream, VerifyClient,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use testkit::{Authority, Ending, TlsClient, TlsServer, Upstream};

use crate::world::{World, cluster, host};

fn shown(certificate: &testkit::Certificate) -> Arc<Certificate> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(certificate.key_pem().as_bytes()).unwrap();
    let key = PrivateKey { encoding: KeyEncoding::Pkcs8, der: key.secret_pkcs8_der().to_vec() };
    let chain = vec![certificate.der().to_vec()];
    Arc::new(Certificate { chain, key, info: CertificateInfo::default() })
}

fn named(name: HostName, tls: HostTls, routes: Vec<Arc<Route>>) -> Arc<Host> {
    Arc::new(Host { name, tls: Arc::new(tls), routes, ..host("any.test") })
}

fn saying(text: &str) -> Vec<Arc<Route>> {
    let action = Action::Respond(Box::new(DirectResponse::new(200, text)));
    vec![Arc::new(Route::new(PathMatch::root(), action, Arc::default()))]
}

fn exact(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

fn to(is_terminated: bool, backends: Backends) -> Arc<TlsStream> {
    let labels = Labels::from(LabelTexts {
        namespace: "default".to_owned(),
        service: "echo".to_owned(),
        ..LabelTexts::default()
    });
    Arc::new(TlsStream { is_terminated, backends, labels })
}

fn invalid() -> Backends {
    Backends::Split(Split::new(vec![Backend::invalid(1)]).unwrap())
}

fn serving(upstream: &Upstream, hosts: Vec<Arc<Host>>) -> World {
    World::http(&[upstream.address()], |model| {
        let protocol = Protocol::Https(Arc::new(hosts.into()));
        model.listeners.push(Listener { address: None, port: 0, protocol });
    })
}

#[test]
fn tls_is_terminated_and_passed_through_at_one_port() {
    let upstream = Upstream::new();
    let authority = Authority::new("authority");
    let (ours, theirs) = (authority.server(&["ours.test"]), authority.server(&["theirs.test"]));
    let terminated = HostTls {
        certificate: Some(shown(&ours)),
        stream: Some(to(true, Backends::One(ClusterId(0)))),
        ..HostTls::default()
    };
    let passed = HostTls { stream: Some(to(false, Backends::One(ClusterId(0)))), ..HostTls::default() };
    let spoken = HostTls { certificate: Some(shown(&ours)), ..HostTls::default() };
    let hosts = vec![
        named(exact("ours.test"), terminated, Vec::new()),
        named(exact("theirs.test"), passed, Vec::new()),
        named(exact("web.test"), spoken, saying("web")),
    ];
    let world = serving(&upstream, hosts);

    // Whatever the client would speak, nothing is agreed upon for the endpoint.
    let mut client = TlsClient::new("ours.test").alpn(&["h2", "http/1.1"]).connect(world.https_address());
    let info = client.tls_info();
    assert!(info.shows(&ours) && info.alpn.is_none(), "{info:?}");
    client.send("ping");
    let mut peer = upstream.accept();
    assert_eq!(peer.read_exactly(4), b"ping");
    peer.send("pong");
    assert_eq!(client.read_exactly(4), b"pong");
    peer.shutdown_write();
    assert_eq!(client.ending(), Ending::Closed);
    client.send("more");
    assert_eq!(peer.read_exactly(4), b"more");
    client.shutdown_write();
    assert_eq!(peer.ending(), Ending::Closed);

    let address = world.https_address();
    let client = std::thread::spawn(move || TlsClient::new("theirs.test").connect(address));
    let mut peer = upstream.accept_tls(&TlsServer::new(&theirs));
    let mut client = client.join().unwrap();
    assert!(client.tls_info().shows(&theirs));
    assert_eq!(peer.tls_info().name.as_deref(), Some("theirs.test"));
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping");
    drop((client, peer));

    let mut client = TlsClient::new("web.test").connect(world.https_address());
    assert_eq!(client.get("web.test", "/").said(), (200, "web"));
    drop(client);
    world.await_quiet();
    let labels = [("protocol", "TLS"), ("service", "echo")];
    assert_eq!(world.metrics().sum("forebay_stream_connections_total", &labels), 2);
    let log = world.stop();
    assert_eq!(log.matches("] TLS 200 ").count(), 2, "{log}");
}

#[test]
fn connections_to_what_is_invalid_or_unknown_are_closed() {
    let upstream = Upstream::new();
    let certificate = shown(&Authority::new("authority").server(&["ours.test"]));
    let terminated =
        HostTls { certificate: Some(certificate), stream: Some(to(true, invalid())), ..HostTls::default() };
    let passed = || HostTls { stream: Some(to(false, invalid())), ..HostTls::default() };
    let hosts = vec![
        named(exact("ours.test"), terminated, Vec::new()),
        named(exact("theirs.test"), passed(), Vec::new()),
        named(HostName::Any, passed(), Vec::new()),
    ];
    let world = serving(&upstream, hosts);
    for client in [TlsClient::new("theirs.test"), TlsClient::new("other.test"), TlsClient::nameless()] {
        assert!(client.try_connect(world.https_address()).is_err());
    }
    let mut client = TlsClient::new("ours.test").connect(world.https_address());
    assert!(client.try_read_exactly(1).is_err());
    world.await_metric("forebay_faults_total", &[("reason", "backend_invalid")], 4);
    assert!(upstream.is_left_alone());
}

#[test]
fn streams_are_shared_by_weights() {
    let (first, second) = (Upstream::new(), Upstream::new());
    let certificate = shown(&Authority::new("authority").server(&["ours.test"]));
    let backends = [(0, 0), (1, 3)].map(|(id, weight)| Backend::new(ClusterId(id), weight));
    let backends = Backends::Split(Split::new(backends.to_vec()).unwrap());
    let tls =
        HostTls { certificate: Some(certificate), stream: Some(to(true, backends)), ..HostTls::default() };
    let world = World::http(&[first.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[second.address()])));
        let protocol = Protocol::Https(Arc::new(vec![named(exact("ours.test"), tls, Vec::new())].into()));
        model.listeners.push(Listener { address: None, port: 0, protocol });
    });
    for _ in 0..5 {
        let mut client = TlsClient::new("ours.test").connect(world.https_address());
        client.send("ping");
        assert_eq!(second.accept().read_exactly(4), b"ping");
    }
    assert!(first.is_left_alone());
}

#[test]
fn a_connection_for_one_listener_is_no_way_to_the_hosts_of_another() {
    let upstream = Upstream::new();
    let certificate = shown(&Authority::new("authority").server(&["a.test"]));
    let of =
        |listener| HostTls { certificate: Some(Arc::clone(&certificate)), listener, ..HostTls::default() };
    let hosts = vec![
        named(exact("a.test"), of(Some(1)), saying("a")),
        named(exact("b.test"), of(Some(2)), saying("b")),
        named(HostName::parse_with_suffix("*.c.test").unwrap(), of(Some(3)), Vec::new()),
        named(exact("of-none.test"), of(None), saying("of none")),
        named(HostName::Any, of(Some(1)), saying("any")),
    ];
    let world = serving(&upstream, hosts);
    for (name, asked, expected) in [
        ("a.test", "a.test", (200, "a")),
        ("a.test", "other.test", (200, "any")),
        ("a.test", "b.test", (421, "421 Misdirected Request\n")),
        ("a.test", "x.c.test", (421, "421 Misdirected Request\n")),
        ("a.test", "of-none.test", (200, "of none")),
        ("b.test", "b.test", (200, "b")),
        ("b.test", "a.test", (421, "421 Misdirected Request\n")),
        ("b.test", "other.test", (421, "421 Misdirected Request\n")),
        ("other.test", "a.test", (200, "a")),
        ("of-none.test", "b.test", (200, "b")),
    ] {
        let mut client = TlsClient::new(name).connect(world.https_address());
        assert_eq!(client.get(asked, "/").said(), expected, "{name} {asked}");
        // The connection itself is good.
        assert_ne!(client.get(name, "/").status, 421, "{name} {asked}");
    }
    let mut client = TlsClient::new("x.c.test").connect(world.https_address());
    assert_eq!(client.get("y.c.test", "/").status, 404);
}

#[test]
fn a_host_shows_the_certificate_that_is_for_the_name_and_that_the_client_can_verify() {
    let upstream = Upstream::new();
    let authority = Authority::new("authority");
    let [a, b] = ["a.test", "b.test"].map(|name| authority.server(&[name]));
    let rsa = authority.rsa_server(&["a.test"]);
    let tls = HostTls {
        certificate: Some(shown(&a)),
        more_certificates: Some([&b, &rsa].map(shown).into()),
        ..HostTls::default()
    };
    let hosts = vec![named(HostName::parse_with_suffix("*.test").unwrap(), tls, saying("ok"))];
    let world = serving(&upstream, hosts);
    for (client, expected) in [
        (TlsClient::new("a.test"), &a),
        (TlsClient::new("b.test"), &b),
        (TlsClient::new("c.test"), &a),
        (TlsClient::new("a.test").suite("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"), &rsa),
        (TlsClient::new("b.test").suite("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"), &rsa),
    ] {
        let mut client = client.connect(world.https_address());
        assert!(client.tls_info().shows(expected));
        assert_eq!(client.get("a.test", "/").said(), (200, "ok"));
    }
}

#[test]
fn a_handshake_ends_where_a_good_certificate_has_to_be_shown() {
    let upstream = Upstream::new();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let authority = CertificateDer::from_pem_slice(ours.pem().as_bytes()).unwrap().to_vec();
    let authorities = Authorities { certificates: vec![authority], revocations: Vec::new() };
    let client_auth = ClientAuth {
        authorities: Arc::new(authorities),
        verify: VerifyClient::On,
        depth: 3,
        ends_handshake: true,
    };
    let tls = HostTls {
        certificate: Some(shown(&ours.server(&["web.test"]))),
        client_auth: Some(client_auth),
        ..HostTls::default()
    };
    let world = serving(&upstream, vec![named(exact("web.test"), tls, saying("ok"))]);
    let [good, bad, late] =
        [ours.client("good"), theirs.client("bad"), ours.expired_client("late")].map(Arc::new);
    for client in [TlsClient::new("web.test").only_12(), TlsClient::new("web.test").only_13()] {
        for refused in [client.clone(), client.clone().certificate(&bad), client.clone().certificate(&late)] {
            // In TLS 1.3 the client is done before it hears of it.
            let answered = refused.try_connect(world.https_address()).and_then(|mut client| {
                client.try_send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")?;
                client.try_read_line()
            });
            assert!(answered.is_err(), "{answered:?}");
        }
        let mut client = client.certificate(&good).connect(world.https_address());
        assert_eq!(client.get("web.test", "/").said(), (200, "ok"));
    }
}

#[test]
fn a_client_that_leaves_before_it_asks_is_at_no_fault() {
    let upstream = Upstream::new();
    let authority = Authority::new("authority");
    let tls = HostTls { certificate: Some(shown(&authority.server(&["web.test"]))), ..HostTls::default() };
    let world = serving(&upstream, vec![named(exact("web.test"), tls, saying("ok"))]);
    drop(TlsClient::new("web.test").alpn(&["h2"]).connect(world.https_address()));
    for _ in 0..3 {
        let mut client = TlsClient::new("web.test").connect(world.https_address());
        assert_eq!(client.get("web.test", "/").said(), (200, "ok"));
    }
    assert_eq!(world.metrics().sum("forebay_faults_total", &[("reason", "http2_error")]), 0);
}
