//! Requests that go through an external processor, by Envoy's protocol `ext_proc`, and their responses.
//!
//! The processor stands between the checks of the client and the endpoint. It sees the head as the endpoint
//! would get it, and what it changes is what all tries send: it is asked once for a request, however often
//! endpoints are tried. A response is given to it when no other endpoint is tried any more, before the
//! firewall's rules and compression.
//!
//! Never in here: the order of messages, which is `deciders`', and the stream, which is
//! `request::processing`'s.

mod head;
mod request;
mod response;

use deciders::processing::{Change, Direction};
use deciders::proto::processing::PROCESS;
use model::{Forward, Processor, Timeouts};
use observe::Reason;

use crate::admit::Admitted;
use crate::answer::attempted::Attempted;
use crate::answer::passed::Passed;
use crate::body::{Framing, Piece, Processor as _, RelayError};
use crate::forward::outbound::Outbound;
use crate::forward::tries::{self, Begun};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::limits::AUTH_TRIES_MAX;
use crate::request::processing::{Exchange, Opened, Outcome, Processing};
use crate::request::stop::Stop;
use crate::upstream::fault::{Fault, Retry};
use crate::upstream::{Call, Cluster, Endpoint, Message, OpenStream};

/// Forwards a request to an endpoint of its cluster through the route's processor. `rest` holds what has been
/// read after the head.
pub(crate) async fn forward<'a>(
    admitted: &Admitted<'a>,
    forwarding: &Forward,
    cluster: &Cluster,
    rest: &mut Buffer,
) -> Passed<'a> {
    let mut outbound = Outbound::unread(admitted, forwarding, rest);
    if let Err(stop) = admitted.check_steps() {
        return Stop::from(stop).into();
    }
    let prepared = async {
        request::process(admitted, forwarding, &mut outbound).await?;
        if outbound.has_to_be_prepared() && outbound.exchange.is_none() {
            tries::prepare(admitted, forwarding, &mut outbound).await?;
        }
        Ok(())
    };
    if let Err(reason) = Box::pin(prepared).await {
        return stop(admitted, reason).into();
    }
    if forwarding.overload.is_some() {
        cluster.state().retries.note_request(admitted.worker.clock.now());
    }
    let attempted = Attempted::new(admitted);
    let picked = attempted.pick(cluster, forwarding);
    Box::pin(tries::go_on(attempted, cluster, outbound, Begun::Picked(picked))).await
}

/// The end of a request that goes no further: the processor's own response, if that is the reason.
pub(super) fn stop(admitted: &Admitted<'_>, reason: Reason) -> Stop {
    if reason != Reason::ProcessorAnswered || admitted.progress.is_answered() {
        return reason.into();
    }
    match admitted.processing().and_then(Processing::take_answer) {
        Some(answer) => {
            admitted.note_reason(reason);
            Stop::Answer(answer)
        }
        None => reason.into(),
    }
}

/// Sends a part of a message, and waits for the answer; none if the processor does not get the part. The
/// stream is opened for the first part.
async fn converse(
    admitted: &Admitted<'_>,
    processing: &Processing,
    direction: Direction,
    deadline: &Deadline,
    send: impl FnOnce(),
) -> Result<Option<Box<Change>>, Reason> {
    if !processing.is_open() {
        open(admitted, processing, deadline).await;
    }
    processing.verdict()?;
    if !processing.is_open() || processing.is_over() {
        return Ok(None);
    }
    send();
    for _ in 0..AUTH_TRIES_MAX {
        match processing.answer(direction, deadline).await? {
            Outcome::Change(change) => return Ok(Some(change)),
            Outcome::Over => return Ok(None),
            Outcome::Lost => open(admitted, processing, deadline).await,
        }
    }
    processing.fail(Reason::ProcessorFailed);
    processing.verdict().map(|()| None)
}

/// Opens the stream where the first part is one of the body.
async fn open_for_body(admitted: &Admitted<'_>, processing: &Processing) -> Result<(), Reason> {
    if !processing.is_open() {
        open(admitted, processing, admitted.deadline).await;
    }
    processing.verdict()
}

/// Sends trailers. Returns those that the processor leaves.
async fn process_trailers(
    exchange: &Exchange<'_>,
    trailers: Vec<u8>,
    deadline: &Deadline,
) -> Result<Vec<u8>, RelayError> {
    if !exchange.begin(&Piece::Trailers(&trailers)) {
        return Ok(trailers);
    }
    Ok(exchange.answer(deadline).await?.unwrap_or(trailers))
}

/// Opens a stream to an endpoint of the processor. Opening it takes no longer than the answer to a message
/// may take.
async fn open(admitted: &Admitted<'_>, processing: &Processing, deadline: &Deadline) {
    let access = admitted.route.and_then(|route| route.access.as_deref());
    let Some(processor) = access.and_then(|access| access.processor.as_ref()) else { return };
    let (worker, policy) = (admitted.worker, &processor.policy);
    let cluster = worker.cluster(admitted.config, processor.cluster);
    let deadline = deadline.another();
    deadline.cap_sooner(worker.clock.now().after(policy.message_timeout));
    let head = head(processor);
    let mut reason = Reason::ProcessorFailed;
    for _ in 0..AUTH_TRIES_MAX {
        let Some((member, place)) = admitted.pick_beside(cluster, |_| true) else { break };
        match open_at(admitted, processor, &member.endpoint, &head, &deadline).await {
            Ok(Some((stream, is_reused))) => {
                let head = Buffer::small(&worker.buffers);
                return processing.take_line(Opened { stream, is_reused, _place: place, head });
            }
            Ok(None) => break,
            Err(fault) => {
                tracing::debug!(reason = fault.reason.name(), "no stream to an external processor");
                if fault.reason == Reason::ConnectTimeout {
                    reason = Reason::ProcessorTimeout;
                }
                if fault.retry == Retry::Never {
                    break;
                }
            }
        }
    }
    processing.fail(reason);
}

async fn open_at(
    admitted: &Admitted<'_>,
    processor: &Processor,
    endpoint: &Endpoint,
    head: &[u8],
    deadline: &Deadline,
) -> Result<Option<(OpenStream, bool)>, Fault> {
    let timeouts = Timeouts::default();
    let timeout = processor.policy.message_timeout;
    let mut call = Call::open(&admitted.worker.pool, endpoint, false, true, timeout, deadline).await?;
    let message = Message {
        bytes: head,
        head_len: head.len(),
        params: None,
        has_body: true,
        is_whole: false,
        framing: Framing::Raw,
        takes_trailers: true,
        timeouts: &timeouts,
    };
    call.send(&message, deadline).await?;
    let is_reused = !call.is_first();
    Ok(call.into_stream().map(|stream| (stream, is_reused)))
}

/// The head of the call, as HTTP/1.
fn head(processor: &Processor) -> Vec<u8> {
    format!(
        "POST {PROCESS} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/grpc\r\nTE: trailers\r\nUser-Agent: forebay\r\n\r\n",
        processor.policy.authority
    )
    .into_bytes()
}
