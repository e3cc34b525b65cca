//! A request as it goes to endpoints: its head, and its body, which is read whole before where the route says so.
//!
//! Never in here: a try.

use std::io;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

use model::{AppProtocol, Forward, HeadSettings, HeaderNames, Mirror, UpstreamHead};
use observe::Reason;
use wire::h1::{Body, BodyDecoder, InvalidBody};

use crate::access::client_certificate;
use crate::body::{
    Framing, HeldBody, Incoming, Kept, Meter, RelayError, Source, hold, take_frames, transcode,
    write_last_chunk,
};
use crate::buffer::Buffer;
use crate::cache_head;
use crate::cgi;
use crate::client::{Client, Timeout};
use crate::deadline::{Deadline, Elapsed};
use crate::errors;
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::filtered;
use crate::head::{
    BodyLength, HeadEdits, RequestOptions, Subrequest, end_request_head, write_request_head,
    write_subrequest_head,
};
use crate::limits::{LARGE_BUFFER_BYTES, LOGGED_BODY_BYTES_MAX};
use crate::pace::Direction;
use crate::replicas;
use crate::script;
use crate::upload::{self, Beside, tell_of_unheld};
use crate::upstream::Params;
use crate::values;

/// A request as it goes to endpoints, again and again if need be.
pub(crate) struct Outbound<'x, 'a> {
    pub(crate) exchange: &'x Exchange<'a>,
    pub(crate) forward: &'x Forward,
    /// The head, and as much of the body as came with it.
    pub(crate) bytes: Buffer,
    pub(crate) head_len: usize,
    /// The rest of the body.
    pub(crate) body: BodyDecoder,
    /// What has been read of it.
    pub(crate) rest: &'x mut Buffer,
    pub(crate) framing: Framing,
    /// What endpoints speak.
    pub(crate) protocol: AppProtocol,
    /// What those are told that speak `FastCGI`, beside the head.
    pub(crate) params: Option<Box<Params>>,
    /// Whether the head still awaits the length of the body.
    awaits_length: bool,
    /// What was read before an endpoint is asked, after what is in `bytes`.
    pub(crate) held: Option<Rc<HeldBody>>,
    /// The rest of the body after `bytes`, if there is any.
    pub(crate) upload: Option<Box<Beside>>,
}

/// What an endpoint is told on a route's behalf.
fn tell(head: &UpstreamHead, exchange: &Exchange<'_>, edits: &mut HeadEdits<'_>) {
    if let Some(prefix) = &head.forwarded_prefix {
        let value = values::expand_field(exchange, prefix);
        if value.is_empty() {
            edits.remove("X-Forwarded-Prefix");
        } else {
            edits.set("X-Forwarded-Prefix", value);
        }
    }
}

/// What every endpoint is told.
fn set_on_request<'e>(heads: &'e HeadSettings, exchange: &Exchange<'_>, edits: &mut HeadEdits<'e>) {
    for (name, template) in &heads.of_requests {
        let value = values::expand_field(exchange, template);
        if value.is_empty() {
            edits.remove(name);
        } else {
            edits.set(name, value);
        }
    }
}

/// The head of a request as endpoints get it, with room for its body. One that awaits the length of the body has no end.
pub(crate) fn write_head(exchange: &Exchange<'_>, forward: &Forward, awaits_length: bool) -> Buffer {
    write_head_with(exchange, forward, awaits_length, |edits| cache_head::edit_request(exchange, edits))
}

/// `Host`, where it is neither the client's nor a trusted hop's.
pub(crate) fn host(exchange: &Exchange<'_>, forward: &Forward) -> Option<Vec<u8>> {
    let host = forward.head.as_ref().and_then(|head| head.host.as_ref());
    let host = host.map(|host| values::expand_field(exchange, host)).filter(|host| !host.is_empty());
    let host = script::host(exchange).or(host);
    match exchange.rewritten.get() {
        Some(rewritten) => filtered::host(exchange, rewritten).or(host),
        None => host,
    }
}

/// Path and query.
pub(crate) fn target<'e>(exchange: &'e Exchange<'_>) -> &'e [u8] {
    let rewritten = || exchange.rewritten.get().and_then(|rewritten| rewritten.target());
    let scripted = || exchange.script.get().and_then(|script| script.target.as_deref());
    rewritten().or_else(scripted).unwrap_or_else(|| exchange.request.origin_target(exchange.head))
}

/// What is said to endpoints beside what the client says; on request the trace too, which is another one for each request.
pub(crate) fn edits<'e>(exchange: &'e Exchange<'_>, forward: &Forward, tells_trace: bool) -> HeadEdits<'e> {
    let mut edits = HeadEdits::default();
    if let Some(heads) = &exchange.config.settings().heads {
        set_on_request(heads, exchange, &mut edits);
    }
    let access = exchange.route.get().and_then(|route| route.access.as_deref());
    if let Some(demand) = access.and_then(|access| access.client_certificate.as_ref()) {
        client_certificate::tell(demand, exchange.conn.tls.as_deref(), &mut edits);
    }
    for (name, value) in exchange.admitted.get().into_iter().flat_map(|admitted| &admitted.upstream) {
        match value {
            Some(value) => edits.set(name, value.as_slice()),
            None => edits.remove(name),
        }
    }
    if let Some(head) = &forward.head {
        tell(head, exchange, &mut edits);
    }
    if let Some(trace) = exchange.trace.get().filter(|_| tells_trace) {
        trace.tell(&mut edits);
    }
    script::edit_request(exchange, &mut edits);
    if let Some(rewritten) = exchange.rewritten.get() {
        filtered::edit_request(exchange, rewritten, &mut edits);
    }
    edits
}

/// The trailer fields that an endpoint gets, of those in these lines.
pub(crate) fn passing_trailers(exchange: &Exchange<'_>, forward: &Forward, lines: &[u8]) -> Vec<u8> {
    upload::passing(exchange, || edits(exchange, forward, true), lines)
}

/// The head of a request as endpoints get it, with changes of one's own.
pub(crate) fn write_head_with(
    exchange: &Exchange<'_>,
    forward: &Forward,
    awaits_length: bool,
    change: impl FnOnce(&mut HeadEdits<'_>),
) -> Buffer {
    if exchange.guest.get().is_some() {
        return write_head_of_guest(exchange, change);
    }
    let (request, settings) = (exchange.request, exchange.config.settings());
    let mut bytes = Buffer::small(&exchange.worker.buffers);
    let host = host(exchange, forward);
    let mut edits = edits(exchange, forward, true);
    change(&mut edits);
    let has_errors = exchange.route.get().is_some_and(|route| route.error_pages.is_some());
    let target = if has_errors { errors::tell(exchange, &mut edits) } else { None };
    let rewritten = || exchange.rewritten.get().and_then(|rewritten| rewritten.target());
    let scripted = || exchange.script.get().and_then(|script| script.target.as_deref());
    let options = RequestOptions {
        forwarded: &exchange.forwarded,
        host: host.as_deref(),
        target: target.as_deref().or_else(rewritten).or_else(scripted),
        last_lines: Some(&exchange.conn.last_lines).filter(|_| exchange.conn.requests.get() > 1),
        request_id: exchange.id.as_bytes(),
        original_uri: settings.forwarded.original_uri && exchange.error_page.get().is_none(),
        connection: forward.connection_header,
        is_upgrade: exchange.is_upgrade(),
        names: settings.client.header_names,
        is_bodiless: is_bodiless(exchange),
        is_http_1_0: forward.transfer.uses_http_1_0,
        awaits_length,
    };
    write_request_head(exchange.head, request, &options, &edits, &mut bytes);
    bytes
}

/// The head of another replica's request, which is as endpoints are to get it.
#[cold]
fn write_head_of_guest(exchange: &Exchange<'_>, change: impl FnOnce(&mut HeadEdits<'_>)) -> Buffer {
    let (head, request) = (exchange.head, exchange.request);
    let mut edits = HeadEdits::default();
    change(&mut edits);
    edits.remove(replicas::NAME);
    let subrequest = Subrequest {
        method: &head[request.method.clone()],
        target: request.origin_target(head),
        host: exchange.host(),
        names: HeaderNames::All,
    };
    let mut bytes = Buffer::small(&exchange.worker.buffers);
    write_subrequest_head(head, request, &subrequest, &edits, &mut bytes);
    bytes
}

/// What the endpoints of the request's cluster speak.
pub(crate) fn protocol(exchange: &Exchange<'_>) -> AppProtocol {
    let version = |cluster| exchange.config.snapshot.cluster(cluster).version;
    exchange.cluster.get().map(version).unwrap_or_default()
}

/// How the body goes to an endpoint. Frames and records need no chunks.
fn framing(exchange: &Exchange<'_>, protocol: AppProtocol) -> Framing {
    let is_in_chunks = exchange.request.fields.chunked && protocol == AppProtocol::Http1;
    if is_in_chunks { Framing::Chunked } else { Framing::Raw }
}

/// Whether an endpoint has to be told the length of a body.
fn needs_length(forward: &Forward, protocol: AppProtocol) -> bool {
    forward.transfer.uses_http_1_0 || protocol == AppProtocol::FastCgi
}

/// What an application is told beside the `head`; none where the endpoints are none.
pub(crate) fn params(
    exchange: &Exchange<'_>,
    forward: &Forward,
    protocol: AppProtocol,
    head: &Buffer,
) -> Option<Box<Params>> {
    let fast_cgi = || forward.head.as_ref().and_then(|head| head.fast_cgi.as_deref());
    let is_told = protocol == AppProtocol::FastCgi;
    is_told.then(|| Box::new(Params(cgi::params(exchange, fast_cgi(), head.data()))))
}

/// Whether the request goes on without its body.
pub(crate) fn is_bodiless(exchange: &Exchange<'_>) -> bool {
    exchange.error_page.get().is_some_and(|page| page.is_bodiless.get())
}

/// The body of a request that has come to its end.
#[derive(Default)]
pub(crate) struct Content<'a> {
    pub(crate) begin: &'a [u8],
    pub(crate) rest: Option<Rc<HeldBody>>,
}

/// Where copies of a request may go.
pub(crate) fn mirrors<'x>(
    exchange: &'x Exchange<'_>,
    forward: &'x Forward,
) -> impl Iterator<Item = &'x Mirror> {
    let of_backend = exchange.rewritten.get().and_then(|rewritten| rewritten.backend.get());
    let of_backend = of_backend.map_or(&[][..], |backend| &backend.filters.mirrors);
    forward.transfer.mirrors.iter().flatten().chain(of_backend)
}

/// Whether the length of the body is known only when all of it has come, and has to be said.
pub(crate) fn awaits_length(exchange: &Exchange<'_>, forward: &Forward, protocol: AppProtocol) -> bool {
    exchange.request.fields.chunked && is_held(exchange, forward, protocol)
}

/// Whether a body is read whole before an endpoint is asked. What both sides may say to each other at the same time is not.
pub(crate) fn is_held(exchange: &Exchange<'_>, forward: &Forward, protocol: AppProtocol) -> bool {
    let (request, transfer) = (exchange.request, &forward.transfer);
    let is_copied = || mirrors(exchange, forward).any(Mirror::has_body);
    let is_measured = || needs_length(forward, protocol) && request.fields.chunked;
    let is_wanted = transfer.request_buffer_bytes.is_some() || is_copied() || is_measured();
    is_wanted
        && request.has_body()
        && !is_bodiless(exchange)
        && protocol != AppProtocol::Http2
        && (protocol == AppProtocol::FastCgi || !exchange.has_grpc_content())
        && fits(exchange, forward)
}

/// Whether a body can be kept, as far as its length is known. One that has come with its head needs no other place.
fn fits(exchange: &Exchange<'_>, forward: &Forward) -> bool {
    let length = exchange.request.fields.content_length.unwrap_or(0);
    let memory = forward.transfer.request_buffer_bytes.unwrap_or(0);
    let fits = exchange.worker.bodies.has_place_for(length, memory);
    if !fits && exchange.worker.is_to_tell_of_unheld() {
        tell_of_unheld(exchange);
    }
    fits
}

impl<'x, 'a> Outbound<'x, 'a> {
    pub(crate) fn new(
        exchange: &'x Exchange<'a>,
        forward: &'x Forward,
        rest: &'x mut Buffer,
    ) -> Result<Self, Reason> {
        let request = exchange.request;
        let protocol = protocol(exchange);
        let awaits_length = awaits_length(exchange, forward, protocol);
        let bytes = write_head(exchange, forward, awaits_length);
        let params = params(exchange, forward, protocol, &bytes);
        let body = if request.fields.chunked {
            Body::Chunked
        } else {
            Body::of_length(request.fields.content_length.unwrap_or(0))
        };
        let framing = if awaits_length { Framing::Raw } else { framing(exchange, protocol) };
        let (body, head_len) = (BodyDecoder::new(body), bytes.len());
        let mut outbound = Self {
            exchange,
            forward,
            bytes,
            head_len,
            body,
            rest,
            framing,
            protocol,
            params,
            awaits_length,
            held: None,
            upload: None,
        };
        if awaits_length {
            outbound.measure_what_has_come()?;
        } else if !is_bodiless(exchange) {
            outbound.take_what_has_come()?;
        }
        Ok(outbound)
    }

    /// The same request for the backend of errors, with what is kept of its body. Where not all of it can be sent again, none of it is.
    pub(crate) fn readdress(self, forward: &'x Forward) -> Self {
        let exchange = self.exchange;
        let progress = &exchange.progress;
        let protocol = protocol(exchange);
        let is_measured =
            exchange.request.fields.chunked && self.framing == Framing::Raw && progress.is_body_done();
        let framing = if is_measured { Framing::Raw } else { framing(exchange, protocol) };
        let is_kept = progress.can_send_again() && framing == self.framing;
        if let Some(page) = exchange.error_page.get().filter(|_| !is_kept && exchange.request.has_body()) {
            page.is_bodiless.set(true);
        }
        let begin = &self.bytes.data()[self.head_len..];
        let mut bytes = write_head(exchange, forward, is_kept && is_measured);
        if is_kept && is_measured {
            let rest = self.held.as_ref().map_or(0, |held| held.len());
            end_request_head(BodyLength::Known(begin.len() as u64 + rest), &mut bytes);
        }
        let head_len = bytes.len();
        let params = params(exchange, forward, protocol, &bytes);
        if is_kept {
            bytes.extend(begin);
        }
        let held = self.held.filter(|_| is_kept);
        Self { forward, bytes, head_len, framing, protocol, params, awaits_length: false, held, ..self }
    }

    /// Ends a head that awaits the length of the body, if all of the body has come.
    fn measure_what_has_come(&mut self) -> Result<(), Reason> {
        let (exchange, progress) = (self.exchange, &self.exchange.progress);
        progress.note_body_begun();
        let meter = request_meter(exchange, self.forward);
        let mut content = Buffer::small(&exchange.worker.buffers);
        let done = match exchange.client {
            Client::Http1(_) => {
                transcode(self.rest, &mut self.body, Framing::Raw, &meter, &mut content, |_, _| ())
            }
            Client::Http2(stream) => take_frames(&stream.body, Framing::Raw, &meter, &mut content),
        };
        if done.map_err(|error| request_fault(&error).reason)? {
            self.end_head(BodyLength::Known(content.len() as u64));
            self.bytes.extend(content.data());
            progress.note_body_whole();
        } else if !content.is_empty() {
            let mut held = self.store();
            held.begin(content.data());
            self.held = Some(Rc::new(held));
        }
        Ok(())
    }

    fn end_head(&mut self, length: BodyLength) {
        end_request_head(length, &mut self.bytes);
        self.head_len = self.bytes.len();
        self.awaits_length = false;
    }

    fn store(&self) -> HeldBody {
        let memory = self.forward.transfer.request_buffer_bytes.unwrap_or(0);
        HeldBody::new(&self.exchange.worker.bodies, memory)
    }

    fn take_what_has_come(&mut self) -> Result<(), Reason> {
        let (exchange, progress) = (self.exchange, &self.exchange.progress);
        progress.note_body_begun();
        let meter = request_meter(exchange, self.forward);
        let done = match exchange.client {
            // What follows belongs to the protocol that is asked for.
            _ if exchange.is_upgrade() => Ok(true),
            Client::Http1(_) => {
                let finish = |lines: &[u8], out: &mut Buffer| match (self.framing, self.protocol) {
                    (Framing::Chunked, _) => {
                        write_last_chunk(&passing_trailers(exchange, self.forward, lines), out);
                    }
                    (_, AppProtocol::Http2) => {
                        let trailers = passing_trailers(exchange, self.forward, lines);
                        if !trailers.is_empty() {
                            Beside::of(&mut self.upload, exchange.worker).trailers = trailers;
                        }
                    }
                    _ => {}
                };
                transcode(self.rest, &mut self.body, self.framing, &meter, &mut self.bytes, finish)
            }
            Client::Http2(stream) => take_frames(&stream.body, self.framing, &meter, &mut self.bytes),
        };
        if done.map_err(|error| request_fault(&error).reason)? {
            progress.note_body_whole();
        }
        Ok(())
    }

    /// Waits for the first of a body that is announced, where an endpoint would have to keep a connection for it alone: who
    /// announces bodies and sends none costs no endpoint anything. Where a backend of errors may have to be sent it again, as much of it
    /// is waited for as is kept. Of a stream of an HTTP/2 session nothing is waited for: the
    /// endpoint may be the one to speak first, as in gRPC.
    pub(crate) async fn await_body(&mut self) -> Result<(), Reason> {
        if self.exchange.progress.is_body_done() || is_bodiless(self.exchange) {
            return Ok(());
        }
        if self.awaits_length || is_held(self.exchange, self.forward, self.protocol) {
            return Box::pin(self.hold_body()).await;
        }
        if self.has_enough_of_body() || self.protocol == AppProtocol::Http2 {
            return Ok(());
        }
        Box::pin(self.await_body_begin()).await
    }

    /// Reads the rest of the body. Where there is no room for all of it, it is passed on as it comes.
    async fn hold_body(&mut self) -> Result<(), Reason> {
        let Exchange { client, deadline, progress, worker, .. } = self.exchange;
        let timeout = self.exchange.config.settings().client.body_timeout;
        if self.is_invitation_due() {
            let invitation = Timeout { deadline, send_timeout: timeout };
            invite(*client, invitation).await.map_err(|_| Reason::ClientAborted)?;
        }
        let begun = self.held.take().and_then(Rc::into_inner);
        let mut held = begun.unwrap_or_else(|| self.store());
        let source = match client {
            Client::Http1(socket) => Source::Http1 { socket, buffer: self.rest, decoder: &mut self.body },
            Client::Http2(stream) => Source::stream(&stream.body),
        };
        let meter = request_meter(self.exchange, self.forward);
        pace_body(self.exchange, deadline);
        let kept = hold(Incoming { source, timeout }, &mut held, &meter, deadline).await;
        let kept = kept.map_err(|error| request_fault(&error.of_reading(deadline)).reason);
        deadline.pace(Direction::Read, None);
        let kept = kept?;
        match (kept, self.awaits_length) {
            (Kept::Whole, true) => self.end_head(BodyLength::Known(held.len())),
            (Kept::Beginning, true) if needs_length(self.forward, self.protocol) => {
                return Err(Reason::BodyUnheld);
            }
            (Kept::Beginning, true) => {
                self.end_head(BodyLength::Unknown);
                self.framing = Framing::Chunked;
            }
            (_, false) => {}
        }
        match kept {
            Kept::Whole => progress.note_body_whole(),
            Kept::Beginning if worker.is_to_tell_of_unheld() => tell_of_unheld(self.exchange),
            Kept::Beginning => {}
        }
        match held.in_memory() {
            // One write takes all of it.
            Some(rest) if kept == Kept::Whole && self.bytes.len() + rest.len() <= LARGE_BUFFER_BYTES => {
                self.bytes.extend(rest);
            }
            _ => self.held = Some(Rc::new(held)),
        }
        Ok(())
    }

    /// Whether the client waits to be told that its body is wanted.
    pub(crate) fn is_invitation_due(&self) -> bool {
        let Exchange { request, report, .. } = self.exchange;
        request.expects_continue && report.received_body.get() == 0 && self.rest.is_empty()
    }

    /// The body for a copy of the request; none where it is not all here.
    pub(crate) fn content(&self) -> Option<Content<'_>> {
        let is_all = self.exchange.progress.is_body_done() && self.framing == Framing::Raw;
        is_all.then(|| Content { begin: &self.bytes.data()[self.head_len..], rest: self.held.clone() })
    }

    /// Keeps a copy of the body for the access log, where all of it is in memory and it is not too long.
    #[cold]
    pub(crate) fn note_body_for_log(&self) {
        let Some(Content { begin, rest }) = self.content().filter(|_| self.exchange.request.has_body())
        else {
            return;
        };
        let rest = rest.as_ref().map_or(Some(&[][..]), |rest| rest.in_memory());
        if let Some(rest) = rest.filter(|rest| begin.len() + rest.len() <= LOGGED_BODY_BYTES_MAX) {
            let _ = self.exchange.report.request_body.set([begin, rest].concat().into());
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn bytes_held(&self) -> usize {
        let rest = self.held.as_ref().and_then(|held| held.in_memory()).map_or(0, <[u8]>::len);
        self.bytes.len() + rest
    }

    /// Whether no more of the body is waited for.
    fn has_enough_of_body(&self) -> bool {
        let Exchange { progress, report, .. } = self.exchange;
        if progress.is_body_done() {
            return true;
        }
        // What there is no room for beside the head has come all the same.
        let is_left_over = !self.rest.is_empty() && self.bytes.len() + self.rest.len() > LARGE_BUFFER_BYTES;
        is_left_over
            || self.bytes.len() > LARGE_BUFFER_BYTES
            || report.received_body.get() > 0 && !self.exchange.may_be_replaced()
    }

    async fn await_body_begin(&mut self) -> Result<(), Reason> {
        let (client, deadline) = (self.exchange.client, self.exchange.deadline);
        let timeout = self.exchange.config.settings().client.body_timeout;
        if self.is_invitation_due() {
            let invitation = Timeout { deadline, send_timeout: timeout };
            invite(client, invitation).await.map_err(|_| Reason::ClientAborted)?;
        }
        pace_body(self.exchange, deadline);
        let begun = self.await_body_in_time((client, timeout), deadline).await;
        deadline.pace(Direction::Read, None);
        begun
    }

    async fn await_body_in_time(
        &mut self,
        (client, timeout): (Client<'_>, Duration),
        deadline: &Deadline,
    ) -> Result<(), Reason> {
        while !self.has_enough_of_body() {
            let read = match client {
                Client::Http1(socket) => {
                    let poll = |cx: &mut Context<'_>| socket.poll_fill_small(cx, self.rest);
                    let bytes = |read: &io::Result<usize>| *read.as_ref().unwrap_or(&0);
                    deadline.within_paced(Direction::Read, timeout, poll, bytes).await
                }
                Client::Http2(stream) => {
                    let poll = |cx: &mut Context<'_>| stream.body.poll_ready(cx);
                    match deadline.within_paced(Direction::Read, timeout, poll, |_| 0).await {
                        Ok(false) => return self.take_what_has_come(),
                        Ok(true) => Ok(Ok(1)),
                        Err(Elapsed) => Err(Elapsed),
                    }
                }
            };
            match read {
                Err(Elapsed) if deadline.is_too_slow(Direction::Read) => return Err(Reason::BodyRate),
                Err(Elapsed) => return Err(Reason::BodyTimeout),
                Ok(Ok(0) | Err(_)) => return Err(Reason::ClientAborted),
                Ok(Ok(_)) => self.take_what_has_come()?,
            }
        }
        Ok(())
    }
}

/// Tells a client that waits for it to send its body (RFC 9110 section 10.1.1).
pub(crate) async fn invite(client: Client<'_>, timeout: Timeout<'_>) -> Result<(), RelayError> {
    client.inform(100, b"HTTP/1.1 100 Continue\r\n\r\n", timeout).await.map_err(|_| RelayError::Read)
}

pub(crate) fn request_meter<'x>(exchange: &'x Exchange<'_>, forward: &Forward) -> Meter<'x> {
    Meter { content: &exchange.report.received_body, max: forward.body_bytes_max }
}

/// Has the client keep to the least rate while the body is read, where there is one. What gRPC sends comes when there is something to say.
pub(crate) fn pace_body(exchange: &Exchange<'_>, deadline: &Deadline) {
    let rate = exchange.config.settings().client.bounds.send_rate_min;
    if rate.is_some() && !exchange.has_grpc_content() {
        deadline.pace(Direction::Read, rate);
    }
}

pub(crate) fn request_fault(error: &RelayError) -> Fault {
    match error {
        RelayError::Read | RelayError::Invalid(InvalidBody::Truncated) => Fault::never(Reason::ClientAborted),
        RelayError::ReadTimeout => Fault::never(Reason::BodyTimeout),
        RelayError::ReadTooSlow => Fault::never(Reason::BodyRate),
        RelayError::Invalid(_) => Fault::never(Reason::BadChunk),
        RelayError::TooLarge => Fault::never(Reason::BodyTooLarge),
        RelayError::Write => Fault::sent(Reason::UpstreamReset),
        RelayError::WriteTimeout => Fault::sent(Reason::UpstreamSendTimeout),
        RelayError::Store | RelayError::Coding | RelayError::File => Fault::never(Reason::BodyUnheld),
    }
}
