//! The response of an endpoint to a request of a route with a cache.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use model::Forward;
use observe::Reason;
use wire::cache::Head;
use wire::h1::{Body, BodyDecoder, Response};

use super::fill::fill;
use super::give::{give, give_kept};
use super::plan::{Keeping, Plan, RequestInfo, plan};
use crate::answer::attempted::Attempted;
use crate::body::{Incoming, Stored};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::upstream::Call;
use crate::upstream::fault::Fault;

/// Whether the cache has answered the client.
pub(crate) enum CacheFill {
    /// The client gets the endpoint's response as it is.
    No,
    /// The client has been answered, or has gone away meanwhile; whether its connection, and whether the
    /// endpoint's can take another request.
    Yes { keep_alive: Result<bool, Fault>, is_read: bool },
}

/// Offers the response to the cache: it is stored, a stored one is sent instead, or neither.
pub(crate) async fn take(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    call: &Call<'_>,
    response: &Response,
    buffer: &mut Buffer,
) -> Result<CacheFill, Fault> {
    let Some(miss) = attempted.miss() else { return Ok(CacheFill::No) };
    let head = Head::of_response(buffer.data(), response);
    super::note_response(attempted, forward, response.status, head).await;
    let request = RequestInfo {
        method: attempted.method(),
        head: Head::of_request(attempted.head, attempted.parsed),
        time: attempted.worker.clock.unix(),
    };
    match plan(miss, request, response, buffer.data()) {
        Plan::Pass => Ok(CacheFill::No),
        Plan::Stale => Err(Fault::never(Reason::UpstreamStatus)),
        Plan::Updated(object) => {
            buffer.consume(response.len);
            let keep_alive = give_kept(attempted, forward, &object).await?;
            Ok(CacheFill::Yes { keep_alive: Ok(keep_alive), is_read: true })
        }
        Plan::Keep(keeping) => {
            miss.is_filling.set(true);
            let body = response.body(attempted.is_head());
            buffer.consume(response.len);
            let mut decoder = BodyDecoder::new(body);
            let now = request.now();
            let (is_filled, keep_alive) = {
                let source = call.source(body, buffer, &mut decoder);
                let incoming = Incoming { source, timeout: forward.timeouts.read };
                fill_and_give(attempted, forward, incoming, *keeping, now).await
            };
            call.note_source_left(decoder);
            miss.is_filling.set(false);
            Ok(CacheFill::Yes { keep_alive, is_read: is_filled && body != Body::UntilClose })
        }
    }
}

/// Reads the body into the cache and sends it to the client at the same time: neither waits for the other,
/// and a client that leaves does not end the reading. Returns whether the body has been read to its end, and
/// the state of the client's connection.
async fn fill_and_give(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    incoming: Incoming<'_>,
    keeping: Keeping,
    now: u64,
) -> (bool, Result<bool, Fault>) {
    let object = Arc::clone(&keeping.object);
    let reader = keeping.body.reader().map(Stored::coming);
    let miss = attempted.miss().expect("it is there when a response is kept");
    let cache = Arc::clone(&miss.cache);
    let request = miss.asking(Head::of_request(attempted.head, attempted.parsed));
    let own_deadline: Deadline = attempted.deadline.another();
    let mut filling = pin!(fill(incoming, keeping, (&cache, request, now), &own_deadline));
    let mut giving = pin!(give(attempted, forward, &object, reader));
    let (mut filled, mut given) = (None, None);
    poll_fn(|cx| {
        if filled.is_none()
            && let Poll::Ready(result) = filling.as_mut().poll(cx)
        {
            filled = Some(result);
        }
        if given.is_none()
            && let Poll::Ready(result) = giving.as_mut().poll(cx)
        {
            given = Some(result);
        }
        if filled.is_some() && given.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (filled.expect("both have ended").is_ok(), given.expect("both have ended"))
}
