//! HTTP/1 towards clients: request heads in.

use std::time::Duration;

use observe::Reason;
use wire::h1::{Fields, Request, RequestLimits, parse_request};

use crate::buffer::Buffer;
use crate::deadline::{Deadline, Elapsed};
use crate::reply;
use crate::socket::Socket;

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRequest {
    /// The client closed.
    Gone,
    /// It is refused.
    Refused(Reason),
}

/// Reads a request head, of which `buffer` holds the beginning; it stays there.
pub(crate) async fn read_request(
    socket: &Socket,
    buffer: &mut Buffer,
    fields: Fields,
    limits: RequestLimits,
    timeout: Duration,
    deadline: &Deadline,
) -> Result<Request, NoRequest> {
    let mut spare = Some(fields);
    deadline.start(timeout);
    loop {
        if is_worth_parsing(buffer.data(), limits) {
            let parsed = parse_request(buffer.data(), limits, spare.take().unwrap_or_default());
            match parsed.map_err(|fault| NoRequest::Refused(reply::malformed(fault)))? {
                Some(request) => return Ok(request),
                None => spare = Some(Fields::default()),
            }
        }
        match deadline.guard(|cx| socket.poll_fill_small(cx, buffer)).await {
            Err(Elapsed) => return Err(NoRequest::Refused(Reason::HeadTimeout)),
            Ok(Ok(0) | Err(_)) => return Err(NoRequest::Gone),
            Ok(Ok(_)) => {}
        }
    }
}

/// A head that trickles in is parsed when its end has come or a limit is passed, not at every byte: otherwise a slow client
/// could have the worker do the square of the work.
fn is_worth_parsing(bytes: &[u8], limits: RequestLimits) -> bool {
    bytes.ends_with(b"\n")
        || bytes.len() > limits.line_bytes_max
        || memchr::memmem::find(bytes, b"\r\n\r\n").is_some()
}
