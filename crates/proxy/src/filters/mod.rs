//! What routes do to requests and responses on their way: one closed set for each direction, one file for each filter.
//!
//! Never in here: a wait. Filters are pure functions of the request, its route and the settings.

pub(crate) mod forwarded;
mod request;
pub(crate) mod response;

use observe::Reason;

use crate::reply::Answer;
pub(crate) use forwarded::{Forwarded, Via};
pub(crate) use request::request;
pub(crate) use response::response;

/// What the filters know of a request.
pub(crate) struct RequestView<'a> {
    /// Path and query, as sent.
    pub(crate) target: &'a [u8],
    /// Normalised path.
    pub(crate) path: &'a [u8],
    /// Who asks, and what for.
    pub(crate) forwarded: &'a Forwarded<'a>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FilterResult {
    /// It goes on.
    Continue,
    /// It is answered.
    Answer(Answer),
    /// It is refused.
    Refuse(Reason),
}
