//! The body of a request: read, held for the endpoint, and shown to the rules piece by piece.
//!
//! Never in here: heads.

use observe::Reason;
use waf::Transaction;
use waf::settings::Mode;

use crate::admit::taken;
use crate::body::Look;
use crate::io::buffer::Buffer;
use crate::request::Request;
use crate::request::incoming::request_fault;
use crate::request::inspection::Inspection;
use crate::route::Routed;

/// Bytes of a body, and of how many the rules see.
struct Seen {
    bytes: usize,
    bytes_max: usize,
    is_refused: bool,
}

/// Reads the body as far as rules look at it.
pub(super) async fn read(
    routed: &Routed<'_>,
    inspection: &Inspection,
    rest: &mut Buffer,
) -> Result<(), Reason> {
    let request = routed.request;
    let limit = inspection.ask(Transaction::request_body_limit).flatten();
    let Some(bytes_max) = limit.filter(|_| has_readable_body(request)) else { return Ok(()) };
    taken::invite_body(request, rest).await?;
    let mut seen = Seen { bytes: 0, bytes_max, is_refused: false };
    let mut body = taken::unread(routed, 0);
    let read = taken::read_on(routed, &mut body, rest, |piece| show(inspection, &mut seen, piece)).await;
    match read {
        Err(_) if seen.is_refused => return Err(Reason::FirewallDenied),
        Err(error) => return Err(request_fault(&error.of_reading(request.deadline)).reason),
        Ok(()) => {}
    }
    if !body.is_whole && seen.bytes < bytes_max && enforces(inspection) {
        // There is no room for the part that the rules have to see.
        return Err(Reason::BodyUnheld);
    }
    inspection.keep_body(body);
    Ok(())
}

/// Shows a piece to the rules.
fn show(inspection: &Inspection, seen: &mut Seen, piece: &[u8]) -> Look {
    seen.bytes += piece.len();
    if !inspection.step(2, |transaction| transaction.request_body(piece)) {
        seen.is_refused = true;
        return Look::Refuse;
    }
    if seen.bytes > seen.bytes_max { Look::Enough } else { Look::On }
}

/// Whether the request has a body that can be read before the endpoint is asked.
fn has_readable_body(request: &Request<'_>) -> bool {
    request.parsed.has_body() && !request.parsed.is_upgrade() && !request.has_grpc_content()
}

fn enforces(inspection: &Inspection) -> bool {
    inspection.ask(Transaction::mode) == Some(Mode::On)
}
