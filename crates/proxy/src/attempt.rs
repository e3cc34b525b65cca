//! One try to have a request answered by an endpoint: connection, request, response.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use model::{ConnectionHeader, Forward};
use observe::{Failure, Reason};
use wire::h1::BodyDecoder;

use crate::body::{HeldBody, Incoming, Outgoing, Passed, RelayError, Sink, Source, relay, relay_and_keep};
use crate::buffer::Buffer;
use crate::client::{self, Client, Timeout};
use crate::exchange::{AfterRequest, Exchange};
use crate::fault::{Fault, Retry};
use crate::limits::{FAILED_RESPONSE_TIME, LARGE_BUFFER_BYTES};
use crate::outbound::{
    Outbound, invite, is_bodiless, pace_body, passing_trailers, request_fault, request_meter,
};
use crate::reply;
use crate::response::{Received, Receiver};
use crate::upload::Beside;
use crate::upstream::{Call, Member, Request, ResponseTimer};

impl Outbound<'_, '_> {
    /// Whether nothing of the request is still to come from the client.
    fn is_whole(&self) -> bool {
        self.exchange.progress.is_body_done() || is_bodiless(self.exchange)
    }

    /// Sends the request to an endpoint and its response to the client. It takes the endpoint, since the future of a request would
    /// hold a reference to it besides.
    pub(crate) async fn attempt(&mut self, member: Rc<Member>, is_last: bool) -> Result<AfterRequest, Fault> {
        let exchange = self.exchange;
        exchange.report.begin_try(member.endpoint.address, exchange.worker.clock.now());
        exchange.note_sent(&member, self.forward);
        let result = self.call(&member, is_last).await;
        exchange.report.end_try(exchange.worker.clock.now());
        if let Err(fault) = result {
            exchange.report.note_failed_try(reply::status(fault.reason));
            note_failure(&member, self.forward, fault.reason, exchange);
        }
        result
    }

    /// An idle connection that turns out to be dead is replaced by a fresh one, which is no try of its own: it says nothing about the
    /// endpoint.
    async fn call(&mut self, member: &Member, is_last: bool) -> Result<AfterRequest, Fault> {
        let exchange = self.exchange;
        let can_be_repeated = exchange.is_repeatable(self.forward, Retry::Sent) && self.is_whole();
        let mut calls = 0;
        loop {
            let is_fresh = calls > 0;
            // What is held while the endpoint is waited for takes room in the future of all requests: so these are looked up each time.
            let (pool, timeout) = (&exchange.worker.pool, self.forward.timeouts.connect);
            let (endpoint, deadline) = (&member.endpoint, exchange.deadline);
            let mut call = Call::open(pool, endpoint, is_fresh, can_be_repeated, timeout, deadline).await?;
            calls += 1;
            if call.is_first() {
                member.health.pacer.note_success();
            }
            if let Some(took) = call.connect_time() {
                exchange.report.note_connected(took);
            }
            let conversed = self.converse(&mut call, member, is_last).await;
            if let Some(upload) = &mut self.upload {
                self.bytes.extend(upload.passed.data());
                upload.passed.clear();
            }
            match conversed {
                Ok(received) => {
                    let next = self.finish(call, &received);
                    return received.client_fault.map_or(Ok(next), Err);
                }
                Err(fault)
                    if call.was_dead(fault, calls) && exchange.is_repeatable(self.forward, fault.retry) =>
                {
                    call.discard();
                }
                Err(fault) => {
                    self.finish_spent(call);
                    return Err(fault);
                }
            }
        }
    }

    /// Ends a call whose response the client does not get.
    fn finish_spent(&self, call: Call<'_>) {
        let page = self.exchange.error_page.get();
        if let Some(spent) = page.and_then(|page| page.spent.take())
            && self.exchange.progress.is_body_done()
            && self.forward.connection_header != Some(ConnectionHeader::Close)
        {
            call.finish(true, spent.idle_max, false);
        }
    }

    /// Sends the request, and receives and delivers the response.
    async fn converse(
        &mut self,
        call: &mut Call<'_>,
        member: &Member,
        is_last: bool,
    ) -> Result<Received, Fault> {
        let (exchange, forward) = (self.exchange, self.forward);
        let request = Request {
            bytes: self.bytes.data(),
            head_len: self.head_len,
            params: self.params.as_deref(),
            has_body: exchange.request.has_body(),
            is_whole: self.held.is_none() && self.is_whole(),
            framing: self.framing,
            takes_trailers: exchange.request.fields.find(wire::Known::Te).is_some(),
            timeouts: &forward.timeouts,
        };
        call.send(&request, exchange.deadline).await?;
        let call = &*call;
        let unsent = call.unsent(&request);
        // The exchange's own deadline is the upload's while there is one.
        let own_deadline = unsent.map(|_| exchange.deadline.another());
        let deadline = own_deadline.as_ref().unwrap_or(exchange.deadline);
        let timer = &ResponseTimer::new(deadline, forward.timeouts.read, unsent.is_none());
        let receiver = Receiver { exchange, forward, member: Some(member), call, timer, is_last };
        match unsent {
            None if exchange.is_upgrade() && call.own_socket().is_some() => {
                let gone = client_gone_unanswered(exchange, timer);
                race(pin!(receiver.receive(Some(self.rest))), pin!(gone)).await
            }
            None => race(pin!(receiver.receive(None)), pin!(client_gone(exchange, timer))).await,
            Some(begun) => {
                let sink = call.sink(request.framing);
                exchange.progress.note_sending(self.held.is_some());
                let beside = Beside::of(&mut self.upload, exchange.worker);
                let upload = Upload {
                    exchange,
                    forward,
                    sink,
                    begun,
                    held: self.held.as_deref(),
                    trailers: &beside.trailers,
                    timer,
                    rest: &mut *self.rest,
                    body: &mut self.body,
                    passed: &mut beside.passed,
                };
                let upload = Box::pin(upload.upload_then_watch());
                race(pin!(receiver.receive(None)), pin!(upload)).await
            }
        }
    }

    fn finish(&self, call: Call<'_>, received: &Received) -> AfterRequest {
        let body_done = self.exchange.progress.is_body_done();
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
fn note_failure(member: &Member, forward: &Forward, reason: Reason, exchange: &Exchange<'_>) {
    if let Some(failure) = failure(reason) {
        member.endpoint.cells.fail(failure);
        member.endpoint.note_response(FAILED_RESPONSE_TIME, exchange.worker.clock.now());
        if matches!(failure, Failure::ConnectTimeout | Failure::ReadTimeout) {
            exchange.note_timeout_for_limits(&member.endpoint);
        }
    }
    exchange.note_failed_try(member, forward, reason);
}

/// Runs `main` to its end, or until `side` comes upon a fault that makes its result useless.
async fn race<T>(
    mut main: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    mut side: Pin<&mut impl Future<Output = Fault>>,
) -> Result<T, Fault> {
    poll_fn(|cx| match main.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => side.as_mut().poll(cx).map(Err),
    })
    .await
}

/// The rest of a request's body on its way to an endpoint.
struct Upload<'x, 'a> {
    exchange: &'x Exchange<'a>,
    forward: &'x Forward,
    sink: Sink<'x>,
    /// What is kept of the body for another try, where it does not go with the head.
    begun: &'x [u8],
    /// What is kept besides.
    held: Option<&'x HeldBody>,
    /// Lines of the trailers, where the whole body has come.
    trailers: &'x [u8],
    /// For the response, which is due once the request is sent.
    timer: &'x ResponseTimer<'x>,
    rest: &'x mut Buffer,
    body: &'x mut BodyDecoder,
    /// The body's bytes that are sent and also held for another try.
    passed: &'x mut Buffer,
}

impl Upload<'_, '_> {
    /// What goes on beside the wait for a response: what is left of the body is sent, and then the client is watched.
    async fn upload_then_watch(self) -> Fault {
        let (exchange, forward, timer) = (self.exchange, self.forward, self.timer);
        let waits_for_client = !exchange.progress.is_body_done();
        let endpoint = waits_for_client.then(|| exchange.give_place_back(forward)).flatten();
        let sent = self.send().await;
        if !exchange.progress.is_answered() {
            exchange.take_place_again(endpoint);
        }
        timer.note_sent();
        match sent {
            Ok(()) => client_gone(exchange, timer).await,
            // The endpoint may have answered before it stopped reading; the wait for the response finds out.
            Err(RelayError::Write) => pending().await,
            Err(error) => request_fault(&error),
        }
    }

    async fn send(self) -> Result<(), RelayError> {
        let Self { exchange, forward, sink, begun, held, trailers, rest, body, passed, .. } = self;
        let (worker, progress) = (exchange.worker, &exchange.progress);
        let timeout = exchange.config.settings().client.body_timeout;
        let deadline = exchange.deadline.another();
        let passing = |lines: &[u8]| passing_trailers(exchange, forward, lines);
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
        let keeps = matches!(sink, Sink::Http2(_));
        if !keeps {
            progress.note_body_streaming();
        }
        let is_invited = exchange.report.received_body.get() > 0;
        if exchange.request.expects_continue && !is_invited && rest.is_empty() && !progress.is_answered() {
            let invitation = Timeout { deadline: &deadline, send_timeout: timeout };
            invite(exchange.client, invitation).await?;
        }
        let source = match exchange.client {
            Client::Http1(socket) => Source::Http1 { socket, buffer: rest, decoder: body },
            Client::Http2(stream) => Source::stream(&stream.body),
        };
        let mut incoming = Incoming { source, timeout };
        pace_body(exchange, &deadline);
        let meter = request_meter(exchange, forward);
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

/// Ends when the client has gone away without a response. Nearly all responses have come before it is worth looking.
async fn client_gone(exchange: &Exchange<'_>, timer: &ResponseTimer<'_>) -> Fault {
    match exchange.client {
        Client::Http1(socket) => {
            // The timer wakes the task that both waits share.
            poll_fn(|_| if timer.is_slow() { Poll::Ready(()) } else { Poll::Pending }).await;
            let is_answered = || exchange.progress.is_answered();
            Box::pin(client::gone(socket, &exchange.worker.deadlines, is_answered)).await;
        }
        Client::Http2(stream) => poll_fn(|cx| stream.poll_gone(cx)).await,
    }
    if exchange.passage().is_some_and(|passage| passage.is_filling.get()) {
        // What is kept is for others too.
        pending::<()>().await;
    }
    Fault::never(Reason::ClientAborted)
}

/// As [`client_gone`], until the client is answered: a tunnel sees for itself who leaves it.
async fn client_gone_unanswered(exchange: &Exchange<'_>, timer: &ResponseTimer<'_>) -> Fault {
    let gone = client_gone(exchange, timer).await;
    if exchange.progress.is_answered() { pending().await } else { gone }
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
