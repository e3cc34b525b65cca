//! The head of a response that has a head of its own already (an endpoint's, one that was kept, a file's) as the client of a request gets it:
//! what the route, scripts and settings change, and how its body ends.
//!
//! Never in here: answers that the proxy makes itself, which are `reply`'s.

use std::time::Duration;

use model::ResponsePolicy;
use observe::CacheResult;
use wire::cache::Head;
use wire::h1::{Body, Response, Version};

use crate::body::{Framing, Source};
use crate::buffer::Buffer;
use crate::cache_head;
use crate::deliver::Outcome;
use crate::exchange::Exchange;
use crate::filters;
use crate::head::{Delivery, HeadEdits, HeadWriter, write_response_head};
use crate::recode::Recode;
use crate::replicas;
use crate::reply::Scope;
use crate::script;

/// A response that has a head of its own.
pub(crate) struct Own<'r> {
    pub(crate) response: &'r Response,
    /// Its head as HTTP/1.
    pub(crate) head: &'r [u8],
    /// The status that the client gets in place of the head's.
    pub(crate) status: Option<(u16, &'static str)>,
    /// What follows the head.
    pub(crate) body: Body,
    pub(crate) policy: Option<&'r ResponsePolicy>,
    pub(crate) recode: Option<Recode>,
    /// The client's connection cannot take another request.
    pub(crate) is_last: bool,
}

/// The head of a response as the client gets it, and how the rest follows.
pub(crate) struct Presented {
    status: u16,
    head: Buffer,
    pub(crate) delivery: Delivery,
}

impl Presented {
    /// With its body, for whose source there is so much time between two reads.
    pub(crate) fn with<'r>(
        self,
        body: Source<'r>,
        read_timeout: Duration,
        policy: Option<&'r ResponsePolicy>,
    ) -> Outcome<'r> {
        let Self { status, head, delivery } = self;
        Outcome { status, head, body, framing: delivery.framing, read_timeout, policy }
    }
}

impl Exchange<'_> {
    /// Writes and notes the head that the client gets. What it takes to write it is not kept while the response is sent. `change` makes changes
    /// of its own, which the route's may replace; `tell` writes lines that nothing replaces.
    #[inline]
    pub(crate) fn present<'r>(
        &'r self,
        own: &Own<'r>,
        change: impl FnOnce(&mut HeadEdits<'r>),
        tell: impl FnOnce(&mut HeadWriter<'_>, &HeadEdits<'_>),
    ) -> Presented {
        let Own { response, head: received, policy, .. } = *own;
        let status = own.status.map_or(response.status, |(status, _)| status);
        let mut delivery = self.delivery(status, own.body);
        delivery.keep_alive &= !own.is_last;
        if self.guest.get().is_some() {
            let head = self.write_head_for_replica(own, delivery, change, tell);
            self.note_head(status, head.data());
            return Presented { status, head, delivery };
        }
        let mut head = Buffer::small(&self.worker.buffers);
        let mut edits = self.response_edits(status, Scope::Location);
        edits.status = own.status;
        change(&mut edits);
        if let Some(policy) = policy {
            let origin = || self.redirect_origin();
            filters::response::translate(policy, received, &response.fields, origin, &mut edits);
        }
        let last_modified = || {
            let field = response.fields.find_name(received, b"last-modified")?;
            wire::date::parse(field.value(received), self.worker.clock.unix().as_secs())
        };
        script::edit_response(self, status, Scope::Location, last_modified, &mut edits);
        if let Some(recode) = own.recode {
            recode.edit(response, received, &mut edits);
        }
        if let Some(passage) = self.passage() {
            cache_head::remove_tags(Head::of_response(received, response), &mut edits);
            if passage.told.get().home.is_some() {
                edits.remove(replicas::NAME);
            }
        }
        script::hide(self, &mut edits);
        if let Some(heads) = &self.config.settings().heads {
            filters::response::hide(heads, &mut edits);
        }
        let date = || self.worker.date();
        let tell = |writer: &mut HeadWriter<'_>| {
            tell(writer, &edits);
            if let Some(told) = self.told() {
                cache_head::tell(&told, writer);
            }
        };
        write_response_head(received, response, delivery, &edits, (date, tell), &mut head);
        self.note_head(status, head.data());
        Presented { status, head, delivery }
    }

    /// The head for another replica, which does for its client what the route asks for.
    #[cold]
    fn write_head_for_replica<'r>(
        &'r self,
        own: &Own<'r>,
        delivery: Delivery,
        change: impl FnOnce(&mut HeadEdits<'r>),
        tell: impl FnOnce(&mut HeadWriter<'_>, &HeadEdits<'_>),
    ) -> Buffer {
        let mut head = Buffer::small(&self.worker.buffers);
        let mut edits = HeadEdits::default();
        edits.status = own.status;
        change(&mut edits);
        // It counts there what has been done here.
        let told = self.told();
        let result = told.map_or(CacheResult::Bypass, |told| told.result());
        edits.set(replicas::NAME, result.name().as_bytes());
        let date = || self.worker.date();
        let tell = |writer: &mut HeadWriter<'_>| {
            tell(writer, &edits);
            if let Some(told) = told {
                cache_head::tell(&told, writer);
            }
        };
        write_response_head(own.head, own.response, delivery, &edits, (date, tell), &mut head);
        head
    }

    /// How the end of a body is told to a client that may not know chunks.
    #[inline]
    pub(crate) fn delivery(&self, status: u16, body: Body) -> Delivery {
        let version = self.request.version;
        let has_length = matches!(body, Body::Empty | Body::Length(_));
        let is_raw = has_length || version == Version::Http10 || self.client.is_http2();
        let framing = if is_raw { Framing::Raw } else { Framing::Chunked };
        // A response that refuses the request while its body is still being sent will not see the end of it.
        let is_refusal = status >= 400 || self.error_page.get().is_some();
        let refused_early = is_refusal && !self.progress.is_body_done();
        let keep_alive =
            self.may_keep_alive() && (has_length || framing == Framing::Chunked) && !refused_early;
        Delivery { framing, keep_alive, version }
    }

    /// Notes that the client is being answered, and with what.
    #[inline]
    pub(crate) fn note_head(&self, status: u16, head: &[u8]) {
        self.report.status.set(status);
        self.report.note_sent_head(head.len());
        self.progress.note_answered();
        if self.config.logs_response_headers {
            *self.report.response_head.borrow_mut() = head.to_vec();
        }
    }
}
