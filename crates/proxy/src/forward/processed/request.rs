//! The request on its way through the processor.
//!
//! Never in here: tries.

use std::rc::Rc;
use std::sync::Arc;

use deciders::processing::{BodyMode, Change, Direction, HeadKind};
use model::{AppProtocol, Forward};
use observe::Reason;

use super::head::{Framed, RequestHead};
use super::{converse, open_for_body, process_trailers};
use crate::admit::Admitted;
use crate::body::{
    BodyStore, Collected, Framing, HeldBody, Incoming, Processed, RelayError, Source, append, collect,
    discard, write_last_chunk,
};
use crate::forward::outbound::{BodyExchange, Outbound, needs_length, passing_trailers};
use crate::forward::upload::Beside;
use crate::io::pace::Direction as Pace;
use crate::limits::{LARGE_BUFFER_BYTES, PROCESSED_HEAD_BYTES_MAX};
use crate::request::Request;
use crate::request::client::{Client, Timeout};
use crate::request::incoming::{invite, pace_body, request_fault, request_meter};
use crate::request::processing::{Exchange, Processing};

/// A request in the hands of a processor.
struct Work<'w, 'x, 'a> {
    admitted: &'x Admitted<'a>,
    forward: &'x Forward,
    processing: &'x Processing,
    outbound: &'w mut Outbound<'x, 'a>,
    head: RequestHead,
}

/// Has the processor change a request. What it gets of the body is then in the request, or goes through the
/// processor while it is sent.
pub(super) async fn process<'x, 'a>(
    admitted: &'x Admitted<'a>,
    forward: &'x Forward,
    outbound: &mut Outbound<'x, 'a>,
) -> Result<(), Reason> {
    let Some(processing) = admitted.processing() else { return outbound.take_begun() };
    let scheme = admitted.forwarded.scheme;
    let head = RequestHead::read(outbound.bytes.data(), scheme);
    let mut work = Work { admitted, forward, processing, outbound, head };
    let replaced = work.process_head().await?;
    work.process_body(replaced).await
}

impl<'x> Work<'_, 'x, '_> {
    fn has_body(&self) -> bool {
        let admitted = self.admitted;
        admitted.parsed.has_body() && !admitted.is_upgrade() && !admitted.is_bodiless()
    }

    /// Sends the head. Returns the body that the processor puts in place of the client's.
    async fn process_head(&mut self) -> Result<Option<Vec<u8>>, Reason> {
        let processing = self.processing;
        if !processing.wants(Direction::Request).headers {
            return Ok(None);
        }
        let is_all = !self.has_body();
        let send = || processing.send_head(Direction::Request, &self.head.head, is_all);
        let deadline = self.admitted.deadline;
        let change = converse(self.admitted, processing, Direction::Request, deadline, send).await?;
        let Some(change) = change else { return Ok(None) };
        self.change_head(&change)?;
        Ok(change.content.filter(|_| change.replaces))
    }

    fn change_head(&mut self, change: &Change) -> Result<(), Reason> {
        let kind = if change.replaces { HeadKind::ReplacedRequest } else { HeadKind::Request };
        let changed = self.head.head.apply(&change.headers, kind, PROCESSED_HEAD_BYTES_MAX);
        changed.map_err(|error| {
            self.processing.fail_for(&error);
            Reason::ProcessorFailed
        })
    }

    async fn process_body(&mut self, replaced: Option<Vec<u8>>) -> Result<(), Reason> {
        if let Some(content) = replaced {
            return self.replace(content).await;
        }
        let wanted = self.processing.wants(Direction::Request);
        let mode = if self.has_body() { wanted.body } else { BodyMode::None };
        let is_here = self.admitted.progress.is_body_done();
        match mode {
            BodyMode::None if wanted.trailers && self.admitted.parsed.fields.chunked && !is_here => {
                self.exchange(Framed::AsReceived).await
            }
            BodyMode::None => {
                let has_end = !self.outbound.awaits_length();
                let head = self.head.write(Framed::AsReceived, has_end);
                self.outbound.set_head(&head, has_end);
                self.outbound.take_begun()
            }
            BodyMode::Streamed if !is_here && !self.needs_length() => {
                self.exchange(self.unknown_length()).await
            }
            BodyMode::Streamed => self.exchange_whole().await,
            BodyMode::Buffered | BodyMode::BufferedPartial => self.buffer(mode).await,
        }
    }

    /// A body whose length is known only when all of it has come.
    fn unknown_length(&self) -> Framed {
        if self.outbound.protocol == AppProtocol::Http1 { Framed::Chunked } else { Framed::Later }
    }

    fn needs_length(&self) -> bool {
        needs_length(self.forward, self.outbound.protocol)
    }

    /// Drops the client's body, and sends another one.
    async fn replace(&mut self, content: Vec<u8>) -> Result<(), Reason> {
        if self.has_body() && !self.admitted.progress.is_body_done() {
            let deadline = self.admitted.deadline;
            let meter = request_meter(self.admitted, self.forward.body_bytes_max.bytes());
            let dropped = {
                let mut incoming = self.incoming().await?;
                discard(&mut incoming, Some(&meter), deadline).await
            };
            self.read(dropped)?;
        }
        self.note_whole();
        let framed = if content.is_empty() && !self.admitted.parsed.has_body() {
            Framed::AsReceived
        } else {
            Framed::Length(content.len() as u64)
        };
        self.set_whole(framed, content.into(), &[]);
        Ok(())
    }

    /// Has the body go through the processor while it is sent.
    async fn exchange(&mut self, framed: Framed) -> Result<(), Reason> {
        open_for_body(self.admitted, self.processing).await?;
        let begin = self.take_taken().await?;
        let head = self.head.write(framed, true);
        self.outbound.set_head(&head, true);
        let is_http1 = self.outbound.protocol == AppProtocol::Http1;
        self.outbound.framing = if is_http1 { Framing::Chunked } else { Framing::Raw };
        self.note_begun();
        self.outbound.exchange = Some(self.exchange_with(begin));
        Ok(())
    }

    /// Has the body go through the processor, and sends it when all of it has come back: its length has to
    /// be told, or it has come already.
    async fn exchange_whole(&mut self) -> Result<(), Reason> {
        open_for_body(self.admitted, self.processing).await?;
        let begin = self.take_taken().await?;
        let (admitted, bytes_max) = (self.admitted, self.processing.policy.body_bytes_max);
        let (store, deadline) = (&admitted.worker.bodies, admitted.deadline);
        let exchange = Exchange::new(self.processing, Direction::Request);
        let collected = {
            let incoming = self.incoming().await?;
            let timeout = incoming.timeout;
            let processed = Processed::begun(begin, incoming).exchanged(&exchange);
            let mut incoming = Incoming { source: Source::Processed(Box::new(processed)), timeout };
            collect(&mut incoming, Vec::new(), bytes_max, None, store, deadline).await
        };
        let collected = self.read(collected)?;
        if collected.content.len() as u64 > bytes_max {
            return Err(Reason::BodyTooLarge);
        }
        self.note_whole();
        self.set_whole(Framed::Length(collected.content.len() as u64), collected.into(), &[]);
        Ok(())
    }

    /// Sends the body, or as much of it as is buffered, in one message.
    async fn buffer(&mut self, mode: BodyMode) -> Result<(), Reason> {
        let begin = self.take_taken().await?;
        let (admitted, bytes_max) = (self.admitted, self.processing.policy.body_bytes_max);
        let (store, deadline) = (&admitted.worker.bodies, admitted.deadline);
        let meter = request_meter(admitted, self.forward.body_bytes_max.bytes());
        let collected = {
            let mut incoming = self.incoming().await?;
            collect(&mut incoming, begin, bytes_max, Some(&meter), store, deadline).await
        };
        let mut collected = self.read(collected)?;
        let is_too_long = collected.content.len() as u64 > bytes_max;
        if is_too_long && mode == BodyMode::Buffered {
            return Err(Reason::BodyTooLarge);
        }
        let has_trailers = collected.trailers.contains(&b':');
        let is_end = collected.is_whole && !has_trailers;
        let processing = self.processing;
        let send = || processing.send_content(Direction::Request, &collected.content, is_end);
        let change = converse(admitted, processing, Direction::Request, admitted.deadline, send).await?;
        if let Some(change) = change {
            self.change_head(&change)?;
            if let Some(content) = change.content {
                collected.content = content;
            }
        }
        if collected.is_whole {
            return self.send_buffered(collected).await;
        }
        if self.needs_length() {
            return Err(Reason::BodyUnheld);
        }
        self.send_beginning(&collected.content);
        Ok(())
    }

    /// Puts a whole body into the request, with its trailers.
    async fn send_buffered(&mut self, mut collected: Collected) -> Result<(), Reason> {
        let mut trailers = Vec::new();
        if collected.trailers.contains(&b':') {
            let exchange = Exchange::new(self.processing, Direction::Request);
            let received = std::mem::take(&mut collected.trailers);
            let processed = process_trailers(&exchange, received, self.admitted.deadline).await;
            let processed = processed.map_err(|error| request_fault(&error).reason)?;
            trailers = passing_trailers(self.admitted, self.forward, &processed);
        }
        self.note_whole();
        let length = Framed::Length(collected.content.len() as u64);
        let is_chunked =
            !trailers.is_empty() && !self.needs_length() && self.outbound.protocol == AppProtocol::Http1;
        let framed = if is_chunked { Framed::Chunked } else { length };
        self.set_whole(framed, collected.into(), &trailers);
        Ok(())
    }

    /// Puts the beginning of a body into the request. The rest follows as it comes.
    fn send_beginning(&mut self, content: &[u8]) {
        let head = self.head.write(self.unknown_length(), true);
        let outbound = &mut *self.outbound;
        outbound.set_head(&head, true);
        if outbound.protocol == AppProtocol::Http1 {
            outbound.framing = Framing::Chunked;
        } else {
            outbound.framing = Framing::Raw;
        }
        if !content.is_empty() {
            append(&mut outbound.bytes, content, outbound.framing);
        }
        if self.processing.wants(Direction::Request).trailers {
            self.outbound.exchange = Some(self.exchange_with(Vec::new()));
        }
    }

    /// Makes a request of which all is here.
    fn set_whole(&mut self, framed: Framed, content: Whole, trailers: &[u8]) {
        let head = self.head.write(framed, true);
        let (outbound, worker) = (&mut *self.outbound, self.admitted.worker);
        outbound.set_head(&head, true);
        outbound.framing = if framed == Framed::Chunked { Framing::Chunked } else { Framing::Raw };
        if framed == Framed::Chunked {
            if !content.bytes().is_empty() {
                append(&mut outbound.bytes, content.bytes(), outbound.framing);
            }
            write_last_chunk(trailers, &mut outbound.bytes);
            return;
        }
        if !trailers.is_empty() && outbound.protocol == AppProtocol::Http2 {
            Beside::of(&mut outbound.upload, worker).trailers = trailers.to_vec();
        }
        if outbound.bytes.len() + content.bytes().len() <= LARGE_BUFFER_BYTES {
            outbound.bytes.extend(content.bytes());
        } else {
            outbound.held = Some(Rc::new(content.held(&worker.bodies)));
        }
    }

    fn exchange_with(&self, begin: Vec<u8>) -> BodyExchange<'x> {
        BodyExchange { exchange: Exchange::new(self.processing, Direction::Request), begin: begin.into() }
    }

    /// The body of the client.
    async fn incoming(&mut self) -> Result<Incoming<'_>, Reason> {
        let Request { client, deadline, progress, .. } = self.admitted.request;
        let timeout = self.admitted.config.settings().client.body_timeout;
        if self.outbound.is_invitation_due() && !progress.is_body_done() {
            let invitation = Timeout { deadline, send_timeout: timeout };
            invite(*client, invitation).await.map_err(|_| Reason::ClientAborted)?;
        }
        self.note_begun();
        pace_body(self.admitted, deadline);
        let source = match client {
            Client::Http1(socket) => {
                Source::Http1 { socket, buffer: self.outbound.rest, decoder: &mut self.outbound.body }
            }
            Client::Stream(stream) => Source::stream(*stream),
        };
        Ok(Incoming { source, timeout })
    }

    /// The result of reading the body.
    fn read<T>(&self, read: Result<T, RelayError>) -> Result<T, Reason> {
        let deadline = self.admitted.deadline;
        let read = read.map_err(|error| request_fault(&error.of_reading(deadline)).reason);
        deadline.pace(Pace::Read, None);
        read
    }

    /// The part of the body that was read for a check.
    async fn take_taken(&mut self) -> Result<Vec<u8>, Reason> {
        let Some(taken) = self.admitted.take_body() else { return Ok(Vec::new()) };
        self.outbound.body = taken.decoder;
        let bytes_max = self.processing.policy.body_bytes_max;
        let content = taken.held.read(bytes_max).await.map_err(|error| request_fault(&error).reason)?;
        content.ok_or(Reason::BodyTooLarge)
    }

    fn note_begun(&self) {
        if !self.admitted.progress.is_body_done() {
            self.admitted.progress.note_body_begun();
        }
    }

    fn note_whole(&self) {
        self.admitted.progress.note_no_body();
    }
}

/// A body that is here as a whole.
enum Whole {
    Made(Vec<u8>),
    Collected(Collected),
}

impl From<Vec<u8>> for Whole {
    fn from(content: Vec<u8>) -> Self {
        Self::Made(content)
    }
}

impl From<Collected> for Whole {
    fn from(collected: Collected) -> Self {
        Self::Collected(collected)
    }
}

impl Whole {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Made(content) => content,
            Self::Collected(collected) => &collected.content,
        }
    }

    fn held(self, store: &Arc<BodyStore>) -> HeldBody {
        match self {
            Self::Made(content) => HeldBody::of_memory(store, content),
            Self::Collected(collected) => collected.into_held(),
        }
    }
}
