//! The body of a request: read, held for the endpoint, and shown to the rules piece by piece.
//!
//! Never in here: heads.

use model::Action;
use observe::Reason;
use waf::Transaction;
use waf::settings::Mode;
use wire::h1::{Body, BodyDecoder};

use crate::body::{HeldBody, HeldPart, Incoming, Look, RelayError, Source, hold};
use crate::io::buffer::Buffer;
use crate::io::pace::Direction;
use crate::request::Request;
use crate::request::client::{Client, Timeout};
use crate::request::incoming::{invite, pace_body, request_fault, request_meter};
use crate::request::inspection::{Inspection, TakenBody};
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
    if request.parsed.expects_continue && rest.is_empty() {
        let timeout = request.config.settings().client.body_timeout;
        let invitation = Timeout { deadline: request.deadline, send_timeout: timeout };
        invite(request.client, invitation).await.map_err(|_| Reason::ClientAborted)?;
    }
    let mut seen = Seen { bytes: 0, bytes_max, is_refused: false };
    let taken = take(routed, inspection, rest, &mut seen).await;
    request.deadline.pace(Direction::Read, None);
    let taken = match taken {
        Err(_) if seen.is_refused => return Err(Reason::FirewallDenied),
        Err(error) => return Err(request_fault(&error.of_reading(request.deadline)).reason),
        Ok(taken) => taken,
    };
    if taken.is_whole {
        request.progress.note_body_whole();
    } else if seen.bytes < bytes_max && enforces(inspection) {
        // There is no room for the part that the rules have to see.
        return Err(Reason::BodyUnheld);
    }
    inspection.keep_body(taken);
    Ok(())
}

async fn take(
    routed: &Routed<'_>,
    inspection: &Inspection,
    rest: &mut Buffer,
    seen: &mut Seen,
) -> Result<TakenBody, RelayError> {
    let Request { client, deadline, progress, worker, parsed, .. } = routed.request;
    let (bytes_max, memory) = match routed.route.map(|route| &route.action) {
        Some(Action::Forward(forward)) => {
            (forward.body_bytes_max, forward.transfer.request_buffer_bytes.unwrap_or(0))
        }
        _ => (None, 0),
    };
    let body = if parsed.fields.chunked {
        Body::Chunked
    } else {
        Body::of_length(parsed.fields.content_length.unwrap_or(0))
    };
    let mut decoder = BodyDecoder::new(body);
    let mut held = HeldBody::new(&worker.bodies, memory);
    progress.note_body_begun();
    let source = match client {
        Client::Http1(socket) => Source::Http1 { socket, buffer: rest, decoder: &mut decoder },
        Client::Http2(stream) => Source::stream(stream),
    };
    let timeout = routed.config.settings().client.body_timeout;
    let meter = request_meter(routed.request, bytes_max);
    pace_body(routed.request, deadline);
    let look = |piece: &[u8]| show(inspection, seen, piece);
    let part = hold(Incoming { source, timeout }, &mut held, &meter, deadline, look).await?;
    Ok(TakenBody { held, decoder, is_whole: part == HeldPart::Whole })
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
