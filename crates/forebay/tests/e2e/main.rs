//! The whole proxy over loopback: raw bytes in at one end, raw bytes out at the other, the real binary
//! between them.

mod abuse;
mod access;
mod acme;
mod acme_gateways;
mod answers;
mod api_keys;
mod api_server;
mod bench;
mod bench_compare;
mod bodies;
mod cache;
mod cache_purge;
mod cache_shared;
mod canary_steps;
mod client_auth;
mod commands;
mod connections;
mod console;
mod convert;
mod cookbook;
mod copied;
mod demo;
mod doctor;
mod ejection;
mod endpoints;
mod error_pages;
mod explain;
mod ext_authz;
mod ext_proc;
mod failover;
mod failures;
mod fcgi;
mod files;
mod files_coded;
mod files_odd;
mod firewall;
mod firewall_tools;
mod gate;
mod gateway;
mod gateway_backend_tls;
mod gateway_precedence;
mod gateway_traffic;
mod geoip;
mod grpc;
mod h2;
mod h2_cost;
mod heads;
mod health_checks;
mod health_together;
mod http3;
mod http3_changes;
mod http3_early;
mod http3_moves;
mod http3_passthrough;
mod http3_qpack;
mod http3_replicas;
mod http3_rolling;
mod jwt;
mod kubectl;
mod life;
mod limit_redis;
mod limit_shared;
mod matrix;
mod memory;
mod mirror;
mod namespace;
mod newcomer;
mod oidc;
mod pairs;
mod past;
mod paths;
mod policy;
mod proxy_protocol;
mod recorder;
mod refusals;
mod replicas;
mod routing;
mod seeing;
mod shell;
mod shortages;
mod snippet_contents;
mod snippets;
mod streams;
mod successor;
mod successor_workers;
mod tenants;
mod tls;
mod top;
mod topology;
mod traces;
mod upgrade;
mod upstream_tls;
mod watch_relay;
mod webhook;
mod worker_fault;

use testkit::{Forebay, Setup, Upstream};

/// The binary under test.
const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// A plain request for the host that is served by default.
const GET: &str = "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n";

/// A plain response.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn setup() -> Setup {
    Setup::new(FOREBAY)
}

/// `web.test` leads to this upstream, which gets bodies as they come.
fn streaming(upstream: &Upstream) -> Forebay {
    setup().endpoint(upstream.address()).annotation("proxy-request-buffering", "off").start()
}

/// `web.test` leads to this upstream, all settings being as they are by default.
fn serving(upstream: &Upstream) -> Forebay {
    setup().endpoint(upstream.address()).start()
}
