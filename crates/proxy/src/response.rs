//! The response of an endpoint on its way to the client.

use std::rc::Rc;
use std::time::Duration;

use model::Forward;
use observe::Reason;
use wire::Field;
use wire::h1::{Body, BodyDecoder, Decoded, Response, Version};

use crate::body::Framing;
use crate::buffer::Buffer;
use crate::client::{self, Client};
use crate::deliver::Outcome;
use crate::exchange::{Exchange, Spent};
use crate::fault::Fault;
use crate::filters;
use crate::h2::tunnel_stream;
use crate::head::{Delivery, HeadEdits, write_interim_head, write_response_head};
use crate::limits::{INTERIM_RESPONSES_MAX, ROUTE_RESPONSE_HEAD_BYTES_MAX};
use crate::reply::Scope;
use crate::script;
use crate::tunnel::{End, tunnel};
use crate::upstream::h1::keep_alive_hint;
use crate::upstream::{Call, Endpoint, ResponseTimer};

/// Receives the response to a request that has been sent.
pub(crate) struct Receiver<'x, 'a> {
    pub(crate) exchange: &'x Exchange<'a>,
    pub(crate) forward: &'x Forward,
    pub(crate) endpoint: &'x Rc<Endpoint>,
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
        self.endpoint.note_response(took, worker.clock.now());
        let received = match (response.status, upgrade) {
            (101, Some(rest)) if self.switches_as_asked(buffer.data(), &response) => {
                Box::pin(self.switch(&response, buffer, rest)).await
            }
            (101, _) => Err(Fault::sent(Reason::UpstreamBadResponse)),
            (status, _) if !self.is_last && self.forward.retry.on.statuses.contains(&status) => {
                Err(Fault::sent(Reason::UpstreamStatus))
            }
            (300.., _) if self.is_replaced(&response, buffer.data()) => {
                self.note_spent(&response, buffer);
                Err(Fault::never(Reason::UpstreamStatus))
            }
            _ => self.deliver(&response, buffer).await,
        };
        worker.responses.keep(response);
        received
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

    async fn deliver(&self, response: &Response, mut buffer: Buffer) -> Result<Received, Fault> {
        let exchange = self.exchange;
        // One that begins before its request has been written is the answer to who knows what: no other request follows there.
        let answers_whole_request = exchange.progress.is_request_sent();
        let body = response.body(exchange.is_head());
        let delivery = self.delivery(response, body);
        let idle_max = keep_alive_hint(buffer.data(), response);
        let head = self.write_head(response, delivery, &buffer);
        self.note_head(response.status, head.data());
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(body);
        let mut outcome = Outcome {
            status: response.status,
            head,
            body: self.call.source(body, &mut buffer, &mut decoder),
            framing: delivery.framing,
            read_timeout: self.forward.timeouts.read,
            policy: self.forward.transfer.response.as_deref(),
        };
        let delivered = exchange.recipient().deliver(&mut outcome, || self.timer.note_slow()).await;
        self.call.note_source_left(decoder);
        delivered?;
        Ok(Received {
            // More than was announced is no beginning of a next response.
            reusable: answers_whole_request
                && response.is_persistent()
                && body != Body::UntilClose
                && buffer.is_empty(),
            keep_alive: delivery.keep_alive,
            idle_max,
            closes_in_order: false,
        })
    }

    /// The head for the client. What it takes to write it is not kept while the response is sent.
    fn write_head(&self, response: &Response, delivery: Delivery, received: &Buffer) -> Buffer {
        let (exchange, mut head) = (self.exchange, Buffer::small(&self.exchange.worker.buffers));
        let mut edits = exchange.response_edits(response.status, Scope::Location);
        let date = || exchange.worker.date();
        if let Some(policy) = &self.forward.transfer.response {
            let origin = || exchange.redirect_origin();
            filters::response::translate(policy, received.data(), &response.fields, origin, &mut edits);
        }
        script::edit_response(exchange, response.status, Scope::Location, &mut edits);
        script::hide(exchange, &mut edits);
        if let Some(heads) = &exchange.config.settings().heads {
            filters::response::hide(heads, &mut edits);
        }
        write_response_head(received.data(), response, delivery, &edits, date, &mut head);
        head
    }

    /// How the body's end is told to a client that may not know chunks.
    fn delivery(&self, response: &Response, body: Body) -> Delivery {
        let (exchange, version) = (self.exchange, self.exchange.request.version);
        let has_length = matches!(body, Body::Empty | Body::Length(_));
        let is_raw = has_length || version == Version::Http10 || exchange.client.is_http2();
        let framing = if is_raw { Framing::Raw } else { Framing::Chunked };
        // A response that refuses the request while its body is still being sent will not see the end of it.
        let is_refusal = response.status >= 400 || exchange.error_page.get().is_some();
        let refused_early = is_refusal && !exchange.progress.is_body_done();
        let keep_alive =
            exchange.may_keep_alive() && (has_length || framing == Framing::Chunked) && !refused_early;
        Delivery { framing, keep_alive, version }
    }

    fn note_head(&self, status: u16, head: &[u8]) {
        let report = &self.exchange.report;
        report.status.set(status);
        report.sent_head.set(head.len() as u64);
        self.exchange.progress.note_answered();
        if self.exchange.config.logs_response_headers {
            *report.response_head.borrow_mut() = head.to_vec();
        }
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
        self.note_head(status, out.data());
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
        })
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
