//! What routes do to requests and responses on their way: one closed set for each direction, one file for each filter.
//!
//! Never in here: a wait. Filters are pure functions of the request, its route and the settings.

pub(crate) mod forwarded;
mod request;
pub(crate) mod response;

use std::cell::OnceCell;

use model::Captures;
use model::template::Template;
use observe::Reason;

use crate::reply::Answer;
pub(crate) use forwarded::{Forwarded, Via};
pub(crate) use request::{own_origin, printable, request, split_app_root};
pub(crate) use response::response;

/// What the filters know of a request.
pub(crate) struct RequestView<'a> {
    /// Path and query, as sent.
    pub(crate) target: &'a [u8],
    /// The same as scripts have left it.
    pub(crate) current: &'a [u8],
    /// Normalised path.
    pub(crate) path: &'a [u8],
    /// The host that is asked for, as sent: whatever a hop says that it was.
    pub(crate) host: &'a [u8],
    /// The port that the client connected to.
    pub(crate) port: u16,
    /// Who asks, and what for.
    pub(crate) forwarded: &'a Forwarded<'a>,
    /// Is set by the filter that rewrites the path.
    pub(crate) rewritten: &'a OnceCell<Box<Rewritten>>,
    /// The text that a template comes to.
    pub(crate) expand: &'a dyn Fn(&Template) -> Vec<u8>,
}

/// What a regular expression has found in the path, and what was made of it.
pub(crate) struct Rewritten {
    pub(crate) captures: Captures,
    /// The target for endpoints; none for the client's own.
    pub(crate) target: Option<Vec<u8>>,
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
