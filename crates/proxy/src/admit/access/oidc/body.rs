//! The body of a request to an endpoint: short, and read whole.

use wire::h1::{Body, BodyDecoder};

use crate::admit::Targeted;
use crate::body::{HeldBody, HeldPart, Incoming, Look, Source, hold};
use crate::io::buffer::Buffer;
use crate::io::pace::Direction;
use crate::limits::OIDC_LOGOUT_BYTES_MAX;
use crate::request::Request;
use crate::request::client::{Client, Timeout};
use crate::request::incoming::{invite, pace_body, request_meter};

/// The body is too long, or did not come.
pub(super) struct Unread;

/// Reads the body of a request.
pub(super) async fn read(targeted: &Targeted<'_>, rest: &mut Buffer) -> Result<Vec<u8>, Unread> {
    let Request { client, deadline, progress, worker, parsed, .. } = targeted.request;
    if !parsed.has_body() || parsed.is_upgrade() {
        return Ok(Vec::new());
    }
    let timeout = targeted.config.settings().client.body_timeout;
    if parsed.expects_continue && rest.is_empty() {
        let invitation = Timeout { deadline, send_timeout: timeout };
        invite(*client, invitation).await.map_err(|_| Unread)?;
    }
    let body = if parsed.fields.chunked {
        Body::Chunked
    } else {
        Body::of_length(parsed.fields.content_length.unwrap_or(0))
    };
    let mut decoder = BodyDecoder::new(body);
    let mut held = HeldBody::new(&worker.bodies, OIDC_LOGOUT_BYTES_MAX as u64);
    progress.note_body_begun();
    let source = match client {
        Client::Http1(socket) => Source::Http1 { socket, buffer: rest, decoder: &mut decoder },
        Client::Stream(stream) => Source::stream(*stream),
    };
    let meter = request_meter(targeted.request, Some(OIDC_LOGOUT_BYTES_MAX as u64));
    pace_body(targeted.request, deadline);
    let mut content = Vec::new();
    let look = |piece: &[u8]| {
        if content.len() + piece.len() > OIDC_LOGOUT_BYTES_MAX {
            return Look::Refuse;
        }
        content.extend_from_slice(piece);
        Look::On
    };
    let part = hold(Incoming { source, timeout }, &mut held, &meter, deadline, look).await;
    deadline.pace(Direction::Read, None);
    match part {
        Ok(HeldPart::Whole) => {
            progress.note_body_whole();
            Ok(content)
        }
        Ok(_) | Err(_) => Err(Unread),
    }
}
