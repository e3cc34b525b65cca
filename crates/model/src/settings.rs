//! Settings of the proxy as a whole. Must not be in here: settings of single objects of the cluster.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use geo::Databases;
use ipnet::IpNet;
use serde::Serialize;

use crate::log::{Format, Output};
use crate::overload::Mode;
use crate::template::Template;
use crate::{
    AbuseSettings, AddressSet, BlockedHeaders, ClientBounds, ErrorPages, ListedValue, Networks, Replicas,
    SpanExport, StreamSettings, TlsSettings, Tracing,
};

/// Settings of the proxy as a whole. The defaults are ingress-nginx's.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// Limits and timeouts towards clients.
    pub client: ClientSettings,
    /// TLS with clients.
    pub tls: TlsSettings,
    /// Connections to endpoints.
    pub upstream: UpstreamConnections,
    /// How the client's address is determined, and the forwarding headers for endpoints.
    pub forwarded: ForwardedSettings,
    /// The access log.
    pub access_log: AccessLog,
    /// Clients whose behaviour is far off the others'.
    pub abuse: AbuseSettings,
    /// Settings of TCP and UDP streams.
    pub stream: StreamSettings,
    /// Clients that are refused everything (`block-cidrs`). Used for requests without a route, since routes
    /// have their own lists.
    pub blocked: Option<Networks>,
    /// Tracing of requests without a route; none where they are not traced.
    pub tracing: Option<Arc<Tracing>>,
    /// The collector of spans; none to send no spans. Trace headers to endpoints do not depend on it.
    pub span_export: Option<Arc<SpanExport>>,
    /// Clients that see in `X-Forebay-Reason` why a request was refused; none for nobody.
    pub reason_header: Option<Arc<AddressSet>>,
    /// Clients that are refused everything by their `User-Agent` or `Referer`; none where neither is checked.
    pub blocked_headers: Option<Box<BlockedHeaders>>,
    /// Handling of errors of requests without a route; routes have their own.
    pub error_pages: Option<Box<ErrorPages>>,
    /// Where ports are listened at.
    pub listen: ListenAddresses,
    /// Changes to the heads of all requests and responses; none in most configurations.
    pub heads: Option<Box<HeadSettings>>,
    /// Keeps the levels of compression even where a worker is short of CPU.
    pub keeps_compression_levels: bool,
    /// Whether shortages of the process itself are detected and have consequences.
    pub guard: Mode,
    /// Requests whose limit is counted in Redis are refused while that is not there, rather than counted here
    /// alone.
    pub limits_fail_closed: bool,
    /// The replicas that share caches, for routes that ask for it; none for a single replica.
    pub replicas: Option<Replicas>,
    /// The loaded databases of addresses; none where they are not used. Replicas may have different ones.
    #[serde(skip)]
    pub databases: Option<Databases>,
    /// Requests are counted by the client's country (`forebay-client-country-metrics`).
    pub counts_countries: bool,
}

/// Addresses that ports are listened at. By default all of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListenAddresses {
    /// Of IPv4; empty for all (`bind-address`).
    pub v4: Vec<Ipv4Addr>,
    /// Of IPv6; empty for all (`bind-address`).
    pub v6: Vec<Ipv6Addr>,
    /// Do not listen over IPv6 (`disable-ipv6`).
    pub without_v6: bool,
}

/// Changes to the heads of all requests and responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeadSettings {
    /// Headers of all responses, in place of the endpoint's; a header whose text is empty is not sent
    /// (`add-headers`).
    pub of_responses: Vec<(String, Template)>,
    /// Headers of endpoints that clients do not get (`hide-headers`).
    pub hidden: Vec<String>,
    /// The `Server` header of responses.
    pub server: ServerHeader,
    /// Headers of requests to endpoints, in place of the client's; a header whose text is empty is not sent
    /// (`proxy-set-headers`).
    pub of_requests: Vec<(String, Template)>,
    /// Responses over TLS say that HTTP/3 is offered (`Alt-Svc`).
    pub tells_of_http3: bool,
}

/// The `Server` header of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ServerHeader {
    /// There is none.
    #[default]
    None,
    /// It names this proxy (`server-tokens`).
    Own,
    /// The endpoint's header where it has one, and this proxy's name otherwise (with
    /// `allow-backend-server-header` too).
    Endpoint,
}

/// The request headers that are passed on, by the characters of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum HeaderNames {
    /// Letters, digits and dashes only.
    #[default]
    Plain,
    /// Underscores too (`enable-underscores-in-headers`).
    Underscores,
    /// All that a name may hold (`ignore-invalid-headers: false`).
    All,
}

/// Limits and timeouts towards clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// The request headers that are passed on; others are dropped.
    pub header_names: HeaderNames,
    /// Time that a stopping worker gives to requests in flight.
    pub shutdown_timeout: Duration,
    /// HTTP/2 streams of one connection that may be open at once.
    pub http2_streams_max: u32,
    /// Protocols that clients may upgrade to, in lower case (RFC 9110 section 7.8). Other upgrades are not
    /// requested from the endpoint, and the request is answered in HTTP.
    pub upgrade_protocols: Vec<String>,
    /// Time for a PROXY header where connections have to begin with one (`use-proxy-protocol`); none where
    /// they have not.
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

/// How long connections to endpoints are kept open, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpstreamConnections {
    /// Idle connections that a worker keeps for an endpoint.
    pub cap: PoolCap,
    /// Requests on one connection.
    pub requests: u64,
    /// Idle time after which a connection is closed.
    pub idle_timeout: Duration,
    /// Age after which a connection is not reused.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum PoolCap {
    /// As many as the recent past could have used at once.
    #[default]
    Auto,
    /// At most so many per worker, as nginx's `keepalive` has it; zero closes after each request.
    Fixed(u32),
}

/// How the client's address is determined, and the forwarding headers for endpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForwardedSettings {
    /// Trust `X-Forwarded-*` of a peer in [`trusted`](Self::trusted) (`use-forwarded-headers`).
    pub use_incoming: bool,
    /// Take the client's address from [`header`](Self::header) but replace the other headers
    /// (`enable-real-ip`).
    pub real_ip: bool,
    /// Peers whose forwarding headers are trusted (`proxy-real-ip-cidr`). ingress-nginx's default,
    /// `0.0.0.0/0`, trusts all peers.
    pub trusted: Vec<IpNet>,
    /// Header that carries the client's address (`forwarded-for-header`).
    pub header: String,
    /// Names in place of `X-Forwarded-For` and `X-Forwarded-Host`. Their received values are passed on as
    /// `X-Original-Forwarded-For` and `X-Original-Forwarded-Host`; a trusted peer names the host in the
    /// latter (`forwarded-for-header`, `forwarded-host-header`). None for the usual names.
    pub other_headers: Option<Box<ForwardedHeaders>>,
    /// Append to the incoming list of addresses instead of replacing it (`compute-full-forwarded-for`).
    pub compute_full: bool,
    /// Whether `X-Original-URI` is sent to endpoints.
    pub original_uri: bool,
    /// Make up an `X-Request-ID` where the client sent none.
    pub request_id: bool,
    /// Header in which a peer in [`trusted`](Self::trusted) states the priority of a request.
    pub priority_header: Option<Box<str>>,
}

/// Names of headers that hops in front set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForwardedHeaders {
    /// Of the client's address.
    pub address: String,
    /// Name of the header for the host.
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccessLog {
    /// Whether there is one.
    pub enabled: bool,
    /// The template of a line.
    pub format: Format,
    /// Targets of requests that are not logged, path and query (`skip-access-log-urls`).
    pub skip: Vec<ListedValue>,
    /// Logs requests for unknown hosts (`enable-access-log-for-default-backend`).
    pub unknown_hosts: bool,
    /// Logs requests to auth services, beside the requests that they decide on (`enable-auth-access-log`).
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
