use std::sync::Arc;

use crate::Cors;

/// What is done with a request before it is forwarded. A filter may answer the request instead.
///
/// Filters run in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFilter {
    /// Send clients that came in clear to the TLS port.
    TlsRedirect(TlsRedirect),
}

/// The request filters of a route, in the order in which they run. At most one of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilters(Box<[RequestFilter]>);

/// What is done with the head of a response, whoever made it.
///
/// Filters run in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseFilter {
    /// Tell browsers which pages may read it. Preflights are answered here, before the request filters.
    Cors(Arc<Cors>),
}

/// The response filters of a route, in the order in which they run. At most one of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseFilters(Box<[ResponseFilter]>);

/// Two filters of one kind, of which nothing says which one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two filters of one kind")]
pub struct DuplicateFilter;

impl RequestFilters {
    /// Puts filters in order.
    ///
    /// # Errors
    ///
    /// When two are of one kind.
    pub fn new(mut filters: Vec<RequestFilter>) -> Result<Self, DuplicateFilter> {
        filters.sort_by_key(RequestFilter::position);
        if filters.windows(2).any(|pair| pair[0].position() == pair[1].position()) {
            return Err(DuplicateFilter);
        }
        Ok(Self(filters.into()))
    }

    /// The filters in the order in which they run.
    pub fn as_slice(&self) -> &[RequestFilter] {
        &self.0
    }
}

impl ResponseFilters {
    /// Puts filters in order.
    ///
    /// # Errors
    ///
    /// When two are of one kind.
    pub fn new(mut filters: Vec<ResponseFilter>) -> Result<Self, DuplicateFilter> {
        filters.sort_by_key(ResponseFilter::position);
        if filters.windows(2).any(|pair| pair[0].position() == pair[1].position()) {
            return Err(DuplicateFilter);
        }
        Ok(Self(filters.into()))
    }

    /// The filters in the order in which they run.
    pub fn as_slice(&self) -> &[ResponseFilter] {
        &self.0
    }
}

impl ResponseFilter {
    /// Position in the order in which filters run: that of the enum.
    fn position(&self) -> u8 {
        match self {
            Self::Cors(_) => 0,
        }
    }
}

impl RequestFilter {
    /// Position in the order in which filters run: that of the enum.
    fn position(&self) -> u8 {
        match self {
            Self::TlsRedirect(_) => 0,
        }
    }
}

/// Redirect from clear text to TLS: `Location: https://<host without port><request URI>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRedirect {
    /// 301, 302, 307 or 308.
    pub status: u16,
    /// Redirect by the scheme that a trusted hop reported, even where this proxy has no certificate for the host.
    pub force: bool,
    /// Path prefixes that are never redirected (`/.well-known/acme-challenge`).
    pub except: Vec<String>,
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
                force: false,
                except: Vec::new(),
                keep_trailing_slash: false,
                port: None,
            })
        };
        assert_eq!(RequestFilters::new(vec![redirect(301), redirect(308)]), Err(DuplicateFilter));
        assert_eq!(RequestFilters::new(vec![redirect(301)]).unwrap().as_slice(), [redirect(301)]);
    }
}
