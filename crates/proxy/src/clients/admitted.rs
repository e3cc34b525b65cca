//! What follows for a request from the checks of its client, whether they let it in or not.

use std::sync::Arc;

use smallvec::SmallVec;

use super::limiter::Slot;
use super::quota::Told;

/// What the checks of a client have found out.
#[derive(Default)]
pub(crate) struct Admitted {
    /// Headers for the endpoint in place of the client's; without a value, there is no such header.
    pub(crate) upstream: Vec<(String, Option<Vec<u8>>)>,
    /// Values of variables of snippets, from the auth service.
    pub(crate) variables: Vec<(Arc<str>, Vec<u8>)>,
    /// Cookies for the client, from the auth service.
    pub(crate) cookies: Vec<Vec<u8>>,
    /// Whether the client gets them with every status.
    pub(crate) always_sets_cookies: bool,
    /// Its places among the requests that are at work, one for each subject that it is counted for.
    pub(crate) slots: SmallVec<[Slot; 1]>,
    /// What it is told of the limit that it is counted by.
    pub(crate) quota: Option<Told>,
}

impl Admitted {
    /// Whether nothing follows from it.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { upstream, variables, cookies, slots, quota, always_sets_cookies: _ } = self;
        upstream.is_empty()
            && variables.is_empty()
            && cookies.is_empty()
            && slots.is_empty()
            && quota.is_none()
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

    /// Has the endpoint get one header of this name, or none.
    pub(crate) fn tell(&mut self, name: &str, value: Option<Vec<u8>>) {
        match self.upstream.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = value,
            None => self.upstream.push((name.to_owned(), value)),
        }
    }
}
