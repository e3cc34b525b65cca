//! HTTP/1 towards clients: request heads in.

use std::time::Duration;

use observe::Reason;
use wire::h1::{Request, RequestLimits};

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

/// Reads a request head, of which `buffer` holds the beginning; it stays there, and `request` says what it is.
pub(crate) async fn read_request(
    socket: &Socket,
    buffer: &mut Buffer,
    request: &mut Request,
    limits: RequestLimits,
    timeout: Duration,
    deadline: &Deadline,
) -> Result<(), NoRequest> {
    let mut is_timed = false;
    loop {
        if is_worth_parsing(buffer.data(), limits) {
            let parsed = request.parse(buffer.data(), limits);
            if parsed.map_err(|fault| NoRequest::Refused(reply::malformed(fault)))? {
                return Ok(());
            }
        }
        // Nearly all heads have come whole.
        if !std::mem::replace(&mut is_timed, true) {
            deadline.start(timeout);
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
