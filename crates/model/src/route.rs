use std::sync::Arc;
use std::time::Duration;

use crate::{ClusterId, Filter};

/// What is done with the requests for some paths of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which paths.
    pub path: PathMatch,
    /// Steps before the action. At most one of a kind.
    pub filters: Vec<Filter>,
    /// What is done in the end.
    pub action: Action,
    /// What the route is called in metrics and the access log. The same allocation for as long as it stays the same.
    pub labels: Arc<Labels>,
    /// Whether its requests are written to the access log.
    pub access_log: bool,
}

/// Which paths a [`Route`] takes. Compared with the normalised path: percent-decoded, `//` merged, `.` and `..` resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathMatch {
    /// The whole path.
    Exact(String),
    /// The path itself and what lies below it, by path element: `/foo` takes `/foo` and `/foo/x`, not `/foobar`.
    Prefix(String),
    /// Every path that begins with these characters: `/foo` takes `/foobar` too.
    StartsWith(String),
}

/// A path that no request could have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("path {0:?} must begin with '/'")]
pub struct InvalidPath(String);

impl PathMatch {
    /// The path as written.
    pub fn path(&self) -> &str {
        match self {
            Self::Exact(path) | Self::Prefix(path) | Self::StartsWith(path) => path,
        }
    }

    /// The whole path, which must begin with a slash.
    pub fn exact(path: &str) -> Result<Self, InvalidPath> {
        absolute(path).map(Self::Exact)
    }

    /// Path elements below a path, which must begin with a slash.
    pub fn prefix(path: &str) -> Result<Self, InvalidPath> {
        absolute(path).map(Self::Prefix)
    }

    /// Characters that a path begins with, of which the first must be a slash.
    pub fn starts_with(path: &str) -> Result<Self, InvalidPath> {
        absolute(path).map(Self::StartsWith)
    }
}

fn absolute(path: &str) -> Result<String, InvalidPath> {
    if path.starts_with('/') { Ok(path.to_owned()) } else { Err(InvalidPath(path.to_owned())) }
}

/// What a [`Route`] does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Pass it to an endpoint of a cluster.
    Forward(Forward),
    /// Answer it here.
    Respond(Fixed),
}

/// An answer that needs no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// HTTP status.
    pub status: u16,
    /// Plain text for the client.
    pub body: String,
}

/// How a request is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// To whom.
    pub cluster: ClusterId,
    /// How long the endpoint may take.
    pub timeouts: Timeouts,
    /// When another try is made.
    pub retry: RetryPolicy,
    /// Longest request body in bytes; none for no limit.
    pub body_bytes_max: Option<u64>,
    /// Value of `Connection` to the endpoint, where one is wished for.
    pub connection_header: Option<ConnectionHeader>,
}

/// How long an endpoint may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To accept the connection.
    pub connect: Duration,
    /// Between two reads of its response.
    pub read: Duration,
    /// Between two writes of the request.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), read: Duration::from_secs(60), send: Duration::from_secs(60) }
    }
}

/// When a request that failed is tried again, on another endpoint where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// What counts as failed.
    pub on: RetryOn,
    /// Tries in all, the first one included; none for as many as there are endpoints.
    pub tries: Option<u32>,
    /// Time after which no further try is begun; none for no limit.
    pub timeout: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { on: RetryOn::default(), tries: Some(3), timeout: None }
    }
}

/// What counts as a failed try (nginx: `proxy_next_upstream`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOn {
    /// The connection could not be made, or broke before the response.
    pub error: bool,
    /// The endpoint was too slow.
    pub timeout: bool,
    /// The response was empty or malformed.
    pub invalid_header: bool,
    /// Responses with one of these statuses.
    pub statuses: Vec<u16>,
    /// Also try requests again whose method is not idempotent (POST, LOCK, PATCH).
    pub non_idempotent: bool,
}

impl Default for RetryOn {
    fn default() -> Self {
        Self {
            error: true,
            timeout: true,
            invalid_header: false,
            statuses: Vec::new(),
            non_idempotent: false,
        }
    }
}

/// A wished-for value of the `Connection` header towards an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionHeader {
    /// `close`: one request per connection.
    Close,
    /// `keep-alive`.
    KeepAlive,
}

/// What a route is called in metrics, in the access log and on the configuration page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// Namespace of the object that asked for the route.
    pub namespace: String,
    /// Name of the object that asked for the route.
    pub object: String,
    /// Service that the route forwards to, or empty.
    pub service: String,
    /// Port of that Service, as the object names it, or empty.
    pub service_port: String,
    /// The path as written.
    pub path: String,
    /// The host as written, or `_`.
    pub host: String,
}
