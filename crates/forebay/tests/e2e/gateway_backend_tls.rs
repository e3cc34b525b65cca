//! `BackendTLSPolicy` for the backends of connections: TLS that ends at the listener is encrypted again
//! towards Services that have a policy. The contents of policies are tested by the golden cases of `control`.

use std::thread;

use testkit::manifest::{config_map, service, tls_secret};
use testkit::{Authority, Connection, Ending, Forebay, Port, Setup, TlsClient, TlsServer, Upstream};

use crate::commands::run;
use crate::failures::awaits_fault;
use crate::{gateway, setup};

const TERMINATED: &str = "{name: tls, port: 443, protocol: TLS, tls: {certificateRefs: [{name: pair}]}}";
const PASSED: &str = "{name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}";

/// A route of this kind to Service `web`.
fn route(kind: &str) -> String {
    let hostnames = if kind == "TLSRoute" { "hostnames: [outer.test], " } else { "" };
    gateway::route(kind, &format!("{hostnames}rules: [{{backendRefs: [{{name: web, port: 80}}]}}]"))
}

/// The policy of Service `web`: its endpoints are `inner.test`, by this authority.
fn policy(authority: &Authority) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: web}}\n\
         spec:\n  targetRefs: [{{group: '', kind: Service, name: web}}]\n  \
         validation: {{hostname: inner.test, \
         caCertificateRefs: [{{group: '', kind: ConfigMap, name: authority}}]}}\n---\n{}",
        config_map("authority", &[("ca.crt", &authority.pem())])
    )
}

fn serving(listener: &str, kind: &str, upstream: &Upstream, believed: &Authority) -> Setup {
    let certificate = Authority::new("outer").server(&["outer.test"]);
    setup()
        .manifest("pair.yaml", tls_secret("pair", &certificate))
        .manifest("web.yaml", service("web", &[upstream.address()]))
        .manifest("gateway.yaml", gateway::gateway(listener))
        .manifest("route.yaml", route(kind))
        .manifest("policy.yaml", policy(believed))
}

/// Bytes both ways, and the end of both sides.
fn converse(client: &mut Connection, peer: &mut Connection) {
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping");
    peer.send("pong");
    assert_eq!(client.read_exactly(4), b"pong");
    client.shutdown_write();
    assert_eq!(peer.ending(), Ending::Closed);
    peer.send("bye");
    peer.shutdown_write();
    assert_eq!(client.read_to_end(), (b"bye".to_vec(), Ending::Closed));
}

/// A client whose connection is closed, since the endpoint is not believed.
fn refused(forebay: &Forebay, upstream: &Upstream, server: &TlsServer) {
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut client = forebay.tls_client(&TlsClient::new("outer.test"));
            // It may be sent before the connection is closed, or not be.
            let _ = client.try_send("secret");
            client.read_to_end().0
        });
        assert!(upstream.try_accept_tls(server).is_err(), "the handshake is given up");
        assert_eq!(asking.join().expect("it does not panic"), b"");
    });
    forebay.await_access_log("] TLS 502");
    awaits_fault(forebay, "upstream", "upstream_certificate_bad", 1);
}

#[test]
fn what_is_decrypted_is_encrypted_again_and_the_endpoint_verified() {
    let (authority, other) = (Authority::new("inner"), Authority::new("other"));
    // No protocol is offered: a server that knows none of those that are would refuse the connection.
    let server = TlsServer::new(&authority.server(&["inner.test"])).alpn(&["of-its-own"]);
    let upstream = Upstream::new();
    let forebay = serving(TERMINATED, "TLSRoute", &upstream, &authority).start();
    let mut client = forebay.tls_client(&TlsClient::new("outer.test"));
    let mut peer = upstream.accept_tls(&server);
    let info = peer.tls_info();
    assert_eq!((info.name.as_deref(), info.alpn.as_deref()), (Some("inner.test"), None));
    converse(&mut client, &mut peer);

    let misnamed = TlsServer::new(&authority.server(&["outer.test"]));
    refused(&forebay, &upstream, &misnamed);
    let strange = TlsServer::new(&other.server(&["inner.test"]));
    refused(&serving(TERMINATED, "TLSRoute", &upstream, &authority).start(), &upstream, &strange);

    // Without the policy it is in clear, without a restart.
    forebay.replace("policy.yaml", "");
    forebay.await_that("the policy to be gone", || {
        let mut client = forebay.tls_client(&TlsClient::new("outer.test"));
        client.send("ping");
        upstream.accept().try_read_exactly(4).is_ok_and(|bytes| bytes == b"ping")
    });
}

#[test]
fn what_is_passed_through_stays_as_it_is() {
    let authority = Authority::new("inner");
    let upstream = Upstream::new();
    let forebay = serving(PASSED, "TLSRoute", &upstream, &authority).start();
    let server = TlsServer::new(&authority.server(&["outer.test"]));
    thread::scope(|scope| {
        let client = scope.spawn(|| forebay.tls_client(&TlsClient::new("outer.test").believing(&authority)));
        let mut peer = upstream.accept_tls(&server);
        let mut client = client.join().expect("it does not panic");
        assert_eq!(peer.tls_info().name.as_deref(), Some("outer.test"), "the name is the client's");
        converse(&mut client, &mut peer);
    });
}

#[test]
fn the_bytes_of_a_tcp_route_are_encrypted_too() {
    let authority = Authority::new("inner");
    let server = TlsServer::new(&authority.server(&["inner.test"]));
    let (port, upstream) = (Port::tcp(), Upstream::new());
    let listener = format!("{{name: tcp, port: {}, protocol: TCP}}", port.number());
    let _forebay = serving(&listener, "TCPRoute", &upstream, &authority).start();
    let mut client = Connection::to(port.address());
    let mut peer = upstream.accept_tls(&server);
    assert_eq!(peer.tls_info().name.as_deref(), Some("inner.test"));
    converse(&mut client, &mut peer);
}

#[test]
fn a_policy_that_cannot_be_obeyed_closes_the_service() {
    let upstream = Upstream::new();
    let forebay = serving(TERMINATED, "TLSRoute", &upstream, &Authority::new("inner"))
        .manifest(
            "policy.yaml",
            policy(&Authority::new("inner")).replace("name: authority}]", "name: missing}]"),
        )
        .start();
    let mut client = forebay.tls_client(&TlsClient::new("outer.test"));
    assert!(client.read_to_end().0.is_empty());
    assert!(upstream.is_left_alone(), "nothing is sent in clear");
    forebay.await_log("its BackendTLSPolicy cannot be obeyed");

    let folder = tempfile::tempdir().expect("a folder");
    for name in ["pair.yaml", "web.yaml", "gateway.yaml", "route.yaml", "policy.yaml"] {
        std::fs::copy(forebay.manifests().join(name), folder.path().join(name)).expect("a copy");
    }
    let (code, stdout, _) = run(&["check", folder.path().to_str().expect("a path")]);
    assert!(stdout.contains("(BackendNotFound)") && code == 1, "{stdout}");
}
