//! Whether the content of a response goes to the client in another coding, what its head says of that, and
//! where the other form comes from: a coder that the content passes while it is sent, or the forms that
//! are kept.
//!
//! Never in here: the codings, which are `body`'s, and which of them a client likes, which is
//! `wire::coding`'s.

use std::time::Duration;

use bytes::Bytes;
use coders::Task;
use model::{Compression, ContentCoding};
use wire::coding::{self, Accepted, Coded, Coding};
use wire::h1::{Body, Response, Version};

use crate::answer::deliver::response_fault;
use crate::body::{self, Incoming, Source};
use crate::io::buffer::Buffer;
use crate::request::Request;
use crate::request::head::HeadEdits;
use crate::request::lookup;
use crate::store::forms::{ContentId, FormKey};
use crate::upstream::fault::Fault;

/// The plan for a content whose coding depends on what the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recode {
    /// None where the content stays as it is for this client. The level is the one that the route asks for.
    pub(crate) task: Option<Task>,
    /// Bytes of the content as the client gets it, where they are known.
    pub(crate) len: Option<u64>,
    /// The client has the content already, and is told only by what it knows it.
    pub(crate) is_not_modified: bool,
}

/// The plan for the content of a response; none where it is the same for all clients.
#[cold]
pub(crate) fn plan(
    request: &Request<'_>,
    compression: &Compression,
    response: &Response,
    head: &[u8],
) -> Option<Recode> {
    let fields = &response.fields;
    if coding::bar(response.status, head, fields).is_some() || fields.content_length == Some(0) {
        return None;
    }
    let task = match coding::coded(head, fields) {
        Coded::Plain => return chosen(request, compression, response, head),
        Coded::Known(coding) if compression.decodes => {
            (!accepted(request).takes(coding)).then_some(Task::Decode(coding))
        }
        Coded::Known(_) | Coded::Other => return None,
    };
    Some(Recode::of(task))
}

/// How the content is compressed for this client; none where there is nothing on offer for such a content.
fn chosen(
    request: &Request<'_>,
    compression: &Compression,
    response: &Response,
    head: &[u8],
) -> Option<Recode> {
    // As nginx does: other statuses are seldom followed by anything long.
    if !matches!(response.status, 200 | 403 | 404) {
        return None;
    }
    let media_type = coding::media_type(head, &response.fields)?;
    let len = response.fields.content_length;
    let mut offers = compression.offers.iter().filter(|offer| offer.is_for(media_type, len)).peekable();
    offers.peek()?;
    let agent = || lookup::header(request.head, request.parsed, b"user-agent");
    let offers = offers.filter(|offer| {
        let is_old = request.parsed.version == Version::Http10;
        let is_excluded = offer.excluded_agents.as_ref().is_some_and(|agents| {
            agent().is_some_and(|agent| agents.try_match(&agent, &request.steps).unwrap_or(true))
        });
        !(is_excluded || (offer.is_for_http_1_1 && is_old))
    });
    let offers: Vec<_> = offers.collect();
    let best = accepted(request).choose(offers.iter().map(|offer| of_model(offer.coding)));
    let offer = best.and_then(|best| offers.iter().find(|offer| of_model(offer.coding) == best));
    let task = offer.map(|offer| Task::Encode(of_model(offer.coding), offer.level));
    Some(Recode::of(task))
}

/// Has a content pass a coder, if it is to have another coding. What has come of it is taken at once: if
/// that is all, its length is known. `len` are the bytes that come, where they are known. Returns the source
/// of what the client gets, and how that is framed.
pub(crate) async fn begin<'s>(
    request: &Request<'_>,
    recode: &mut Recode,
    (source, framed): (Source<'s>, Body),
    len: Option<u64>,
    timeout: Duration,
) -> Result<(Source<'s>, Body), Fault> {
    let worker = request.worker;
    let Some(task) = recode.task.filter(|_| framed != Body::Empty) else { return Ok((source, framed)) };
    let Some(lease) = worker.coders.lease(worker.coders.eased(task), len) else {
        recode.task = None;
        return Ok((source, framed));
    };
    let incoming = Incoming { source, timeout };
    let mut coded = Box::new(body::Coded::new(incoming, lease, Buffer::empty(&worker.buffers)));
    let prepared = coded.prepare(request.deadline).await;
    // Nothing has been sent: the client is told of the fault.
    recode.len = prepared.map_err(|error| Fault::sent(response_fault(&error).reason))?;
    Ok((Source::Coded(coded), recode.len.map_or(Body::Chunked, Body::Length)))
}

/// The form that the client gets of a content in memory, made at the first time; none where such forms are
/// not kept, or cannot be made now. A request for the head alone has none made.
pub(crate) async fn form<'c>(
    request: &Request<'_>,
    recode: &mut Recode,
    content: ContentId,
    pieces: impl Iterator<Item = &'c [u8]> + Clone,
    len: u64,
) -> Option<Bytes> {
    let worker = request.worker;
    let task = recode.task?;
    let Task::Encode(coding, level) = task else { return None };
    let forms = worker.forms.as_ref().filter(|forms| forms.are_for(len))?;
    let key = FormKey { content, coding, level };
    let form = match forms.get(key) {
        Some(form) => form,
        None if request.is_head() => return None,
        None => {
            let made = body::compress(&worker.coders, task, pieces, request.deadline);
            Box::pin(forms.get_or_make(key, made)).await?
        }
    };
    recode.len = Some(form.len() as u64);
    Some(form)
}

/// Describes the codings on offer, and the one that the client gets where the content allows it.
pub(crate) fn in_words(request: &Request<'_>, compression: &Compression) -> String {
    let offered: Vec<_> = compression
        .offers
        .iter()
        .map(|offer| {
            let (name, bytes) = (of_model(offer.coding).name(), offer.bytes_min);
            let types = offer.media_types.len();
            format!("{name} at level {} for {types} media types from {bytes} bytes on", offer.level)
        })
        .collect();
    let accepted = accepted(request);
    let best = accepted.choose(compression.offers.iter().map(|offer| of_model(offer.coding)));
    let chosen = best.map_or("the content as it is", Coding::name);
    let mut said = if offered.is_empty() {
        "nothing is compressed".to_owned()
    } else {
        format!("on offer: {}; this client gets {chosen}", offered.join(", "))
    };
    if compression.decodes {
        said += "; codings of endpoints that it does not take are taken away";
    }
    said
}

fn accepted(request: &Request<'_>) -> Accepted {
    let (head, fields) = (request.head, &request.parsed.fields);
    let named = fields.iter().filter(|field| field.name(head).eq_ignore_ascii_case(b"accept-encoding"));
    Accepted::new(named.map(|field| field.value(head)))
}

fn of_model(coding: ContentCoding) -> Coding {
    match coding {
        ContentCoding::Gzip => Coding::Gzip,
        ContentCoding::Brotli => Coding::Brotli,
        ContentCoding::Zstd => Coding::Zstd,
    }
}

impl Recode {
    fn of(task: Option<Task>) -> Self {
        Self { task, len: None, is_not_modified: false }
    }

    /// Adds to a head what has to be said of the coding.
    pub(crate) fn edit(self, edits: &mut HeadEdits<'_>) {
        // RFC 9110 section 12.5.5: said to everybody, for caches.
        if !coding::varies_by_coding(edits.values(b"vary")) {
            edits.add("Vary", &b"Accept-Encoding"[..]);
        }
        let Some(task) = self.task else { return };
        if self.is_not_modified {
            weaken_tag(edits);
            return;
        }
        match task {
            Task::Encode(coding, _) => edits.set("Content-Encoding", coding.name().as_bytes()),
            Task::Decode(_) => edits.remove("Content-Encoding"),
        }
        match self.len {
            Some(len) => edits.set("Content-Length", len.to_string().into_bytes()),
            None => edits.remove("Content-Length"),
        }
        // Ranges of the content as the endpoint has it are none of this one.
        edits.remove("Accept-Ranges");
        weaken_tag(edits);
    }
}

/// Makes the tag weak that a changed content came with. A tag that the route sets stays.
pub(crate) fn weaken_tag(edits: &mut HeadEdits<'_>) {
    let received = edits.passing(b"etag").next();
    if let Some(tag) = received {
        match coding::weak_tag(tag) {
            Some(weak) => edits.set("ETag", weak),
            None => edits.remove("ETag"),
        }
    }
}
