//! One try to have a request answered by an endpoint: connection, request, response.

use std::cell::Cell;
use std::future::{Future as _, pending};
use std::pin::pin;

use model::{ConnectionHeader, Forward};
use observe::{Failure, Reason};
use wire::h1::BodyDecoder;

use crate::admit::{ErrorPage, Spent};
use crate::answer::attempted::Attempted;
use crate::body::{
    HeldBody, Incoming, Meter, Outgoing, Passed, Processed, RelayError, Sink, Source, discard, relay,
    relay_and_keep,
};
use crate::forward::gone::{client_gone, client_gone_unanswered, race};
use crate::forward::health;
use crate::forward::outbound::{BodyExchange, Outbound, passing_trailers};
use crate::forward::response::{Conversed, Received, Receiver};
use crate::forward::retry;
use crate::forward::upload::Beside;
use crate::io::buffer::Buffer;
use crate::io::deadline::Elapsed;
use crate::limits::{FAILED_RESPONSE_TIME, LARGE_BUFFER_BYTES, PASSED_OVER_BYTES_MAX, PASSED_OVER_TIME_MAX};
use crate::request::AfterRequest;
use crate::request::client::{Client, Timeout};
use crate::request::incoming::{invite, pace_body, request_fault, request_meter};
use crate::request::reply;
use crate::upstream::fault::{Fault, Retry};
use crate::upstream::{Call, Member, Message, ResponseTimer};

/// The end of a try.
pub(crate) enum Tried {
    /// The client has its response.
    Answered(AfterRequest),
    /// An error backend is to answer in place of the endpoint's response.
    Replaced(Box<ErrorPage>),
}

impl Tried {
    pub(crate) fn answered(self) -> Option<AfterRequest> {
        match self {
            Self::Answered(next) => Some(next),
            Self::Replaced(_) => None,
        }
    }
}

impl Outbound<'_, '_> {
    /// Whether nothing of the request is still to come from the client.
    fn is_whole(&self) -> bool {
        self.admitted.progress.is_body_done() || self.admitted.is_bodiless()
    }

    /// Sends the request to an endpoint and its response to the client.
    pub(crate) async fn attempt(
        &mut self,
        attempted: &Attempted<'_, '_>,
        member: &Member,
        is_last: bool,
    ) -> Result<Tried, Fault> {
        attempted.report.begin_try(member.endpoint.address, attempted.worker.clock.now());
        health::note_sent(attempted, member, self.forward);
        self.attempt_again(attempted, member, is_last, 0).await
    }

    /// Goes on with a try after `calls` calls on connections that turned out to be dead. These count as one
    /// try, as a dead connection says nothing about the endpoint.
    pub(crate) async fn attempt_again(
        &mut self,
        attempted: &Attempted<'_, '_>,
        member: &Member,
        is_last: bool,
        mut calls: u32,
    ) -> Result<Tried, Fault> {
        let can_be_repeated = retry::is_repeatable(attempted, self.forward, Retry::Sent) && self.is_whole();
        let tried = loop {
            let is_fresh = calls > 0;
            let (pool, timeout) = (&attempted.worker.pool, self.forward.timeouts.connect);
            let (endpoint, deadline) = (&member.endpoint, attempted.deadline);
            let opened = Call::open(pool, endpoint, is_fresh, can_be_repeated, timeout, deadline).await;
            let mut call = match opened {
                Ok(call) => call,
                Err(fault) => break Err(fault),
            };
            calls += 1;
            if call.is_first() {
                member.health.pacer.note_success();
            }
            if let Some(took) = call.connect_time() {
                attempted.report.note_connected(took);
            }
            let conversed = self.converse(attempted, &mut call, member, is_last).await;
            if let Some(upload) = &mut self.upload {
                self.bytes.extend(upload.passed.data());
                upload.passed.clear();
            }
            match conversed {
                Ok(conversed) => {
                    let keeps = !attempted.progress.is_body_done()
                        && conversed.keeps_client()
                        && self.can_pass_over_rest(attempted, &call);
                    break match self.conclude(call, conversed) {
                        Ok(Tried::Answered(AfterRequest::Linger)) if keeps => {
                            Ok(Tried::Answered(Box::pin(self.pass_over_rest(attempted)).await))
                        }
                        tried => tried,
                    };
                }
                Err(fault)
                    if call.was_dead(fault, calls)
                        && retry::is_repeatable(attempted, self.forward, fault.retry) =>
                {
                    call.discard();
                }
                Err(fault) => break Err(fault),
            }
        };
        self.end_try(attempted, member, &tried);
        tried
    }

    /// Whether the rest of a body of which the endpoint needs no more can be read and discarded.
    fn can_pass_over_rest(&self, attempted: &Attempted<'_, '_>, call: &Call<'_>) -> bool {
        // Bytes that go to a socket, or to a processor, may have been taken out of the middle of a part.
        let is_between_parts =
            attempted.progress.is_body_kept() || call.own_socket().is_none() && self.exchange.is_none();
        // A client that waits for 100 Continue may leave the body out.
        let waits = attempted.parsed.expects_continue && attempted.report.received_body.get() == 0;
        is_between_parts && !waits
    }

    /// Reads the rest of a body whose response has been delivered before its end. The response's head was
    /// sent when nobody knew that, so it says that the connection stays open: a client that sends its next
    /// request on it must not find it closed.
    async fn pass_over_rest(&mut self, attempted: &Attempted<'_, '_>) -> AfterRequest {
        let Client::Http1(socket) = attempted.client else { return AfterRequest::Linger };
        let source = Source::Http1 { socket, buffer: &mut *self.rest, decoder: &mut self.body };
        let mut incoming = Incoming { source, timeout: PASSED_OVER_TIME_MAX };
        let meter = Meter { content: &Cell::new(0), max: Some(PASSED_OVER_BYTES_MAX) };
        let between_reads = attempted.deadline.another();
        let mut discarded = pin!(discard(&mut incoming, Some(&meter), &between_reads));
        let in_all = attempted.deadline.another();
        match in_all.within(PASSED_OVER_TIME_MAX, |cx| discarded.as_mut().poll(cx)).await {
            Ok(Ok(())) => AfterRequest::KeepAlive,
            Ok(Err(_)) | Err(Elapsed) => AfterRequest::Linger,
        }
    }

    /// Ends a call whose response has come.
    #[inline]
    pub(crate) fn conclude(&self, call: Call<'_>, conversed: Conversed) -> Result<Tried, Fault> {
        match conversed {
            Conversed::Delivered(received) => {
                let next = self.finish(call, &received);
                received.client_fault.map_or(Ok(Tried::Answered(next)), Err)
            }
            Conversed::Replaced { page, spent } => {
                self.finish_spent(call, spent);
                Ok(Tried::Replaced(page))
            }
        }
    }

    /// Notes the end of a try.
    #[inline]
    pub(crate) fn end_try(
        &self,
        attempted: &Attempted<'_, '_>,
        member: &Member,
        tried: &Result<Tried, Fault>,
    ) {
        attempted.report.end_try(attempted.worker.clock.now());
        if let Err(fault) = tried {
            attempted.report.note_failed_try(reply::status(fault.reason));
            note_failure(member, self.forward, fault.reason, attempted);
        }
    }

    /// Ends a call whose response the client does not get.
    fn finish_spent(&self, call: Call<'_>, spent: Option<Spent>) {
        if let Some(spent) = spent
            && self.admitted.progress.is_body_done()
            && self.forward.connection_header != Some(ConnectionHeader::Close)
        {
            call.finish(true, spent.idle_max, false);
        }
    }

    /// Sends the request, and receives and delivers the response.
    async fn converse(
        &mut self,
        attempted: &Attempted<'_, '_>,
        call: &mut Call<'_>,
        member: &Member,
        is_last: bool,
    ) -> Result<Conversed, Fault> {
        let forward = self.forward;
        let message = Message {
            bytes: self.bytes.data(),
            head_len: self.head_len,
            params: self.params.as_deref(),
            has_body: attempted.parsed.has_body(),
            is_whole: self.held.is_none() && self.is_whole(),
            framing: self.framing,
            takes_trailers: attempted.parsed.fields.find(wire::Known::Te).is_some(),
            timeouts: &forward.timeouts,
        };
        call.send(&message, attempted.deadline).await?;
        let call = &*call;
        let unsent = call.unsent(&message);
        // The request's own deadline is the upload's while there is one.
        let own_deadline = unsent.map(|_| attempted.deadline.another());
        let deadline = own_deadline.as_ref().unwrap_or(attempted.deadline);
        let timer = &ResponseTimer::new(deadline, forward.timeouts.read, unsent.is_none());
        let receiver = Receiver { attempted, forward, member: Some(member), call, timer, is_last };
        match unsent {
            None if attempted.is_upgrade() && call.own_socket().is_some() => {
                let gone = client_gone_unanswered(attempted, timer);
                race(pin!(receiver.receive(Some(self.rest))), pin!(gone)).await
            }
            None => race(pin!(receiver.receive(None)), pin!(client_gone(attempted, timer))).await,
            Some(begun) => {
                let sink = call.sink(message.framing);
                attempted.progress.note_sending(self.held.is_some());
                let beside = Beside::of(&mut self.upload, attempted.worker);
                let upload = Upload {
                    attempted,
                    forward,
                    sink,
                    begun,
                    held: self.held.as_deref(),
                    trailers: &beside.trailers,
                    timer,
                    rest: &mut *self.rest,
                    body: &mut self.body,
                    passed: &mut beside.passed,
                    exchange: self.exchange.as_ref(),
                };
                let upload = Box::pin(upload.upload_then_watch());
                race(pin!(receiver.receive(None)), pin!(upload)).await
            }
        }
    }

    fn finish(&self, call: Call<'_>, received: &Received) -> AfterRequest {
        let body_done = self.admitted.progress.is_body_done();
        let is_to_close = self.forward.connection_header == Some(ConnectionHeader::Close)
            || self.forward.transfer.uses_http_1_0;
        let is_reusable = received.reusable && body_done && !is_to_close;
        call.finish(is_reusable, received.idle_max, received.closes_in_order);
        match (body_done, received.keep_alive) {
            (false, _) => AfterRequest::Linger,
            (true, true) => AfterRequest::KeepAlive,
            (true, false) => AfterRequest::Close,
        }
    }
}

#[cold]
#[inline(never)]
fn note_failure(member: &Member, forward: &Forward, reason: Reason, attempted: &Attempted<'_, '_>) {
    if let Some(failure) = failure(reason) {
        member.endpoint.cells.fail(failure);
        member.endpoint.note_response(FAILED_RESPONSE_TIME, attempted.worker.clock.now());
        if matches!(failure, Failure::ConnectTimeout | Failure::ReadTimeout) {
            health::note_timeout_for_limits(attempted, &member.endpoint);
        }
    }
    health::note_failed_try(attempted, member, forward, reason);
}

/// The rest of a request's body on its way to an endpoint.
struct Upload<'x, 'a> {
    attempted: &'x Attempted<'x, 'a>,
    forward: &'x Forward,
    sink: Sink<'x>,
    /// The part of the body that is kept for another try, where it does not go with the head.
    begun: &'x [u8],
    /// The part that is kept after it.
    held: Option<&'x HeldBody>,
    /// Lines of the trailers, where the whole body has come.
    trailers: &'x [u8],
    /// For the response, which is due once the request is sent.
    timer: &'x ResponseTimer<'x>,
    rest: &'x mut Buffer,
    body: &'x mut BodyDecoder,
    /// The body's bytes that are sent and also held for another try.
    passed: &'x mut Buffer,
    /// The exchange of the rest for what a processor makes of it.
    exchange: Option<&'x BodyExchange<'x>>,
}

impl Upload<'_, '_> {
    /// Runs beside the wait for a response: the rest of the body is sent, and then the client is
    /// watched.
    async fn upload_then_watch(self) -> Fault {
        let (attempted, forward, timer) = (self.attempted, self.forward, self.timer);
        let waits_for_client = !attempted.progress.is_body_done();
        let endpoint = waits_for_client.then(|| health::give_place_back(attempted, forward)).flatten();
        let sent = self.send().await;
        if !attempted.progress.is_answered() {
            health::take_place_again(attempted, endpoint);
        }
        timer.note_sent();
        match sent {
            Ok(()) => client_gone(attempted, timer).await,
            // The endpoint may have answered before it stopped reading; the wait for the response finds out.
            Err(RelayError::Write) => pending().await,
            Err(error) => request_fault(&error),
        }
    }

    async fn send(self) -> Result<(), RelayError> {
        let Self { attempted, forward, sink, begun, held, trailers, rest, body, passed, exchange, .. } = self;
        let (worker, progress) = (attempted.worker, &attempted.progress);
        let timeout = attempted.config.settings().client.body_timeout;
        let deadline = attempted.deadline.another();
        let passing = |lines: &[u8]| passing_trailers(attempted, forward, lines);
        let outgoing = Outgoing { sink, timeout: forward.timeouts.send, passing_trailers: Some(&passing) };
        let is_all = progress.is_body_done();
        outgoing.write(begun, is_all && held.is_none() && trailers.is_empty(), &deadline).await?;
        if let Some(held) = held {
            held.send(&outgoing, is_all, &deadline).await?;
            progress.note_sending(false);
        }
        if is_all {
            return if trailers.is_empty() { Ok(()) } else { outgoing.finish(trailers, &deadline).await };
        }
        let keeps = matches!(sink, Sink::Stream(_)) && exchange.is_none();
        if !keeps {
            progress.note_body_streaming();
        }
        let is_invited = attempted.report.received_body.get() > 0;
        if attempted.parsed.expects_continue && !is_invited && rest.is_empty() && !progress.is_answered() {
            let invitation = Timeout { deadline: &deadline, send_timeout: timeout };
            invite(attempted.client, invitation).await?;
        }
        let source = match attempted.client {
            Client::Http1(socket) => Source::Http1 { socket, buffer: rest, decoder: body },
            Client::Stream(stream) => Source::stream(stream),
        };
        let mut incoming = Incoming { source, timeout };
        pace_body(attempted, &deadline);
        let meter = request_meter(attempted, forward.body_bytes_max.bytes());
        if let Some(BodyExchange { exchange, begin }) = exchange {
            let processed = Processed::begun(begin.take(), incoming).exchanged(exchange);
            incoming = Incoming { source: Source::Processed(Box::new(processed)), timeout };
        }
        if keeps {
            // A session that ends may have processed nothing, so that the beginning is kept for another one.
            let bytes_max = LARGE_BUFFER_BYTES.saturating_sub(begun.len());
            let note = || progress.note_body_streaming();
            let relayed =
                relay_and_keep(&mut incoming, &outgoing, &meter, &deadline, passed, bytes_max, note).await;
            match relayed.map_err(|error| error.of_reading(&deadline))? {
                Passed::Whole => {
                    progress.note_body_whole();
                    return Ok(());
                }
                Passed::All => {
                    progress.note_body_passed();
                    return Ok(());
                }
                Passed::Beginning => passed.clear(),
            }
        }
        let relayed = relay(incoming, outgoing, meter, &deadline, &worker.pipes).await;
        relayed.map_err(|error| error.of_reading(&deadline))?;
        progress.note_body_passed();
        Ok(())
    }
}

fn failure(reason: Reason) -> Option<Failure> {
    Some(match reason {
        Reason::ConnectRefused
        | Reason::ConnectFailed
        | Reason::PortsExhausted
        | Reason::UpstreamHandshakeFailed
        | Reason::UpstreamCertificateBad => Failure::ConnectError,
        Reason::ConnectTimeout => Failure::ConnectTimeout,
        Reason::UpstreamReset => Failure::Reset,
        Reason::UpstreamReadTimeout => Failure::ReadTimeout,
        Reason::UpstreamSendTimeout => Failure::SendTimeout,
        Reason::UpstreamBadResponse | Reason::UpstreamBadCoding | Reason::UpstreamHeadTooLarge => {
            Failure::BadResponse
        }
        _ => return None,
    })
}
