use std::sync::Arc;

use serde::Serialize;

use crate::template::Template;
use crate::{
    Cors, CrossOrigin, Expression, HeaderChanges, HostName, Maintenance, Rare, RequestRedirect, UrlRewrite,
};

/// An action on a request before it is forwarded. A filter may answer the request instead.
///
/// Filters run in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum RequestFilter {
    /// Send clients that ask for `/` to this path of the same host, with 302 and without the query.
    AppRoot(Template),
    /// Send all clients elsewhere.
    Redirect(Redirect),
    /// Rewrite the path for the endpoint, or redirect the client. On the heap because of its size.
    Rewrite(Box<Rewrite>),
    /// Send clients that came in clear to the TLS port.
    TlsRedirect(TlsRedirect),
    /// Answer clients with a page that says that the route is under maintenance.
    Maintenance(Arc<Maintenance>),
    /// Redirect all clients to a URL that differs from theirs in some parts. On the heap because of its size.
    RequestRedirect(Box<RequestRedirect>),
    /// Rewrite the path or host for the endpoint.
    UrlRewrite(Arc<UrlRewrite>),
    /// Change the headers that endpoints get.
    Headers(Arc<HeaderChanges>),
}

/// An action on the head of a response, be it an endpoint's or the proxy's own.
///
/// Filters run in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ResponseFilter {
    /// Add CORS headers. Preflights are answered before the request filters run.
    Cors(Arc<Cors>),
    /// Add CORS headers as the Gateway API defines them. Preflights are answered before the request filters
    /// run.
    CrossOrigin(Arc<CrossOrigin>),
    /// Set these headers, in place of the endpoint's.
    SetHeaders(Arc<[(String, String)]>),
    /// Change the headers that endpoints have sent, or we.
    Headers(Arc<HeaderChanges>),
}

/// The filters of a route for one direction, in the order in which they run. At most one of each kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Filters<F>(Rare<F>);

/// The filters for requests.
pub type RequestFilters = Filters<RequestFilter>;

/// The filters for responses.
pub type ResponseFilters = Filters<ResponseFilter>;

/// A kind of filter with a fixed position in the order of execution: that of its variant in the enum.
pub trait Ordered {
    /// Position in the order, from 0.
    fn position(&self) -> u8;
}

/// Two filters of one kind: it is undefined which of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two filters of one kind")]
pub struct DuplicateFilter;

impl<F: Ordered> Filters<F> {
    /// Puts filters in order.
    ///
    /// # Errors
    ///
    /// When two are of one kind.
    pub fn new(mut filters: Vec<F>) -> Result<Self, DuplicateFilter> {
        filters.sort_by_key(F::position);
        if filters.windows(2).any(|pair| pair[0].position() == pair[1].position()) {
            return Err(DuplicateFilter);
        }
        Ok(Self(filters.into()))
    }

    /// The filters in the order of execution.
    pub fn as_slice(&self) -> &[F] {
        &self.0
    }
}

impl<F> Default for Filters<F> {
    fn default() -> Self {
        Self(Rare::default())
    }
}

impl Ordered for ResponseFilter {
    fn position(&self) -> u8 {
        match self {
            Self::Cors(_) => 0,
            Self::CrossOrigin(_) => 1,
            Self::SetHeaders(_) => 2,
            Self::Headers(_) => 3,
        }
    }
}

impl Ordered for RequestFilter {
    fn position(&self) -> u8 {
        match self {
            Self::AppRoot(_) => 0,
            Self::Redirect(_) => 1,
            Self::Rewrite(_) => 2,
            Self::TlsRedirect(_) => 3,
            Self::Maintenance(_) => 4,
            Self::RequestRedirect(_) => 5,
            Self::UrlRewrite(_) => 6,
            Self::Headers(_) => 7,
        }
    }
}

/// A redirect of all requests of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Redirect {
    /// 300 to 308.
    pub status: u16,
    /// Target of the redirect.
    pub to: RedirectTarget,
}

/// The `Location` of a [`Redirect`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum RedirectTarget {
    /// This URL, unchanged.
    Url(String),
    /// This text with the values of the request.
    Template(Box<Template>),
    /// This path on the same host, as an absolute URL.
    Path {
        /// The path, and a query if there is one.
        path: String,
        /// Include the port that the client connected to, unless it is the scheme's default.
        names_port: bool,
    },
    /// The same target on another host, without a final slash. The port is always named.
    Host(String),
}

/// Replaces the request's path (nginx: `rewrite PATTERN TARGET break`). The query stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rewrite {
    /// Expression for the normalised path. A path that does not match stays unchanged.
    pub pattern: Expression,
    /// The whole new path; `$1` is the first group of the pattern.
    pub target: Template,
    /// The target is an absolute URL: the client is sent there with 302.
    pub redirects: bool,
}

/// Redirect from clear text to TLS: `Location: https://<host without port><request URI>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TlsRedirect {
    /// 301, 302, 307 or 308.
    pub status: u16,
    /// Take the scheme that a trusted hop reported for the client's; otherwise only that of the connection
    /// counts.
    pub believes_hops: bool,
    /// Only clients of these names; none for all. A certificate need not be for all names of a host.
    pub only_for: Option<Arc<[HostName]>>,
    /// Keep a trailing slash; without this, one is removed.
    pub keep_trailing_slash: bool,
    /// Port to name in `Location`; none for the scheme's own.
    pub port: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_filters_of_a_kind_are_refused() {
        let redirect = |status| {
            RequestFilter::TlsRedirect(TlsRedirect {
                status,
                believes_hops: false,
                only_for: None,
                keep_trailing_slash: false,
                port: None,
            })
        };
        assert_eq!(RequestFilters::new(vec![redirect(301), redirect(308)]), Err(DuplicateFilter));
        assert_eq!(RequestFilters::new(vec![redirect(301)]).unwrap().as_slice(), [redirect(301)]);
    }
}
