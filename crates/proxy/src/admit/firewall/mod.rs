//! The web application firewall of a route, before all other checks of the client: as in nginx, where
//! `ModSecurity` runs before access checks and limits.
//!
//! The head is given to the rules, then the body, which is held until they have seen it. What gRPC and
//! protocols that are switched to carry is not read: both sides may speak at the same time. [`response`] has
//! the other half, for responses of endpoints. Responses from the cache have passed it when they were stored.
//!
//! Never in here: rules, and the client's answer.

mod body;
pub(crate) mod response;

use std::net::SocketAddr;
use std::sync::Arc;

use model::Firewall;
use observe::Reason;
use waf::{Collections, Connection, RequestLine, Transaction};

use crate::io::buffer::Buffer;
use crate::request::Request;
use crate::request::inspection::Inspection;
use crate::request::stage::Watch;
use crate::route::Routed;
use crate::route::filters::FilterResult;
use crate::route::values;

/// Gives a request to the rules. `rest` holds what has been read after its head; none for a request whose
/// body is not known, because it is only explained. An explained request leaves no values to later ones.
pub(crate) async fn check(
    routed: &Routed<'_>,
    firewall: &Firewall,
    rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> (Inspection, FilterResult) {
    let id = id(routed, firewall);
    let collections = if watch.explains() {
        Arc::new(Collections::new(routed.worker.random.next()))
    } else {
        Arc::clone(firewall.rules.collections())
    };
    let connection = connection(routed.request, id.clone());
    let transaction = Transaction::new(Arc::clone(firewall.rules.rules()), collections, connection);
    let inspection = Inspection::new(id, transaction);
    let stopped = FilterResult::Refuse(Reason::FirewallDenied);
    if !inspection.step(1, |transaction| head(routed, transaction)) {
        return (inspection, stopped);
    }
    if let Some(rest) = rest
        && let Err(reason) = body::read(routed, &inspection, rest).await
    {
        return (inspection, FilterResult::Refuse(reason));
    }
    let passes = inspection.step(2, Transaction::request_end);
    (inspection, if passes { FilterResult::Continue } else { stopped })
}

/// Microseconds since 1970.
pub(crate) fn unix_time(request: &Request<'_>) -> u64 {
    u64::try_from(request.worker.clock.unix().as_micros()).unwrap_or(u64::MAX)
}

/// The id of the transaction: what the route says, or the id of the request.
fn id(routed: &Routed<'_>, firewall: &Firewall) -> String {
    let given = firewall.transaction_id.as_ref().map(|template| values::expand(routed, template));
    let id = given.as_deref().filter(|id| !id.is_empty()).or_else(|| routed.id.as_bytes());
    match id {
        Some(id) => String::from_utf8_lossy(id).into_owned(),
        None => String::from_utf8_lossy(&routed.worker.random.hex_id()).into_owned(),
    }
}

fn connection(request: &Request<'_>, unique_id: String) -> Connection {
    Connection {
        client: SocketAddr::new(request.forwarded.client, request.conn.peer.port()),
        server: request.conn.local,
        unique_id,
        unix_time: unix_time(request),
        seed: request.worker.random.next(),
    }
}

fn head(request: &Request<'_>, transaction: &mut Transaction) -> waf::Verdict {
    let Request { head, parsed, .. } = *request;
    transaction.exclude_on(&request.path);
    let line = RequestLine {
        method: request.method(),
        target: &head[parsed.target.clone()],
        protocol: protocol(request),
    };
    let headers = parsed.fields.iter().map(|field| (field.name(head), field.value(head)));
    transaction.request_head(line, headers)
}

/// The protocol of the client, as nginx names it.
pub(crate) fn protocol(request: &Request<'_>) -> &'static str {
    request.client.protocol(request.parsed.version)
}
