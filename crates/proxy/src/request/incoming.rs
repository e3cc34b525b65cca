//! The body of a request while it is read: its invitation, its count and pace, and its faults.
//!
//! Never in here: where it goes.

use observe::Reason;
use wire::h1::InvalidBody;

use crate::body::{Meter, RelayError};
use crate::io::deadline::Deadline;
use crate::io::pace::Direction;
use crate::request::Request;
use crate::request::client::{Client, Timeout};
use crate::upstream::fault::Fault;

/// Tells a client that waits for it to send its body (RFC 9110 section 10.1.1).
pub(crate) async fn invite(client: Client<'_>, timeout: Timeout<'_>) -> Result<(), RelayError> {
    client.inform(100, b"HTTP/1.1 100 Continue\r\n\r\n", timeout).await.map_err(|_| RelayError::Read)
}

/// The count of a request's content, with its limit in bytes.
pub(crate) fn request_meter<'x>(request: &'x Request<'_>, bytes_max: Option<u64>) -> Meter<'x> {
    Meter { content: &request.report.received_body, max: bytes_max }
}

/// Has the client keep to the least rate while the body is read, where there is one. What gRPC sends comes
/// when there is something to say.
pub(crate) fn pace_body(request: &Request<'_>, deadline: &Deadline) {
    let rate = request.config.settings().client.bounds.send_rate_min;
    if rate.is_some() && !request.has_grpc_content() {
        deadline.pace(Direction::Read, rate);
    }
}

/// The fault of a request whose body was not read, or not passed on.
pub(crate) fn request_fault(error: &RelayError) -> Fault {
    match error {
        RelayError::Read | RelayError::Invalid(InvalidBody::Truncated) => Fault::never(Reason::ClientAborted),
        RelayError::ReadTimeout => Fault::never(Reason::BodyTimeout),
        RelayError::ReadTooSlow => Fault::never(Reason::BodyRate),
        RelayError::Invalid(_) => Fault::never(Reason::BadChunk),
        RelayError::TooLarge => Fault::never(Reason::BodyTooLarge),
        RelayError::Write => Fault::sent(Reason::UpstreamReset),
        RelayError::WriteTimeout => Fault::sent(Reason::UpstreamSendTimeout),
        RelayError::Store | RelayError::Coding | RelayError::File => Fault::never(Reason::BodyUnheld),
        RelayError::Processor(reason) => Fault::never(*reason),
    }
}
