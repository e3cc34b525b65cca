//! What is changed in the head of a response, whoever made it.

mod addresses;
mod cors;
mod cross_origin;

use model::template::Template;
use model::{HeadSettings, ResponseFilter, ServerHeader, Settings};

use crate::head::{HeadEdits, SERVER};
use crate::reply::Answer;
pub(crate) use addresses::translate;

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

/// What a page of another origin asks for (Fetch standard, "HTTP requests").
pub(crate) struct Asking<'a> {
    /// `Origin`: that of the page.
    pub(crate) origin: Option<&'a [u8]>,
    pub(crate) method: &'a [u8],
    /// `Access-Control-Request-Method`.
    pub(crate) requested_method: Option<&'a [u8]>,
    /// `Access-Control-Request-Headers`.
    pub(crate) requested_headers: Option<&'a [u8]>,
}

impl Asking<'_> {
    /// Whether a browser asks first whether it may ask.
    fn is_preflight(&self) -> bool {
        self.method == b"OPTIONS" && self.origin.is_some() && self.requested_method.is_some()
    }
}

/// The answer to a preflight, where the filter gives one.
pub(crate) fn preflight<'a>(filter: &ResponseFilter, asking: impl FnOnce() -> Asking<'a>) -> Option<Answer> {
    match filter {
        ResponseFilter::Cors(cors) => {
            let asking = asking();
            cors::preflight(cors, asking.method, asking.origin)
        }
        ResponseFilter::CrossOrigin(_) => cross_origin::preflight(&asking()),
        ResponseFilter::SetHeaders(_) | ResponseFilter::Headers(_) => None,
    }
}

/// Runs the response filters of a route. `asking` is what the page asks for.
pub(crate) fn apply<'e>(
    filters: impl Iterator<Item = &'e ResponseFilter>,
    asking: impl Fn() -> Asking<'e>,
    edits: &mut HeadEdits<'e>,
) {
    for filter in filters {
        match filter {
            ResponseFilter::Cors(cors) => cors::apply(cors, asking().origin, edits),
            ResponseFilter::CrossOrigin(cors) => cross_origin::apply(cors, &asking(), edits),
            ResponseFilter::Headers(changes) => super::headers::apply(changes, |_| true, edits),
            ResponseFilter::SetHeaders(headers) => {
                headers.iter().for_each(|(name, value)| edits.set(name, value.as_bytes()));
            }
        }
    }
}
