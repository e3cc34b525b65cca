//! The response of an endpoint to a request that the cache has to do with.

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
use super::plan::{Asker, Keeping, Plan, plan};
use crate::body::{Incoming, Stored};
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::upstream::Call;

/// What has become of a response.
pub(crate) enum Taken {
    /// The client gets it as it is.
    No,
    /// The client has been answered, or has gone away meanwhile; whether its connection, and whether the endpoint's can take another
    /// request.
    Yes { keep_alive: Result<bool, Fault>, is_read: bool },
}

/// Takes the response to a request, if it concerns what is kept: it is kept, or what is kept is given.
pub(crate) async fn take(
    exchange: &Exchange<'_>,
    forward: &Forward,
    call: &Call<'_>,
    response: &Response,
    buffer: &mut Buffer,
) -> Result<Taken, Fault> {
    let Some(passage) = exchange.passage() else { return Ok(Taken::No) };
    let head = Head::of_response(buffer.data(), response);
    super::note_response(exchange, forward, response.status, head).await;
    let asker = Asker {
        method: &exchange.head[exchange.request.method.clone()],
        head: Head::of_request(exchange.head, exchange.request),
        time: exchange.worker.clock.unix(),
    };
    match plan(passage, asker, response, buffer.data()) {
        Plan::Pass => Ok(Taken::No),
        Plan::Stale => Err(Fault::never(Reason::UpstreamStatus)),
        Plan::Updated(object) => {
            buffer.consume(response.len);
            let keep_alive = give_kept(exchange, forward, &object).await?;
            Ok(Taken::Yes { keep_alive: Ok(keep_alive), is_read: true })
        }
        Plan::Keep(keeping) => {
            passage.is_filling.set(true);
            let body = response.body(exchange.is_head());
            buffer.consume(response.len);
            let mut decoder = BodyDecoder::new(body);
            let now = asker.now();
            let (is_filled, keep_alive) = {
                let source = call.source(body, buffer, &mut decoder);
                let incoming = Incoming { source, timeout: forward.timeouts.read };
                fill_and_give(exchange, forward, incoming, *keeping, now).await
            };
            call.note_source_left(decoder);
            passage.is_filling.set(false);
            Ok(Taken::Yes { keep_alive, is_read: is_filled && body != Body::UntilClose })
        }
    }
}

/// Reads the body into the cache, and gives it to the client beside that: neither waits for the other, and a client that goes does not end
/// the reading. Returns whether the body has been read to its end, and what has become of the client.
async fn fill_and_give(
    exchange: &Exchange<'_>,
    forward: &Forward,
    incoming: Incoming<'_>,
    keeping: Keeping,
    now: u64,
) -> (bool, Result<bool, Fault>) {
    let object = Arc::clone(&keeping.object);
    let reader = keeping.body.reader().map(Stored::coming);
    let passage = exchange.passage().expect("it is there when a response is kept");
    let cache = Arc::clone(&passage.cache);
    let request = passage.asking(Head::of_request(exchange.head, exchange.request));
    let own_deadline: Deadline = exchange.deadline.another();
    let mut filling = pin!(fill(incoming, keeping, (&cache, request, now), &own_deadline));
    let mut giving = pin!(give(exchange, forward, &object, reader));
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
