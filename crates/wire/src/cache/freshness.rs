//! The lifetime and the age of a response, and their consequences for a request (RFC 9111 section 4.2, RFC
//! 5861, RFC 8246).

use std::time::Duration;

use super::directives::{Directives, RequestDirectives};
use super::head::Head;
use super::policy::{Policy, is_heuristically_cacheable};
use super::syntax::{SECONDS_MAX, seconds};
use crate::date;

/// The time at which the head of a response had arrived, and the delay since the beginning of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time of arrival, in seconds since 1970.
    pub response: u64,
    /// The delay in whole seconds. It is not the difference of two times in seconds, which can be 1 for a
    /// millisecond.
    pub delay: u32,
}

impl Times {
    /// The times of a request and its response, given since 1970. A clock that was set back causes no delay.
    pub fn between(request: Duration, response: Duration) -> Self {
        let delay = response.saturating_sub(request).as_secs().min(u64::from(SECONDS_MAX));
        Self { response: response.as_secs(), delay: delay as u32 }
    }
}

/// The facts that decide about the use of a stored response; computed once, when it is stored or validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Seconds for which the response is fresh (section 4.2.1).
    pub lifetime: u32,
    /// The age at arrival (`corrected_initial_age` of section 4.2.3).
    pub initial_age: u32,
    /// The time of arrival.
    pub response_time: u64,
    /// The `Date`, or the time of arrival: of several responses that match a request, the latest is used.
    pub date: u64,
    /// Seconds after the end of the lifetime for which the response is used while another is fetched.
    pub stale_while_revalidate: u32,
    /// Seconds after the end of the lifetime for which the response is used if no other is available.
    pub stale_if_error: u32,
    /// The response must not be used when it is stale, whatever a request allows (section 4.2.4).
    pub forbids_stale: bool,
    /// The response must be validated before each use.
    pub no_cache: bool,
    /// The response does not change while it is fresh (RFC 8246).
    pub immutable: bool,
    /// The response itself states its lifetime; it is neither a guess nor the route's default.
    pub explicit: bool,
}

/// Whether a stored response may be used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The response is fresh.
    Fresh,
    /// The response is stale, and the client accepts that (`max-stale`).
    Stale,
    /// The response is used, and another one is fetched meanwhile.
    StaleWhileRevalidate,
    /// The response is used only after the endpoint has validated it.
    Revalidate,
}

impl Freshness {
    /// Bytes of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = 36;

    /// Determines the freshness of a response.
    pub fn of(
        status: u16,
        response: Head<'_>,
        directives: &Directives,
        times: Times,
        policy: &Policy<'_>,
    ) -> Self {
        let date = date_of(response, b"date", times.response).unwrap_or(times.response);
        let explicit = explicit_lifetime(response, directives, date, times.response);
        let lifetime = explicit
            .or_else(|| implicit_lifetime(status, response, directives, date, times.response, policy));
        let revalidates = directives.no_cache || directives.must_revalidate || directives.proxy_revalidate;
        let forbids_stale = revalidates || directives.s_maxage.is_some();
        // Section 4.2.4 forbids stale use after an applicable s-maxage. A window in the same response is the
        // sender's own exception from that, and content delivery networks treat it so; a window of the route
        // is none.
        let window = |named: Option<u32>, else_: u32| match named {
            _ if revalidates => 0,
            Some(seconds) => seconds,
            None if forbids_stale => 0,
            None => else_,
        };
        Self {
            lifetime: lifetime.unwrap_or(0),
            initial_age: initial_age(response, date, times),
            response_time: times.response,
            date,
            stale_while_revalidate: window(
                directives.stale_while_revalidate,
                policy.grace.stale_while_revalidate,
            ),
            stale_if_error: window(directives.stale_if_error, policy.grace.stale_if_error),
            forbids_stale,
            no_cache: directives.no_cache,
            immutable: directives.immutable,
            explicit: explicit.is_some(),
        }
    }

    /// The age in seconds (section 4.2.3), which is the value of `Age`. A clock that was set back makes no
    /// response younger than at its arrival.
    pub fn age(&self, now: u64) -> u32 {
        let resident = now.saturating_sub(self.response_time).min(u64::from(SECONDS_MAX)) as u32;
        self.initial_age.saturating_add(resident).min(SECONDS_MAX)
    }

    /// Seconds for which the response is still fresh; negative if it is stale.
    pub fn ttl(&self, now: u64) -> i64 {
        i64::from(self.lifetime) - i64::from(self.age(now))
    }

    /// Whether the response is fresh (section 4.2).
    pub fn is_fresh(&self, now: u64) -> bool {
        self.ttl(now) > 0
    }

    /// Whether the response may be used for a request. If requests have no influence, `asked` is the default.
    pub fn verdict(&self, now: u64, asked: &RequestDirectives) -> Verdict {
        let (age, ttl) = (self.age(now), self.ttl(now));
        if self.no_cache || asked.no_cache {
            return Verdict::Revalidate;
        }
        // RFC 8246 section 2: a reload, which has `max-age=0`, is no reason to validate an immutable
        // response.
        let is_too_old = asked.max_age.is_some_and(|max| age > max) && !(self.immutable && ttl > 0);
        if is_too_old || asked.min_fresh.is_some_and(|min| ttl < i64::from(min)) {
            return Verdict::Revalidate;
        }
        if ttl > 0 {
            Verdict::Fresh
        } else if -ttl < i64::from(self.stale_while_revalidate) {
            Verdict::StaleWhileRevalidate
        } else if !self.forbids_stale && asked.max_stale.is_some_and(|max| -ttl <= i64::from(max)) {
            Verdict::Stale
        } else {
            Verdict::Revalidate
        }
    }

    /// Whether the response may be used if the endpoint cannot be reached, or answers 500, 502, 503 or 504
    /// (RFC 5861 section 4).
    pub fn may_serve_on_error(&self, now: u64, asked: &RequestDirectives) -> bool {
        let asked_for = asked.stale_if_error.filter(|_| !self.forbids_stale).unwrap_or(0);
        let window = self.stale_if_error.max(self.stale_while_revalidate).max(asked_for);
        let ttl = self.ttl(now);
        !self.no_cache && (ttl > 0 || -ttl < i64::from(window))
    }

    /// Converts to bytes, for a store that survives a restart.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let flags = [self.forbids_stale, self.no_cache, self.immutable, self.explicit];
        let flags = flags.into_iter().rev().fold(0, |bits, flag| bits << 1 | u32::from(flag));
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.response_time.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.date.to_le_bytes());
        let numbers =
            [self.lifetime, self.initial_age, self.stale_while_revalidate, self.stale_if_error, flags];
        for (place, number) in bytes[16..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads the form that [`to_bytes`](Self::to_bytes) writes.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let flag = |bit: u32| word(32) >> bit & 1 == 1;
        Self {
            lifetime: word(16),
            initial_age: word(20),
            response_time: long(0),
            date: long(8),
            stale_while_revalidate: word(24),
            stale_if_error: word(28),
            forbids_stale: flag(0),
            no_cache: flag(1),
            immutable: flag(2),
            explicit: flag(3),
        }
    }

    /// The time from which the response can only be used after validation: neither fresh nor within a window.
    pub fn useless_from(&self) -> u64 {
        let window = self.stale_if_error.max(self.stale_while_revalidate);
        let useful = i64::from(self.lifetime) + i64::from(window) - i64::from(self.initial_age);
        self.response_time.saturating_add_signed(useful.max(0))
    }
}

/// A date in a head; the first of several counts.
pub(super) fn date_of(head: Head<'_>, name: &[u8], now: u64) -> Option<u64> {
    date::parse(head.value(name)?, now)
}

/// The explicit lifetime (section 4.2.1): s-maxage, max-age, Expires minus Date, in this order. An invalid
/// date is in the past.
fn explicit_lifetime(head: Head<'_>, directives: &Directives, date: u64, now: u64) -> Option<u32> {
    let expires = || {
        let value = head.value(b"expires").filter(|_| !directives.targeted)?;
        let at = date::parse(value, now).unwrap_or(0);
        Some(at.saturating_sub(date).min(u64::from(SECONDS_MAX)) as u32)
    };
    directives.s_maxage.or(directives.max_age).or_else(expires)
}

/// The lifetime of a response that states none: the route's default, or a tenth of the time since its last
/// modification (section 4.2.2).
fn implicit_lifetime(
    status: u16,
    head: Head<'_>,
    directives: &Directives,
    date: u64,
    now: u64,
    policy: &Policy<'_>,
) -> Option<u32> {
    if !directives.public && !is_heuristically_cacheable(status) {
        return None;
    }
    policy.default_ttl.or_else(|| {
        let modified = date_of(head, b"last-modified", now)?;
        Some((date.saturating_sub(modified) / 10).min(u64::from(policy.heuristic_max)) as u32)
    })
}

/// The response's age at its arrival (section 4.2.3).
fn initial_age(head: Head<'_>, date: u64, times: Times) -> u32 {
    let apparent = times.response.saturating_sub(date);
    let said = age_value(head).saturating_add(times.delay);
    apparent.max(u64::from(said)).min(u64::from(SECONDS_MAX)) as u32
}

/// The value of `Age` (section 5.1): the first of several values counts, and an invalid one is ignored.
/// Without a valid `Age`, `Date` still counts.
fn age_value(head: Head<'_>) -> u32 {
    let line = head.value(b"age").unwrap_or_default();
    let first = line.split(|&byte| byte == b',').next().unwrap_or_default();
    seconds(first.trim_ascii()).unwrap_or(0)
}
