//! What is changed in the head of a response, whoever made it.

mod addresses;
mod cors;

use model::{ResponseFilter, Settings};

use crate::head::HeadEdits;
pub(crate) use addresses::translate;
pub(crate) use cors::preflight;

/// The changes to the head of a response. `is_tls` says whether the client is spoken to over TLS.
///
/// `Strict-Transport-Security` only counts there (RFC 6797 section 7.2). Answers to requests that no route took have it as well, and
/// so it is one of the settings and not of the routes.
pub(crate) fn response(settings: &Settings, is_tls: bool) -> HeadEdits<'_> {
    let mut edits = HeadEdits::default();
    if let Some(value) = settings.tls.strict_transport_security.as_deref().filter(|_| is_tls) {
        edits.set("Strict-Transport-Security", value.as_bytes());
    }
    edits
}

/// Runs the response filters of a route. `origin` is that of the page that asks.
pub(crate) fn apply<'e>(filters: &'e [ResponseFilter], origin: Option<&'e [u8]>, edits: &mut HeadEdits<'e>) {
    for filter in filters {
        match filter {
            ResponseFilter::Cors(cors) => cors::apply(cors, origin, edits),
        }
    }
}
