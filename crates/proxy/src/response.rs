//! The response of an endpoint on its way to the client.

use std::time::Duration;

use model::{Forward, ResponsePolicy};
use observe::Reason;
use wire::Field;
use wire::h1::{Body, BodyDecoder, Decoded, Response, Version};

use crate::buffer::Buffer;
use crate::caching;
use crate::caching::receive::{self, Taken};
use crate::client::{self, Client};
use crate::exchange::{Exchange, Spent};
use crate::fault::{Fault, Retry};
use crate::h2::tunnel_stream;
use crate::head::{HeadEdits, write_interim_head};
use crate::limits::{INTERIM_RESPONSES_MAX, ROUTE_RESPONSE_HEAD_BYTES_MAX};
use crate::present::Own;
use crate::recode::{self, Recode};
use crate::reply::Scope;
use crate::tunnel::{End, tunnel};
use crate::upstream::h1::keep_alive_hint;
use crate::upstream::{Call, Member, ResponseTimer};

/// Receives the response to a request that has been sent.
pub(crate) struct Receiver<'x, 'a> {
    pub(crate) exchange: &'x Exchange<'a>,
    pub(crate) forward: &'x Forward,
    /// Whose response it is; none where that is another replica.
    pub(crate) member: Option<&'x Member>,
    pub(crate) call: &'x Call<'x>,
    pub(crate) timer: &'x ResponseTimer<'x>,
    /// Whether the client gets the response whatever its status.
    pub(crate) is_last: bool,
}

/// What a delivered response means to the connections on both sides.
pub(crate) struct Received {
    /// The endpoint's connection can take another request.
    pub(crate) reusable: bool,
    /// The client's can.
    pub(crate) keep_alive: bool,
    /// How long the endpoint keeps it.
    pub(crate) idle_max: Option<Duration>,
    /// The endpoint may not have read yet all that it was sent.
    pub(crate) closes_in_order: bool,
    /// Where the client has not been given all of it, which says nothing about the endpoint's connection.
    pub(crate) client_fault: Option<Fault>,
}

impl Receiver<'_, '_> {
    /// Receives and delivers the response. `upgrade` is what has been read of the client's side of the other protocol, if
    /// it asked for one.
    pub(crate) async fn receive(&self, upgrade: Option<&mut Buffer>) -> Result<Received, Fault> {
        let mut buffer = Buffer::empty(&self.exchange.worker.buffers);
        let worker = self.exchange.worker;
        let mut response = worker.responses.take();
        self.final_head(&mut response, &mut buffer).await?;
        let took = self.exchange.report.note_header(response.status, worker.clock.now());
        if let Some(member) = self.member {
            member.endpoint.note_response(took, worker.clock.now());
            if response.status >= 500 {
                member.endpoint.cells.server_errors.inc();
            }
            if self.forward.overload.is_some() {
                self.exchange.note_answer(member, self.forward, response.status, took);
                self.exchange.note_head_for_limits(&member.endpoint, &response, buffer.data(), took);
            }
        }
        let received = match (response.status, upgrade) {
            (101, Some(rest)) if self.switches_as_asked(buffer.data(), &response) => {
                Box::pin(self.switch(&response, buffer, rest)).await
            }
            (101, _) => Err(Fault::sent(Reason::UpstreamBadResponse)),
            (status, _) if self.is_tried_again(status) => Err(Fault::sent(Reason::UpstreamStatus)),
            (500.., _) if caching::is_rescued(self.exchange, response.status) => {
                Err(Fault::never(Reason::UpstreamStatus))
            }
            (300.., _) if self.is_replaced(&response, buffer.data()) => {
                self.note_spent(&response, buffer);
                Err(Fault::never(Reason::UpstreamStatus))
            }
            _ => self.deliver(&response, &mut buffer).await,
        };
        worker.responses.keep(response);
        received
    }

    /// Whether another endpoint is asked because of a status. Where none may be asked, the response is the client's.
    fn is_tried_again(&self, status: u16) -> bool {
        !self.is_last
            && self.forward.retry.on.statuses.contains(&status)
            && self.exchange.may_retry(Fault::sent(Reason::UpstreamStatus), self.forward)
            && self.exchange.take_retry(self.forward)
    }

    /// Whether the client is given another response instead.
    #[cold]
    fn is_replaced(&self, response: &Response, head: &[u8]) -> bool {
        let challenges = || {
            let named = |field: &&Field| field.name(head).eq_ignore_ascii_case(b"www-authenticate");
            response.fields.iter().filter(named).map(|field| field.value(head).to_vec()).collect()
        };
        self.exchange.replace(response.status, challenges, false)
    }

    /// Notes that the endpoint's connection can be used again, where the whole of its response has come already.
    #[cold]
    fn note_spent(&self, response: &Response, mut buffer: Buffer) {
        let body = response.body(self.exchange.is_head());
        let idle_max = keep_alive_hint(buffer.data(), response);
        buffer.consume(response.len);
        let is_persistent = response.is_persistent() && body != Body::UntilClose;
        let page =
            self.exchange.error_page.get().filter(|_| is_persistent && self.call.own_socket().is_some());
        if let Some(page) = page.filter(|_| is_whole(body, &mut buffer) && buffer.is_empty()) {
            page.spent.set(Some(Spent { idle_max }));
        }
    }

    /// Reads heads up to the final one, or one that switches protocols; passes interim ones on.
    async fn final_head(&self, response: &mut Response, buffer: &mut Buffer) -> Result<(), Fault> {
        let exchange = self.exchange;
        let bytes_max = self.forward.transfer.response_head_bytes_max;
        let bytes_max = (bytes_max as usize).min(ROUTE_RESPONSE_HEAD_BYTES_MAX);
        let how = (!exchange.client.is_http2(), bytes_max);
        for _ in 0..=INTERIM_RESPONSES_MAX {
            self.call.head(response, buffer, how, self.timer).await?;
            if !response.is_interim() || response.status == 101 {
                return Ok(());
            }
            // 100 answers an expectation that ended here; HTTP/1.0 knows no interim responses.
            if response.status != 100 && exchange.request.version == Version::Http11 {
                let mut out = Buffer::small(&exchange.worker.buffers);
                write_interim_head(buffer.data(), response, &HeadEdits::default(), &mut out);
                exchange.client.inform(response.status, out.data(), exchange.timeout()).await?;
            }
            buffer.consume(response.len);
        }
        Err(Fault::sent(Reason::UpstreamBadResponse))
    }

    /// Whether the endpoint goes over to a protocol that it was asked for.
    fn switches_as_asked(&self, head: &[u8], response: &Response) -> bool {
        let Exchange { request, head: request_head, .. } = self.exchange;
        let is_asked_for =
            |name: &[u8]| request.fields.upgrades(request_head).any(|asked| asked.eq_ignore_ascii_case(name));
        let mut named = response.fields.upgrades(head).peekable();
        named.peek().is_some() && named.all(is_asked_for)
    }

    /// Delivers a response whose head has come.
    pub(crate) async fn deliver(&self, response: &Response, buffer: &mut Buffer) -> Result<Received, Fault> {
        let exchange = self.exchange;
        if exchange.passage().is_some() && exchange.error_page.get().is_none() {
            let taken = Box::pin(receive::take(exchange, self.forward, self.call, response, buffer)).await?;
            if let Taken::Yes { keep_alive, is_read } = taken {
                let is_reusable = is_read && response.is_persistent() && buffer.is_empty();
                return Ok(Received {
                    reusable: is_reusable && exchange.progress.is_request_sent(),
                    keep_alive: keep_alive.unwrap_or(false),
                    idle_max: None,
                    closes_in_order: false,
                    client_fault: keep_alive.err(),
                });
            }
        }
        let compression = self.forward.transfer.response.as_ref().and_then(|it| it.compression.as_ref());
        let recode = compression.and_then(|it| recode::plan(self.exchange, it, response, buffer.data()));
        match recode {
            None => self.deliver_as_it_is(response, buffer).await,
            Some(recode) => Box::pin(self.deliver_recoded(response, buffer, recode)).await,
        }
    }

    async fn deliver_as_it_is(&self, response: &Response, buffer: &mut Buffer) -> Result<Received, Fault> {
        let way = Way::of(self.exchange, response, buffer.data());
        let presented =
            self.exchange.present(&self.own(response, buffer.data(), way.body, None), |_| (), |_, _| ());
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(way.body);
        let source = self.call.source(way.body, buffer, &mut decoder);
        let keep_alive = presented.delivery.keep_alive;
        let mut outcome = presented.with(source, self.forward.timeouts.read, self.policy());
        let delivered = self.exchange.recipient().deliver(&mut outcome, || self.note_long()).await;
        drop(outcome);
        self.call.note_source_left(decoder);
        delivered.map_err(|fault| self.undelivered(fault))?;
        Ok(way.received(keep_alive, buffer.is_empty()))
    }

    /// Delivers a response whose content may be in another coding than the endpoint's.
    async fn deliver_recoded(
        &self,
        response: &Response,
        buffer: &mut Buffer,
        mut recode: Recode,
    ) -> Result<Received, Fault> {
        let way = Way::of(self.exchange, response, buffer.data());
        // What has come of the content is read before the head is written.
        let head = buffer.data()[..response.len].to_vec();
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(way.body);
        let source = self.call.source(way.body, buffer, &mut decoder);
        let (len, timeout) = (response.fields.content_length, self.forward.timeouts.read);
        let (source, framed) =
            recode::begin(self.exchange, &mut recode, (source, way.body), len, timeout).await?;
        let own = self.own(response, &head, framed, Some(recode));
        let presented = self.exchange.present(&own, |_| (), |_, _| ());
        let keep_alive = presented.delivery.keep_alive;
        let mut outcome = presented.with(source, timeout, self.policy());
        let delivered = self.exchange.recipient().deliver(&mut outcome, || self.note_long()).await;
        drop(outcome);
        self.call.note_source_left(decoder);
        delivered.map_err(|fault| self.undelivered(fault))?;
        Ok(way.received(keep_alive, buffer.is_empty()))
    }

    /// Lets the client get another response where it was sent nothing of this one.
    #[cold]
    fn undelivered(&self, fault: Fault) -> Fault {
        if fault.retry != Retry::Never {
            self.exchange.progress.note_unanswered();
        }
        fault
    }

    /// More of the response is to come than came at first.
    fn note_long(&self) {
        self.timer.note_slow();
        self.exchange.give_place_back(self.forward);
    }

    fn policy(&self) -> Option<&ResponsePolicy> {
        self.forward.transfer.response.as_deref()
    }

    fn own<'r>(
        &'r self,
        response: &'r Response,
        head: &'r [u8],
        body: Body,
        recode: Option<Recode>,
    ) -> Own<'r> {
        Own { response, head, status: None, body, policy: self.policy(), recode, is_last: false }
    }

    /// Passes on the agreement to speak another protocol, and then whatever is spoken.
    async fn switch(
        &self,
        response: &Response,
        mut buffer: Buffer,
        rest: &mut Buffer,
    ) -> Result<Received, Fault> {
        let upstream = self.call.own_socket().ok_or(Fault::sent(Reason::UpstreamBadResponse))?;
        let (exchange, timeouts) = (self.exchange, self.forward.timeouts);
        let mut out = Buffer::small(&exchange.worker.buffers);
        write_interim_head(
            buffer.data(),
            response,
            &exchange.response_edits(response.status, Scope::Location),
            &mut out,
        );
        // In HTTP/2 the tunnel is the content of a response that succeeds (RFC 8441 section 5).
        let status = if exchange.client.is_http2() { 200 } else { response.status };
        exchange.note_head(status, out.data());
        buffer.consume(response.len);
        let idle = timeouts.read.max(timeouts.send);
        let passed = match exchange.client {
            Client::Http1(socket) => {
                client::write(socket, &[out.data()], exchange.timeout()).await?;
                let client = End { socket, read_ahead: rest };
                let upstream = End { socket: upstream, read_ahead: &mut buffer };
                tunnel(client, upstream, idle, exchange.worker.for_tunnels(), &()).await.0
            }
            Client::Http2(stream) => {
                let sent = stream.respond(status, out.data(), false);
                sent.map_err(|_| Fault::never(Reason::ClientAborted))?;
                let end = End { socket: upstream, read_ahead: &mut buffer };
                tunnel_stream(stream, end, idle, &exchange.worker.deadlines).await
            }
        };
        exchange.report.sent_body.set(passed.to_client);
        exchange.report.received_body.set(passed.to_upstream);
        Ok(Received {
            reusable: false,
            keep_alive: false,
            idle_max: None,
            closes_in_order: passed.is_complete,
            client_fault: None,
        })
    }
}

/// What is known of a response while it is delivered.
#[derive(Clone, Copy)]
struct Way {
    body: Body,
    idle_max: Option<Duration>,
    is_reusable: bool,
}

impl Way {
    fn of(exchange: &Exchange<'_>, response: &Response, head: &[u8]) -> Self {
        let body = response.body(exchange.is_head());
        // One that begins before its request has been written is the answer to who knows what: no other request follows there.
        let answers_whole_request = exchange.progress.is_request_sent();
        Self {
            body,
            idle_max: keep_alive_hint(head, response),
            is_reusable: answers_whole_request && response.is_persistent() && body != Body::UntilClose,
        }
    }

    /// More than was announced is no beginning of a next response.
    fn received(self, keep_alive: bool, nothing_follows: bool) -> Received {
        Received {
            reusable: self.is_reusable && nothing_follows,
            keep_alive,
            idle_max: self.idle_max,
            closes_in_order: false,
            client_fault: None,
        }
    }
}

/// Passes over a body. False where not all of it has come.
fn is_whole(body: Body, buffer: &mut Buffer) -> bool {
    let mut decoder = BodyDecoder::new(body);
    loop {
        match decoder.decode(buffer.data()) {
            Ok(Decoded::Data { skip, len }) => buffer.consume(skip + len),
            Ok(Decoded::End { skip, .. }) => {
                buffer.consume(skip);
                return true;
            }
            Ok(Decoded::More { .. }) | Err(_) => return false,
        }
    }
}
