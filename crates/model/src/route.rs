//! Routes: which requests they match, and how those are served. Must not be in here: the matching itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::overload::Priority;
use crate::template::Template;
use crate::{
    Abuse, Access, Backends, CachePolicy, Conditions, DirectResponse, ErrorPages, Expression, Fallback,
    FastCgi, Files, InvalidPattern, Labels, Overload, Precedence, RequestFilters, ResponseFilters, Script,
    Shared, Tracing, Transfer,
};

/// The handling of requests for some paths of a host. [`Route::new`] makes a route with an action and nothing
/// else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The paths that the route matches.
    pub path: PathMatch,
    /// Conditions on the request beside its path; none for most routes, therefore on the heap.
    pub conditions: Option<Box<Conditions>>,
    /// Filters that run before the action; each of them may answer instead.
    pub request_filters: RequestFilters,
    /// Changes to the head of every response.
    pub response_filters: ResponseFilters,
    /// Steps and headers from snippets; none for most routes.
    pub script: Option<Box<Script>>,
    /// Access control; none where everybody may use the route. On the heap, since most routes have none.
    pub access: Option<Box<Access>>,
    /// The action that finally serves the request.
    pub action: Action,
    /// Handling of errors; none to pass them on unchanged.
    pub error_pages: Option<Arc<ErrorPages>>,
    /// Labels of the route in metrics and the access log. The same allocation for as long as they stay the
    /// same.
    pub labels: Arc<Labels>,
    /// Detection of clients with unusual behaviour.
    pub abuse: Abuse,
    /// Whether its requests are written to the access log.
    pub access_log: bool,
    /// Tracing of the route's requests; none where they are not traced.
    pub tracing: Option<Arc<Tracing>>,
    /// The redirect for a request that omits the final slash of the path.
    pub slash_redirect: SlashRedirect,
}

/// The form of the redirect to a path that ends in a slash, for a request that lacks it (nginx:
/// `absolute_redirect`, `port_in_redirect`). By default an absolute URL without a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlashRedirect {
    /// `Location` is the path alone.
    pub relative: bool,
    /// Include the port that the client connected to in `Location`, unless it is the scheme's default.
    pub names_port: bool,
}

impl Route {
    /// A route for everybody, without conditions and filters, in the access log.
    pub fn new(path: PathMatch, action: Action, labels: Arc<Labels>) -> Self {
        Self {
            path,
            conditions: None,
            request_filters: RequestFilters::default(),
            response_filters: ResponseFilters::default(),
            script: None,
            access: None,
            action,
            error_pages: None,
            labels,
            abuse: Abuse::default(),
            access_log: true,
            tracing: None,
            slash_redirect: SlashRedirect::default(),
        }
    }

    /// The precedence of the route among those with an equal path.
    pub fn precedence(&self) -> Precedence {
        self.conditions.as_ref().map_or(Precedence::default(), |conditions| conditions.precedence())
    }
}

/// The paths that a [`Route`] matches. They are compared with the normalised path: percent-decoded, `//`
/// merged, `.` and `..` resolved.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
pub struct PathMatch {
    kind: PathKind,
    path: Box<str>,
    /// Only [`PathKind::Regex`] has one.
    #[serde(skip)]
    expression: Option<Expression>,
}

/// How the path of a [`PathMatch`] is compared with that of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum PathKind {
    /// The whole path.
    Exact,
    /// The path itself and the paths below it, by path element: `/foo` matches `/foo` and `/foo/x`, not
    /// `/foobar`.
    Prefix,
    /// Every path whose beginning matches a regular expression, whatever the letter case: `/fo+` takes
    /// `/FOObar`.
    Regex,
}

impl PathKind {
    /// The name, as `pathType` of an Ingress has it: `Exact`, `Prefix` or `Regex`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::Prefix => "Prefix",
            Self::Regex => "Regex",
        }
    }
}

/// A path that no request could have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// No slash at the beginning.
    #[error("path {0:?} must begin with '/'")]
    NoSlash(String),
    /// A control character. Paths are written into heads: of redirects, and of cookies.
    #[error("path {0:?} has a control character")]
    Control(String),
    /// An expression that cannot be used.
    #[error("path {0:?} is no regular expression that can be used: {1}")]
    Expression(String, InvalidPattern),
}

impl PathMatch {
    /// All paths: the prefix `/`.
    pub fn root() -> Self {
        Self { kind: PathKind::Prefix, path: "/".into(), expression: None }
    }

    /// A path in the form in which it is compared.
    ///
    /// # Errors
    ///
    /// The path does not begin with a slash, or is an invalid expression.
    pub fn new(kind: PathKind, path: &str) -> Result<Self, InvalidPath> {
        if !path.starts_with('/') {
            return Err(InvalidPath::NoSlash(path.to_owned()));
        }
        if path.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(InvalidPath::Control(path.to_owned()));
        }
        let expression = match kind {
            PathKind::Exact | PathKind::Prefix => None,
            PathKind::Regex => Some(Expression::at_start(path)),
        };
        let expression =
            expression.transpose().map_err(|why| InvalidPath::Expression(path.to_owned(), why))?;
        Ok(Self { kind, path: path.into(), expression })
    }

    /// A match for the whole path, which must begin with a slash.
    ///
    /// # Errors
    ///
    /// The path does not begin with a slash.
    pub fn exact(path: &str) -> Result<Self, InvalidPath> {
        Self::new(PathKind::Exact, path)
    }

    /// A match for the path elements below a path, which must begin with a slash.
    ///
    /// # Errors
    ///
    /// The path does not begin with a slash.
    pub fn prefix(path: &str) -> Result<Self, InvalidPath> {
        Self::new(PathKind::Prefix, path)
    }

    /// A regular expression for the beginning of a path, which must begin with a slash.
    ///
    /// # Errors
    ///
    /// The text does not begin with a slash, or is an invalid expression.
    pub fn regex(path: &str) -> Result<Self, InvalidPath> {
        Self::new(PathKind::Regex, path)
    }

    /// The path as written.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The kind of comparison.
    pub fn kind(&self) -> PathKind {
        self.kind
    }

    /// The expression of [`PathKind::Regex`].
    pub fn expression(&self) -> Option<&Expression> {
        self.expression.as_ref()
    }
}

impl fmt::Debug for PathMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.kind, self.path)
    }
}

/// The action of a [`Route`] on a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Pass it to an endpoint.
    Forward(Forward),
    /// Answer it with a file. On the heap, since most routes have none.
    Files(Box<Files>),
    /// Answer it here. On the heap, since most routes have none.
    Respond(Box<DirectResponse>),
    /// Answer 404, as if no route matched. For routes that exist for the sake of their other settings.
    NotFound,
}

/// How a request is passed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forward {
    /// The backends that the request may be forwarded to.
    pub backends: Backends,
    /// How long the endpoint may take.
    pub timeouts: Shared<Timeouts>,
    /// When another try is made.
    pub retry: Shared<RetryPolicy>,
    /// Longest request body.
    pub body_bytes_max: BodyLimit,
    /// Value of `Connection` to the endpoint, where one is wished for.
    pub connection_header: Option<ConnectionHeader>,
    /// Clients are given the cookie of the cluster's [`Affinity`](crate::Affinity), if it has any.
    pub sets_affinity_cookie: bool,
    /// Headers that replace the default ones for endpoints. On the heap, since most routes have none.
    pub head: Option<Box<UpstreamHead>>,
    /// How requests and responses are passed between the client and the endpoint.
    pub transfer: Shared<Transfer>,
    /// Caching of responses; none for no caching.
    pub cache: Option<Arc<CachePolicy>>,
    /// Limits and queueing when endpoints receive more requests than they can answer; none for no detection
    /// at all.
    pub overload: Option<Arc<Overload>>,
    /// Priority of the requests when not all can be served, for whatever reason.
    pub priority: Priority,
    /// The clusters that serve while the backend is out of use; none for most routes. With it, the backends
    /// are never [`Backends::One`].
    pub fallback: Option<Box<Fallback>>,
}

impl Forward {
    /// Forwards to these backends, with nothing else set.
    pub fn to(backends: Backends) -> Self {
        Self {
            backends,
            timeouts: Timeouts::default().into(),
            retry: RetryPolicy::default().into(),
            body_bytes_max: BodyLimit::NONE,
            connection_header: None,
            sets_affinity_cookie: false,
            head: None,
            transfer: Transfer::default().into(),
            cache: None,
            overload: None,
            priority: Priority::default(),
            fallback: None,
        }
    }
}

/// Longest request body in bytes, or no limit. It takes one word, and there may be 100,000 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimit(u64);

impl BodyLimit {
    /// Bodies of any length.
    pub const NONE: Self = Self(u64::MAX);

    /// The number of bytes; none for no limit.
    #[inline]
    pub fn bytes(self) -> Option<u64> {
        (self != Self::NONE).then_some(self.0)
    }
}

impl From<Option<u64>> for BodyLimit {
    fn from(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::NONE, Self)
    }
}

impl Serialize for BodyLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bytes().serialize(serializer)
    }
}

/// Headers to an endpoint in place of the default ones. A header whose text is empty is not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpstreamHead {
    /// `Host`, in place of the client's. An empty text keeps the client's.
    pub host: Option<Template>,
    /// `X-Forwarded-Prefix`, in place of the client's.
    pub forwarded_prefix: Option<Template>,
    /// Parameters for endpoints that speak `FastCGI`; none for the standard parameters.
    pub fast_cgi: Option<Arc<FastCgi>>,
}

/// How long an endpoint may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// For the whole request, with all tries and the response's body; none for no limit. The time of a tunnel
    /// after an upgrade does not count.
    pub request: Option<Duration>,
    /// For one try, from its beginning to the end of the response; none for no limit. [`RetryOn::timeout`]
    /// says whether a try that exceeded it before its response began is repeated.
    pub backend_request: Option<Duration>,
    /// To accept the connection.
    pub connect: Duration,
    /// Between two reads of its response.
    pub read: Duration,
    /// Between two writes of the request.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            request: None,
            backend_request: None,
            connect: seconds(5),
            read: seconds(60),
            send: seconds(60),
        }
    }
}

/// When a request that failed is tried again, on another endpoint where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetryPolicy {
    /// Failures that lead to another try.
    pub on: RetryOn,
    /// Tries in all, the first one included; none for as many as there are endpoints.
    pub tries: Option<u32>,
    /// Time after which no further try begins; none for no limit.
    pub timeout: Option<Duration>,
    /// Least time between the end of a try and the next one; none to begin the next at once.
    pub backoff: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { on: RetryOn::default(), tries: Some(3), timeout: None, backoff: None }
    }
}

/// Failures that lead to another try (nginx: `proxy_next_upstream`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ConnectionHeader {
    /// `close`: one request per connection.
    Close,
    /// The `keep-alive` parameter.
    KeepAlive,
}
