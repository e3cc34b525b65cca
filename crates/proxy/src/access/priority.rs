//! How important a request is where not all can be served: what its route says, or a hop that is believed.

use model::overload::Priority;

use crate::exchange::Exchange;

/// The priority of a request whose route has this one. It is asked for only where it matters, since a header has to be looked for.
pub(crate) fn of(exchange: &Exchange<'_>, of_route: Priority) -> Priority {
    said(exchange).unwrap_or(of_route)
}

/// What a hop says in the header that is configured; none where it is not believed, or says nothing that is known. Without the header, and
/// for most clients without being looked for, the route decides.
fn said(exchange: &Exchange<'_>) -> Option<Priority> {
    let settings = &exchange.config.settings().forwarded;
    let name = settings.priority_header.as_deref()?;
    let peer = exchange.conn.via().peer.to_canonical();
    if !settings.trusted.iter().any(|network| network.contains(&peer)) {
        return None;
    }
    let field = exchange.request.fields.find_name(exchange.head, name.as_bytes())?;
    match field.value(exchange.head) {
        value if value.eq_ignore_ascii_case(b"critical") => Some(Priority::Critical),
        value if value.eq_ignore_ascii_case(b"normal") => Some(Priority::Normal),
        value if value.eq_ignore_ascii_case(b"sheddable") => Some(Priority::Sheddable),
        _ => None,
    }
}
