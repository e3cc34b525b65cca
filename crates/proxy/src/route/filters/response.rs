//! Changes to the head of a response, whatever its source.

mod addresses;
mod cors;
mod cross_origin;

use model::template::Template;
use model::{HeadSettings, ResponseFilter, ServerHeader, Settings};

use crate::request::Request;
use crate::request::head::{HeadEdits, SERVER};
use crate::request::reply::Answer;
pub(crate) use addresses::translate;
pub(crate) use cross_origin::{apply as apply_cross_origin, preflight as cross_origin_preflight};

/// The changes to the head of a response. `is_tls` says whether the client's connection is TLS.
///
/// `Strict-Transport-Security` only counts there (RFC 6797 section 7.2). Responses without a route have it
/// as well, and so it is one of the settings and not of the routes.
/// `expand` expands a template.
pub(crate) fn response(
    settings: &Settings,
    is_tls: bool,
    expand: impl Fn(&Template) -> Vec<u8>,
    alternative: impl FnOnce() -> Option<Vec<u8>>,
) -> HeadEdits<'_> {
    let mut edits = HeadEdits::default();
    if let Some(value) = settings.tls.strict_transport_security.as_deref().filter(|_| is_tls) {
        edits.set("Strict-Transport-Security", value.as_bytes());
    }
    if let Some(heads) = &settings.heads {
        if heads.tells_of_http3
            && is_tls
            && let Some(alternative) = alternative()
        {
            edits.set("Alt-Svc", alternative);
        }
        set(heads, expand, &mut edits);
    }
    edits
}

/// Removes an endpoint's fields of some names, except those that are set here.
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

/// The fields of a cross-origin request (Fetch standard, "HTTP requests").
pub(crate) struct Asking<'a> {
    /// The value of `Origin`: that of the page.
    pub(crate) origin: Option<&'a [u8]>,
    pub(crate) method: &'a [u8],
    /// The value of `Access-Control-Request-Method`.
    pub(crate) requested_method: Option<&'a [u8]>,
    /// The value of `Access-Control-Request-Headers`.
    pub(crate) requested_headers: Option<&'a [u8]>,
}

impl<'a> Asking<'a> {
    /// Reads the fields from a request.
    pub(crate) fn of(request: &Request<'a>) -> Self {
        let field =
            |name: &[u8]| Some(request.parsed.fields.find_name(request.head, name)?.value(request.head));
        let method = request.method();
        let of_preflight = |name| if method == b"OPTIONS" { field(name) } else { None };
        Self {
            origin: field(b"origin"),
            method,
            requested_method: of_preflight(b"access-control-request-method"),
            requested_headers: of_preflight(b"access-control-request-headers"),
        }
    }
}

impl Asking<'_> {
    /// Whether the request is a CORS preflight.
    fn is_preflight(&self) -> bool {
        self.method == b"OPTIONS" && self.origin.is_some() && self.requested_method.is_some()
    }
}

/// The answer to a preflight, where the filter gives one.
pub(crate) fn preflight<'a>(filter: &ResponseFilter, asking: impl FnOnce() -> Asking<'a>) -> Option<Answer> {
    match filter {
        ResponseFilter::Cors(cors) => {
            let asking = asking();
            cors::preflight(cors, asking.method, || asking.origin)
        }
        ResponseFilter::CrossOrigin(_) => cross_origin::preflight(&asking()),
        ResponseFilter::SetHeaders(_) | ResponseFilter::Headers(_) => None,
    }
}

/// Runs the response filters of a route. `asking` returns the fields of a cross-origin request.
pub(crate) fn apply<'e>(
    filters: impl Iterator<Item = &'e ResponseFilter>,
    asking: impl Fn() -> Asking<'e>,
    edits: &mut HeadEdits<'e>,
) {
    for filter in filters {
        match filter {
            ResponseFilter::Cors(cors) => cors::apply(cors, || asking().origin, edits),
            ResponseFilter::CrossOrigin(cors) => cross_origin::apply(cors, &asking(), edits),
            ResponseFilter::Headers(changes) => super::headers::apply(changes, |_| true, edits),
            ResponseFilter::SetHeaders(headers) => {
                headers.iter().for_each(|(name, value)| edits.set(name, value.as_bytes()));
            }
        }
    }
}
