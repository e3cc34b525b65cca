//! The connection to an API server, and what is asked of it once. What is made of a cluster's objects,
//! `testing/cluster` tests.

use std::fs;

use tempfile::TempDir;
use testkit::{Authority, Canned, Forebay, Setup, TlsServer, Upstream};

use crate::FOREBAY;

/// A user without credentials. The address of the server is given otherwise.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: 'http://192.0.2.1'}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
current-context: test
";

/// Forebay at the API server with this URL, and the folder with its kubeconfig.
fn following(url: &str, arguments: &[String]) -> (Forebay, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG).expect("it takes a file");
    let setup = Setup::following(FOREBAY, &kubeconfig).arguments([format!("--apiserver-host={url}")]);
    (setup.arguments(arguments).variable("NODE_NAME", "one").launch(), folder)
}

/// The same over TLS at this server, believing an authority.
fn believing(authority: &Authority, server: &Upstream) -> (Forebay, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.crt");
    fs::write(&file, authority.pem()).expect("it takes a file");
    let url = format!("https://localhost:{}", server.address().port());
    let (forebay, _) = following(&url, &[format!("--certificate-authority={}", file.display())]);
    (forebay, folder)
}

#[test]
fn the_authority_of_the_api_server_can_be_given() {
    let authority = Authority::new("cluster");
    let server = TlsServer::new(&authority.server(&["localhost"]));
    let upstream = Upstream::new();
    let _running = believing(&authority, &upstream);
    let asked = upstream.accept_tls(&server).read_head();
    assert!(asked.starts_with("GET /api"), "{asked}");

    let upstream = Upstream::new();
    let _running = believing(&Authority::new("other"), &upstream);
    assert!(upstream.try_accept_tls(&server).is_err(), "it is another authority's");
}

#[test]
fn the_zone_of_the_node_is_looked_up_where_endpoints_of_it_are_preferred() {
    // A Node and an empty list at once.
    let answer = r#"{"metadata": {"name": "one", "labels": {"topology.kubernetes.io/zone": "east"}, "resourceVersion": "1"}, "items": []}"#;
    let length = answer.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    let api = Canned::answering(head + answer);
    let url = format!("http://{}", api.address());
    let (forebay, _folder) = following(&url, &["--enable-topology-aware-routing".to_owned()]);
    let told = forebay.await_log("endpoints of this node or zone are preferred");
    assert!(told.contains("east"), "{told}");
    assert!(api.heads().iter().any(|head| head.starts_with("GET /api/v1/nodes/one ")));
}
