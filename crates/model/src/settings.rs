//! What holds for the proxy as a whole. Must not be in here: what an object of the cluster can ask for.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::log::{Format, Output};
use crate::overload::Mode;
use crate::template::Template;
use crate::{
    AbuseSettings, AddressSet, BlockedHeaders, ClientBounds, ErrorPages, ListedValue, Networks, Replicas,
    SpanExport, StreamSettings, TlsSettings, Tracing,
};

/// What holds for the proxy as a whole. The defaults are ingress-nginx's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Towards clients.
    pub client: ClientSettings,
    /// TLS with clients.
    pub tls: TlsSettings,
    /// Connections to endpoints.
    pub upstream: UpstreamConnections,
    /// Who the client is, and what an endpoint is told about it.
    pub forwarded: ForwardedSettings,
    /// The access log.
    pub access_log: AccessLog,
    /// Clients whose behaviour is far off the others'.
    pub abuse: AbuseSettings,
    /// What is passed on as it is.
    pub stream: StreamSettings,
    /// Clients that get nothing at all (`block-cidrs`): asked for requests that no route takes, since routes have their own lists.
    pub blocked: Option<Networks>,
    /// How requests are traced that no route takes; none where they are not.
    pub tracing: Option<Arc<Tracing>>,
    /// Where spans are sent; none to send none. What endpoints are told of traces does not depend on it.
    pub span_export: Option<Arc<SpanExport>>,
    /// Clients that are told in `X-Forebay-Reason` why a request was refused; none where nobody is.
    pub reason_header: Option<Arc<AddressSet>>,
    /// Clients that get nothing at all, by what they say of themselves; none where nobody is refused for that.
    pub blocked_headers: Option<Box<BlockedHeaders>>,
    /// What becomes of errors of requests that no route takes; routes have their own.
    pub error_pages: Option<Box<ErrorPages>>,
    /// Where ports are listened at.
    pub listen: ListenAddresses,
    /// Changes to the heads of all requests and responses; none where there are none, which is what nearly everybody has.
    pub heads: Option<Box<HeadSettings>>,
    /// Levels of compression stay what they are even where a worker is short of CPU.
    pub keeps_compression_levels: bool,
    /// Whether anything is found out, and done, about what the process itself has too little of.
    pub guard: Mode,
    /// Requests whose limit is counted in Redis are refused while that is not there, rather than counted here alone.
    pub limits_fail_closed: bool,
    /// Who shares the cache of routes that ask for that; none where nobody does.
    pub replicas: Option<Replicas>,
}

/// Addresses that ports are listened at. By default all of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenAddresses {
    /// Of IPv4; empty for all (`bind-address`).
    pub v4: Vec<Ipv4Addr>,
    /// Of IPv6; empty for all (`bind-address`).
    pub v6: Vec<Ipv6Addr>,
    /// Nothing is listened at over IPv6 (`disable-ipv6`).
    pub without_v6: bool,
}

/// Changes to the heads of all requests and responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadSettings {
    /// Headers of all responses, in place of the endpoint's; one whose text comes to nothing is left out (`add-headers`).
    pub of_responses: Vec<(String, Template)>,
    /// Headers of endpoints that clients do not get (`hide-headers`).
    pub hidden: Vec<String>,
    /// What clients are told of the server.
    pub server: ServerHeader,
    /// Headers for endpoints, in place of the client's; one whose text comes to nothing is left out (`proxy-set-headers`).
    pub of_requests: Vec<(String, Template)>,
}

/// The `Server` header of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerHeader {
    /// There is none.
    #[default]
    None,
    /// It names this proxy (`server-tokens`).
    Own,
    /// It is the endpoint's where there is one, and names this proxy otherwise (with `allow-backend-server-header` too).
    Endpoint,
}

/// Which headers of requests are passed on, by the characters of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderNames {
    /// Letters, digits and dashes only.
    #[default]
    Plain,
    /// Underscores too (`enable-underscores-in-headers`).
    Underscores,
    /// All that a name may hold (`ignore-invalid-headers: false`).
    All,
}

/// What clients may do, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSettings {
    /// To send a request head, from its first byte.
    pub header_timeout: Duration,
    /// Between two reads of a request body.
    pub body_timeout: Duration,
    /// Between two writes of a response.
    pub send_timeout: Duration,
    /// Between two requests; zero closes after each.
    pub keep_alive_timeout: Duration,
    /// Requests on one connection.
    pub keep_alive_requests: u64,
    /// Longest request line or header field in bytes (nginx: the size of `large_client_header_buffers`).
    pub line_bytes_max: usize,
    /// Longest request head in bytes (nginx: number times size of `large_client_header_buffers`).
    pub head_bytes_max: usize,
    /// Which headers are passed on; others are left out.
    pub header_names: HeaderNames,
    /// Time that a stopping worker gives to requests in flight.
    pub shutdown_timeout: Duration,
    /// HTTP/2 streams of one connection that may be open at once.
    pub http2_streams_max: u32,
    /// Protocols that clients may change to by `Upgrade`, in lower case (RFC 9110 section 7.8). What is left out is asked of no
    /// endpoint, and the request is answered in HTTP.
    pub upgrade_protocols: Vec<String>,
    /// Time for a PROXY header where connections have to begin with one (`use-proxy-protocol`); none where they have not.
    pub proxy_header_timeout: Option<Duration>,
    /// How slow clients may be, and how many connections there may be.
    pub bounds: ClientBounds,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            send_timeout: Duration::from_secs(60),
            keep_alive_timeout: Duration::from_secs(75),
            keep_alive_requests: 1000,
            line_bytes_max: 8 << 10,
            head_bytes_max: 4 * (8 << 10),
            header_names: HeaderNames::default(),
            shutdown_timeout: Duration::from_secs(240),
            http2_streams_max: 128,
            upgrade_protocols: vec!["websocket".to_owned()],
            proxy_header_timeout: None,
            bounds: ClientBounds::default(),
        }
    }
}

/// How long connections to endpoints are kept, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConnections {
    /// Idle connections that a worker keeps for an endpoint.
    pub cap: PoolCap,
    /// Requests on one connection.
    pub requests: u64,
    /// Idle time after which a connection is closed.
    pub idle_timeout: Duration,
    /// Age after which a connection is not used again.
    pub lifetime: Duration,
}

impl Default for UpstreamConnections {
    fn default() -> Self {
        Self {
            cap: PoolCap::Auto,
            requests: 10_000,
            idle_timeout: Duration::from_secs(60),
            lifetime: Duration::from_secs(3600),
        }
    }
}

/// How many idle connections are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolCap {
    /// As many as the recent past could have used at once.
    #[default]
    Auto,
    /// At most so many per worker, as nginx's `keepalive` has it; zero closes after each request.
    Fixed(u32),
}

/// Who the client is, and what an endpoint is told about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardedSettings {
    /// Trust `X-Forwarded-*` of a peer in [`trusted`](Self::trusted) (`use-forwarded-headers`).
    pub use_incoming: bool,
    /// Take the client's address from [`header`](Self::header) but replace the other headers (`enable-real-ip`).
    pub real_ip: bool,
    /// Peers that are believed (`proxy-real-ip-cidr`). ingress-nginx's default, `0.0.0.0/0`, stands for everybody.
    pub trusted: Vec<IpNet>,
    /// Header that carries the client's address (`forwarded-for-header`).
    pub header: String,
    /// Other headers than `X-Forwarded-For` and `X-Forwarded-Host` that are told apart from ours under the names
    /// `X-Original-Forwarded-For` and `X-Original-Forwarded-Host`; the latter also is the one in which a trusted peer names the host
    /// (`forwarded-for-header`, `forwarded-host-header`). None where neither is another one.
    pub other_headers: Option<Box<ForwardedHeaders>>,
    /// Append to the incoming list of addresses instead of replacing it (`compute-full-forwarded-for`).
    pub compute_full: bool,
    /// Send `X-Original-URI`.
    pub original_uri: bool,
    /// Make up an `X-Request-ID` where the client sent none.
    pub request_id: bool,
    /// Header in which a peer in [`trusted`](Self::trusted) says how important a request is.
    pub priority_header: Option<Box<str>>,
}

/// Names of headers that hops in front set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedHeaders {
    /// Of the client's address.
    pub address: String,
    /// Of the host that was asked for.
    pub host: String,
}

impl Default for ForwardedSettings {
    fn default() -> Self {
        Self {
            use_incoming: false,
            real_ip: false,
            trusted: ["0.0.0.0/0", "::/0"].map(|all| all.parse().expect("a literal network")).to_vec(),
            header: "X-Forwarded-For".to_owned(),
            other_headers: None,
            compute_full: false,
            original_uri: false,
            request_id: true,
            priority_header: None,
        }
    }
}

/// The access log.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// Whether there is one.
    pub enabled: bool,
    /// Of what a line consists.
    pub format: Format,
    /// Targets of requests that are not logged, path and query (`skip-access-log-urls`).
    pub skip: Vec<ListedValue>,
    /// Requests for hosts that nothing is served for are logged (`enable-access-log-for-default-backend`).
    pub unknown_hosts: bool,
    /// Requests to auth services are logged, beside those that they are about (`enable-auth-access-log`).
    pub auth: bool,
    /// Where its lines go (`access-log-path`, `http-access-log-path`, `enable-syslog`).
    pub output: Output,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self {
            enabled: true,
            format: Format::default(),
            skip: Vec::new(),
            unknown_hosts: false,
            auth: false,
            output: Output::default(),
        }
    }
}
