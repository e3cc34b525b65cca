//! Requests that a file answers, below the root folder that the proxy is given: which file, which form of
//! it, which part, and the head.
//!
//! Calls of the file system are made on the event loop's threads for blocking work; lookups of what is
//! remembered are not.
//!
//! Never in here: how a file is opened, which is the crate `files`'; how it is sent, which is `body`'s.

mod head;
mod listing;
mod lookup;
mod media_type;
mod selection;

use std::sync::{Arc, OnceLock};

use ::files::{File, Kept, Store};
use bytes::Bytes;
use model::Files;
use wire::h1::{Body, Response};

use crate::answer::attempted::Attempted;
use crate::answer::deliver::Recipient;
use crate::answer::parts::{Part, Selection};
use crate::answer::present::ReceivedResponse;
use crate::answer::recode::{self, Recode};
use crate::body::{FileBody, Source, Stored};
use crate::io::buffer::Buffer;
use crate::request::AfterRequest;
use crate::request::reply::Answer;
use crate::request::stop::Stop;
use crate::store::forms::ContentId;
use lookup::Answered;
pub(crate) use lookup::file_asked;
use selection::Form;

/// A response of which all is known but how the client gets it.
struct FileResponse<'r> {
    parsed: &'r Parsed,
    content: Content<'r>,
    /// Bytes of the content, were it not for HEAD.
    len: u64,
    recode: Option<Recode>,
}

/// A head as HTTP/1, as if an endpoint had sent it.
struct Parsed {
    head: Vec<u8>,
    response: Response,
}

/// Where the content of a response is.
enum Content<'r> {
    Bytes(&'r [u8]),
    File(FileBody),
    /// It is in the coding that the client gets.
    Form(Bytes),
}

/// Values that are computed once for each version of a file.
struct Note {
    /// `ETag` and `Last-Modified` as lines.
    validators: String,
    /// Its content, under which its compressed forms are kept.
    content: ContentId,
    whole: OnceLock<Whole>,
}

/// The head of a response with all of a file, for the route that it was made for and those that say the same
/// of it.
struct Whole {
    parsed: Parsed,
    cache_control: Option<String>,
    has_others: bool,
}

impl Parsed {
    fn new(head: Vec<u8>) -> Self {
        let mut response = Response::default();
        let is_whole = response.parse(&head);
        debug_assert!(matches!(is_whole, Ok(true)), "a head of our own is well-formed");
        response.fields.shrink();
        Self { head, response }
    }
}

/// Answers with a file.
pub(crate) async fn serve(
    attempted: &Attempted<'_, '_>,
    files: &Files,
    rest: &mut Buffer,
) -> Result<AfterRequest, Stop> {
    if !matches!(attempted.method(), b"GET" | b"HEAD") {
        return Err(Answer::method_not_allowed("GET, HEAD").into());
    }
    let Some(store) = attempted.worker.files.as_ref() else {
        return Err(observe::Reason::FilesGone.into());
    };
    match lookup::look_up(attempted, store, files).await? {
        Answered::Page(page) => answer_with(attempted, &page, 200, files, rest).await,
        Answered::NotFound(page) => answer_with(attempted, &page, 404, files, rest).await,
        Answered::Listing(html) => {
            let parsed = &Parsed::new(head::of_listing(html.len()));
            let (recode, content) = (plan_file(attempted, parsed, files), Content::Bytes(html.as_bytes()));
            deliver_file(
                attempted,
                FileResponse { parsed, content, len: html.len() as u64, recode },
                files,
                rest,
            )
            .await
        }
    }
}

/// Answers with a file that was found, or the part of it that is asked for.
async fn answer_with(
    attempted: &Attempted<'_, '_>,
    page: &lookup::Named,
    status: u16,
    files: &Files,
    rest: &mut Buffer,
) -> Result<AfterRequest, Stop> {
    let form = Form::choose(attempted, page);
    let selection = if status == 200 { form.select(attempted) } else { Selection::whole(status) };
    let frames = form.frames(&selection);
    let len = form.len(&selection, frames.as_ref());
    let own;
    let parsed = if let Some(parsed) = head::whole(&form, files).filter(|_| selection.is_whole()) {
        parsed
    } else {
        own = Parsed::new(head::of_file(&form, &selection, len, files));
        &own
    };
    let mut recode = plan_part(attempted, &form, parsed, &selection, files);
    let content = match &mut recode {
        Some(recode) if matches!(selection.part, Part::Whole) => form_of(attempted, &form, recode).await,
        _ => None,
    };
    let content = match content {
        Some(content) => Content::Form(content),
        None if attempted.is_head() => Content::Bytes(&[]),
        None => form.content(&selection, frames, &attempted.worker.buffers),
    };
    deliver_file(attempted, FileResponse { parsed, content, len, recode }, files, rest).await
}

/// The plan for the coding of a whole file.
fn plan_file(attempted: &Attempted<'_, '_>, parsed: &Parsed, files: &Files) -> Option<Recode> {
    let compression = files.response.as_ref()?.compression.as_ref()?;
    recode::plan(attempted, compression, &parsed.response, &parsed.head)
}

/// The same of what is sent of it. Parts are those of the file as it is.
fn plan_part(
    attempted: &Attempted<'_, '_>,
    form: &Form<'_>,
    parsed: &Parsed,
    selection: &Selection,
    files: &Files,
) -> Option<Recode> {
    files.response.as_ref()?.compression.as_ref()?;
    if matches!(selection.part, Part::Whole) {
        return plan_file(attempted, parsed, files);
    }
    let whole = Selection::whole(200);
    let whole = Parsed::new(head::of_file(form, &whole, form.len(&whole, None), files));
    let mut recode = plan_file(attempted, &whole, files)?;
    recode.is_not_modified = selection.status == 304;
    recode.task = recode.task.filter(|_| recode.is_not_modified);
    Some(recode)
}

/// The form that the client gets of a small file.
async fn form_of(attempted: &Attempted<'_, '_>, form: &Form<'_>, recode: &mut Recode) -> Option<Bytes> {
    let Kept::Memory(content) = form.file.kept() else { return None };
    let pieces = std::iter::once(&**content);
    recode::form(attempted, recode, form.note.content, pieces, content.len() as u64).await
}

/// Sends a response as one of an endpoint is sent.
async fn deliver_file(
    attempted: &Attempted<'_, '_>,
    found: FileResponse<'_>,
    files: &Files,
    rest: &mut Buffer,
) -> Result<AfterRequest, Stop> {
    let FileResponse { parsed, mut content, len, mut recode } = found;
    let body_is_past = attempted.pass_over_body(rest);
    if body_is_past {
        attempted.progress.note_no_body();
    }
    let policy = files.response.as_deref();
    let read_timeout = attempted.config.settings().client.send_timeout;
    let is_made = matches!(content, Content::Form(_));
    let source = match &mut content {
        _ if attempted.is_head() => Source::Bytes(&[]),
        Content::Bytes(bytes) => Source::Bytes(bytes),
        Content::File(body) => Source::File(body),
        Content::Form(bytes) => Source::Stored(Stored::whole(std::mem::take(bytes))),
    };
    let len = recode.and_then(|recode| recode.len).unwrap_or(len);
    let body = if attempted.is_head() { Body::Empty } else { Body::of_length(len) };
    let (source, body) = match &mut recode {
        Some(recode) if recode.task.is_some() && !is_made && !recode.is_not_modified => {
            let begun = recode::begin(attempted, recode, (source, body), Some(len), read_timeout).await;
            begun.map_err(|fault| Stop::from(fault.reason))?
        }
        _ => (source, body),
    };
    let Parsed { head, response } = parsed;
    let own = ReceivedResponse { response, head, status: None, body, policy, recode, is_last: !body_is_past };
    let presented = attempted.present(&own, |_| (), |_, _| ());
    let keep_alive = presented.delivery.keep_alive;
    let mut outcome = presented.with(source, read_timeout, policy);
    let delivered = Recipient::of(attempted).deliver(&mut outcome, || ()).await;
    delivered.map_err(|fault| Stop::from(fault.reason))?;
    Ok(match (keep_alive, body_is_past) {
        (true, _) => AfterRequest::KeepAlive,
        (false, false) => AfterRequest::Linger,
        (false, true) => AfterRequest::Close,
    })
}

/// Does what blocks on another thread.
async fn on_thread<T: Send + 'static>(
    store: &Arc<Store>,
    act: impl FnOnce(&Store) -> T + Send + 'static,
) -> T {
    let store = Arc::clone(store);
    tokio::task::spawn_blocking(move || act(&store)).await.expect("a look neither panics nor is aborted")
}

/// The values of a version of a file.
fn note(file: &File, now: u64) -> &Note {
    let make = || Note {
        validators: head::validators(file.identity(), now),
        content: ContentId::next(),
        whole: OnceLock::new(),
    };
    file.note(make).expect("nobody else makes notes of files")
}
