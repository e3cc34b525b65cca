//! The response on its way back through the processor.
//!
//! Never in here: what the client gets in its head beside that.

use deciders::processing::{BodyMode, Change, Direction, Head, HeadKind};
use observe::Reason;
use wire::h1::{Body, BodyDecoder, Response};

use super::head::{Framed, of_response, write_response};
use super::{converse, open_for_body, process_trailers};
use crate::admit::firewall;
use crate::answer::deliver::response_fault;
use crate::body::{Incoming, Processed, Source, collect};
use crate::forward::inspected::Delivered;
use crate::forward::response::{Received, Receiver, ResponseFraming};
use crate::io::buffer::Buffer;
use crate::limits::PROCESSED_HEAD_BYTES_MAX;
use crate::request::processing::{Exchange, Processing};
use crate::upstream::fault::Fault;

/// A response as the processor leaves it.
struct ProcessedResponse<'b> {
    response: Response,
    head: Vec<u8>,
    body: Body,
    source: Source<'b>,
    /// The endpoint's body is not read: its connection takes no other request.
    is_unread: bool,
}

impl Receiver<'_, '_> {
    /// Delivers a response through the processor, and then through the firewall's rules.
    pub(in crate::forward) async fn deliver_processed(
        &self,
        processing: &Processing,
        response: &Response,
        buffer: &mut Buffer,
    ) -> Result<Received, Fault> {
        let attempted = self.attempted;
        let head = buffer.data()[..response.len].to_vec();
        let way = ResponseFraming::of(attempted, response, &head);
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(way.body);
        let source = self.call.source(way.body, buffer, &mut decoder);
        let exchange = Exchange::new(processing, Direction::Response);
        let processed = self.process(processing, &exchange, response, &head, source, way.body).await?;
        let ProcessedResponse { response, head, body, mut source, is_unread } = processed;
        if let Some(inspection) = attempted.inspection() {
            if !firewall::response::head(inspection, &response, &head) {
                return Err(Fault::never(Reason::FirewallDenied));
            }
            source = self.look_at_body(inspection, source, body).await?;
        }
        let delivered = self.deliver_from(&response, &head, body, source).await;
        self.call.note_source_left(decoder);
        // The processor has had its say about this response: no other one takes its place.
        match delivered.map_err(|fault| Fault::never(fault.reason))? {
            Delivered::Filled { keep_alive, is_read } => {
                Ok(way.filled(keep_alive, is_read && !is_unread && buffer.is_empty()))
            }
            Delivered::Sent { keep_alive } => Ok(way.received(keep_alive, !is_unread && buffer.is_empty())),
        }
    }

    async fn process<'b>(
        &self,
        processing: &Processing,
        exchange: &'b Exchange<'b>,
        response: &Response,
        received: &[u8],
        source: Source<'b>,
        body: Body,
    ) -> Result<ProcessedResponse<'b>, Fault> {
        let timeout = self.forward.timeouts.read;
        let mut head = of_response(response, received);
        if processing.wants(Direction::Response).headers {
            let is_all = body == Body::Empty;
            let send = || processing.send_head(Direction::Response, &head, is_all);
            let change = self.converse(processing, send).await?;
            if let Some(change) = change {
                change_head(processing, &mut head, &change)?;
                if let (true, Some(content)) = (change.replaces, change.content) {
                    let length = content.len() as u64;
                    let source = Source::Processed(Box::new(Processed::whole(content, Vec::new())));
                    let body = Body::of_length(length);
                    let framed = Framed::Length(length);
                    let made = self.make(response, received, &head, framed, body, source)?;
                    return Ok(ProcessedResponse { is_unread: true, ..made });
                }
            }
        }
        let wanted = processing.wants(Direction::Response);
        let mode = if body == Body::Empty { BodyMode::None } else { wanted.body };
        let made = |framed: Framed, body: Body, source: Source<'b>| {
            self.make(response, received, &head, framed, body, source)
        };
        let may_have_trailers = body != Body::Empty && response.fields.content_length.is_none();
        match mode {
            BodyMode::None if wanted.trailers && may_have_trailers => {
                open_for_body(self.attempted, processing).await.map_err(Fault::never)?;
                let processed = Processed::new(Incoming { source, timeout }, exchange);
                made(Framed::AsReceived, body, Source::Processed(Box::new(processed)))
            }
            BodyMode::None => made(Framed::AsReceived, body, source),
            BodyMode::Streamed => {
                open_for_body(self.attempted, processing).await.map_err(Fault::never)?;
                let processed = Processed::new(Incoming { source, timeout }, exchange);
                made(Framed::Later, Body::Chunked, Source::Processed(Box::new(processed)))
            }
            BodyMode::Buffered | BodyMode::BufferedPartial => {
                let incoming = Incoming { source, timeout };
                let (source, body) = self
                    .buffer(processing, exchange, &mut head, incoming, mode == BodyMode::Buffered)
                    .await?;
                let framed = match body {
                    Body::Length(length) => Framed::Length(length),
                    _ => Framed::Later,
                };
                self.make(response, received, &head, framed, body, source)
            }
        }
    }

    /// Sends the body, or as much of it as is buffered, in one message. Returns the body in its place.
    async fn buffer<'b>(
        &self,
        processing: &Processing,
        exchange: &'b Exchange<'b>,
        head: &mut Head,
        mut incoming: Incoming<'b>,
        has_to_be_whole: bool,
    ) -> Result<(Source<'b>, Body), Fault> {
        let (attempted, bytes_max) = (self.attempted, processing.policy.body_bytes_max);
        let (store, deadline) = (&attempted.worker.bodies, attempted.deadline);
        let collected = collect(&mut incoming, Vec::new(), bytes_max, None, store, deadline).await;
        let mut collected = collected.map_err(|error| Fault::never(response_fault(&error).reason))?;
        if has_to_be_whole && collected.content.len() as u64 > bytes_max {
            tracing::debug!(bytes_max, "a response is longer than is buffered for an external processor");
            return Err(Fault::never(Reason::ProcessorFailed));
        }
        let trailers = std::mem::take(&mut collected.trailers);
        let has_trailers = trailers.contains(&b':');
        let is_end = collected.is_whole && !has_trailers;
        let send = || processing.send_content(Direction::Response, &collected.content, is_end);
        let change = self.converse(processing, send).await?;
        let mut content = std::mem::take(&mut collected.content);
        if let Some(change) = change {
            change_head(processing, head, &change)?;
            content = change.content.unwrap_or(content);
        }
        if !collected.is_whole {
            let rest = if processing.wants(Direction::Response).trailers {
                let timeout = incoming.timeout;
                let rest = Processed::new(incoming, exchange);
                Incoming { source: Source::Processed(Box::new(rest)), timeout }
            } else {
                incoming
            };
            return Ok((Source::Processed(Box::new(Processed::begun(content, rest))), Body::Chunked));
        }
        let trailers = if has_trailers {
            let processed = process_trailers(exchange, trailers, attempted.deadline).await;
            processed.map_err(|error| Fault::never(response_fault(&error).reason))?
        } else {
            Vec::new()
        };
        let length = content.len() as u64;
        let body = if trailers.is_empty() { Body::of_length(length) } else { Body::Chunked };
        Ok((Source::Processed(Box::new(Processed::whole(content, trailers))), body))
    }

    async fn converse(
        &self,
        processing: &Processing,
        send: impl FnOnce(),
    ) -> Result<Option<Box<Change>>, Fault> {
        let (admitted, deadline) = (self.attempted.admitted, self.attempted.deadline);
        let change = converse(admitted, processing, Direction::Response, deadline, send).await;
        change.map_err(Fault::never)
    }

    /// The response with the head that the processor has left.
    fn make<'b>(
        &self,
        response: &Response,
        received: &[u8],
        head: &Head,
        framed: Framed,
        body: Body,
        source: Source<'b>,
    ) -> Result<ProcessedResponse<'b>, Fault> {
        let reason = &received[response.reason.clone()];
        let has_no_content = matches!(head.pseudo(":status"), b"204" | b"304");
        let has_length = response.fields.content_length.is_some();
        let is_unread = has_no_content && body != Body::Empty;
        let (framed, body, source) = match body {
            _ if is_unread => (Framed::Later, Body::Empty, Source::Bytes(&[])),
            // Another status may have the client wait for content.
            Body::Empty if !has_no_content && !has_length && !self.attempted.is_head() => {
                (Framed::Length(0), body, source)
            }
            _ => (framed, body, source),
        };
        let written = write_response(head, response.status, reason, framed);
        let mut own = Response::default();
        match own.parse(&written) {
            Ok(true) => Ok(ProcessedResponse { response: own, head: written, body, source, is_unread }),
            Ok(false) | Err(_) => Err(Fault::never(Reason::ProcessorFailed)),
        }
    }
}

fn change_head(processing: &Processing, head: &mut Head, change: &Change) -> Result<(), Fault> {
    let changed = head.apply(&change.headers, HeadKind::Response, PROCESSED_HEAD_BYTES_MAX);
    changed.map_err(|error| {
        processing.fail_for(&error);
        Fault::never(Reason::ProcessorFailed)
    })
}
