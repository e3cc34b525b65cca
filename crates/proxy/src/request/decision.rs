//! The results of the checks of a request's client, whether they let it in or not: headers, cookies,
//! variables and slots.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;

use clients::quota::Remaining;
use clients::{RequestSlot, VerifiedToken};
use deciders::authz::Edit;
use identity::oidc::session::Session;
use model::KeyHolder;
use smallvec::SmallVec;
use wire::h1::Request;

use crate::request::inspection::{Inspection, TakenBody};
use crate::request::lookup;
use crate::request::processing::Processing;

/// The results of the checks of a client.
#[derive(Default)]
pub(crate) struct Decision {
    /// Headers for the endpoint in place of the client's; without a value, there is no such header.
    pub(crate) upstream: Vec<(String, Option<Vec<u8>>)>,
    /// Path and query for the endpoint in place of any others.
    pub(crate) target: Option<Vec<u8>>,
    /// The client that has shown its key.
    pub(crate) client: Option<Arc<KeyHolder>>,
    /// The name of a client that has shown a token or has signed in.
    pub(crate) user: Option<Box<str>>,
    /// The token of the client.
    pub(crate) token: Option<Arc<VerifiedToken>>,
    /// The session of a client that has signed in.
    pub(crate) session: Option<Arc<Session>>,
    /// Values of variables of snippets, from the auth service.
    pub(crate) variables: Vec<(Arc<str>, Vec<u8>)>,
    /// Cookies for the client, from the auth service.
    pub(crate) cookies: Vec<Vec<u8>>,
    /// Cookies of a session that has been renewed, which the client gets with every status.
    pub(crate) session_cookies: Vec<String>,
    /// Whether the client gets `cookies` with every status.
    pub(crate) always_sets_cookies: bool,
    /// Its slots among the concurrent requests, one for each subject that it is counted for.
    pub(crate) slots: SmallVec<[RequestSlot; 1]>,
    /// The transaction of the route's firewall.
    pub(crate) inspection: Option<Inspection>,
    /// The conversation with the route's external processor.
    pub(crate) processing: Option<Box<Processing>>,
    /// The fields about its quota.
    pub(crate) quota: Option<RateLimitFields>,
    /// The body that was read for an authorization service, unless the firewall has read it.
    pub(crate) body: RefCell<Option<Box<TakenBody>>>,
    /// Changes to the response's headers, from authorization services.
    pub(crate) response: Vec<Edit>,
}

impl Decision {
    /// Whether there are no results.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            upstream,
            target,
            client,
            user,
            token,
            session,
            variables,
            cookies,
            session_cookies,
            slots,
            quota,
            inspection,
            body,
            response,
            processing,
            always_sets_cookies: _,
        } = self;
        upstream.is_empty()
            && target.is_none()
            && client.is_none()
            && user.is_none()
            && token.is_none()
            && session.is_none()
            && variables.is_empty()
            && cookies.is_empty()
            && session_cookies.is_empty()
            && slots.is_empty()
            && quota.is_none()
            && inspection.is_none()
            && body.borrow().is_none()
            && response.is_empty()
            && processing.is_none()
    }

    /// The value of a variable that the auth service has given.
    pub(crate) fn variable(&self, name: &str) -> Option<&[u8]> {
        self.variables.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.as_slice())
    }

    /// The cookies that go with a response: nginx's `add_header` adds to these statuses only.
    pub(crate) fn cookies_for(&self, status: u16) -> &[Vec<u8>] {
        let is_usual = matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308);
        if is_usual || self.always_sets_cookies { &self.cookies } else { &[] }
    }

    /// The body that was read for a check, for the first that asks.
    pub(crate) fn take_body(&self) -> Option<TakenBody> {
        let own = self.body.borrow_mut().take().map(|body| *body);
        own.or_else(|| self.inspection.as_ref().and_then(Inspection::take_body))
    }

    /// Whether all of a body was read for a check, and nobody has taken it yet.
    pub(crate) fn has_whole_body(&self) -> bool {
        self.body.borrow().as_ref().is_some_and(|body| body.is_whole)
            || self.inspection.as_ref().is_some_and(Inspection::has_whole_body)
    }

    /// Has the endpoint get only those of its cookies that are kept. Several checks may each take some out.
    pub(crate) fn keep_cookies(&mut self, head: &[u8], parsed: &Request, is_kept: impl Fn(&[u8]) -> bool) {
        let told = self.upstream.iter().find(|(name, _)| name.eq_ignore_ascii_case("Cookie"));
        let told = told.map(|(_, value)| value.clone().unwrap_or_default());
        let mut all: Vec<_> = match &told {
            Some(told) => told.split(|&byte| byte == b';').map(<[u8]>::trim_ascii).collect(),
            None => lookup::cookies(head, parsed).collect(),
        };
        all.retain(|pair| !pair.is_empty());
        let kept: Vec<_> = all.iter().copied().filter(|pair| is_kept(pair)).collect();
        if kept.len() < all.len() {
            self.tell("Cookie", Some(kept.join(&b"; "[..])).filter(|rest| !rest.is_empty()));
        }
    }

    /// Has the endpoint get one header of this name, or none.
    pub(crate) fn tell(&mut self, name: &str, value: Option<Vec<u8>>) {
        match self.upstream.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = value,
            None => self.upstream.push((name.to_owned(), value)),
        }
    }
}

/// The values of `RateLimit-Policy` and `RateLimit`, as in draft-ietf-httpapi-ratelimit-headers-09.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateLimitFields {
    pub(crate) policy: String,
    pub(crate) limit: String,
}

impl RateLimitFields {
    /// Both fields are lists of strings with parameters (RFC 9651): a policy by its name with its quota and
    /// window, and what remains of it for how long.
    pub(crate) fn of(all: &[Remaining]) -> Self {
        let (mut policy, mut limit) = (String::new(), String::new());
        for one in all {
            let (requests, seconds) = (one.window.requests, one.window.seconds);
            let separator = if policy.is_empty() { "" } else { ", " };
            let _ = write!(policy, "{separator}\"{requests}/{seconds}s\";q={requests};w={seconds}");
            let _ =
                write!(limit, "{separator}\"{requests}/{seconds}s\";r={};t={}", one.requests, one.seconds);
        }
        Self { policy, limit }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use model::QuotaWindow;

    use super::*;

    #[test]
    fn each_check_takes_its_cookies_out() {
        let (mut decision, request) = (Decision::default(), Request::default());
        decision.tell("cookie", Some(b"token=1; a=2;session=3".to_vec()));
        decision.keep_cookies(b"", &request, |pair| !pair.starts_with(b"token="));
        decision.keep_cookies(b"", &request, |pair| !pair.starts_with(b"session="));
        assert_eq!(decision.upstream, [("cookie".to_owned(), Some(b"a=2".to_vec()))]);
        decision.keep_cookies(b"", &request, |_| false);
        assert_eq!(decision.upstream, [("cookie".to_owned(), None)]);
    }

    #[test]
    fn the_fields_are_lists_of_named_policies() {
        let remaining = |requests, seconds, rest, until| {
            let number = |number| NonZeroU32::new(number).unwrap();
            let window = QuotaWindow { requests: number(requests), seconds: number(seconds) };
            Remaining { window, requests: rest, seconds: until }
        };
        let fields = RateLimitFields::of(&[remaining(10, 1, 9, 1), remaining(100, 60, 0, 37)]);
        assert_eq!(fields.policy, r#""10/1s";q=10;w=1, "100/60s";q=100;w=60"#);
        assert_eq!(fields.limit, r#""10/1s";r=9;t=1, "100/60s";r=0;t=37"#);
    }
}
