//! Priority of a request under overload: its route's, or one set by a trusted hop.

use model::overload::Priority;

use crate::request::Request;

/// The priority of a request whose route has this one. Computed only when needed, since it searches the head
/// for a header.
pub(crate) fn of(request: &Request<'_>, of_route: Priority) -> Priority {
    said(request).unwrap_or(of_route)
}

/// The priority in the configured header; none where the hop is not trusted, or the value is unknown.
/// Without the header, and for most clients without a search for it, the route decides.
fn said(request: &Request<'_>) -> Option<Priority> {
    let settings = &request.config.settings().forwarded;
    let name = settings.priority_header.as_deref()?;
    let peer = request.conn.via().peer.to_canonical();
    if !settings.trusted.iter().any(|network| network.contains(&peer)) {
        return None;
    }
    let field = request.parsed.fields.find_name(request.head, name.as_bytes())?;
    match field.value(request.head) {
        value if value.eq_ignore_ascii_case(b"critical") => Some(Priority::Critical),
        value if value.eq_ignore_ascii_case(b"normal") => Some(Priority::Normal),
        value if value.eq_ignore_ascii_case(b"sheddable") => Some(Priority::Sheddable),
        _ => None,
    }
}
