//! The steps of a request up to its endpoints, by name, for who wants to be told of each. Serving a request
//! tells nobody, and costs nothing for it.
//!
//! Never in here: the order of the steps, which is `serve`'s.

/// A step of a request on its way to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// `User-Agent` and `Referer` are compared with those that are blocked everywhere.
    BlockedHeaders,
    /// The route is looked up by host and path.
    Route,
    /// Guards of the whole host: closed hosts, certificates of clients.
    HostGuards,
    /// Clients that ask for `/` are sent elsewhere.
    AppRoot,
    /// The steps of a snippet that are for the whole host.
    HostScript,
    /// A location of a host's snippet takes the request.
    Location,
    /// The length of the body that is announced.
    BodyLength,
    /// Whether the route is closed, since something that guards it cannot be enforced.
    Closed,
    /// The question of a browser whether it may ask (CORS).
    Preflight,
    /// The steps of a snippet that are for the route.
    RouteScript,
    /// Clients are sent elsewhere.
    Redirect,
    /// The endpoint is asked for another path.
    Rewrite,
    /// Clients in clear are sent to the TLS port.
    TlsRedirect,
    /// The route is under maintenance, except for some clients.
    Maintenance,
    /// The endpoint gets other headers than the client sent.
    RequestHeaders,
    /// Whose endpoints take the request, and whether there are any.
    Backend,
    /// Guards of the host, for clients in clear.
    GuardsInClear,
    /// The rules of the web application firewall.
    Firewall,
    /// Rates, and requests at work at a time.
    Limits,
    /// Addresses of clients.
    Networks,
    /// Clients show a key.
    ApiKeys,
    /// Clients show a token.
    Jwt,
    /// The user's name and password are checked.
    BasicAuth,
    /// Clients sign in at a provider (`OpenID Connect`).
    Oidc,
    /// An auth service is asked.
    ExternalAuth,
    /// An authorization service is asked.
    ExtAuthz,
    /// An external processor gets the request, and later its response.
    Processor,
    /// The length of a body that is read whole before an endpoint is asked. This and what follows concern
    /// requests that are passed on.
    Buffering,
    /// Headers that endpoints get in place of the client's.
    UpstreamHead,
    /// The cache may answer, and may store the answer.
    Cache,
    /// The overload guard, which refuses requests by priority while Forebay is short of something.
    Guard,
    /// A copy of the request goes elsewhere.
    Mirror,
    /// How an endpoint is picked.
    Balance,
    /// The times that an endpoint has.
    Timeouts,
    /// When another endpoint is tried.
    Retries,
    /// How many requests endpoints have at a time, and how long others wait.
    Overload,
    /// Changes to responses.
    Responses,
    /// Texts in the content of responses are replaced.
    Replacements,
    /// The content codings of responses.
    Codings,
    /// Whose responses take the place of errors.
    ErrorPages,
    /// The request becomes a span, of which the endpoint is told.
    Tracing,
}

/// Observes the steps of a request.
pub(crate) trait Watch: Copy {
    /// A step has been done; `goes_on` says whether it lets the request pass.
    fn note(self, stage: Stage, goes_on: bool);

    /// The status to take for the answer of an auth service, which is not asked then; none to ask.
    fn assumed(self) -> Option<u16>;

    /// Whether the request is only explained: nothing that later requests see may change.
    fn explains(self) -> bool {
        self.assumed().is_some()
    }

    /// Notes the step that gave a result.
    fn see<T, E>(self, stage: Stage, result: Result<T, E>) -> Result<T, E> {
        self.note(stage, result.is_ok());
        result
    }
}

/// Observes nothing, at no cost.
#[derive(Clone, Copy)]
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    #[inline]
    fn note(self, _: Stage, _: bool) {}

    #[inline]
    fn assumed(self) -> Option<u16> {
        None
    }
}
