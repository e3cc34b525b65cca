//! Faults of a request at an endpoint, and whether it may be tried again.

use observe::Reason;

/// A fault of a request, and whether it may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) retry: Retry,
}

/// Whether another try is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Never: it would fail again, or the client has received part of a response.
    Never,
    /// The endpoint has seen nothing of the request: whatever its method, it can be sent to another.
    Unsent,
    /// The endpoint has refused the request without processing it, on a healthy connection. It may go to
    /// another, as after `Unsent`, but it counts as a try.
    Refused,
    /// The endpoint may have acted on it: only where doing it twice does no harm.
    Sent,
}

impl Fault {
    pub(crate) fn never(reason: Reason) -> Self {
        Self { reason, retry: Retry::Never }
    }

    pub(crate) fn unsent(reason: Reason) -> Self {
        Self { reason, retry: Retry::Unsent }
    }

    pub(crate) fn sent(reason: Reason) -> Self {
        Self { reason, retry: Retry::Sent }
    }
}
