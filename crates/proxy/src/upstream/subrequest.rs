//! A request made on behalf of another: to an auth service, or as a copy.

use model::Timeouts;
use observe::Reason;
use wire::h1::{Body, BodyDecoder, Decoded, Response};

use crate::body::{Framing, HeldBody, Outgoing};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::limits::{INTERIM_RESPONSES_MAX, RESPONSE_HEAD_BYTES_MAX, SUBREQUEST_BODY_BYTES_MAX};
use crate::upstream::fault::Fault;
use crate::upstream::h1::keep_alive_hint;
use crate::upstream::{Call, Endpoint, HeadLimits, Message, ResponseTimer};
use crate::worker::Worker;

/// A request made on behalf of another one.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) message: &'q Message<'q>,
    /// The rest of the body, after the bytes of the message.
    pub(crate) rest: Option<&'q HeldBody>,
    /// Whether the request may be sent again where an idle connection turns out to be dead.
    pub(crate) can_be_repeated: bool,
}

/// Sends a request; `read` takes what is needed from the response head. The response body is drained.
pub(crate) async fn ask<T>(
    worker: &Worker,
    endpoint: &Endpoint,
    question: Question<'_>,
    deadline: &Deadline,
    read: impl FnOnce(&[u8], &Response) -> T,
) -> Result<T, Fault> {
    let Question { message, rest, can_be_repeated } = question;
    let (pool, timeouts) = (&worker.pool, *message.timeouts);
    let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
    let mut converse = async |call: &mut Call<'_>| {
        call.send(message, deadline).await?;
        if let Some(rest) = rest {
            let sink = call.sink(Framing::Raw);
            let outgoing = Outgoing { sink, timeout: timeouts.send, passing_trailers: None };
            let sent = rest.send(&outgoing, true, deadline).await;
            sent.map_err(|_| Fault::sent(Reason::UpstreamReset))?;
        }
        let timer = ResponseTimer::new(deadline, timeouts.read, true);
        final_head(call, &mut response, &mut buffer, &timer).await
    };
    let call = if can_be_repeated {
        Call::converse(pool, endpoint, timeouts.connect, deadline, converse).await?.0
    } else {
        let mut call = Call::open(pool, endpoint, false, false, timeouts.connect, deadline).await?;
        converse(&mut call).await?;
        call
    };
    let result = read(buffer.data(), &response);
    let body = response.body(message.bytes.starts_with(b"HEAD "));
    let idle_max = keep_alive_hint(buffer.data(), &response);
    buffer.consume(response.len);
    let is_past = drain(&call, body, &mut buffer, timeouts, deadline).await;
    call.finish(is_past && response.is_persistent(), idle_max, false);
    worker.responses.keep(response);
    Ok(result)
}

/// Reads heads up to the final one, or one that switches protocols. Interim ones are skipped.
pub(crate) async fn final_head(
    call: &Call<'_>,
    response: &mut Response,
    buffer: &mut Buffer,
    timer: &ResponseTimer<'_>,
) -> Result<(), Fault> {
    // A dead connection may have left a part of a head.
    buffer.consume(buffer.len());
    let limits = HeadLimits { is_eager: true, bytes_max: RESPONSE_HEAD_BYTES_MAX };
    for _ in 0..=INTERIM_RESPONSES_MAX {
        call.head(response, buffer, limits, timer).await?;
        if !response.is_interim() || response.status == 101 {
            return Ok(());
        }
        buffer.consume(response.len);
    }
    Err(Fault::sent(Reason::UpstreamBadResponse))
}

/// Drains a body, so that the connection can be used again. False where that is not worth it.
pub(crate) async fn drain(
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

/// A text as part of a URL: bytes that would end the URL or its line are escaped. A value such as `$uri` may
/// hold anything.
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
