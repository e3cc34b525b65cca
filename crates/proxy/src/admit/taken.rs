//! A request's body that a check of the request looks at: read before an endpoint is selected, and held for
//! it.
//!
//! Never in here: what is looked for.

use model::Action;
use observe::Reason;
use wire::h1::{Body, BodyDecoder};

use crate::body::{HeldBody, HeldPart, Incoming, Look, RelayError, Source, hold};
use crate::io::buffer::Buffer;
use crate::io::pace::Direction;
use crate::request::Request;
use crate::request::client::{Client, Timeout};
use crate::request::incoming::{invite, pace_body, request_meter};
use crate::request::inspection::TakenBody;
use crate::route::Routed;

/// Invites a client to send its body that waits for that. `rest` holds what has been read after the head.
pub(crate) async fn invite_body(request: &Request<'_>, rest: &Buffer) -> Result<(), Reason> {
    if !request.parsed.expects_continue || !rest.is_empty() {
        return Ok(());
    }
    let timeout = request.config.settings().client.body_timeout;
    let invitation = Timeout { deadline: request.deadline, send_timeout: timeout };
    invite(request.client, invitation).await.map_err(|_| Reason::ClientAborted)
}

/// A body of which nothing has been read. At least `memory` of its bytes may be in memory, and as many as the
/// route says.
pub(crate) fn unread(routed: &Routed<'_>, memory: u64) -> TakenBody {
    let fields = &routed.parsed.fields;
    let body =
        if fields.chunked { Body::Chunked } else { Body::of_length(fields.content_length.unwrap_or(0)) };
    let of_route = match routed.route.map(|route| &route.action) {
        Some(Action::Forward(forward)) => forward.transfer.request_buffer_bytes.unwrap_or(0),
        _ => 0,
    };
    let held = HeldBody::new(&routed.worker.bodies, memory.max(of_route));
    TakenBody { held, decoder: BodyDecoder::new(body), is_whole: false }
}

/// Reads on, and shows each piece to `look`.
pub(crate) async fn read_on(
    routed: &Routed<'_>,
    taken: &mut TakenBody,
    rest: &mut Buffer,
    look: impl FnMut(&[u8]) -> Look,
) -> Result<(), RelayError> {
    let Request { client, deadline, progress, .. } = routed.request;
    let bytes_max = match routed.route.map(|route| &route.action) {
        Some(Action::Forward(forward)) => forward.body_bytes_max.bytes(),
        _ => None,
    };
    progress.note_body_begun();
    let source = match client {
        Client::Http1(socket) => Source::Http1 { socket, buffer: rest, decoder: &mut taken.decoder },
        Client::Stream(stream) => Source::stream(*stream),
    };
    let timeout = routed.config.settings().client.body_timeout;
    let meter = request_meter(routed.request, bytes_max);
    pace_body(routed.request, deadline);
    let part = hold(Incoming { source, timeout }, &mut taken.held, &meter, deadline, look).await;
    deadline.pace(Direction::Read, None);
    taken.is_whole = part? == HeldPart::Whole;
    if taken.is_whole {
        progress.note_body_whole();
    }
    Ok(())
}
