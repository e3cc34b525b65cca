//! The objects of the cluster, and the addresses of everything: hosts, Services, settings, certificates.
//!
//! Must not be in here: how they change.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use lab::Network;
use serde_json::{Value, json};
use testkit::manifest::{Ingress, config_map, service, settings, tls_secret};
use testkit::{Authority, Certificate};

use crate::names::NAME;

/// Hosts by what is peculiar about them.
pub(crate) const CALM: &str = "calm.test";
pub(crate) const CHURN: &str = "churn.test";
pub(crate) const MOODY: &str = "moody.test";
pub(crate) const CACHE: &str = "cache.test";
pub(crate) const CANARY: &str = "canary.test";
pub(crate) const MIRROR: &str = "mirror.test";
pub(crate) const AUTH: &str = "auth.test";
pub(crate) const LIMIT: &str = "limit.test";
pub(crate) const SHARED: &str = "shared.test";
pub(crate) const OUTSIDE: &str = "outside.test";
pub(crate) const BUFFERED: &str = "buffered.test";
pub(crate) const GRPC: &str = "grpc.test";
/// The host whose redirect has the number of the last change in it.
pub(crate) const BEACON: &str = "beacon.test";
/// Prefix of its redirect, before the number.
pub(crate) const BEACON_LOCATION: &str = "http://soak.test/";
/// Hosts `extra-N.test`, which come and go.
pub(crate) const EXTRA: &str = "extra.test";

/// All hosts that are always there.
pub(crate) const HOSTS: [&str; 12] =
    [CALM, CHURN, MOODY, CACHE, CANARY, MIRROR, AUTH, LIMIT, SHARED, OUTSIDE, BUFFERED, GRPC];

/// Hosts that come and go.
pub(crate) const EXTRAS: usize = 300;
/// Requests of one client a second that `limit.test` allows.
pub(crate) const LIMIT_RPS: u32 = 5;
/// Secret with the certificate of all hosts.
pub(crate) const SECRET: &str = "certificate";

/// Ports of endpoints by temper.
const CALM_PORT: u16 = 8080;
const CHURN_PORT: u16 = 8081;
const MOODY_PORT: u16 = 8082;
const GARBAGE_PORT: u16 = 8083;
const CANARY_PORT: u16 = 8084;
const AUTH_PORT: u16 = 8085;
const GRPC_PORT: u16 = 8086;
const ECHO_PORT: u16 = 8087;
const API_PORT: u16 = 6443;
const REDIS_PORT: u16 = 6379;
/// Ports of the TCP and UDP services.
pub(crate) const TCP_PORT: u16 = 9000;
pub(crate) const UDP_PORT: u16 = 9001;
/// Port of the admin server.
pub(crate) const ADMIN_PORT: u16 = 10254;
const HTTPS_PORT: u16 = 443;

/// One of the addresses that the backend has for the proxy, from 0.
fn backend(number: usize) -> IpAddr {
    Network::backends().nth(number).map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

fn at(number: usize, port: u16) -> SocketAddr {
    SocketAddr::new(backend(number), port)
}

/// The endpoints of Service `calm`.
pub(crate) fn calm() -> [SocketAddr; 2] {
    [at(0, CALM_PORT), at(1, CALM_PORT)]
}

/// The endpoints of Service `churn`, which come and go.
pub(crate) fn churn() -> [SocketAddr; 3] {
    [at(0, CHURN_PORT), at(1, CHURN_PORT), at(2, CHURN_PORT)]
}

pub(crate) fn moody() -> SocketAddr {
    at(2, MOODY_PORT)
}

/// The endpoint that answers with what is no HTTP.
pub(crate) fn garbage() -> SocketAddr {
    at(2, GARBAGE_PORT)
}

pub(crate) fn canary() -> SocketAddr {
    at(3, CANARY_PORT)
}

pub(crate) fn auth() -> SocketAddr {
    at(4, AUTH_PORT)
}

pub(crate) fn grpc() -> SocketAddr {
    at(1, GRPC_PORT)
}

pub(crate) fn echo() -> SocketAddr {
    at(1, ECHO_PORT)
}

/// The Service outside of the cluster, at port 80 of its address.
pub(crate) fn outside() -> SocketAddr {
    at(3, Network::HTTP)
}

pub(crate) fn api_server() -> SocketAddr {
    at(0, API_PORT)
}

pub(crate) fn redis() -> SocketAddr {
    at(0, REDIS_PORT)
}

pub(crate) fn name_server() -> IpAddr {
    backend(4)
}

/// A port of the proxy for clients.
pub(crate) fn proxy(port: u16) -> SocketAddr {
    SocketAddr::new(Network::PROXY.ip(), port)
}

pub(crate) fn https() -> SocketAddr {
    proxy(HTTPS_PORT)
}

/// A certificate for all hosts.
pub(crate) fn certificate(authority: &Authority) -> Certificate {
    let mut names = HOSTS.to_vec();
    names.push("*.test");
    authority.server(&names)
}

/// The objects of documents as the manifests of tests have them.
pub(crate) fn parse(documents: &str) -> Vec<Value> {
    let documents = documents.split("---\n").filter(|document| !document.trim().is_empty());
    documents.map(|document| serde_json::from_str(document).expect("manifests of tests are JSON")).collect()
}

/// The settings that are never changed, and one that is.
pub(crate) fn settings_with(keep_alive_requests: u32) -> Vec<Value> {
    let format = "soak $pid $status id=$http_x_soak_id ingress=$ingress_name";
    let entries = [
        ("log-format-upstream", format.to_owned()),
        ("forebay-http3", "on".to_owned()),
        ("worker-shutdown-timeout", "240s".to_owned()),
        ("keep-alive-requests", keep_alive_requests.to_string()),
        ("client-body-buffer-size", "8k".to_owned()),
        ("use-gzip", "false".to_owned()),
        ("forebay-cache-harmless-headers", "X-Soak-Id".to_owned()),
        ("ssl-redirect", "false".to_owned()),
        ("enable-access-log-for-default-backend", "true".to_owned()),
    ];
    let entries: Vec<(String, String)> =
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    parse(&settings(&entries))
}

/// The Ingress of a host, with a timeout that changes without any effect.
pub(crate) fn ingress(host: &str, seconds: u32) -> Value {
    let name = host.trim_end_matches(".test");
    let mut ingress = Ingress::new(name).tls_from(&[host], SECRET);
    let service = match host {
        CHURN | MOODY | OUTSIDE | GRPC => name,
        _ => "calm",
    };
    ingress = ingress.path(host, "Prefix", "/", service);
    let read_timeout = if host == MOODY { "2".to_owned() } else { (60 + seconds).to_string() };
    ingress = ingress.annotation("proxy-read-timeout", &read_timeout).annotation("proxy-body-size", "32m");
    ingress = match host {
        CACHE => ingress.annotation("forebay.io/cache", "true"),
        MIRROR => ingress.annotation("mirror-target", &format!("http://{}$request_uri", moody())),
        AUTH => ingress.annotation("auth-url", &format!("http://{}/auth", auth())),
        LIMIT => {
            ingress.annotation("limit-rps", &LIMIT_RPS.to_string()).annotation("limit-burst-multiplier", "1")
        }
        SHARED => ingress
            .annotation("forebay.io/limit-requests", "20/1s")
            .annotation("forebay.io/limit-shared", "true"),
        BUFFERED => ingress.annotation("proxy-request-buffering", "on"),
        GRPC => ingress.annotation("backend-protocol", "GRPC"),
        _ => ingress.annotation("proxy-request-buffering", "off"),
    };
    one(&ingress.document())
}

/// The canary's Ingress, with this percentage.
pub(crate) fn canary_ingress(percent: u32) -> Value {
    let ingress = Ingress::new("canary-of").path(CANARY, "Prefix", "/", "canary");
    let ingress = ingress.annotation("canary", "true").annotation("canary-weight", &percent.to_string());
    one(&ingress.document())
}

/// The Ingress of a host that comes and goes.
pub(crate) fn extra_ingress(number: usize) -> Value {
    let ingress = Ingress::new(&format!("extra-{number}"));
    one(&ingress.path(&extra_host(number), "Prefix", "/", "calm").document())
}

pub(crate) fn extra_host(number: usize) -> String {
    format!("extra-{number}.test")
}

/// The Ingress of the beacon, at this change.
pub(crate) fn beacon(number: u64) -> Value {
    let ingress = Ingress::new("beacon").path(BEACON, "Prefix", "/", "calm");
    one(&ingress.annotation("permanent-redirect", &format!("{BEACON_LOCATION}{number}")).document())
}

/// An Ingress with a mistake, which concerns nobody else.
pub(crate) fn broken_ingress(number: u64) -> Value {
    let ingress = Ingress::new(&format!("broken-{}", number % 4)).path("broken.test", "Prefix", "/", "none");
    let mistake = ["proxy-body-size", "limit-rps", "auth-url", "canary-weight"][(number % 4) as usize];
    one(&ingress.annotation(mistake, "no such value").document())
}

/// The `EndpointSlices` of Service `churn`: one for each endpoint.
pub(crate) fn churn_slice(number: usize) -> Value {
    let all = parse(&service("churn", &churn()));
    all.into_iter().nth(1 + number).expect("a Service and three slices")
}

/// The Secret with a certificate.
pub(crate) fn secret(certificate: &Certificate) -> Value {
    one(&tls_secret(SECRET, certificate))
}

/// All objects at the start.
pub(crate) fn all(certificate: &Certificate) -> Vec<Value> {
    let mut objects = settings_with(1000);
    objects.push(secret(certificate));
    for (name, endpoints) in [
        ("calm", &calm()[..]),
        ("churn", &churn()),
        ("moody", &[moody(), garbage()]),
        ("canary", &[canary()]),
        ("grpc", &[grpc()]),
        ("echo", &[echo()]),
    ] {
        objects.extend(parse(&service(name, endpoints)));
    }
    objects.push(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "outside"},
        "spec": {"type": "ExternalName", "externalName": NAME, "ports": [{"port": 80}]},
    }));
    let datagrams = service("datagrams", &[echo()]).replace("\"port\":", "\"protocol\": \"UDP\", \"port\":");
    objects.extend(parse(&datagrams));
    let streams = [("tcp", TCP_PORT, "default/echo:80"), ("udp", UDP_PORT, "default/datagrams:80")];
    for (name, port, target) in streams {
        objects.extend(parse(&config_map(name, &[(&port.to_string(), target)])));
    }
    objects.extend(HOSTS.iter().map(|host| ingress(host, 0)));
    objects.push(canary_ingress(50));
    objects.push(beacon(0));
    objects
}

fn one(document: &str) -> Value {
    parse(document).into_iter().next().expect("one document")
}
