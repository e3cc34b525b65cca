//! How far a request and its response have come: what decides whether the request may be sent again, and
//! what becomes of the client's connection.

use std::cell::Cell;

/// The progress of one request and its response. Cells, since the body goes up while the response comes down.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    body: Cell<RequestBody>,
    /// Of what is kept, some is still on its way to the endpoint.
    is_sending: Cell<bool>,
    /// The client has been sent the beginning of a final response.
    is_answered: Cell<bool>,
}

/// The progress of the request's body.
///
/// ```text
///            a try is prepared        more is passed on              to its end
/// Untouched ──────────────────▶ Kept ──────────────────▶ Streaming ─────────────▶ Passed
///                                │ all of it has come
///                                └────────────▶ Whole
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestBody {
    /// Nothing of it has been taken off the client's connection.
    #[default]
    Untouched,
    /// The part that has been read is kept, so that it can be sent again.
    Kept,
    /// All of it is kept. A request without a body is here once a try has been prepared.
    Whole,
    /// Some of it has been passed on and is not kept.
    Streaming,
    /// All of it has been passed on, and not all is kept.
    Passed,
}

impl Progress {
    /// The body is being taken, and kept for now.
    pub(crate) fn note_body_begun(&self) {
        self.advance(&[RequestBody::Untouched, RequestBody::Kept], RequestBody::Kept);
    }

    /// All of the body has been taken and is kept.
    pub(crate) fn note_body_whole(&self) {
        self.advance(&[RequestBody::Kept], RequestBody::Whole);
    }

    /// The request has no body, or its body is past.
    pub(crate) fn note_no_body(&self) {
        if !self.is_body_done() {
            self.note_body_begun();
            self.note_body_whole();
        }
    }

    /// Notes that the body is passed on from now on without being kept.
    pub(crate) fn note_body_streaming(&self) {
        self.advance(&[RequestBody::Kept], RequestBody::Streaming);
    }

    /// The end of the body has been passed on.
    pub(crate) fn note_body_passed(&self) {
        self.advance(&[RequestBody::Streaming], RequestBody::Passed);
    }

    /// Notes whether the kept part is being sent beside the wait for the response.
    pub(crate) fn note_sending(&self, is_sending: bool) {
        self.is_sending.set(is_sending);
    }

    /// The client is being sent a final response.
    pub(crate) fn note_answered(&self) {
        self.is_answered.set(true);
    }

    /// The client has not been sent anything of the response after all.
    pub(crate) fn note_unanswered(&self) {
        self.is_answered.set(false);
    }

    /// Whether something of the body may be gone from the client's connection.
    pub(crate) fn has_body_begun(&self) -> bool {
        self.body.get() != RequestBody::Untouched
    }

    /// Whether nothing of the body is still to come from the client.
    pub(crate) fn is_body_done(&self) -> bool {
        matches!(self.body.get(), RequestBody::Whole | RequestBody::Passed)
    }

    /// Whether all of the body that has been read is kept, and more is to come.
    pub(crate) fn is_body_kept(&self) -> bool {
        self.body.get() == RequestBody::Kept
    }

    /// Whether nothing of the request is still to be sent to the endpoint.
    pub(crate) fn is_request_sent(&self) -> bool {
        self.is_body_done() && !self.is_sending.get()
    }

    /// Whether the client has seen part of a final response: from then on a fault can only break it off.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered.get()
    }

    /// Whether there is all that it takes to send the request once more, and the client has seen no response
    /// yet.
    pub(crate) fn can_send_again(&self) -> bool {
        !self.is_answered() && !matches!(self.body.get(), RequestBody::Streaming | RequestBody::Passed)
    }

    fn advance(&self, from: &[RequestBody], to: RequestBody) {
        debug_assert!(from.contains(&self.body.get()), "{:?} does not become {to:?}", self.body.get());
        self.body.set(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_can_be_sent_again() {
        let progress = Progress::default();
        assert!(!progress.has_body_begun() && progress.can_send_again());
        progress.note_body_begun();
        progress.note_body_begun();
        assert!(progress.has_body_begun() && !progress.is_body_done() && progress.can_send_again());
        progress.note_body_whole();
        assert!(progress.is_body_done() && progress.can_send_again());
        progress.note_answered();
        assert!(!progress.can_send_again());
    }

    #[test]
    fn what_was_passed_on_cannot() {
        let progress = Progress::default();
        progress.note_body_begun();
        progress.note_body_streaming();
        assert!(!progress.is_body_done() && !progress.can_send_again());
        progress.note_body_passed();
        assert!(progress.is_body_done() && !progress.can_send_again());
    }

    #[test]
    #[should_panic(expected = "Whole does not become Streaming")]
    fn what_is_whole_is_not_streamed() {
        let progress = Progress::default();
        progress.note_body_begun();
        progress.note_body_whole();
        progress.note_body_streaming();
    }
}
