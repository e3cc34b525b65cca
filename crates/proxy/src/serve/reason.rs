//! The reason of a fault: noted for the log, counted, and told to some clients.

use std::net::IpAddr;

use model::Settings;
use observe::Reason;

use crate::exchange::Exchange;
use crate::head::HeadEdits;

impl Exchange<'_> {
    /// Counts a fault of the request, and notes it for the log.
    #[cold]
    pub(crate) fn note_reason(&self, reason: Reason) {
        self.worker.recorder.borrow().reason(reason);
        self.report.note_reason(reason);
    }

    /// Adds the reason of the request's fault, if it has one, to the head of our response.
    pub(super) fn tell_reason(&self, edits: &mut HeadEdits<'_>) {
        if let Some(reason) = self.report.reason.get() {
            tell(self.config.settings(), self.forwarded.client, reason, edits);
        }
    }
}

/// Adds the reason of a fault to the head of our response, for clients of the networks that the settings name.
#[cold]
pub(super) fn tell(settings: &Settings, client: IpAddr, reason: Reason, edits: &mut HeadEdits<'_>) {
    if settings.reason_header.as_ref().is_some_and(|networks| networks.contains(client.to_canonical())) {
        edits.set("X-Forebay-Reason", reason.name().as_bytes());
    }
}
