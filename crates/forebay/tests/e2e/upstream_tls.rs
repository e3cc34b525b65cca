//! TLS towards endpoints: what is sent, whom is believed, and that connections and sessions are used again.

use std::thread;

use testkit::manifest::{authority_secret, secret, service_speaking, tls_secret};
use testkit::{Authority, Connection, Forebay, H2Client, H2Upstream, Setup, TlsClient, TlsServer, Upstream};

use crate::failures::awaits_fault;
use crate::{GET, OK, setup};

/// `web.test` leads to this upstream over TLS.
fn over_tls(upstream: &Upstream) -> Setup {
    setup().endpoint(upstream.address()).annotation("backend-protocol", "HTTPS")
}

/// A Secret with an authority and, for endpoints that ask, a certificate.
fn proxy_secret(authority: &Authority, shown: Option<&testkit::Certificate>) -> String {
    match shown {
        None => authority_secret("proxy", authority, None),
        Some(shown) => {
            let entries =
                [("ca.crt", authority.pem()), ("tls.crt", shown.chain_pem()), ("tls.key", shown.key_pem())];
            secret("proxy", "Opaque", &entries.each_ref().map(|(key, value)| (*key, &**value)))
        }
    }
}

/// The same with a Secret, without which no other `proxy-ssl-*` counts.
fn with_secret(upstream: &Upstream) -> Setup {
    let secret = proxy_secret(&Authority::new("nobody"), None);
    over_tls(upstream).annotation("proxy-ssl-secret", "default/proxy").manifest("proxy.yaml", secret)
}

/// Sends a request and returns the endpoint's side of it, answered.
fn answered(forebay: &Forebay, upstream: &Upstream, server: &TlsServer) -> Connection {
    let mut client = forebay.client();
    client.send(GET);
    let mut peer = upstream.accept_tls(server);
    peer.read_head();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    peer
}

/// The status for a client where no connection to the endpoint comes about.
fn refused(setup: Setup, upstream: &Upstream, server: &TlsServer, reason: &str) -> u16 {
    let forebay = setup.annotation("proxy-next-upstream-tries", "1").start();
    thread::scope(|scope| {
        let asking = scope.spawn(|| forebay.get("/").status);
        assert!(upstream.try_accept_tls(server).is_err());
        let status = asking.join().expect("it does not panic");
        awaits_fault(&forebay, "upstream", reason, 1);
        status
    })
}

#[test]
fn by_default_any_certificate_will_do_and_no_name_is_sent() {
    let server = TlsServer::new(&Authority::new("unknown").expired_server(&["other.test"]));
    let upstream = Upstream::new();
    let peer = answered(&over_tls(&upstream).start(), &upstream, &server);
    assert_eq!(peer.tls_info().name, None);
}

#[test]
fn a_name_is_sent_where_that_is_asked_for() {
    let server = TlsServer::new(&Authority::new("unknown").server(&["other.test"]));
    let upstream = Upstream::new();
    for (setup, name, sent) in [
        (with_secret(&upstream), Some("inner.test"), Some("inner.test")),
        (with_secret(&upstream), None, Some("upstream_balancer")),
        (over_tls(&upstream), Some("inner.test"), None),
    ] {
        let sending = setup.annotation("proxy-ssl-server-name", "on");
        let named = name.into_iter().fold(sending, |setup, name| setup.annotation("proxy-ssl-name", name));
        let peer = answered(&named.start(), &upstream, &server);
        assert_eq!(peer.tls_info().name.as_deref(), sent, "{name:?}");
    }
}

#[test]
fn endpoints_are_verified_where_that_is_asked_for() {
    let (authority, other) = (Authority::new("inner"), Authority::new("other"));
    let upstream = Upstream::new();
    let verifying = |believed: &Authority| {
        over_tls(&upstream)
            .annotation("proxy-ssl-verify", "on")
            .annotation("proxy-ssl-secret", "default/proxy")
            .annotation("proxy-ssl-name", "inner.test")
            .manifest("proxy.yaml", proxy_secret(believed, None))
    };
    let right = TlsServer::new(&authority.server(&["inner.test"]));
    answered(&verifying(&authority).start(), &upstream, &right);
    let misnamed = TlsServer::new(&authority.server(&["outer.test"]));
    let expired = TlsServer::new(&authority.expired_server(&["inner.test"]));
    for (believed, server) in [(&other, &right), (&authority, &misnamed), (&authority, &expired)] {
        assert_eq!(refused(verifying(believed), &upstream, server, "upstream_certificate_bad"), 502);
    }
    let nameless = over_tls(&upstream)
        .annotation("proxy-ssl-verify", "on")
        .annotation("proxy-ssl-secret", "default/proxy")
        .annotation("upstream-vhost", "inner.test")
        .manifest("proxy.yaml", proxy_secret(&authority, None));
    assert_eq!(refused(nameless, &upstream, &right, "upstream_certificate_bad"), 502);
}

#[test]
fn an_endpoint_may_ask_for_a_certificate() {
    let authority = Authority::new("inner");
    let shown = authority.client("forebay");
    let server = TlsServer::asking(&authority.server(&["inner.test"]), &authority);
    let upstream = Upstream::new();
    let showing = over_tls(&upstream)
        .annotation("proxy-ssl-secret", "default/proxy")
        .manifest("proxy.yaml", proxy_secret(&authority, Some(&shown)));
    let peer = answered(&showing.start(), &upstream, &server);
    assert!(peer.tls_info().shows(&shown));
    // Without one the endpoint ends it, as late as it likes.
    let forebay = over_tls(&upstream).annotation("proxy-next-upstream-tries", "1").start();
    thread::scope(|scope| {
        let asking = scope.spawn(|| forebay.get("/").status);
        assert!(upstream.try_accept_tls(&server).is_err());
        assert_eq!(asking.join().expect("it does not panic"), 502);
    });
}

#[test]
fn versions_are_offered_as_told() {
    let certificate = Authority::new("inner").rsa_server(&["inner.test"]);
    let upstream = Upstream::new();
    for server in [TlsServer::only_12(&certificate), TlsServer::only_13(&certificate)] {
        let without_effect = over_tls(&upstream).annotation("proxy-ssl-protocols", "TLSv1.1");
        answered(&without_effect.start(), &upstream, &server);
    }
    for (told, server) in [
        (None, TlsServer::only_12(&certificate)),
        (Some("TLSv1.2"), TlsServer::only_12(&certificate)),
        (Some("TLSv1.2 TLSv1.3"), TlsServer::only_13(&certificate)),
        (Some("TLSv1.3"), TlsServer::only_13(&certificate)),
    ] {
        let setup = with_secret(&upstream);
        let setup = if let Some(told) = told { setup.annotation("proxy-ssl-protocols", told) } else { setup };
        answered(&setup.start(), &upstream, &server);
    }
    let only_13 = with_secret(&upstream).annotation("proxy-ssl-protocols", "TLSv1.3");
    for (setup, server) in [
        (only_13, TlsServer::only_12(&certificate)),
        (with_secret(&upstream), TlsServer::only_13(&certificate)),
    ] {
        assert_eq!(refused(setup, &upstream, &server, "upstream_handshake_failed"), 502);
    }
}

#[test]
fn what_does_not_speak_tls_makes_a_bad_gateway() {
    let upstream = Upstream::new();
    let forebay = over_tls(&upstream).annotation("proxy-next-upstream-tries", "1").start();
    let mut client = forebay.client();
    client.send(GET);
    let mut peer = upstream.accept();
    peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 502);
    awaits_fault(&forebay, "upstream", "upstream_handshake_failed", 1);
}

#[test]
fn a_handshake_that_stalls_runs_out_of_time() {
    let upstream = Upstream::new();
    let forebay = over_tls(&upstream)
        .annotation("proxy-next-upstream-tries", "1")
        .annotation("proxy-connect-timeout", "1")
        .start();
    let mut client = forebay.client();
    client.send(GET);
    let _peer = upstream.accept();
    assert_eq!(client.read_response().status, 504);
}

#[test]
fn connections_are_used_again_and_sessions_resumed() {
    let server = TlsServer::new(&Authority::new("inner").server(&["inner.test"]));
    let upstream = Upstream::new();
    for protocols in ["TLSv1.2", "TLSv1.2 TLSv1.3"] {
        let forebay = with_secret(&upstream).annotation("proxy-ssl-protocols", protocols).start();
        let mut client = forebay.client();
        for is_resumed in [false, true, true] {
            client.send(GET);
            let mut peer = upstream.accept_tls(&server);
            for _ in 0..3 {
                peer.read_head();
                peer.send(OK);
                assert_eq!(client.read_response().said(), (200, "ok"));
                client.send(GET);
            }
            peer.read_head();
            peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            assert_eq!(client.read_response().said(), (200, "ok"));
            assert_eq!(peer.tls_info().is_resumed, is_resumed, "{protocols}");
        }
    }
}

#[test]
fn an_endpoint_is_spoken_to_as_the_client_speaks_where_that_is_asked_for() {
    let server = TlsServer::new(&Authority::new("inner").server(&["inner.test"]));
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).annotation("backend-protocol", "AUTO_HTTP").start();
    let mut client = forebay.client();
    client.send(GET);
    let (mut clear, _) = upstream.accept_request();
    clear.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    client.send(GET);
    let mut encrypted = upstream.accept_tls(&server);
    encrypted.read_head();
    encrypted.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_service_may_say_that_its_port_speaks_http2() {
    let upstream = H2Upstream::clear();
    let web = testkit::manifest::Ingress::new("web").path("web.test", "Prefix", "/", "web").document()
        + &service_speaking("web", "kubernetes.io/h2c", &[upstream.address()]);
    let forebay = setup().manifest("web.yaml", web).start();
    let mut client = forebay.client();
    client.send(GET);
    upstream.accept_request().answer(200, &[], b"ok");
    assert_eq!(client.read_response().said(), (200, "ok"));
}

/// A new connection only when the stream limit is reached.
#[test]
fn streams_share_a_connection_up_to_its_limit() {
    let mut settings = h2::server::Builder::new();
    settings.max_concurrent_streams(2);
    let upstream = H2Upstream::with(settings, None);
    let forebay = setup().endpoint(upstream.address()).annotation("backend-protocol", "GRPC").start();
    let client = H2Client::clear(forebay.address());
    let ask = || client.call("GET", "web.test", "/", &[], true);
    // The first one's answer brings the endpoint's settings with it.
    let mut first = ask();
    upstream.accept_request().answer(200, &[], b"ok");
    assert_eq!(first.read_response().said(), (200, "ok"));
    let mut calls = Vec::new();
    let mut peers = Vec::new();
    for connection in [0, 0, 1, 1, 2] {
        calls.push(ask());
        let peer = upstream.accept_request();
        assert_eq!(peer.connection, connection);
        peers.push(peer);
    }
    for mut peer in peers {
        peer.answer(200, &[], b"ok");
    }
    for call in &mut calls {
        assert_eq!(call.read_response().said(), (200, "ok"));
    }
    assert_eq!(upstream.connections(), 3);
}

/// GOAWAY is no fault: what was begun ends, and what comes goes over another connection.
#[test]
fn an_endpoint_that_leaves_costs_no_request() {
    let upstream = H2Upstream::clear();
    let forebay = setup().endpoint(upstream.address()).annotation("backend-protocol", "GRPC").start();
    let client = H2Client::clear(forebay.address());
    for _ in 0..50 {
        let mut call = client.call("POST", "web.test", "/", &[], true);
        let mut peer = upstream.accept_request();
        // It is told of this now, or while the next request is on its way.
        upstream.leave();
        peer.answer(200, &[], b"ok");
        assert_eq!(call.read_response().said(), (200, "ok"));
    }
    assert!(upstream.connections() > 1);
}

/// RFC 9113 section 8.7: it has not been processed, so that even a POST may be repeated.
#[test]
fn a_stream_that_an_endpoint_refuses_is_sent_again() {
    let upstream = H2Upstream::clear();
    let forebay = setup()
        .endpoint(upstream.endpoint(1))
        .endpoint(upstream.endpoint(2))
        .annotation("backend-protocol", "GRPC")
        .start();
    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", "web.test", "/", &[], true);
    upstream.accept_request().reset(h2::Reason::REFUSED_STREAM);
    upstream.accept_request().answer(200, &[], b"ok");
    assert_eq!(call.read_response().said(), (200, "ok"));
}

#[test]
fn a_certificate_for_endpoints_is_rotated_too() {
    let authority = Authority::new("inner");
    let (old, new) = (authority.client("old"), authority.client("new"));
    let server = TlsServer::asking(&authority.server(&["inner.test"]), &authority).forgetful();
    let upstream = Upstream::new();
    let forebay = over_tls(&upstream)
        .annotation("proxy-ssl-secret", "default/proxy")
        .manifest("proxy.yaml", proxy_secret(&authority, Some(&old)))
        .manifest("other.yaml", tls_secret("other", &old))
        .start();
    drop(answered(&forebay, &upstream, &server));
    let generation = |forebay: &Forebay| forebay.configuration()["acknowledged"].as_u64().expect("a number");
    let before = generation(&forebay);
    forebay.replace("proxy.yaml", &proxy_secret(&authority, Some(&new)));
    forebay.await_that("the change", || generation(&forebay) > before);
    assert!(answered(&forebay, &upstream, &server).tls_info().shows(&new));
}
