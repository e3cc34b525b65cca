//! Sends a cached response to the client: all of it, parts, or a 304.

use std::sync::Arc;

use bytes::Bytes;
use model::{Forward, ResponsePolicy};
use wire::Field;
use wire::cache::Head;
use wire::cache::conditional::Outcome as Condition;
use wire::cache::range;
use wire::h1::Body as Framed;

use crate::answer::attempted::Attempted;
use crate::answer::deliver::Recipient;
use crate::answer::parts::{Frames, Part, Selection};
use crate::answer::present::ReceivedResponse;
use crate::answer::recode::{self, Recode};
use crate::body::{Source, Stored};
use crate::request::head::HeadEdits;
use crate::store::{Body, Object};
use crate::upstream::fault::Fault;

/// Sends a cached response to the client. `coming` is the body of a response that still arrives. True if the
/// client's connection can take another request.
pub(crate) async fn give(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    object: &Object,
    coming: Option<Stored>,
) -> Result<bool, Fault> {
    attempted.progress.note_no_body();
    let now = attempted.worker.clock.unix().as_secs();
    let is_coming = coming.is_some();
    let selection = select(attempted, object, now);
    let frames = frames(object, &selection);
    let policy = forward.transfer.response.as_deref();
    let mut recode = policy.and_then(|policy| plan(attempted, policy, object, &selection));
    let (source, framed) = content(attempted, object, (&selection, frames), coming)?;
    let (source, body) = match &mut recode {
        Some(recode) if recode.task.is_some() && !recode.is_not_modified => {
            Box::pin(recoded(attempted, recode, object, (source, framed), forward)).await?
        }
        _ => (source, framed),
    };
    let status = (selection.status != object.response.status).then_some(match selection.status {
        206 => (206, "Partial Content"),
        304 => (304, "Not Modified"),
        _ => (416, "Range Not Satisfiable"),
    });
    let own = ReceivedResponse {
        response: &object.response,
        head: &object.head,
        status,
        body,
        policy,
        recode,
        is_last: false,
    };
    let age = object.freshness.age(now);
    attempted.tell_ttl(object.freshness.ttl(now));
    let presented = attempted.present(
        &own,
        |edits| {
            if status.is_some() {
                edit(edits, &selection, object, (framed, attempted.is_head()));
            }
        },
        |head, edits| {
            if (age > 0 || !is_coming) && !edits.sets("Age") {
                head.field("Age", itoa::Buffer::new().format(age).as_bytes());
            }
        },
    );
    let keep_alive = presented.delivery.keep_alive;
    let mut outcome = presented.with(source, forward.timeouts.read, policy);
    Recipient::of(attempted).deliver(&mut outcome, || ()).await?;
    Ok(keep_alive)
}

/// The selection of a request: all of the response, parts, or a 304 (RFC 9110 sections 13.2.2 and 14.2).
fn select(attempted: &Attempted<'_, '_>, object: &Object, now: u64) -> Selection {
    let whole = Selection::whole(object.response.status);
    // Nearly all requests select all of it, which one look at the head tells.
    let asks = |field: &Field| {
        let name = field.name(attempted.head);
        matches!(name, [b'i' | b'I', b'f' | b'F', b'-', ..]) || name.eq_ignore_ascii_case(b"range")
    };
    if !(200..300).contains(&whole.status) || !attempted.parsed.fields.iter().any(asks) {
        return whole;
    }
    let request = Head::of_request(attempted.head, attempted.parsed);
    if object.validators.evaluate_stored(request, now) == Condition::NotModified {
        return Selection::nothing(304);
    }
    match object.body {
        Body::Here { len, .. }
            if whole.status == 200
                && !attempted.is_head()
                && request.has(b"range")
                && object.validators.range_applies(request, now) =>
        {
            Selection::of_range(attempted, len)
        }
        _ => whole,
    }
}

/// The delimiters between several parts.
fn frames(object: &Object, selection: &Selection) -> Option<Frames> {
    let (Part::Several(several), Body::Here { len, .. }) = (&selection.part, &object.body) else {
        return None;
    };
    Some(several.frames(object.head().value(b"content-type"), *len))
}

/// The content coding of the response; parts are those of the content as it is stored.
fn plan(
    attempted: &Attempted<'_, '_>,
    policy: &ResponsePolicy,
    object: &Object,
    selection: &Selection,
) -> Option<Recode> {
    let compression = policy.compression.as_ref()?;
    let mut recode = recode::plan(attempted, compression, &object.response, &object.head)?;
    match selection {
        Selection { status: 304, .. } => recode.is_not_modified = true,
        Selection { part: Part::Whole, .. } => {}
        _ => recode.task = None,
    }
    Some(recode)
}

/// The body of the response, as it is stored.
fn content<'b>(
    attempted: &Attempted<'_, '_>,
    object: &Object,
    (selection, frames): (&Selection, Option<Frames>),
    coming: Option<Stored>,
) -> Result<(Source<'b>, Framed), Fault> {
    if attempted.is_head() || matches!(selection.part, Part::Nothing) {
        return Ok((Source::Bytes(&[]), Framed::Empty));
    }
    if let Some(coming) = coming {
        return Ok((Source::Stored(coming), object.response.body(false)));
    }
    let (stored, framed) = match (&selection.part, &object.body, frames) {
        (Part::One(range), body, _) => (body.read(range.first, range.len()), Framed::of_length(range.len())),
        (_, Body::Here { pieces, .. }, Some(frames)) => {
            let framed = Framed::of_length(frames.len);
            (Some(several(pieces, frames)), framed)
        }
        (_, body @ Body::Here { len, .. }, None) => (body.read(0, *len), Framed::of_length(*len)),
        (_, body @ Body::Coming(_), _) => (body.read(0, 0), object.response.body(false)),
    };
    let stored = stored.ok_or(Fault::never(observe::Reason::UpstreamReset))?;
    Ok((Source::Stored(stored), framed))
}

/// Several parts of a content, with the delimiters between them.
fn several(pieces: &Arc<[Bytes]>, frames: Frames) -> Stored {
    let mut all = Vec::new();
    for (head, range) in frames.heads {
        all.push(Bytes::from(head));
        let (mut skip, mut left) = (range.first, range.len());
        for piece in pieces.iter() {
            let len = piece.len() as u64;
            let from = skip.min(len);
            let until = (from + left).min(len);
            if from < until {
                all.push(piece.slice(from as usize..until as usize));
            }
            skip -= from;
            left -= until - from;
        }
    }
    all.push(Bytes::from(frames.end));
    Stored::here(&all.into(), 0, frames.len)
}

/// The content in the coding that the client gets: a stored form, or one that is compressed while it is
/// sent.
async fn recoded<'b>(
    attempted: &Attempted<'_, '_>,
    recode: &mut Recode,
    object: &Object,
    (source, framed): (Source<'b>, Framed),
    forward: &Forward,
) -> Result<(Source<'b>, Framed), Fault> {
    if let Body::Here { pieces, len } = &object.body {
        let pieces = pieces.iter().map(|piece| &**piece);
        if let Some(form) = recode::form(attempted, recode, object.content, pieces, *len).await {
            return Ok(match framed {
                Framed::Empty => (source, framed),
                _ => (Source::Stored(Stored::whole(form.clone())), Framed::of_length(form.len() as u64)),
            });
        }
    }
    let len = match framed {
        Framed::Length(len) => Some(len),
        _ => None,
    };
    recode::begin(attempted, recode, (source, framed), len, forward.timeouts.read).await
}

/// The head of a response that is not the whole: 206, 304 and 416 have fields of their own.
fn edit(
    edits: &mut HeadEdits<'_>,
    selection: &Selection,
    object: &Object,
    (framed, is_head): (Framed, bool),
) {
    let length = match &object.body {
        Body::Here { len, .. } => *len,
        Body::Coming(_) => 0,
    };
    let mut value = Vec::new();
    match (&selection.part, selection.status) {
        (Part::One(bytes), _) => {
            range::write_content_range(*bytes, length, &mut value);
            edits.set("Content-Range", value);
        }
        (Part::Several(several), _) => edits.set("Content-Type", several.content_type()),
        (_, 416) => {
            range::write_unsatisfiable(length, &mut value);
            edits.set("Content-Range", value);
            edits.set("Content-Length", &b"0"[..]);
            edits.remove("Content-Type");
        }
        _ if !is_head => edits.remove("Content-Length"),
        _ => {}
    }
    if let Framed::Length(len) = framed {
        edits.set("Content-Length", itoa::Buffer::new().format(len).as_bytes().to_vec());
    }
}

/// Sends a cached response to a client whose request does not go to an endpoint; an error where the client
/// has gone.
pub(super) async fn give_kept(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    object: &Arc<Object>,
) -> Result<bool, Fault> {
    give(attempted, forward, object, None).await
}
