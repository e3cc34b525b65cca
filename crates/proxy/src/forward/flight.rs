//! A request on an idle connection of an endpoint: sent at once, and then one wait for the head of its
//! response. Nearly all requests go this way; what does not fit goes on by `attempt`, from where it stands.

use std::rc::Rc;
use std::task::{Context, Poll};

use model::{AppProtocol, Forward};
use observe::Reason;
use wire::h1::Response;

use crate::answer::attempted::Attempted;
use crate::forward::attempt::Tried;
use crate::forward::health;
use crate::forward::outbound::Outbound;
use crate::forward::response::{Conversed, Receiver};
use crate::forward::retry;
use crate::io::buffer::Buffer;
use crate::io::deadline::Elapsed;
use crate::limits::{ROUTE_RESPONSE_HEAD_BYTES_MAX, TICK};
use crate::upstream::fault::{Fault, Retry};
use crate::upstream::h1;
use crate::upstream::{Call, LivenessCheck, Member, ResponseTimer};

/// A request on a connection that was idle.
pub(crate) struct Flight<'c> {
    pub(crate) member: &'c Rc<Member>,
    call: Call<'c>,
    response: Box<Response>,
    buffer: Buffer,
    is_last: bool,
}

/// The end of the wait for a head.
enum Arrived {
    /// The final head has come.
    Head,
    /// Something has come that is no final head yet.
    More,
    Failed(Fault),
}

/// The end of a flight.
pub(crate) enum Landed {
    Tried(Result<Tried, Fault>),
    /// The connection was dead: the try goes on with a fresh one.
    Dead,
}

impl<'c> Flight<'c> {
    /// Takes an idle connection for a request; none where there is none, or where the request has to wait for
    /// anything before it can be sent.
    #[inline]
    pub(crate) fn on_idle(
        attempted: &Attempted<'c, '_>,
        outbound: &Outbound<'_, '_>,
        member: &'c Rc<Member>,
        is_last: bool,
    ) -> Option<Self> {
        if !is_simple(attempted, outbound) {
            return None;
        }
        let worker = attempted.request.worker;
        let can_be_repeated = retry::is_repeatable(attempted, outbound.forward, Retry::Sent);
        let check = if can_be_repeated { LivenessCheck::EventLoop } else { LivenessCheck::Socket };
        let call = Call::on_idle(&worker.pool, &member.endpoint, check)?;
        attempted.report.begin_try(member.endpoint.address, worker.clock.now());
        health::note_sent(attempted, member, outbound.forward);
        let (response, buffer) = (worker.responses.take(), Buffer::empty(&worker.buffers));
        Some(Self { member, call, response, buffer, is_last })
    }

    /// Sends the request, waits for the response, and gives it to the client.
    #[inline]
    pub(crate) async fn fly(
        &mut self,
        attempted: &Attempted<'_, '_>,
        outbound: &Outbound<'_, '_>,
    ) -> Result<Conversed, Fault> {
        let (forward, deadline) = (outbound.forward, attempted.deadline);
        let bytes = outbound.bytes.data();
        let sent = self.call.send_now(bytes)?;
        if sent < bytes.len() {
            let rest = self.call.send_rest(&bytes[sent..], forward.timeouts.send, deadline);
            Box::pin(rest).await?;
        }
        let is_eager = !attempted.client.is_stream();
        let arrived = deadline.within(TICK, |cx| self.poll_head(cx, forward, is_eager)).await;
        if let Ok(Arrived::Failed(fault)) = arrived {
            return Err(fault);
        }
        let timer = match arrived {
            Err(Elapsed) => ResponseTimer::after_a_tick(deadline, forward.timeouts.read),
            Ok(_) => ResponseTimer::new(deadline, forward.timeouts.read, true),
        };
        let Self { member, call, response, buffer, is_last, .. } = self;
        let (is_last, member) = (*is_last, Some(&***member));
        let receiver = Receiver { attempted, forward, member, call, timer: &timer, is_last };
        match arrived {
            Ok(Arrived::Head) => receiver.settle(response, buffer, None).await,
            _ => Box::pin(receiver.receive_rest_beside_client(response, buffer)).await,
        }
    }

    /// Ends a flight.
    #[inline]
    pub(crate) fn end(
        self,
        attempted: &Attempted<'_, '_>,
        outbound: &Outbound<'_, '_>,
        landed: Result<Conversed, Fault>,
    ) -> Landed {
        let conversed = match landed {
            Ok(conversed) => conversed,
            Err(fault) => return self.lost(attempted, outbound, fault),
        };
        let Self { call, response, member, .. } = self;
        attempted.worker.responses.keep(response);
        let tried = outbound.conclude(call, conversed);
        outbound.end_try(attempted, member, &tried);
        Landed::Tried(tried)
    }

    #[inline]
    fn poll_head(&mut self, cx: &mut Context<'_>, forward: &Forward, is_eager: bool) -> Poll<Arrived> {
        let Some(socket) = self.call.own_socket() else { return Poll::Ready(Arrived::More) };
        let bytes_max =
            (forward.transfer.response_head_bytes_max as usize).min(ROUTE_RESPONSE_HEAD_BYTES_MAX);
        let (buffer, response) = (&mut self.buffer, &mut self.response);
        let read = if is_eager { socket.poll_fill(cx, buffer) } else { socket.poll_fill_small(cx, buffer) };
        let failed = |fault| Poll::Ready(Arrived::Failed(fault));
        match read {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0) | Err(_)) => failed(Fault::sent(Reason::UpstreamReset)),
            Poll::Ready(Ok(_)) => match h1::parse(response, buffer, bytes_max) {
                Err(fault) => failed(fault),
                Ok(true) if !response.is_interim() => Poll::Ready(Arrived::Head),
                Ok(_) => Poll::Ready(Arrived::More),
            },
        }
    }

    /// Ends a flight whose connection has failed.
    #[cold]
    fn lost(self, attempted: &Attempted<'_, '_>, outbound: &Outbound<'_, '_>, fault: Fault) -> Landed {
        if self.call.was_dead(fault, 1) && retry::is_repeatable(attempted, outbound.forward, fault.retry) {
            self.call.discard();
            return Landed::Dead;
        }
        let tried = Err(fault);
        outbound.end_try(attempted, self.member, &tried);
        Landed::Tried(tried)
    }
}

/// Whether a request is all at hand, and nothing but a response can follow it.
#[inline]
fn is_simple(attempted: &Attempted<'_, '_>, outbound: &Outbound<'_, '_>) -> bool {
    attempted.progress.is_body_done()
        && outbound.protocol == AppProtocol::Http1
        && outbound.held.is_none()
        && outbound.upload.is_none()
        && outbound.forward.timeouts.read > TICK
        && !attempted.is_upgrade()
}

#[cfg(test)]
mod tests {
    use model::{ClusterId, Timeouts};

    use super::*;
    use crate::testing::{FAST_CGI, ONE, World, forward, rest, route_to};

    fn is_simple_at(cluster: ClusterId, forward: &Forward, lines: &str, body: &[u8]) -> bool {
        let world = World::of(route_to(cluster));
        world.admitted(lines, |admitted, _| {
            let mut rest = rest(&world, body);
            let outbound = Outbound::new(&admitted, forward, &mut rest).expect("the body is well formed");
            is_simple(&Attempted::new(&admitted), &outbound)
        })
    }

    #[test]
    fn a_request_flies_once_all_of_it_has_come() {
        let forward = forward(ONE);
        for (lines, body, expected) in [
            ("GET /", "", true),
            ("POST /\nContent-Length: 4", "abcd", true),
            ("POST /\nContent-Length: 4", "abc", false),
            ("POST /\nTransfer-Encoding: chunked", "1\r\na\r\n0\r\n\r\n", true),
            ("POST /\nTransfer-Encoding: chunked", "1\r\na\r\n", false),
            ("GET /\nConnection: upgrade\nUpgrade: websocket", "", false),
            ("GET /\nConnection: upgrade\nUpgrade: h2c", "", true),
        ] {
            assert_eq!(is_simple_at(ONE, &forward, lines, body.as_bytes()), expected, "{lines}");
        }
    }

    #[test]
    fn neither_applications_nor_short_timeouts_are_simple() {
        assert!(!is_simple_at(FAST_CGI, &forward(FAST_CGI), "GET /", b""));
        let timeouts = Timeouts { read: TICK, ..Timeouts::default() };
        assert!(!is_simple_at(ONE, &Forward { timeouts: timeouts.into(), ..forward(ONE) }, "GET /", b""));
    }
}
