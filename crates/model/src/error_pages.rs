use std::sync::Arc;

use serde::Serialize;

use crate::template::Template;
use crate::{Block, ClusterId};

/// Handling of a route's errors (ingress-nginx: `custom-http-errors` and `default-backend`).
///
/// Routes with equal settings share one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct ErrorPages {
    statuses: Box<[u16]>,
    /// Backends that replace a response with one of the statuses: the first that has an endpoint. If none
    /// has, the answer is a plain 404, as that of ingress-nginx's own default backend.
    pub backends: Vec<ClusterId>,
    /// Passes the errors of endpoints on unchanged; only errors of the proxy itself are replaced.
    pub spares_endpoints: bool,
    /// The cluster that gets the route's requests while its own cluster has no endpoint; none to answer them
    /// with 503.
    pub fallback: Option<ClusterId>,
    /// Answers of the route itself, in place of a backend's; the first for a status counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<OwnErrorPage>,
    /// Endpoints' errors are passed on in spite of `own`; only errors of the proxy itself are replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_spares_endpoints: bool,
}

/// An answer of a route in place of a response with an error (nginx: `error_page`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct OwnErrorPage {
    /// The statuses that it replaces.
    pub statuses: Vec<u16>,
    /// The status of the answer.
    pub status: ErrorPageStatus,
    /// The content of the answer.
    pub content: ErrorPageContent,
}

/// The status of an [`OwnErrorPage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ErrorPageStatus {
    /// The status of the replaced response.
    Kept,
    /// The status that the answer has itself (nginx: `=`).
    OfAnswer,
    /// This one (nginx: `=200`).
    Fixed(u16),
}

/// The answer of an [`OwnErrorPage`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ErrorPageContent {
    /// The client is sent to a URL with this status.
    Redirect(u16, Template),
    /// The answer of these steps, and their headers.
    Steps(Arc<Block>),
}

impl ErrorPages {
    /// Replaces responses with these statuses.
    pub fn new(mut statuses: Vec<u16>) -> Self {
        statuses.sort_unstable();
        statuses.dedup();
        Self { statuses: statuses.into(), ..Self::default() }
    }

    /// The statuses, in ascending order.
    pub fn statuses(&self) -> &[u16] {
        &self.statuses
    }

    /// The answer of the route itself for a status.
    pub fn own_page(&self, status: u16) -> Option<&OwnErrorPage> {
        self.own.iter().find(|page| page.statuses.contains(&status))
    }

    /// Whether a backend's response replaces one with this status.
    pub fn replaces(&self, status: u16) -> bool {
        self.statuses.binary_search(&status).is_ok()
    }
}
