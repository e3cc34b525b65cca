//! HTTP/1 towards clients: request heads in.

use std::task::Context;

use model::ClientSettings;
use observe::Reason;
use wire::h1::{Malformed, Request, RequestLimits, missing_slash};

use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::pace::time_for;
use crate::io::socket::Socket;
use crate::request::reply;

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRequest {
    /// The client closed.
    Gone,
    /// It is refused.
    Refused(Reason),
}

/// Reads a request head, of which `buffer` holds the beginning; it stays there, and `request` says what it
/// is.
pub(crate) async fn read_request(
    socket: &Socket,
    buffer: &mut Buffer,
    request: &mut Request,
    limits: RequestLimits,
    client: &ClientSettings,
    deadline: &Deadline,
) -> Result<(), NoRequest> {
    let (timeout, rate_min) = (client.header_timeout, client.bounds.send_rate_min);
    let mut begun = None;
    loop {
        // Nearly all heads come whole.
        if begun.is_none() || is_worth_parsing(buffer.data(), limits) {
            let mut parsed = request.parse(buffer.data(), limits);
            if parsed == Err(Malformed::Target)
                && let Some(at) = missing_slash(buffer.data())
            {
                buffer.insert(at, b'/');
                parsed = request.parse(buffer.data(), limits);
            }
            if parsed.map_err(|fault| NoRequest::Refused(reply::malformed(fault)))? {
                return Ok(());
            }
        }
        let time_for_rate = rate_min.map(|rate| rate.grace + time_for(buffer.len(), rate));
        let is_new = begun.is_none();
        let begun = *begun.get_or_insert_with(|| deadline.now());
        if is_new || rate_min.is_some() {
            let allowed = time_for_rate.map_or(timeout, |time| time.min(timeout));
            deadline.start(allowed.saturating_sub(deadline.now().since(begun)));
        }
        let fill = |cx: &mut Context<'_>| {
            let read = socket.poll_fill_small(cx, buffer);
            // A head that trickles in is not what others wait for.
            if !is_new {
                reactor::set_late(cx, read.is_pending());
            }
            read
        };
        match deadline.guard(fill).await {
            Err(Elapsed) if time_for_rate.is_some_and(|time| time < timeout) => {
                return Err(NoRequest::Refused(Reason::HeadRate));
            }
            Err(Elapsed) => return Err(NoRequest::Refused(Reason::HeadTimeout)),
            Ok(Ok(0) | Err(_)) => return Err(NoRequest::Gone),
            Ok(Ok(_)) => {}
        }
    }
}

/// A head that trickles in is parsed when its end has come or a limit is passed, not at every byte:
/// otherwise a slow client could have the worker do the square of the work.
fn is_worth_parsing(bytes: &[u8], limits: RequestLimits) -> bool {
    bytes.ends_with(b"\n")
        || bytes.len() > limits.line_bytes_max
        || memchr::memmem::find(bytes, b"\r\n\r\n").is_some()
}
