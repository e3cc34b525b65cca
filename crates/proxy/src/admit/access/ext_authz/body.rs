//! The part of a request's body that an authorization service sees.

use model::AuthzBody;
use observe::Reason;

use crate::admit::{Targeted, taken};
use crate::body::Look;
use crate::io::buffer::Buffer;
use crate::request::decision::Decision;
use crate::request::incoming::request_fault;

/// The beginning of a body.
pub(super) struct SeenBody {
    pub(super) bytes: Vec<u8>,
    /// The body is longer.
    pub(super) is_partial: bool,
}

/// Reads as much of the body as the service sees; the whole of it is held for the endpoint. What both sides
/// of another protocol say after an upgrade is not read.
pub(super) async fn read(
    targeted: &Targeted<'_>,
    limits: AuthzBody,
    decision: &Decision,
    rest: &mut Buffer,
) -> Result<SeenBody, Reason> {
    let request = targeted.routed.request;
    let bytes_max = limits.bytes_max as usize;
    if !request.parsed.has_body() || request.parsed.is_upgrade() {
        return Ok(SeenBody { bytes: Vec::new(), is_partial: false });
    }
    let is_too_long =
        request.parsed.fields.content_length.is_some_and(|len| len > u64::from(limits.bytes_max));
    if is_too_long && !limits.allows_partial {
        return Err(Reason::BodyTooLarge);
    }
    let begun = decision.take_body();
    if begun.is_none() {
        taken::invite_body(request, rest).await?;
    }
    let mut body = begun.unwrap_or_else(|| taken::unread(targeted, u64::from(limits.bytes_max)));
    // One byte more says whether the body is longer than the service sees.
    let mut bytes = body.held.beginning(bytes_max + 1).await.map_err(|_| Reason::BodyUnheld)?;
    if !body.is_whole && bytes.len() <= bytes_max {
        let look = |piece: &[u8]| {
            let room = bytes_max + 1 - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            if bytes.len() > bytes_max { Look::Enough } else { Look::On }
        };
        let read = taken::read_on(targeted, &mut body, rest, look).await;
        read.map_err(|error| request_fault(&error.of_reading(request.deadline)).reason)?;
    }
    let (is_partial, is_whole) = (bytes.len() > bytes_max, body.is_whole);
    bytes.truncate(bytes_max);
    *decision.body.borrow_mut() = Some(Box::new(body));
    match (is_partial, is_whole) {
        (true, _) if !limits.allows_partial => Err(Reason::BodyTooLarge),
        // There is no room for the part that the service has to see.
        (false, false) => Err(Reason::BodyUnheld),
        _ => Ok(SeenBody { bytes, is_partial }),
    }
}
