//! The features that a route uses, as bits, so that a request asks once whether any of a group is used and
//! does not visit the others.
//!
//! A feature that is added gets a bit here, and is entered where its bit is set: it costs requests without
//! it nothing.

use std::ops::BitOr;

use model::{Access, Action, Backends, Forward, Route, Settings};

/// A set of features that a route uses beyond passing requests on to one cluster as they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u32);

impl Needs {
    /// Steps of snippets, on requests and on heads.
    pub const SCRIPT: Self = Self(1);
    /// Redirects, rewrites and headers of requests.
    pub const REQUEST_FILTERS: Self = Self(1 << 1);
    /// Checks of clients.
    pub const ACCESS: Self = Self(1 << 2);
    /// Headers of responses, CORS among them.
    pub const RESPONSE_FILTERS: Self = Self(1 << 3);
    /// Shares of several backends, or a canary.
    pub const SEVERAL_BACKENDS: Self = Self(1 << 4);
    /// Headers that endpoints get in place of the usual ones.
    pub const UPSTREAM_HEAD: Self = Self(1 << 5);
    /// Error backends that answer in place of endpoints.
    pub const ERROR_PAGES: Self = Self(1 << 6);
    /// Responses that are kept in the cache.
    pub const CACHE: Self = Self(1 << 7);
    /// Compression, pace and read-ahead of responses, and changes to their addresses.
    pub const RESPONSE_POLICY: Self = Self(1 << 8);
    /// Spans of requests.
    pub const TRACING: Self = Self(1 << 9);
    /// Headers of all requests and all responses, by the settings.
    pub const HEADS: Self = Self(1 << 10);
    /// Clients that are refused for their `User-Agent` or `Referer`, by the settings.
    pub const BLOCKED_HEADERS: Self = Self(1 << 11);
    /// A web application firewall.
    pub const FIREWALL: Self = Self(1 << 12);
    /// Bodies that authorization services see.
    pub const AUTHZ_BODY: Self = Self(1 << 13);
    /// An external processor.
    pub const PROCESSOR: Self = Self(1 << 14);
    /// Replacements of texts in the content of responses.
    pub const REPLACEMENTS: Self = Self(1 << 15);
    /// Counts of requests by the client's country, by the settings.
    pub const COUNTRIES: Self = Self(1 << 16);
    /// A canary whose share grows over a time.
    pub const ROLLOUT: Self = Self(1 << 17);
    /// All features: those of a request whose route is not known.
    pub const ALL: Self = Self(u32::MAX);

    /// The features that may decide on a request before its backend is chosen.
    pub const BEFORE_BACKEND: Self = Self::any_of(&[
        Self::SCRIPT,
        Self::REQUEST_FILTERS,
        Self::ACCESS,
        Self::RESPONSE_FILTERS,
        Self::BLOCKED_HEADERS,
    ]);

    /// The features that may change the head of a request.
    pub const REQUEST_HEAD: Self = Self::any_of(&[
        Self::SCRIPT,
        Self::REQUEST_FILTERS,
        Self::ACCESS,
        Self::SEVERAL_BACKENDS,
        Self::UPSTREAM_HEAD,
        Self::ERROR_PAGES,
        Self::CACHE,
        Self::TRACING,
        Self::HEADS,
    ]);

    /// The features that may change the head of a response.
    pub const RESPONSE_HEAD: Self = Self::any_of(&[
        Self::SCRIPT,
        Self::ACCESS,
        Self::RESPONSE_FILTERS,
        Self::SEVERAL_BACKENDS,
        Self::ERROR_PAGES,
        Self::CACHE,
        Self::RESPONSE_POLICY,
        Self::HEADS,
    ]);

    /// The features that report a request beside metrics and access log.
    pub const REPORTS: Self =
        Self::any_of(&[Self::TRACING, Self::FIREWALL, Self::PROCESSOR, Self::COUNTRIES, Self::ROLLOUT]);

    /// The features that may read a response before its client is given any of it.
    pub const RESPONSE_READERS: Self =
        Self::any_of(&[Self::CACHE, Self::FIREWALL, Self::PROCESSOR, Self::REPLACEMENTS]);

    /// The features that may read the body of a request before its endpoint is selected.
    pub const BODY_READERS: Self = Self::any_of(&[Self::FIREWALL, Self::AUTHZ_BODY]);

    const fn any_of(features: &[Self]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < features.len() {
            bits |= features[at].0;
            at += 1;
        }
        Self(bits)
    }

    /// Whether any feature of a set is used.
    #[inline]
    pub fn has_any(self, features: Self) -> bool {
        self.0 & features.0 != 0
    }

    /// Whether no feature is used.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The features that a route uses.
    pub(crate) fn of_route(route: &Route) -> Self {
        let common = Self::default()
            .with(Self::SCRIPT, route.script.is_some())
            .with(Self::REQUEST_FILTERS, !route.request_filters.as_slice().is_empty())
            .with(Self::ACCESS, route.access.is_some())
            .with(Self::FIREWALL, route.access.as_ref().is_some_and(|access| access.firewall.is_some()))
            .with(Self::AUTHZ_BODY, route.access.as_deref().is_some_and(sees_body))
            .with(Self::PROCESSOR, route.access.as_ref().is_some_and(|access| access.processor.is_some()))
            .with(Self::RESPONSE_FILTERS, !route.response_filters.as_slice().is_empty())
            .with(Self::ERROR_PAGES, route.error_pages.is_some())
            .with(Self::TRACING, route.tracing.is_some());
        match &route.action {
            Action::Forward(forward) => common | Self::of_forward(forward),
            Action::Files(files) => common.with(Self::RESPONSE_POLICY, files.response.is_some()),
            Action::Respond(_) | Action::NotFound => common,
        }
    }

    fn of_forward(forward: &Forward) -> Self {
        Self::default()
            .with(Self::SEVERAL_BACKENDS, !matches!(forward.backends, Backends::One(_)))
            .with(Self::ROLLOUT, has_rollout(&forward.backends))
            .with(Self::UPSTREAM_HEAD, forward.head.is_some())
            .with(Self::CACHE, forward.cache.is_some())
            .with(Self::RESPONSE_POLICY, forward.transfer.response.is_some())
            .with(
                Self::REPLACEMENTS,
                forward.transfer.response.as_ref().is_some_and(|policy| policy.replacements.is_some()),
            )
    }

    /// The features that the settings ask for on all routes.
    pub(crate) fn of_settings(settings: &Settings) -> Self {
        Self::default()
            .with(Self::HEADS, settings.heads.is_some())
            .with(Self::BLOCKED_HEADERS, settings.blocked_headers.is_some())
            .with(Self::COUNTRIES, settings.counts_countries)
    }

    fn with(self, feature: Self, is_used: bool) -> Self {
        if is_used { self | feature } else { self }
    }
}

/// Whether there is a canary whose share grows over a time.
fn has_rollout(backends: &Backends) -> bool {
    matches!(backends, Backends::Canary(canary) if canary.rollout.is_some())
}

/// Whether an authorization service sees bodies.
fn sees_body(access: &Access) -> bool {
    access.ext_authz.iter().any(|authz| authz.check.body.is_some())
}

impl BitOr for Needs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{ClusterId, HeadSettings, Labels, PathMatch, UpstreamHead};

    use super::*;

    fn forward() -> Forward {
        Forward { body_bytes_max: Some(1 << 20).into(), ..Forward::to(Backends::One(ClusterId(0))) }
    }

    fn route(forward: Forward) -> Route {
        let path = PathMatch::prefix("/").unwrap();
        Route::new(path, Action::Forward(forward), Arc::new(Labels::default()))
    }

    #[test]
    fn a_route_that_forwards_needs_nothing() {
        assert!(Needs::of_route(&route(forward())).is_empty());
        assert!(Needs::of_settings(&Settings::default()).is_empty());
    }

    #[test]
    fn each_feature_sets_its_bit_and_no_other() {
        let head = Forward { head: Some(Box::new(UpstreamHead::default())), ..forward() };
        let guarded = Route { access: Some(Box::new(Access::default())), ..route(forward()) };
        let heads = Settings { heads: Some(Box::new(HeadSettings::default())), ..Settings::default() };
        for (needs, feature) in [
            (Needs::of_route(&route(head)), Needs::UPSTREAM_HEAD),
            (Needs::of_route(&guarded), Needs::ACCESS),
            (Needs::of_settings(&heads), Needs::HEADS),
        ] {
            assert_eq!(needs, feature);
        }
    }

    #[test]
    fn groups_say_where_a_feature_is_entered() {
        assert!(Needs::BEFORE_BACKEND.has_any(Needs::ACCESS) && !Needs::BEFORE_BACKEND.has_any(Needs::CACHE));
        assert!(!Needs::REQUEST_HEAD.has_any(Needs::RESPONSE_POLICY));
        assert!(
            Needs::RESPONSE_READERS.has_any(Needs::PROCESSOR) && Needs::REPORTS.has_any(Needs::PROCESSOR)
        );
        assert!(Needs::ALL.has_any(Needs::TRACING) && !Needs::default().has_any(Needs::ALL));
    }
}
