//! What is changed in the head of a response, whoever made it.

mod addresses;
mod cors;

use model::template::Template;
use model::{HeadSettings, ResponseFilter, ServerHeader, Settings};

use crate::head::{HeadEdits, SERVER};
pub(crate) use addresses::translate;
pub(crate) use cors::preflight;

/// The changes to the head of a response. `is_tls` says whether the client is spoken to over TLS.
///
/// `Strict-Transport-Security` only counts there (RFC 6797 section 7.2). Answers to requests that no route took have it as well, and
/// so it is one of the settings and not of the routes.
/// `expand` gives the text that a template comes to.
pub(crate) fn response(
    settings: &Settings,
    is_tls: bool,
    expand: impl Fn(&Template) -> Vec<u8>,
) -> HeadEdits<'_> {
    let mut edits = HeadEdits::default();
    if let Some(value) = settings.tls.strict_transport_security.as_deref().filter(|_| is_tls) {
        edits.set("Strict-Transport-Security", value.as_bytes());
    }
    if let Some(heads) = &settings.heads {
        set(heads, expand, &mut edits);
    }
    edits
}

/// Takes away what endpoints say under some names, but for what is set.
#[cold]
pub(crate) fn hide<'e>(heads: &'e HeadSettings, edits: &mut HeadEdits<'e>) {
    heads.hidden.iter().for_each(|name| edits.hide(name));
}

#[cold]
fn set<'e>(heads: &'e HeadSettings, expand: impl Fn(&Template) -> Vec<u8>, edits: &mut HeadEdits<'e>) {
    match heads.server {
        ServerHeader::None => {}
        ServerHeader::Own => edits.set("Server", SERVER.as_bytes()),
        ServerHeader::Endpoint => edits.passes_server = true,
    }
    for (name, template) in &heads.of_responses {
        let value = expand(template);
        if value.is_empty() {
            edits.remove(name);
        } else {
            edits.set(name, value);
        }
    }
    edits.passes_server &= !edits.sets("Server");
}

/// Runs the response filters of a route. `origin` is that of the page that asks.
pub(crate) fn apply<'e>(
    filters: impl Iterator<Item = &'e ResponseFilter>,
    origin: Option<&'e [u8]>,
    edits: &mut HeadEdits<'e>,
) {
    for filter in filters {
        match filter {
            ResponseFilter::Cors(cors) => cors::apply(cors, origin, edits),
            ResponseFilter::SetHeaders(headers) => {
                headers.iter().for_each(|(name, value)| edits.set(name, value.as_bytes()));
            }
        }
    }
}
