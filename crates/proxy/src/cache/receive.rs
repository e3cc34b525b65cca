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
use crate::body::{Incoming, Source, Stored};
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

/// A response whose head has been taken from the connection, and whose body follows in a source.
pub(crate) struct Arrived<'r, 's> {
    pub(crate) response: &'r Response,
    pub(crate) head: &'r [u8],
    pub(crate) source: Source<'s>,
}

/// The end of a response that was offered to the cache.
pub(crate) enum Taken<'s> {
    /// The client has been answered, or has gone away meanwhile.
    Filled {
        /// Whether the client's connection can take another request.
        keep_alive: Result<bool, Fault>,
        /// The body has been read, and the connection is left open by it.
        is_read: bool,
    },
    /// The cache takes none of it.
    Unused(Source<'s>),
}

/// Offers the response to the cache: it is stored, a stored one is sent instead, or neither.
pub(crate) async fn take(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    call: &Call<'_>,
    response: &Response,
    buffer: &mut Buffer,
) -> Result<CacheFill, Fault> {
    match offer(attempted, forward, response, buffer.data()).await? {
        Use::None => Ok(CacheFill::No),
        Use::Updated { keep_alive } => {
            buffer.consume(response.len);
            Ok(CacheFill::Yes { keep_alive: Ok(keep_alive), is_read: true })
        }
        Use::Keep { keeping, now } => {
            let body = response.body(attempted.is_head());
            buffer.consume(response.len);
            let mut decoder = BodyDecoder::new(body);
            let source = call.source(body, buffer, &mut decoder);
            let (is_filled, keep_alive) = keep(attempted, forward, source, *keeping, now).await;
            call.note_source_left(decoder);
            Ok(CacheFill::Yes { keep_alive, is_read: is_filled && body != Body::UntilClose })
        }
    }
}

/// The same for a response that has passed a firewall.
pub(crate) async fn take_inspected<'s>(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    arrived: Arrived<'_, 's>,
) -> Result<Taken<'s>, Fault> {
    let Arrived { response, head, source } = arrived;
    Ok(match offer(attempted, forward, response, head).await? {
        Use::None => Taken::Unused(source),
        Use::Updated { keep_alive } => Taken::Filled { keep_alive: Ok(keep_alive), is_read: true },
        Use::Keep { keeping, now } => {
            let is_endless = response.body(attempted.is_head()) == Body::UntilClose;
            let (is_filled, keep_alive) = keep(attempted, forward, source, *keeping, now).await;
            Taken::Filled { keep_alive, is_read: is_filled && !is_endless }
        }
    })
}

/// The use of a response for the cache.
enum Use {
    None,
    /// It says that the stored response still holds, which the client has been sent; whether the client's
    /// connection can take another request.
    Updated {
        keep_alive: bool,
    },
    /// It is stored, at this time.
    Keep {
        keeping: Box<Keeping>,
        now: u64,
    },
}

/// The cache's use of a response; none for a request that the cache has no part in.
async fn offer(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    response: &Response,
    bytes: &[u8],
) -> Result<Use, Fault> {
    let Some(miss) = attempted.miss() else { return Ok(Use::None) };
    let head = Head::of_response(bytes, response);
    super::note_response(attempted, forward, response.status, head).await;
    let request = RequestInfo {
        method: attempted.method(),
        head: Head::of_request(attempted.head, attempted.parsed),
        time: attempted.worker.clock.unix(),
    };
    let now = request.now();
    Ok(match plan(miss, request, response, bytes) {
        Plan::Pass => Use::None,
        Plan::Stale => return Err(Fault::never(Reason::UpstreamStatus)),
        Plan::Updated(object) => Use::Updated { keep_alive: give_kept(attempted, forward, &object).await? },
        Plan::Keep(keeping) => Use::Keep { keeping, now },
    })
}

/// Stores a body that goes to the client.
async fn keep(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    source: Source<'_>,
    keeping: Keeping,
    now: u64,
) -> (bool, Result<bool, Fault>) {
    let filling = |is_filling| attempted.miss().expect("it has a part in it").is_filling.set(is_filling);
    filling(true);
    let incoming = Incoming { source, timeout: forward.timeouts.read };
    let filled = fill_and_give(attempted, forward, incoming, keeping, now).await;
    filling(false);
    filled
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
