//! Whether a shared cache may store a response, and whether that is useful (RFC 9111 sections 3 and 3.5).

use super::directives::{Directives, RequestDirectives};
use super::freshness::Freshness;
use super::head::Head;
use super::policy::{Policy, is_heuristically_cacheable};
use super::vary::Vary;

/// A response that could be stored, and the request that it answers.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Method of the request.
    pub method: &'a [u8],
    /// Head of the request.
    pub request: Head<'a>,
    /// Cache directives of the request.
    pub asked: &'a RequestDirectives,
    /// Status of the response.
    pub status: u16,
    /// Head of the response.
    pub response: Head<'a>,
    /// Directives of the response for this cache.
    pub directives: &'a Directives,
    /// Freshness of the response.
    pub freshness: &'a Freshness,
}

/// The reason for not storing a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStorable {
    /// Only responses to GET are stored. A response to POST could be with a `Content-Location` (RFC 9110
    /// section 9.3.3), which is hardly ever sent.
    #[error("method")]
    Method,
    /// An interim response, a 304, or a response with `must-understand` and a status that this cache does not
    /// know.
    #[error("status")]
    Status,
    /// A 206, or any response but a 200 to a request for a part: 416 and 400 may concern only the part.
    #[error("partial")]
    Partial,
    /// The response has `no-store`.
    #[error("no-store")]
    NoStore,
    /// The request has `no-store`.
    #[error("request-no-store")]
    RequestNoStore,
    /// The response has `private`.
    #[error("private")]
    Private,
    /// The request has `Authorization`, and the response does not allow sharing (section 3.5).
    #[error("authorization")]
    Authorization,
    /// The response sets a cookie, and does not state its lifetime.
    #[error("set-cookie")]
    SetCookie,
    /// The response has `Vary: *`, so it matches no other request.
    #[error("vary")]
    Vary,
    /// The response has no lifetime or is already stale, and cannot be validated.
    #[error("no-freshness")]
    NoFreshness,
}

impl Candidate<'_> {
    /// Whether the response may be stored and could be used.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn check(&self, policy: &Policy<'_>) -> Result<(), NotStorable> {
        if self.method != b"GET" {
            return Err(NotStorable::Method);
        }
        self.check_status()?;
        self.check_directives()?;
        if self.request.has(b"authorization") && !self.is_for_everybody() {
            return Err(NotStorable::Authorization);
        }
        if self.sets_cookie() && !(policy.cookies_if_explicit && self.freshness.explicit) {
            return Err(NotStorable::SetCookie);
        }
        if Vary::of(self.response).is_none() {
            return Err(NotStorable::Vary);
        }
        if self.is_of_use() { Ok(()) } else { Err(NotStorable::NoFreshness) }
    }

    fn check_status(&self) -> Result<(), NotStorable> {
        match self.status {
            206 => Err(NotStorable::Partial),
            status if status != 200 && self.request.has(b"range") => Err(NotStorable::Partial),
            0..200 | 304 => Err(NotStorable::Status),
            status if self.directives.must_understand && !is_understood(status) => Err(NotStorable::Status),
            _ => Ok(()),
        }
    }

    fn check_directives(&self) -> Result<(), NotStorable> {
        // Section 5.2.2.3: for a cache that understands the status, `no-store` beside `must-understand` has
        // no meaning.
        if self.directives.no_store && !self.directives.must_understand {
            return Err(NotStorable::NoStore);
        }
        if self.directives.private {
            return Err(NotStorable::Private);
        }
        if self.asked.no_store { Err(NotStorable::RequestNoStore) } else { Ok(()) }
    }

    /// Whether a response to an authenticated request may be shared (section 3.5).
    fn is_for_everybody(&self) -> bool {
        self.directives.public || self.directives.must_revalidate || self.directives.s_maxage.is_some()
    }

    fn sets_cookie(&self) -> bool {
        [&b"set-cookie"[..], b"set-cookie2"].iter().any(|name| {
            self.response.has(name) && !self.directives.withheld.iter().any(|field| **field == **name)
        })
    }

    /// Whether the last condition of section 3 is met, and a later request could be answered with the
    /// response.
    fn is_of_use(&self) -> bool {
        let may_be_stored =
            self.freshness.explicit || self.directives.public || is_heuristically_cacheable(self.status);
        let can_be_validated = self.response.has(b"etag") || self.response.has(b"last-modified");
        let can_be_used =
            !self.freshness.no_cache && self.freshness.useless_from() > self.freshness.response_time;
        may_be_stored && (can_be_validated || can_be_used)
    }
}

/// Whether a final status is known, as `must-understand` requires (RFC 9111 section 5.2.2.3): those of RFC
/// 9110 section 15, except 206 and 304, which are never stored.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}
