//! A proxy on Pingora for `cargo xtask peers`: what its documentation begins with, and the headers that
//! every peer sends.
//!
//! `pingora-peer LISTEN THREADS IDLE CLIENTS PROTOCOL UPSTREAM...`: IDLE is how many idle upstream
//! connections each thread may keep; CLIENTS and PROTOCOL say what is spoken to clients and to upstreams:
//! `http1` or `h2c`, both in the clear.
//!
//! Must not be in here: anything that makes Pingora faster than who follows its documentation has it.

use std::env;
use std::error::Error;

use async_trait::async_trait;
use pingora_core::apps::HttpServerOptions;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{ErrorType, OkOrErr, Result};
use pingora_http::RequestHeader;
use pingora_load_balancing::LoadBalancer;
use pingora_load_balancing::selection::RoundRobin;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

/// As many as nginx lets a client have; Pingora's own limit is one.
const STREAMS_MAX: usize = 128;

struct Proxy {
    upstreams: LoadBalancer<RoundRobin>,
    /// The major version of HTTP.
    upstream_version: u8,
    /// The port for clients.
    port: String,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, _: &mut ()) -> Result<Box<HttpPeer>> {
        let upstream = self.upstreams.select(b"", 256);
        let upstream = upstream.or_err(ErrorType::ConnectNoRoute, "there is no upstream")?;
        let mut peer = HttpPeer::new(upstream, false, String::new());
        peer.options.set_http_version(self.upstream_version, self.upstream_version);
        peer.options.max_h2_streams = STREAMS_MAX;
        Ok(Box::new(peer))
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        _: &mut (),
    ) -> Result<()> {
        let client = session.client_addr().and_then(|address| address.as_inet());
        let client = client.map(|address| address.ip().to_string()).unwrap_or_default();
        let host = request.headers.get("Host").map(|host| host.as_bytes().to_vec());
        let authority = || request.uri.authority().map(|authority| authority.as_str().into());
        let host = host.or_else(authority).unwrap_or_default();
        request.insert_header("X-Request-ID", format!("{:032x}", rand::random::<u128>()))?;
        request.insert_header("X-Real-IP", &client)?;
        request.insert_header("X-Forwarded-For", &client)?;
        request.insert_header("X-Forwarded-Host", host)?;
        request.insert_header("X-Forwarded-Port", &self.port)?;
        request.insert_header("X-Forwarded-Proto", "http")?;
        request.insert_header("X-Forwarded-Scheme", "http")?;
        request.insert_header("X-Scheme", "http")
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [listen, threads, idle, clients, protocol, upstreams @ ..] = arguments.as_slice() else {
        return Err("usage: pingora-peer LISTEN THREADS IDLE CLIENTS PROTOCOL UPSTREAM...".into());
    };
    let mut server = Server::new_with_opt_and_conf(
        None,
        ServerConf {
            threads: threads.parse()?,
            upstream_keepalive_pool_size: idle.parse()?,
            // Whoever ends it has no client left.
            grace_period_seconds: Some(0),
            graceful_shutdown_timeout_seconds: Some(0),
            ..ServerConf::default()
        },
    );
    server.bootstrap();
    let port = listen.rsplit(':').next().unwrap_or_default().to_owned();
    let upstream_version = if protocol == "h2c" { 2 } else { 1 };
    let upstreams = LoadBalancer::try_from_iter(upstreams)?;
    let mut service = http_proxy_service(&server.configuration, Proxy { upstreams, upstream_version, port });
    let proxy = service.app_logic_mut().ok_or("the service has no proxy")?;
    let mut options = HttpServerOptions::default();
    options.h2c = clients == "h2c";
    proxy.server_options = Some(options);
    service.add_tcp(listen);
    server.add_service(service);
    server.run_forever();
}
