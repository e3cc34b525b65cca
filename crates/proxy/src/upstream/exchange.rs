//! A request made on behalf of another whose response is read whole, within a bound: head, body and trailers.

use model::Timeouts;
use observe::Reason;
use wire::h1::{BodyDecoder, Response};

use crate::body::{BodyEvent, Framing, Incoming, Outgoing, RelayError};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::upstream::fault::Fault;
use crate::upstream::h1::keep_alive_hint;
use crate::upstream::subrequest::final_head;
use crate::upstream::{Call, Endpoint, Message, ResponseTimer};
use crate::worker::Worker;

/// A whole response.
#[derive(Clone, Copy)]
pub(crate) struct Whole<'w> {
    pub(crate) response: &'w Response,
    /// Its head as HTTP/1.
    pub(crate) head: &'w [u8],
    pub(crate) body: &'w [u8],
    /// Lines of trailers as in HTTP/1.
    pub(crate) trailers: &'w [u8],
}

/// Sends a request that is all in memory and does no harm if it is sent twice; `read` takes what is needed
/// from the response. A body that is longer than `body_bytes_max` is a fault.
pub(crate) async fn exchange<T>(
    worker: &Worker,
    endpoint: &Endpoint,
    message: &Message<'_>,
    body_bytes_max: usize,
    deadline: &Deadline,
    read: impl FnOnce(Whole<'_>) -> T,
) -> Result<T, Fault> {
    let (pool, timeouts) = (&worker.pool, *message.timeouts);
    let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
    let converse = async |call: &mut Call<'_>| {
        call.send(message, deadline).await?;
        send_body(call, message, timeouts, deadline).await?;
        let timer = ResponseTimer::new(deadline, timeouts.read, true);
        final_head(call, &mut response, &mut buffer, &timer).await
    };
    let (call, ()) = Call::converse(pool, endpoint, timeouts.connect, deadline, converse).await?;
    let head = buffer.data()[..response.len].to_vec();
    let idle_max = keep_alive_hint(&head, &response);
    buffer.consume(response.len);
    let framing = response.body(message.bytes.starts_with(b"HEAD "));
    let mut decoder = BodyDecoder::new(framing);
    let source = call.source(framing, &mut buffer, &mut decoder);
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    let mut incoming = Incoming { source, timeout: timeouts.read };
    loop {
        match incoming.next(None, deadline).await.map_err(|error| fault_of(&error))? {
            BodyEvent::Content { skip, len } => {
                if body.len() + len > body_bytes_max {
                    return Err(Fault::never(Reason::UpstreamBadResponse));
                }
                body.extend_from_slice(incoming.content(skip, len));
                incoming.source.consume(skip + len);
            }
            BodyEvent::End { skip, trailers: at } => {
                trailers.extend_from_slice(incoming.content(at, skip - at));
                incoming.source.consume(skip);
                break;
            }
            BodyEvent::Large { .. } => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
        }
    }
    drop(incoming);
    let result = read(Whole { response: &response, head: &head, body: &body, trailers: &trailers });
    call.note_source_left(decoder);
    call.finish(response.is_persistent() && buffer.is_empty(), idle_max, false);
    worker.responses.keep(response);
    Ok(result)
}

/// Sends the part of a message that its protocol does not send with the head. A peer that has enough of it
/// stops it; then the response decides.
async fn send_body(
    call: &Call<'_>,
    message: &Message<'_>,
    timeouts: Timeouts,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let Some(rest) = call.unsent(message) else { return Ok(()) };
    let sink = call.sink(Framing::Raw);
    let outgoing = Outgoing { sink, timeout: timeouts.send, passing_trailers: None };
    match outgoing.write(rest, true, deadline).await {
        Err(RelayError::WriteTimeout) => Err(Fault::sent(Reason::UpstreamSendTimeout)),
        _ => Ok(()),
    }
}

fn fault_of(error: &RelayError) -> Fault {
    Fault::sent(match error {
        RelayError::ReadTimeout | RelayError::ReadTooSlow => Reason::UpstreamReadTimeout,
        RelayError::Invalid(_) => Reason::UpstreamBadResponse,
        _ => Reason::UpstreamReset,
    })
}
