//! What routes do to requests and responses on their way: one closed set for each direction, one file for each filter.
//!
//! Never in here: a wait. Filters are pure functions of the request, its route and the settings.

pub(crate) mod forwarded;
pub(crate) mod headers;
mod request;
pub(crate) mod response;

use std::cell::OnceCell;
use std::sync::Arc;

use model::template::Template;
use model::{BackendFilters, Captures, StepBudget};
use observe::Reason;

use crate::reply::Answer;
pub(crate) use forwarded::{Forwarded, Via};
pub(crate) use request::{changed_target, own_origin, printable, request, split_app_root};
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
    /// Steps left to regular expressions.
    pub(crate) steps: &'a StepBudget,
    /// The text that a template comes to.
    pub(crate) expand: &'a dyn Fn(&Template) -> Vec<u8>,
}

/// What was made of a request for its endpoints. It is there as soon as anything is other than the client said it: what a request is
/// told that is not changed is not looked for.
#[derive(Default)]
pub(crate) struct Rewritten {
    /// What a regular expression has found in the path.
    pub(crate) captures: OnceCell<Captures>,
    /// The target for endpoints; none for the client's own.
    pub(crate) target: OnceCell<Vec<u8>>,
    /// What is done for the backend that the request goes to.
    pub(crate) backend: OnceCell<OfBackend>,
}

/// What is done for one of several backends.
pub(crate) struct OfBackend {
    pub(crate) filters: Arc<BackendFilters>,
    /// The target in place of all others.
    pub(crate) target: Option<Vec<u8>>,
}

impl Rewritten {
    /// The target for endpoints; none for the client's own.
    pub(crate) fn target(&self) -> Option<&[u8]> {
        let of_backend = self.backend.get().and_then(|backend| backend.target.as_deref());
        of_backend.or_else(|| self.target.get().map(Vec::as_slice))
    }
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
