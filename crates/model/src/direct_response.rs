//! Answers that need no endpoint: fixed ones, and pages that say that a route is under maintenance.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::AddressSet;

/// An answer that needs no endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectResponse {
    /// HTTP status of the answer.
    pub status: u16,
    /// The content for the client.
    pub body: String,
    /// Headers of the answer, each a name and a value that a head may have.
    pub headers: Vec<(String, String)>,
}

/// A time during which a route answers by itself, except to some clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Maintenance {
    /// Begin, in seconds since 1970; none for a maintenance that has begun.
    pub from: Option<i64>,
    /// End, in seconds since 1970; none for a maintenance without a known end.
    pub until: Option<i64>,
    /// Clients that are served all the same.
    pub spared: Option<Arc<AddressSet>>,
    /// Seconds after which clients are asked to come again; none for the seconds up to the end, if the end is
    /// known.
    pub retry_after: Option<u64>,
    /// The answer to the clients that are refused.
    pub response: DirectResponse,
}

impl DirectResponse {
    /// An answer without headers of its own.
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: body.into(), headers: Vec::new() }
    }
}

impl Maintenance {
    /// Whether a client is refused at a time, which is in seconds since 1970.
    pub fn refuses(&self, client: IpAddr, now: i64) -> bool {
        self.from.is_none_or(|from| from <= now)
            && self.until.is_none_or(|until| now < until)
            && !self.spared.as_ref().is_some_and(|spared| spared.contains(client))
    }

    /// Seconds after which a client that is refused now is asked to come again.
    pub fn retry_after(&self, now: i64) -> Option<u64> {
        let to_end = || self.until.map(|until| u64::try_from(until - now).unwrap_or_default().max(1));
        self.retry_after.or_else(to_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maintenance(from: Option<i64>, until: Option<i64>) -> Maintenance {
        let spared = Some(Arc::new(AddressSet::new(&["10.0.0.0/8".parse().unwrap()])));
        Maintenance { from, until, spared, retry_after: None, response: DirectResponse::new(503, "") }
    }

    #[test]
    fn it_lasts_from_its_begin_to_its_end_for_those_that_are_not_spared() {
        let client = IpAddr::from([192, 0, 2, 1]);
        for (from, until, expected) in [
            (None, None, [true; 3]),
            (Some(100), None, [false, true, true]),
            (None, Some(200), [true, true, false]),
            (Some(100), Some(200), [false, true, false]),
        ] {
            let maintenance = maintenance(from, until);
            assert_eq!([99, 100, 200].map(|now| maintenance.refuses(client, now)), expected);
            assert!(!maintenance.refuses(IpAddr::from([10, 1, 2, 3]), 150));
        }
    }

    #[test]
    fn clients_are_asked_to_come_again_at_its_end_at_the_latest() {
        assert_eq!(maintenance(None, None).retry_after(150), None);
        assert_eq!(maintenance(None, Some(200)).retry_after(150), Some(50));
        assert_eq!(maintenance(None, Some(200)).retry_after(200), Some(1));
        let fixed = Maintenance { retry_after: Some(30), ..maintenance(None, Some(200)) };
        assert_eq!(fixed.retry_after(150), Some(30));
    }
}
