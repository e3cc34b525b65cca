//! The heads of files, as HTTP/1, as if an endpoint had sent them: what the route changes is changed as in
//! those.

use std::fmt::Write as _;

use ::files::Identity;
use model::Files;
use wire::cache::range::{write_content_range, write_unsatisfiable};
use wire::date::imf_fixdate;

use super::selection::Form;
use super::{Parsed, Whole};
use crate::answer::parts::{Part, Selection};

/// `ETag` and `Last-Modified`. The tag is strong: file systems count nanoseconds, and a compressed form is a
/// file of its own.
pub(super) fn validators(identity: &Identity, now: u64) -> String {
    let (seconds, nanos) = identity.modified;
    // "An origin server ... MUST NOT generate a Last-Modified date that is later than the server's time"
    // (RFC 9110 section 8.8.2.1).
    let modified = u64::try_from(seconds).unwrap_or(0).min(now);
    format!(
        "ETag: \"{seconds:x}.{nanos:x}-{:x}\"\r\nLast-Modified: {}\r\n",
        identity.size,
        imf_fixdate(modified)
    )
}

/// Of a response with all of a file, made at the first time. None where that was made for a route that says
/// something else.
pub(super) fn whole<'p>(form: &Form<'p>, files: &Files) -> Option<&'p Parsed> {
    let whole = form.note.whole.get_or_init(|| {
        let head = of_file(form, &Selection::whole(200), form.file.size(), files);
        let cache_control = files.cache_control.clone();
        Whole { parsed: Parsed::new(head), cache_control, has_others: form.has_others }
    });
    let is_same = whole.has_others == form.has_others && whole.cache_control == files.cache_control;
    is_same.then_some(&whole.parsed)
}

/// Of a response with so many bytes.
pub(super) fn of_file(form: &Form<'_>, selection: &Selection, len: u64, files: &Files) -> Vec<u8> {
    let mut head = Vec::with_capacity(384);
    head.extend(status_line(selection.status).as_bytes());
    let size = form.file.size();
    match &selection.part {
        Part::Several(several) => line(&mut head, "Content-Type", &several.content_type()),
        Part::Nothing => {}
        Part::Whole | Part::One(_) => line(&mut head, "Content-Type", form.media_type.as_bytes()),
    }
    if selection.status != 304 {
        line(&mut head, "Content-Length", itoa::Buffer::new().format(len).as_bytes());
    }
    match (&selection.part, selection.status) {
        (Part::One(range), _) => {
            head.extend(b"Content-Range: ");
            write_content_range(*range, size, &mut head);
            head.extend(b"\r\n");
        }
        (_, 416) => {
            head.extend(b"Content-Range: ");
            write_unsatisfiable(size, &mut head);
            head.extend(b"\r\n");
        }
        _ => {}
    }
    if let Some(coding) = form.coding.filter(|_| !matches!(selection.part, Part::Nothing)) {
        line(&mut head, "Content-Encoding", coding.name().as_bytes());
    }
    if form.has_others {
        line(&mut head, "Vary", b"Accept-Encoding");
    }
    if matches!(selection.status, 200 | 206 | 304) {
        head.extend(form.note.validators.as_bytes());
        if let Some(value) = &files.cache_control {
            line(&mut head, "Cache-Control", value.as_bytes());
        }
    }
    if matches!(selection.status, 200 | 206 | 416) {
        line(&mut head, "Accept-Ranges", b"bytes");
    }
    head.extend(b"\r\n");
    head
}

pub(super) fn of_listing(len: usize) -> Vec<u8> {
    let mut head = String::from(status_line(200));
    let _ = write!(head, "Content-Type: text/html; charset=utf-8\r\nContent-Length: {len}\r\n\r\n");
    head.into_bytes()
}

fn line(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

fn status_line(status: u16) -> &'static str {
    match status {
        206 => "HTTP/1.1 206 Partial Content\r\n",
        304 => "HTTP/1.1 304 Not Modified\r\n",
        404 => "HTTP/1.1 404 Not FileResponse\r\n",
        412 => "HTTP/1.1 412 Precondition Failed\r\n",
        416 => "HTTP/1.1 416 Range Not Satisfiable\r\n",
        _ => "HTTP/1.1 200 OK\r\n",
    }
}
