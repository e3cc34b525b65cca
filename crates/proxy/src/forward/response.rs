//! The response of an endpoint on its way to the client.

use std::pin::pin;
use std::time::Duration;

use model::{Forward, ResponsePolicy};
use observe::Reason;
use routing::Needs;
use wire::Field;
use wire::h1::{Body, BodyDecoder, Decoded, Response, Version};

use crate::admit::errors;
use crate::admit::{ErrorPage, Spent};
use crate::answer::attempted::Attempted;
use crate::answer::deliver::Recipient;
use crate::answer::edits::response_edits;
use crate::answer::present::ReceivedResponse;
use crate::answer::recode::Recode;
use crate::answer::replace::Replaced;
use crate::body::tunnel::{End, tunnel};
use crate::body::tunnel_stream::tunnel_stream;
use crate::cache;
use crate::cache::receive::{self, CacheFill};
use crate::forward::gone::{client_gone, race};
use crate::forward::health;
use crate::forward::retry::{self, Allowance};
use crate::io::boxed::boxed;
use crate::io::buffer::Buffer;
use crate::limits::{INTERIM_RESPONSES_MAX, ROUTE_RESPONSE_HEAD_BYTES_MAX};
use crate::request::Request;
use crate::request::client::{self, Client};
use crate::request::head::{HeadEdits, write_interim_head};
use crate::request::reply::Scope;
use crate::upstream::fault::{Fault, Retry};
use crate::upstream::h1::keep_alive_hint;
use crate::upstream::{Call, HeadLimits, Member, ResponseTimer};

/// Receives the response to a request that has been sent.
pub(crate) struct Receiver<'x, 'a> {
    pub(crate) attempted: &'x Attempted<'x, 'a>,
    pub(crate) forward: &'x Forward,
    /// Whose response it is; none where that is another replica.
    pub(crate) member: Option<&'x Member>,
    pub(crate) call: &'x Call<'x>,
    pub(crate) timer: &'x ResponseTimer<'x>,
    /// Whether the client gets the response whatever its status.
    pub(crate) is_last: bool,
}

/// The effect of a delivered response on the connections on both sides.
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

/// The end of an exchange with an endpoint.
pub(crate) enum Conversed {
    /// The client has been given the response, or all of it that it took.
    Delivered(Received),
    /// The client is given the response of an error backend instead. `spent` says whether the endpoint's
    /// connection can take another request.
    Replaced { page: Box<ErrorPage>, spent: Option<Spent> },
}

impl Received {
    /// The effect of a response that the cache has stored.
    pub(super) fn filled(keep_alive: Result<bool, Fault>, reusable: bool) -> Self {
        Self {
            reusable,
            keep_alive: keep_alive.unwrap_or(false),
            idle_max: None,
            closes_in_order: false,
            client_fault: keep_alive.err(),
        }
    }
}

impl Conversed {
    /// Whether the client has been told that its connection stays open.
    pub(crate) fn keeps_client(&self) -> bool {
        matches!(self, Self::Delivered(received) if received.keep_alive && received.client_fault.is_none())
    }
}

impl Receiver<'_, '_> {
    /// Receives and delivers the response. `upgrade` is what has been read of the client's side of the other
    /// protocol, if it asked for one.
    pub(crate) async fn receive(&self, upgrade: Option<&mut Buffer>) -> Result<Conversed, Fault> {
        let worker = self.attempted.worker;
        let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
        self.final_head(&mut response, &mut buffer).await?;
        let conversed = self.settle(&response, &mut buffer, upgrade).await;
        worker.responses.keep(response);
        conversed
    }

    /// Receives the rest of a response of which `buffer` holds the beginning, and looks whether the client
    /// leaves meanwhile.
    pub(crate) async fn receive_rest_beside_client(
        &self,
        response: &mut Response,
        buffer: &mut Buffer,
    ) -> Result<Conversed, Fault> {
        let receive = async {
            self.final_head(response, buffer).await?;
            self.settle(response, buffer, None).await
        };
        race(pin!(receive), pin!(client_gone(self.attempted, self.timer))).await
    }

    /// Does what is to be done with a response whose head has come.
    pub(crate) async fn settle(
        &self,
        response: &Response,
        buffer: &mut Buffer,
        upgrade: Option<&mut Buffer>,
    ) -> Result<Conversed, Fault> {
        let now = self.attempted.worker.clock.now();
        let took = self.attempted.report.note_header(response.status, now);
        if let Some(member) = self.member {
            self.note_head(member, response, buffer.data(), took);
        }
        let is_unusual = response.status >= 300 || response.status == 101;
        if is_unusual || self.forward.retry.on.statuses.contains(&response.status) {
            return Box::pin(self.settle_unusual(response, buffer, upgrade)).await;
        }
        self.deliver(response, buffer).await.map(Conversed::Delivered)
    }

    /// The same for a status that may change the way of the request.
    async fn settle_unusual(
        &self,
        response: &Response,
        buffer: &mut Buffer,
        upgrade: Option<&mut Buffer>,
    ) -> Result<Conversed, Fault> {
        let received = match (response.status, upgrade) {
            (101, Some(rest)) if self.switches_as_asked(buffer.data(), response) => {
                self.switch(response, buffer, rest).await
            }
            (101, _) => Err(Fault::sent(Reason::UpstreamBadResponse)),
            (status, _) if let Some(fault) = self.fault_of_status(status) => Err(fault),
            (500.., _) if cache::is_rescued(self.attempted, response.status) => {
                Err(Fault::never(Reason::UpstreamStatus))
            }
            (300.., _) if let Some(page) = self.error_page(response, buffer.data()) => {
                let (page, spent) = (Box::new(page), self.spent(response, buffer));
                return Ok(Conversed::Replaced { page, spent });
            }
            _ => self.deliver(response, buffer).await,
        };
        received.map(Conversed::Delivered)
    }

    /// Reports the head to those who judge the endpoint.
    fn note_head(&self, member: &Member, response: &Response, head: &[u8], took: Duration) {
        member.endpoint.note_response(took, self.attempted.worker.clock.now());
        if response.status >= 500 {
            member.endpoint.cells.server_errors.inc();
        }
        if self.forward.overload.is_some() {
            health::note_answer(self.attempted, member, self.forward, response.status, took);
            health::note_head_for_limits(self.attempted, &member.endpoint, response, head, took);
        }
    }

    /// The fault that has another endpoint asked because of a status, or the one that the client is told of
    /// where the bound of the Service's retries is reached. None where the response is the client's.
    fn fault_of_status(&self, status: u16) -> Option<Fault> {
        let fault = Fault::sent(Reason::UpstreamStatus);
        let would_be_tried = !self.is_last
            && self.forward.retry.on.statuses.contains(&status)
            && retry::may_retry(self.attempted, fault, self.forward);
        if !would_be_tried {
            return None;
        }
        match retry::take_retry(self.attempted, self.forward) {
            Allowance::Allowed => Some(fault),
            Allowance::Spent => None,
            Allowance::Constrained => Some(Fault::never(Reason::RetryBudget)),
        }
    }

    /// The error page that the client is given instead, if one replaces the response.
    #[cold]
    fn error_page(&self, response: &Response, head: &[u8]) -> Option<ErrorPage> {
        let challenges = || {
            let named = |field: &&Field| field.name(head).eq_ignore_ascii_case(b"www-authenticate");
            response.fields.iter().filter(named).map(|field| field.value(head).to_vec()).collect()
        };
        errors::page(self.attempted, response.status, challenges, false)
    }

    /// Whether the endpoint's connection can be used again, since the whole of its response has come already.
    #[cold]
    fn spent(&self, response: &Response, buffer: &mut Buffer) -> Option<Spent> {
        let body = response.body(self.attempted.is_head());
        let idle_max = keep_alive_hint(buffer.data(), response);
        buffer.consume(response.len);
        let is_persistent = response.is_persistent() && body != Body::UntilClose;
        let is_reusable =
            is_persistent && self.call.own_socket().is_some() && is_whole(body, buffer) && buffer.is_empty();
        is_reusable.then_some(Spent { idle_max })
    }

    /// Reads heads up to the final one, or one that switches protocols; passes interim ones on.
    async fn final_head(&self, response: &mut Response, buffer: &mut Buffer) -> Result<(), Fault> {
        let attempted = self.attempted;
        let bytes_max = self.forward.transfer.response_head_bytes_max as usize;
        let limits = HeadLimits {
            is_eager: !attempted.client.is_stream(),
            bytes_max: bytes_max.min(ROUTE_RESPONSE_HEAD_BYTES_MAX),
        };
        for _ in 0..=INTERIM_RESPONSES_MAX {
            self.call.head(response, buffer, limits, self.timer).await?;
            if !response.is_interim() || response.status == 101 {
                return Ok(());
            }
            // 100 answers an expectation that ended here; HTTP/1.0 knows no interim responses.
            if response.status != 100 && attempted.parsed.version == Version::Http11 {
                let mut out = Buffer::small(&attempted.worker.buffers);
                write_interim_head(buffer.data(), response, &HeadEdits::default(), &mut out);
                attempted.client.inform(response.status, out.data(), attempted.timeout()).await?;
            }
            buffer.consume(response.len);
        }
        Err(Fault::sent(Reason::UpstreamBadResponse))
    }

    /// Whether the endpoint goes over to a protocol that it was asked for.
    fn switches_as_asked(&self, head: &[u8], response: &Response) -> bool {
        let Request { parsed, head: request_head, .. } = self.attempted.request;
        let is_asked_for =
            |name: &[u8]| parsed.fields.upgrades(request_head).any(|asked| asked.eq_ignore_ascii_case(name));
        let mut named = response.fields.upgrades(head).peekable();
        named.peek().is_some() && named.all(is_asked_for)
    }

    /// Delivers a response whose head has come.
    pub(crate) async fn deliver(&self, response: &Response, buffer: &mut Buffer) -> Result<Received, Fault> {
        if self.attempted.needs.has_any(Needs::RESPONSE_READERS)
            && let Some(delivered) = boxed(|| self.deliver_read(response, buffer)).await
        {
            return delivered;
        }
        match self.recode(response, buffer.data()) {
            None => self.deliver_as_it_is(response, buffer).await,
            recode => {
                let changes = Changes { replaced: None, recode };
                Box::pin(self.deliver_changed(changes, response, buffer)).await
            }
        }
    }

    /// Delivers a response that goes through a processor, that the rules of a firewall look at, in which
    /// texts are replaced, or that the cache takes; none if it is none of these.
    async fn deliver_read(
        &self,
        response: &Response,
        buffer: &mut Buffer,
    ) -> Option<Result<Received, Fault>> {
        let attempted = self.attempted;
        if let Some(processing) =
            attempted.processing().filter(|it| !it.is_over() && attempted.error_page.is_none())
        {
            return Some(self.deliver_processed(processing, response, buffer).await);
        }
        if let Some(inspection) = attempted.inspection() {
            return Some(self.deliver_inspected(inspection, response, buffer).await);
        }
        let changes = Changes { replaced: self.replaced(response, buffer.data()), recode: None };
        if changes.replaced.is_some() {
            let changes = Changes { recode: self.recode(response, buffer.data()), ..changes };
            return Some(self.deliver_changed(changes, response, buffer).await);
        }
        if attempted.miss().is_none() || attempted.error_page.is_some() {
            return None;
        }
        match receive::take(attempted, self.forward, self.call, response, buffer).await {
            Ok(CacheFill::Yes { keep_alive, is_read }) => {
                let is_reusable = is_read && response.is_persistent() && buffer.is_empty();
                Some(Ok(Received::filled(keep_alive, is_reusable && attempted.progress.is_request_sent())))
            }
            Ok(CacheFill::No) => None,
            Err(fault) => Some(Err(fault)),
        }
    }

    async fn deliver_as_it_is(&self, response: &Response, buffer: &mut Buffer) -> Result<Received, Fault> {
        let way = ResponseFraming::of(self.attempted, response, buffer.data());
        let presented =
            self.attempted.present(&self.own(response, buffer.data(), way.body, None), |_| (), |_, _| ());
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(way.body);
        let source = self.call.source(way.body, buffer, &mut decoder);
        let keep_alive = presented.delivery.keep_alive;
        let mut outcome = presented.with(source, self.forward.timeouts.read, self.policy());
        let delivered = Recipient::of(self.attempted).deliver(&mut outcome, || self.note_long()).await;
        drop(outcome);
        self.call.note_source_left(decoder);
        delivered.map_err(|fault| self.undelivered(fault))?;
        Ok(way.received(keep_alive, buffer.is_empty()))
    }

    /// Lets the client get another response where it was sent nothing of this one.
    #[cold]
    pub(super) fn undelivered(&self, fault: Fault) -> Fault {
        if fault.retry != Retry::Never {
            self.attempted.progress.note_unanswered();
        }
        fault
    }

    /// More of the response is to come than came at first.
    pub(super) fn note_long(&self) {
        self.timer.note_slow();
        health::give_place_back(self.attempted, self.forward);
    }

    pub(super) fn policy(&self) -> Option<&ResponsePolicy> {
        self.forward.transfer.response.as_deref()
    }

    pub(super) fn own<'r>(
        &'r self,
        response: &'r Response,
        head: &'r [u8],
        body: Body,
        recode: Option<Recode>,
    ) -> ReceivedResponse<'r> {
        ReceivedResponse { response, head, status: None, body, policy: self.policy(), recode, is_last: false }
    }

    /// Passes on the agreement to speak another protocol, and then whatever is spoken.
    async fn switch(
        &self,
        response: &Response,
        buffer: &mut Buffer,
        rest: &mut Buffer,
    ) -> Result<Received, Fault> {
        let upstream = self.call.own_socket().ok_or(Fault::sent(Reason::UpstreamBadResponse))?;
        let (attempted, timeouts) = (self.attempted, *self.forward.timeouts);
        let mut out = Buffer::small(&attempted.worker.buffers);
        write_interim_head(
            buffer.data(),
            response,
            &response_edits(attempted, response.status, Scope::Location),
            &mut out,
        );
        // In HTTP/2 the tunnel is the content of a response that succeeds (RFC 8441 section 5).
        let status = if attempted.client.is_stream() { 200 } else { response.status };
        attempted.note_head(status, out.data());
        buffer.consume(response.len);
        let idle = timeouts.read.max(timeouts.send);
        let passed = match attempted.client {
            Client::Http1(socket) => {
                client::write(socket, &[out.data()], attempted.timeout()).await?;
                let client = End { socket, read_ahead: rest };
                let upstream = End { socket: upstream, read_ahead: buffer };
                tunnel(client, upstream, idle, attempted.worker.for_tunnels(), &()).await.0
            }
            Client::Stream(stream) => {
                let sent = stream.respond(status, out.data(), false);
                sent.map_err(|_| Fault::never(Reason::ClientAborted))?;
                let end = End { socket: upstream, read_ahead: buffer };
                tunnel_stream(stream, end, idle, &attempted.worker.deadlines).await
            }
        };
        attempted.report.sent_body.set(passed.to_client);
        attempted.report.received_body.set(passed.to_upstream);
        Ok(Received {
            reusable: false,
            keep_alive: false,
            idle_max: None,
            closes_in_order: passed.is_complete,
            client_fault: None,
        })
    }
}

/// The changes to the content of a response.
pub(super) struct Changes {
    pub(super) replaced: Option<Replaced>,
    /// The coding of the result.
    pub(super) recode: Option<Recode>,
}

/// The framing of a response, and whether its connection can be used again.
#[derive(Clone, Copy)]
pub(super) struct ResponseFraming {
    pub(super) body: Body,
    idle_max: Option<Duration>,
    is_reusable: bool,
}

impl ResponseFraming {
    pub(super) fn of(attempted: &Attempted<'_, '_>, response: &Response, head: &[u8]) -> Self {
        let body = response.body(attempted.is_head());
        // One that begins before its request has been written is the answer to who knows what: no other
        // request follows there.
        let answers_whole_request = attempted.progress.is_request_sent();
        Self {
            body,
            idle_max: keep_alive_hint(head, response),
            is_reusable: answers_whole_request && response.is_persistent() && body != Body::UntilClose,
        }
    }

    /// The same for a response that the cache has stored.
    pub(super) fn filled(self, keep_alive: Result<bool, Fault>, is_reusable: bool) -> Received {
        Received::filled(keep_alive, is_reusable && self.is_reusable)
    }

    /// More than was announced is no beginning of a next response.
    pub(super) fn received(self, keep_alive: bool, nothing_follows: bool) -> Received {
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
