//! A request that is made for another: to an auth service, or as a copy.

use model::Timeouts;
use observe::Reason;
use wire::h1::{Body, BodyDecoder, Decoded, Response};

use crate::body::{Framing, HeldBody, Outgoing};
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::fault::Fault;
use crate::limits::{INTERIM_RESPONSES_MAX, RESPONSE_HEAD_BYTES_MAX, SUBREQUEST_BODY_BYTES_MAX};
use crate::upstream::h1::keep_alive_hint;
use crate::upstream::{Call, Endpoint, Request, ResponseTimer};
use crate::worker::Worker;

/// Sends a request, and after its bytes the rest of its body if there is any; `read` takes what it needs of the response's head. The body of
/// the response is passed over. `is_fresh` asks for a connection that nobody has used; `can_be_repeated` says that it does no harm where an
/// idle one turns out to be dead.
pub(crate) async fn ask<T>(
    worker: &Worker,
    endpoint: &Endpoint,
    (is_fresh, can_be_repeated): (bool, bool),
    (request, rest): (&Request<'_>, Option<&HeldBody>),
    deadline: &Deadline,
    read: impl FnOnce(&[u8], &Response) -> T,
) -> Result<T, Fault> {
    let timeouts = *request.timeouts;
    let (pool, connect) = (&worker.pool, timeouts.connect);
    let mut call = Call::open(pool, endpoint, is_fresh, can_be_repeated, connect, deadline).await?;
    call.send(request, deadline).await?;
    if let Some(rest) = rest {
        let sink = call.sink(Framing::Raw);
        let outgoing = Outgoing { sink, timeout: timeouts.send, passing_trailers: None };
        let sent = rest.send(&outgoing, true, deadline).await;
        sent.map_err(|_| Fault::sent(Reason::UpstreamReset))?;
    }
    let timer = ResponseTimer::new(deadline, timeouts.read, true);
    let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
    let received = final_head(&call, &mut response, &mut buffer, &timer).await;
    let result = received.map(|()| read(buffer.data(), &response));
    if result.is_ok() {
        let body = response.body(request.bytes.starts_with(b"HEAD "));
        let idle_max = keep_alive_hint(buffer.data(), &response);
        buffer.consume(response.len);
        let is_past = drain(&call, body, &mut buffer, timeouts, deadline).await;
        call.finish(is_past && response.is_persistent(), idle_max, false);
    }
    worker.responses.keep(response);
    result
}

pub(crate) async fn final_head(
    call: &Call<'_>,
    response: &mut Response,
    buffer: &mut Buffer,
    timer: &ResponseTimer<'_>,
) -> Result<(), Fault> {
    // Of a connection that was dead there may be a part of a head.
    buffer.consume(buffer.len());
    for _ in 0..=INTERIM_RESPONSES_MAX {
        call.head(response, buffer, (true, RESPONSE_HEAD_BYTES_MAX), timer).await?;
        if !response.is_interim() || response.status == 101 {
            return Ok(());
        }
        buffer.consume(response.len);
    }
    Err(Fault::sent(Reason::UpstreamBadResponse))
}

/// Passes over a body, so that the connection can be used again. False where that is not worth it.
async fn drain(
    call: &Call<'_>,
    body: Body,
    buffer: &mut Buffer,
    timeouts: Timeouts,
    deadline: &Deadline,
) -> bool {
    let Some(socket) = call.own_socket().filter(|_| body != Body::UntilClose) else { return false };
    let (mut decoder, mut passed) = (BodyDecoder::new(body), 0);
    loop {
        match decoder.decode(buffer.data()) {
            Ok(Decoded::End { skip, .. }) => {
                buffer.consume(skip);
                return buffer.is_empty();
            }
            Ok(Decoded::Data { skip, len }) => {
                buffer.consume(skip + len);
                passed += len;
                if passed > SUBREQUEST_BODY_BYTES_MAX {
                    return false;
                }
                continue;
            }
            Ok(Decoded::More { skip }) => buffer.consume(skip),
            Err(_) => return false,
        }
        match deadline.within(timeouts.read, |cx| socket.poll_fill(cx, buffer)).await {
            Ok(Ok(read)) if read > 0 => {}
            _ => return false,
        }
    }
}

/// A text as part of a URL: what would end it, or the line that it is in, is escaped. A value such as `$uri` may hold anything.
pub(crate) fn visible(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_graphic() {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_its_line() {
        assert_eq!(visible(b"/a b\r\nX: y\x00\xff"), b"/a%20b%0D%0AX:%20y%00%FF");
    }
}
