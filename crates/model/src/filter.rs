use std::sync::Arc;

use crate::template::Template;
use crate::{Cors, CrossOrigin, Expression, HeaderChanges, HostName, RequestRedirect, UrlRewrite};

/// What is done with a request before it is forwarded. A filter may answer the request instead.
///
/// Filters run in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFilter {
    /// Send clients that ask for `/` to this path of the same host, with 302 and without the query.
    AppRoot(Template),
    /// Send all clients elsewhere.
    Redirect(Redirect),
    /// Have the endpoint asked for another path, or the client go elsewhere. On the heap, since it is large.
    Rewrite(Box<Rewrite>),
    /// Send clients that came in clear to the TLS port.
    TlsRedirect(TlsRedirect),
    /// Send all clients to a URL that differs from theirs in some parts. On the heap, since it is large.
    RequestRedirect(Box<RequestRedirect>),
    /// Have the endpoint asked for another path or host.
    UrlRewrite(Arc<UrlRewrite>),
    /// Change the headers that endpoints get.
    Headers(Arc<HeaderChanges>),
}

/// What is done with the head of a response, whoever made it.
///
/// Filters run in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseFilter {
    /// Tell browsers which pages may read it. Preflights are answered here, before the request filters.
    Cors(Arc<Cors>),
    /// Tell browsers which pages may read it, as the Gateway API has it. Preflights are answered here, before the request filters.
    CrossOrigin(Arc<CrossOrigin>),
    /// Have these headers, in place of the endpoint's.
    SetHeaders(Arc<[(String, String)]>),
    /// Change the headers that endpoints have sent, or we.
    Headers(Arc<HeaderChanges>),
}

/// The filters of a route for one direction, in the order in which they run. At most one of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters<F>(Box<[F]>);

/// What is done with requests.
pub type RequestFilters = Filters<RequestFilter>;

/// What is done with responses.
pub type ResponseFilters = Filters<ResponseFilter>;

/// A kind of filter that has its place in the order in which filters run: that of its enum.
pub trait Ordered {
    /// Place in the order, from 0.
    fn position(&self) -> u8;
}

/// Two filters of one kind, of which nothing says which one counts.
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

    /// The filters in the order in which they run.
    pub fn as_slice(&self) -> &[F] {
        &self.0
    }
}

impl<F> Default for Filters<F> {
    fn default() -> Self {
        Self(Box::default())
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
            Self::RequestRedirect(_) => 4,
            Self::UrlRewrite(_) => 5,
            Self::Headers(_) => 6,
        }
    }
}

/// A redirect of all requests of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 300 to 308.
    pub status: u16,
    /// Where to.
    pub to: RedirectTarget,
}

/// What a [`Redirect`] has as `Location`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectTarget {
    /// This text as it is.
    Url(String),
    /// This text with the values of the request.
    Template(Box<Template>),
    /// This path on the same host, as an absolute URL.
    Path {
        /// The path, and a query if there is one.
        path: String,
        /// Name the port that the client connected to, unless it is the scheme's own.
        names_port: bool,
    },
    /// The same target on another host, without a final slash. The port is always named.
    Host(String),
}

/// Another target in place of the request's (nginx: `rewrite PATTERN TARGET break`). The query stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Is looked for in the normalised path. Where it is not found, nothing happens.
    pub pattern: Expression,
    /// The whole new path; `$1` is what the first group of the pattern has found.
    pub target: Template,
    /// The target is an absolute URL: the client is sent there with 302.
    pub redirects: bool,
}

/// Redirect from clear text to TLS: `Location: https://<host without port><request URI>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRedirect {
    /// 301, 302, 307 or 308.
    pub status: u16,
    /// Take the scheme that a trusted hop reported for the client's; otherwise only that of the connection counts.
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
