//! Routes: which requests they take and what is done with them. Must not be in here: how a request is matched with them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::overload::Priority;
use crate::template::Template;
use crate::{
    Abuse, Access, Backends, CachePolicy, Conditions, ErrorPages, Expression, FastCgi, Files, InvalidPattern,
    Labels, Overload, Precedence, RequestFilters, ResponseFilters, Script, Tracing, Transfer,
};

/// What is done with the requests for some paths of a host. [`Route::new`] makes one that asks for nothing but its action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which paths.
    pub path: PathMatch,
    /// What requests have to be like besides; none where that makes no difference. On the heap, since most routes have none.
    pub conditions: Option<Box<Conditions>>,
    /// Steps before the action, each of which may answer instead.
    pub request_filters: RequestFilters,
    /// Changes to the head of every response.
    pub response_filters: ResponseFilters,
    /// What snippets ask for; none for most.
    pub script: Option<Box<Script>>,
    /// Who may use it; none where everybody may. On the heap, since most routes have none.
    pub access: Option<Box<Access>>,
    /// What is done in the end.
    pub action: Action,
    /// What becomes of errors; none where they are answered as they are.
    pub error_pages: Option<Arc<ErrorPages>>,
    /// What the route is called in metrics and the access log. The same allocation for as long as it stays the same.
    pub labels: Arc<Labels>,
    /// What is done about clients whose behaviour is far off the others'.
    pub abuse: Abuse,
    /// Whether its requests are written to the access log.
    pub access_log: bool,
    /// How its requests are traced; none where they are not.
    pub tracing: Option<Arc<Tracing>>,
    /// What clients are told that leave the final slash of its path out.
    pub slash_redirect: SlashRedirect,
}

/// The form of the redirect to a path that ends in a slash, for a request that lacks it (nginx: `absolute_redirect`,
/// `port_in_redirect`). By default an absolute URL without a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlashRedirect {
    /// `Location` is the path alone.
    pub relative: bool,
    /// `Location` names the port that the client connected to, unless it is the scheme's own.
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

    /// How it stands beside others with an equal path.
    pub fn precedence(&self) -> Precedence {
        self.conditions.as_ref().map_or(Precedence::default(), |conditions| conditions.precedence())
    }
}

/// Which paths a [`Route`] takes. Compared with the normalised path: percent-decoded, `//` merged, `.` and `..` resolved.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PathMatch {
    kind: PathKind,
    path: String,
    /// Of [`PathKind::Regex`].
    expression: Option<Expression>,
}

/// How the path of a [`PathMatch`] is compared with that of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathKind {
    /// The whole path.
    Exact,
    /// The path itself and what lies below it, by path element: `/foo` takes `/foo` and `/foo/x`, not `/foobar`.
    Prefix,
    /// Every path whose beginning matches a regular expression, whatever the letter case: `/fo+` takes `/FOObar`.
    Regex,
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
        Self { kind: PathKind::Prefix, path: "/".to_owned(), expression: None }
    }

    /// A path as it is to be compared.
    ///
    /// # Errors
    ///
    /// When it does not begin with a slash, or is an expression that cannot be used.
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
        Ok(Self { kind, path: path.to_owned(), expression })
    }

    /// The whole path, which must begin with a slash.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn exact(path: &str) -> Result<Self, InvalidPath> {
        Self::new(PathKind::Exact, path)
    }

    /// Path elements below a path, which must begin with a slash.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn prefix(path: &str) -> Result<Self, InvalidPath> {
        Self::new(PathKind::Prefix, path)
    }

    /// A regular expression for the beginning of a path, which must begin with a slash.
    ///
    /// # Errors
    ///
    /// When it does not, or cannot be used.
    pub fn regex(path: &str) -> Result<Self, InvalidPath> {
        Self::new(PathKind::Regex, path)
    }

    /// The path as written.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How it is compared.
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

/// What a [`Route`] does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all routes forward, and each request would follow the box"
)]
pub enum Action {
    /// Pass it to an endpoint.
    Forward(Forward),
    /// Answer it with a file. On the heap, since most routes have none.
    Files(Box<Files>),
    /// Answer it here.
    Respond(DirectResponse),
    /// Answer it as if no route took it: 404. For what is done before, which is a route's.
    NotFound,
}

/// An answer that needs no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectResponse {
    /// HTTP status.
    pub status: u16,
    /// Plain text for the client.
    pub body: String,
}

/// How a request is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// To whom.
    pub backends: Backends,
    /// How long the endpoint may take.
    pub timeouts: Timeouts,
    /// When another try is made.
    pub retry: RetryPolicy,
    /// Longest request body in bytes; none for no limit.
    pub body_bytes_max: Option<u64>,
    /// Value of `Connection` to the endpoint, where one is wished for.
    pub connection_header: Option<ConnectionHeader>,
    /// Clients are given the cookie of the cluster's [`Affinity`](crate::Affinity), if it has any.
    pub sets_affinity_cookie: bool,
    /// What the endpoint is told otherwise than by default. On the heap, since most routes have nothing of the kind.
    pub head: Option<Box<UpstreamHead>>,
    /// How requests and responses are passed between the client and the endpoint.
    pub transfer: Transfer,
    /// Which responses are kept; none for none.
    pub cache: Option<Arc<CachePolicy>>,
    /// What is done when more requests come than endpoints can answer; none where nothing is even found out about that.
    pub overload: Option<Arc<Overload>>,
    /// Who is served first where not everybody can be, whatever the reason for that is.
    pub priority: Priority,
}

/// Headers to an endpoint in place of those that every endpoint gets. A header whose text comes to nothing is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamHead {
    /// `Host`, in place of the client's. Where this text comes to nothing, the client's stays.
    pub host: Option<Template>,
    /// `X-Forwarded-Prefix`, in place of the client's.
    pub forwarded_prefix: Option<Template>,
    /// What endpoints that speak `FastCGI` are told beside the headers; none where it is the standard parameters.
    pub fast_cgi: Option<Arc<FastCgi>>,
}

/// How long an endpoint may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole request, all tries and the response's body included; none for no such limit. What a client and an endpoint say to
    /// each other after an upgrade is not part of it.
    pub request: Option<Duration>,
    /// For one try, from its beginning to the end of the response; none for no such limit. What counts as a try that was too slow before
    /// its response began is [`RetryOn::timeout`].
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// What counts as failed.
    pub on: RetryOn,
    /// Tries in all, the first one included; none for as many as there are endpoints.
    pub tries: Option<u32>,
    /// Time after which no further try is begun; none for no limit.
    pub timeout: Option<Duration>,
    /// Least time between the end of a try and the next one; none to begin the next at once.
    pub backoff: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { on: RetryOn::default(), tries: Some(3), timeout: None, backoff: None }
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
