//! A request as it goes to endpoints: its head, and its body, which is read whole before where the route
//! says so.
//!
//! Never in here: a try.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

use model::{AppProtocol, Forward, Mirror};
use observe::Reason;
use routing::Needs;
use wire::h1::{Body, BodyDecoder};

use crate::admit::upstream_head::{edits, params, protocol, write_head};
use crate::admit::{Admitted, errors};
use crate::body::{
    Framing, HeldBody, HeldPart, Incoming, Look, Source, hold, take_frames, transcode, write_last_chunk,
};
use crate::forward::upload::{self, Beside, tell_of_unheld};
use crate::io::buffer::Buffer;
use crate::io::deadline::Elapsed;
use crate::io::pace::Direction;
use crate::limits::{LARGE_BUFFER_BYTES, LOGGED_BODY_BYTES_MAX};
use crate::request::Request;
use crate::request::client::{Client, Timeout};
use crate::request::head::{BodyLength, end_request_head};
use crate::request::incoming::{invite, pace_body, request_fault, request_meter};
use crate::request::inspection::TakenBody;
use crate::request::processing::Exchange;
use crate::upstream::Params;

/// A request as it goes to endpoints, again and again if need be.
pub(crate) struct Outbound<'x, 'a> {
    pub(crate) admitted: &'x Admitted<'a>,
    pub(crate) forward: &'x Forward,
    /// The head, and as much of the body as came with it.
    pub(crate) bytes: Buffer,
    pub(crate) head_len: usize,
    /// The rest of the body.
    pub(crate) body: BodyDecoder,
    /// The bytes that have been read of it.
    pub(crate) rest: &'x mut Buffer,
    pub(crate) framing: Framing,
    /// The protocol of the endpoints.
    pub(crate) protocol: AppProtocol,
    /// The parameters for endpoints that speak `FastCGI`, beside the head.
    pub(crate) params: Option<Box<Params>>,
    /// Whether the head still awaits the length of the body.
    awaits_length: bool,
    /// The body that was read before an endpoint is asked, after its beginning in `bytes`.
    pub(crate) held: Option<Rc<HeldBody>>,
    /// The rest of the body after `bytes`, if there is any.
    pub(crate) upload: Option<Box<Beside>>,
    /// The exchange of the rest of the body for what a processor makes of it.
    pub(crate) exchange: Option<BodyExchange<'x>>,
}

/// The exchange of a body that is passed on as it comes.
pub(crate) struct BodyExchange<'x> {
    pub(crate) exchange: Exchange<'x>,
    /// Content that has been read already.
    pub(crate) begin: Cell<Vec<u8>>,
}

/// The body of a request that has come to its end.
#[derive(Default)]
pub(crate) struct Content<'a> {
    pub(crate) begin: &'a [u8],
    pub(crate) rest: Option<Rc<HeldBody>>,
}

/// The trailer fields that an endpoint gets, of those in these lines.
pub(crate) fn passing_trailers(admitted: &Admitted<'_>, forward: &Forward, lines: &[u8]) -> Vec<u8> {
    upload::passing(admitted, || edits(admitted, forward, true), lines)
}

/// How the body goes to an endpoint. Frames and records need no chunks.
fn framing(admitted: &Admitted<'_>, protocol: AppProtocol) -> Framing {
    let is_in_chunks = admitted.parsed.fields.chunked && protocol == AppProtocol::Http1;
    if is_in_chunks { Framing::Chunked } else { Framing::Raw }
}

/// Whether all of the body was read for a check.
fn is_inspected_whole(admitted: &Admitted<'_>) -> bool {
    admitted.needs.has_any(Needs::BODY_READERS) && admitted.has_whole_body()
}

/// Whether an endpoint has to be told the length of a body.
pub(super) fn needs_length(forward: &Forward, protocol: AppProtocol) -> bool {
    forward.transfer.uses_http_1_0 || protocol == AppProtocol::FastCgi
}

/// Where copies of a request may go.
pub(crate) fn mirrors<'x>(
    admitted: &'x Admitted<'_>,
    forward: &'x Forward,
) -> impl Iterator<Item = &'x Mirror> {
    let of_backend = admitted.backend.as_ref().map_or(&[][..], |backend| &backend.filters.mirrors);
    forward.transfer.mirrors.iter().flatten().chain(of_backend)
}

/// Whether the length of the body is known only when all of it has come, and has to be said.
pub(crate) fn awaits_length(admitted: &Admitted<'_>, forward: &Forward, protocol: AppProtocol) -> bool {
    admitted.parsed.fields.chunked && is_held(admitted, forward, protocol)
}

/// Whether a body is read whole before an endpoint is asked. What both sides may say to each other at the
/// same time is not.
pub(crate) fn is_held(admitted: &Admitted<'_>, forward: &Forward, protocol: AppProtocol) -> bool {
    let (parsed, transfer) = (admitted.parsed, &forward.transfer);
    let is_copied = || mirrors(admitted, forward).any(Mirror::has_body);
    let is_measured = || needs_length(forward, protocol) && parsed.fields.chunked;
    let is_wanted = transfer.request_buffer_bytes.is_some() || is_copied() || is_measured();
    is_wanted
        && parsed.has_body()
        && !admitted.is_bodiless()
        && protocol != AppProtocol::Http2
        && (protocol == AppProtocol::FastCgi || !admitted.has_grpc_content())
        && fits(admitted, forward)
}

/// Whether a body can be kept, as far as its length is known. One that has come with its head needs no other
/// place.
fn fits(admitted: &Admitted<'_>, forward: &Forward) -> bool {
    let length = admitted.parsed.fields.content_length.unwrap_or(0);
    let memory = forward.transfer.request_buffer_bytes.unwrap_or(0);
    let fits = admitted.worker.bodies.has_place_for(length, memory);
    if !fits && admitted.worker.is_to_tell_of_unheld() {
        tell_of_unheld(admitted);
    }
    fits
}

/// Whether the body of a request that endpoints have been asked for can be sent to the error backend.
pub(crate) fn can_send_body_again(by_error_backend: &Admitted<'_>, outbound: &Outbound<'_, '_>) -> bool {
    let protocol = protocol(by_error_backend);
    let framing = if outbound.is_measured() { Framing::Raw } else { framing(by_error_backend, protocol) };
    by_error_backend.progress.can_send_again() && framing == outbound.framing
}

impl<'x, 'a> Outbound<'x, 'a> {
    pub(crate) fn new(
        admitted: &'x Admitted<'a>,
        forward: &'x Forward,
        rest: &'x mut Buffer,
    ) -> Result<Self, Reason> {
        let mut outbound = Self::unread(admitted, forward, rest);
        outbound.take_begun()?;
        Ok(outbound)
    }

    /// A request before any of its body is taken.
    #[inline]
    pub(super) fn unread(admitted: &'x Admitted<'a>, forward: &'x Forward, rest: &'x mut Buffer) -> Self {
        let parsed = admitted.parsed;
        let protocol = protocol(admitted);
        let awaits_length = awaits_length(admitted, forward, protocol)
            || parsed.fields.chunked && is_inspected_whole(admitted);
        let bytes = write_head(admitted, forward, awaits_length);
        let params = params(admitted, forward, protocol, &bytes);
        let body = if parsed.fields.chunked {
            Body::Chunked
        } else {
            Body::of_length(parsed.fields.content_length.unwrap_or(0))
        };
        let framing = if awaits_length { Framing::Raw } else { framing(admitted, protocol) };
        let (body, head_len) = (BodyDecoder::new(body), bytes.len());
        Self {
            admitted,
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
            exchange: None,
        }
    }

    /// Takes what has come of the body.
    #[inline]
    pub(super) fn take_begun(&mut self) -> Result<(), Reason> {
        let admitted = self.admitted;
        if admitted.needs.has_any(Needs::BODY_READERS)
            && let Some(taken) = admitted.take_body()
        {
            self.take_inspected(taken)
        } else if self.awaits_length {
            self.measure_what_has_come()
        } else if !admitted.is_bodiless() {
            self.take_what_has_come()
        } else {
            Ok(())
        }
    }

    /// Whether the head has no end before the length of the body is known.
    pub(super) fn awaits_length(&self) -> bool {
        self.awaits_length
    }

    /// Puts another head in place of the one that was written. Without its end, it awaits the length of the
    /// body.
    pub(super) fn set_head(&mut self, head: &[u8], has_end: bool) {
        self.bytes.clear();
        self.bytes.extend(head);
        self.head_len = head.len();
        self.awaits_length = !has_end;
        self.params = params(self.admitted, self.forward, self.protocol, &self.bytes);
    }

    /// Takes the body, or its beginning, that was read for a check.
    #[cold]
    fn take_inspected(&mut self, taken: TakenBody) -> Result<(), Reason> {
        let TakenBody { held, decoder, is_whole } = taken;
        self.body = decoder;
        if self.admitted.is_bodiless() {
            return Ok(());
        }
        let is_chunked = self.admitted.parsed.fields.chunked;
        if is_whole {
            if is_chunked {
                self.end_head(BodyLength::Known(held.len()));
            }
        } else if is_chunked && needs_length(self.forward, self.protocol) {
            return Err(Reason::BodyUnheld);
        } else if self.awaits_length {
            self.end_head(BodyLength::Unknown);
            self.framing = framing(self.admitted, self.protocol);
        }
        match held.in_memory() {
            Some(rest) if is_whole && self.bytes.len() + rest.len() <= LARGE_BUFFER_BYTES => {
                self.bytes.extend(rest);
            }
            _ => self.held = Some(Rc::new(held)),
        }
        Ok(())
    }

    /// The same request for an error backend, with the body if that `is_kept`.
    pub(crate) fn readdress<'y, 'b>(
        self,
        admitted: &'y Admitted<'b>,
        forward: &'y Forward,
        is_kept: bool,
    ) -> Outbound<'y, 'b>
    where
        'x: 'y,
    {
        let protocol = protocol(admitted);
        let is_measured = self.is_measured();
        let framing = if is_measured { Framing::Raw } else { framing(admitted, protocol) };
        let begin = &self.bytes.data()[self.head_len..];
        let mut bytes = write_head(admitted, forward, is_kept && is_measured);
        if is_kept && is_measured {
            let rest = self.held.as_ref().map_or(0, |held| held.len());
            end_request_head(BodyLength::Known(begin.len() as u64 + rest), &mut bytes);
        }
        let head_len = bytes.len();
        let params = params(admitted, forward, protocol, &bytes);
        if is_kept {
            bytes.extend(begin);
        }
        Outbound {
            admitted,
            forward,
            bytes,
            head_len,
            body: self.body,
            rest: self.rest,
            framing,
            protocol,
            params,
            awaits_length: false,
            held: self.held.filter(|_| is_kept),
            upload: self.upload,
            exchange: None,
        }
    }

    /// Whether the body came in chunks and all of it is here without them.
    fn is_measured(&self) -> bool {
        let admitted = self.admitted;
        admitted.parsed.fields.chunked && self.framing == Framing::Raw && admitted.progress.is_body_done()
    }

    /// Ends a head that awaits the length of the body, if all of the body has come.
    fn measure_what_has_come(&mut self) -> Result<(), Reason> {
        let (admitted, progress) = (self.admitted, &self.admitted.progress);
        progress.note_body_begun();
        let meter = request_meter(admitted, self.forward.body_bytes_max.bytes());
        let mut content = Buffer::small(&admitted.worker.buffers);
        let done = match admitted.client {
            Client::Http1(_) => {
                transcode(self.rest, &mut self.body, Framing::Raw, &meter, &mut content, |_, _| ())
            }
            Client::Stream(stream) => take_frames(stream, Framing::Raw, &meter, &mut content),
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
        HeldBody::new(&self.admitted.worker.bodies, memory)
    }

    fn take_what_has_come(&mut self) -> Result<(), Reason> {
        let (admitted, progress) = (self.admitted, &self.admitted.progress);
        progress.note_body_begun();
        let meter = request_meter(admitted, self.forward.body_bytes_max.bytes());
        let done = match admitted.client {
            // The bytes that follow belong to the protocol that is asked for.
            _ if admitted.is_upgrade() => Ok(true),
            Client::Http1(_) => {
                let finish = |lines: &[u8], out: &mut Buffer| match (self.framing, self.protocol) {
                    (Framing::Chunked, _) => {
                        write_last_chunk(&passing_trailers(admitted, self.forward, lines), out);
                    }
                    (_, AppProtocol::Http2) => {
                        let trailers = passing_trailers(admitted, self.forward, lines);
                        if !trailers.is_empty() {
                            Beside::of(&mut self.upload, admitted.worker).trailers = trailers;
                        }
                    }
                    _ => {}
                };
                transcode(self.rest, &mut self.body, self.framing, &meter, &mut self.bytes, finish)
            }
            Client::Stream(stream) => take_frames(stream, self.framing, &meter, &mut self.bytes),
        };
        if done.map_err(|error| request_fault(&error).reason)? {
            progress.note_body_whole();
        }
        Ok(())
    }

    /// Whether the request waits for its body, is copied, or has its body logged before an endpoint is asked.
    #[inline]
    pub(crate) fn has_to_be_prepared(&self) -> bool {
        let admitted = self.admitted;
        !admitted.progress.is_body_done()
            || admitted.config.logs_request_bodies
            || self.forward.transfer.mirrors.is_some()
            || admitted.backend.is_some()
    }

    /// Waits for the first bytes of an announced body, so that a client that announces bodies and sends none
    /// keeps no connection of an endpoint. Where the body may have to be sent to an error backend again,
    /// waits for as much of it as is kept. An endpoint that speaks HTTP/2 is asked at once: in gRPC it may
    /// be the first to speak.
    pub(crate) async fn await_body(&mut self) -> Result<(), Reason> {
        if self.admitted.progress.is_body_done() || self.admitted.is_bodiless() {
            return Ok(());
        }
        let is_held = || is_held(self.admitted, self.forward, self.protocol);
        // A body in chunks of which a check has seen the beginning is passed on as it comes.
        if self.awaits_length || self.framing == Framing::Raw && is_held() {
            return reactor::late(self.hold_body()).await;
        }
        if self.has_enough_of_body() || self.protocol == AppProtocol::Http2 {
            return Ok(());
        }
        reactor::late(self.await_body_begin()).await
    }

    /// Reads the rest of the body. Where there is no room for all of it, it is passed on as it comes.
    async fn hold_body(&mut self) -> Result<(), Reason> {
        let Request { client, deadline, progress, worker, .. } = self.admitted.request;
        let timeout = self.admitted.config.settings().client.body_timeout;
        if self.is_invitation_due() {
            let invitation = Timeout { deadline, send_timeout: timeout };
            invite(*client, invitation).await.map_err(|_| Reason::ClientAborted)?;
        }
        let begun = self.held.take().and_then(Rc::into_inner);
        let mut held = begun.unwrap_or_else(|| self.store());
        let source = match client {
            Client::Http1(socket) => Source::Http1 { socket, buffer: self.rest, decoder: &mut self.body },
            Client::Stream(stream) => Source::stream(*stream),
        };
        let meter = request_meter(self.admitted, self.forward.body_bytes_max.bytes());
        pace_body(self.admitted, deadline);
        let kept = hold(Incoming { source, timeout }, &mut held, &meter, deadline, |_| Look::On).await;
        let kept = kept.map_err(|error| request_fault(&error.of_reading(deadline)).reason);
        deadline.pace(Direction::Read, None);
        let kept = kept?;
        match (kept, self.awaits_length) {
            (HeldPart::Whole, true) => self.end_head(BodyLength::Known(held.len())),
            (HeldPart::Beginning, true) if needs_length(self.forward, self.protocol) => {
                return Err(Reason::BodyUnheld);
            }
            (HeldPart::Beginning, true) => {
                self.end_head(BodyLength::Unknown);
                self.framing = Framing::Chunked;
            }
            (_, false) => {}
        }
        match kept {
            HeldPart::Whole => progress.note_body_whole(),
            HeldPart::Beginning if worker.is_to_tell_of_unheld() => tell_of_unheld(self.admitted),
            HeldPart::Beginning => {}
        }
        match held.in_memory() {
            // One write takes all of it.
            Some(rest) if kept == HeldPart::Whole && self.bytes.len() + rest.len() <= LARGE_BUFFER_BYTES => {
                self.bytes.extend(rest);
            }
            _ => self.held = Some(Rc::new(held)),
        }
        Ok(())
    }

    /// Whether the client waits to be told that its body is wanted.
    pub(crate) fn is_invitation_due(&self) -> bool {
        let Request { parsed, report, .. } = self.admitted.request;
        parsed.expects_continue && report.received_body.get() == 0 && self.rest.is_empty()
    }

    /// The body for a copy of the request; none where it is not all here.
    pub(crate) fn content(&self) -> Option<Content<'_>> {
        let is_all = self.admitted.progress.is_body_done() && self.framing == Framing::Raw;
        is_all.then(|| Content { begin: &self.bytes.data()[self.head_len..], rest: self.held.clone() })
    }

    /// Keeps a copy of the body for the access log, where all of it is in memory and it is not too long.
    #[cold]
    pub(crate) fn note_body_for_log(&self) {
        let Some(Content { begin, rest }) = self.content().filter(|_| self.admitted.parsed.has_body()) else {
            return;
        };
        let rest = rest.as_ref().map_or(Some(&[][..]), |rest| rest.in_memory());
        if let Some(rest) = rest.filter(|rest| begin.len() + rest.len() <= LOGGED_BODY_BYTES_MAX) {
            let _ = self.admitted.report.request_body.set([begin, rest].concat().into());
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn bytes_held(&self) -> usize {
        let rest = self.held.as_ref().and_then(|held| held.in_memory()).map_or(0, <[u8]>::len);
        self.bytes.len() + rest
    }

    /// Whether no more of the body is waited for.
    fn has_enough_of_body(&self) -> bool {
        let Request { progress, report, .. } = self.admitted.request;
        if progress.is_body_done() {
            return true;
        }
        // Bytes for which there is no room beside the head have come all the same.
        let is_left_over = !self.rest.is_empty() && self.bytes.len() + self.rest.len() > LARGE_BUFFER_BYTES;
        is_left_over
            || self.bytes.len() > LARGE_BUFFER_BYTES
            || report.received_body.get() > 0 && !errors::may_replace(self.admitted)
    }

    async fn await_body_begin(&mut self) -> Result<(), Reason> {
        let deadline = self.admitted.deadline;
        let timeout = self.admitted.config.settings().client.body_timeout;
        if self.is_invitation_due() {
            let invitation = Timeout { deadline, send_timeout: timeout };
            invite(self.admitted.client, invitation).await.map_err(|_| Reason::ClientAborted)?;
        }
        pace_body(self.admitted, deadline);
        let begun = self.await_body_in_time(timeout).await;
        deadline.pace(Direction::Read, None);
        begun
    }

    async fn await_body_in_time(&mut self, timeout: Duration) -> Result<(), Reason> {
        let (client, deadline) = (self.admitted.client, self.admitted.deadline);
        while !self.has_enough_of_body() {
            let read = match client {
                Client::Http1(socket) => {
                    let poll = |cx: &mut Context<'_>| socket.poll_fill_small(cx, self.rest);
                    let bytes = |read: &io::Result<usize>| *read.as_ref().unwrap_or(&0);
                    deadline.within_paced(Direction::Read, timeout, poll, bytes).await
                }
                Client::Stream(stream) => {
                    let poll = |cx: &mut Context<'_>| stream.poll_ready(cx);
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

#[cfg(test)]
mod tests {
    use model::{ClusterId, Transfer};

    use super::*;
    use crate::body::RelayError;
    use crate::testing::{FAST_CGI, ONE, World, forward, route_to};
    use crate::upstream::fault::Fault;

    /// A request as an endpoint is sent it, as far as it has come.
    fn outbound(cluster: ClusterId, transfer: Transfer, lines: &str, body: &str) -> Result<String, Reason> {
        World::of(route_to(cluster)).admitted(lines, |admitted, _| {
            let forward = Forward { transfer: transfer.into(), ..forward(cluster) };
            let mut rest = Buffer::small(&admitted.worker.buffers);
            rest.extend(body.as_bytes());
            let outbound = Outbound::new(&admitted, &forward, &mut rest)?;
            Ok(String::from_utf8_lossy(outbound.bytes.data()).into_owned())
        })
    }

    fn held() -> Transfer {
        Transfer { request_buffer_bytes: Some(1 << 10), ..Transfer::default() }
    }

    #[test]
    fn a_body_goes_on_as_it_is_framed() {
        for (lines, body) in [
            ("POST /\nContent-Length: 4", "body"),
            ("POST /\nTransfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n"),
            ("POST /\nContent-Length: 4", "bo"),
        ] {
            let sent = outbound(ONE, Transfer::default(), lines, body).unwrap();
            assert!(sent.ends_with(&format!("\r\n\r\n{body}")), "{sent}");
        }
    }

    #[test]
    fn a_body_that_is_read_whole_has_a_length() {
        let chunks = "2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n";
        let sent = outbound(ONE, held(), "POST /\nTransfer-Encoding: chunked", chunks).unwrap();
        assert!(sent.contains("\r\nContent-Length: 4\r\n") && sent.ends_with("\r\n\r\nbody"), "{sent}");
        assert!(!sent.contains("Transfer-Encoding"), "{sent}");
    }

    #[test]
    fn a_body_is_held_where_the_route_or_the_endpoint_wants_it() {
        let is_held = |cluster, transfer: Transfer, lines: &str| {
            World::of(route_to(cluster)).admitted(lines, |admitted, _| {
                let forward = Forward { transfer: transfer.into(), ..forward(cluster) };
                super::is_held(&admitted, &forward, protocol(&admitted))
            })
        };
        let chunked = "POST /\nTransfer-Encoding: chunked";
        assert!(is_held(ONE, held(), "POST /\nContent-Length: 4"));
        assert!(!is_held(ONE, Transfer::default(), chunked));
        assert!(!is_held(ONE, held(), "GET /"), "there is none");
        assert!(!is_held(ONE, held(), "POST /\nContent-Length: 4\nContent-Type: application/grpc"));
        assert!(is_held(FAST_CGI, Transfer::default(), chunked), "FastCGI has to be told the length");
        assert!(!is_held(FAST_CGI, Transfer::default(), "POST /\nContent-Length: 4"));
        let old = Transfer { uses_http_1_0: true, ..Transfer::default() };
        assert!(is_held(ONE, old, chunked), "HTTP/1.0 knows no chunks");
    }

    #[test]
    fn a_body_that_is_malformed_is_the_client_s_fault() {
        let sent = outbound(ONE, Transfer::default(), "POST /\nTransfer-Encoding: chunked", "x\r\n");
        assert_eq!(sent.unwrap_err(), Reason::BadChunk);
        assert_eq!(request_fault(&RelayError::Write), Fault::sent(Reason::UpstreamReset), "the endpoint's");
    }
}
