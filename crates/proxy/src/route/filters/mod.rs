//! Filters of a route, for requests and responses: one closed set for each direction, one file for each
//! filter.
//!
//! Never in here: a wait. Filters are pure functions of the request, its route and the settings.

pub(crate) mod headers;
mod request;
pub(crate) mod response;

use model::template::Template;
use model::{Captures, StepBudget};
use observe::Reason;

use crate::request::forwarded::Forwarded;
use crate::request::reply::Answer;
use crate::request::stop::Stop;
pub(crate) use request::{changed_target, own_origin, printable, request, request_redirect, split_app_root};
pub(crate) use response::response;

/// The request as filters see it.
pub(crate) struct RequestView<'a> {
    /// Path and query, as sent.
    pub(crate) target: &'a [u8],
    /// Path and query after the scripts.
    pub(crate) current: &'a [u8],
    /// The normalised path of the target.
    pub(crate) path: &'a [u8],
    /// The requested host as the client sent it, even where a trusted hop reported another.
    pub(crate) host: &'a [u8],
    /// The port that the client connected to.
    pub(crate) port: u16,
    /// Client, scheme and host, as reported by trusted hops.
    pub(crate) forwarded: &'a Forwarded<'a>,
    /// The time, in seconds since 1970.
    pub(crate) now: i64,
    /// Steps left to regular expressions.
    pub(crate) steps: &'a StepBudget,
    /// Expands a template for this request.
    pub(crate) expand: &'a dyn Fn(&Template) -> Vec<u8>,
}

/// Changes that the filters of a route make to a request for its endpoints. Without any, the request is
/// forwarded as its client sent it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rewritten {
    /// The captures of a rewrite's regular expression in the path.
    pub(crate) captures: Option<Captures>,
    /// The target for endpoints; none for the client's own.
    pub(crate) target: Option<Vec<u8>>,
}

impl Rewritten {
    /// Adds the decision of a later filter. A route has one filter that rewrites the path.
    pub(crate) fn merge(&mut self, later: Self) {
        self.captures = self.captures.take().or(later.captures);
        self.target = self.target.take().or(later.target);
    }
}

/// The decision of a request filter.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// The request goes on as it is.
    Continue,
    /// The request goes on, and endpoints get it with these changes.
    Rewrite(Rewritten),
    Answer(Answer),
    Refuse(Reason),
}

impl From<FilterResult> for Decision {
    fn from(result: FilterResult) -> Self {
        match result {
            FilterResult::Continue => Self::Continue,
            FilterResult::Answer(answer) => Self::Answer(answer),
            FilterResult::Refuse(reason) => Self::Refuse(reason),
        }
    }
}

/// The result of a check that changes nothing in the request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FilterResult {
    /// The request goes on.
    Continue,
    Answer(Answer),
    Refuse(Reason),
}

impl From<FilterResult> for Result<(), Stop> {
    fn from(result: FilterResult) -> Self {
        match result {
            FilterResult::Continue => Ok(()),
            FilterResult::Answer(answer) => Err(answer.into()),
            FilterResult::Refuse(reason) => Err(reason.into()),
        }
    }
}
