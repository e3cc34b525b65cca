//! Heads on their way through: fields pass in the order and letter case in which they came, less those that end here, together with
//! what is changed and added. One writer for both directions; what HTTP/2 is told is made from what it writes.
//!
//! Never in here: sockets, and what a field is good for.

mod request;
mod response;
mod subrequest;

use std::borrow::Cow;

use smallvec::SmallVec;
use wire::field::is_alike;
use wire::h1::Fields;
use wire::{Field, Known};

use crate::buffer::Buffer;
pub(crate) use request::{BodyLength, RequestOptions, end_request_head, passes_name, write_request_head};
pub(crate) use response::{Delivery, connection_option, write_interim_head, write_response_head};
pub(crate) use subrequest::{Subrequest, write_subrequest_head};

/// Room for what is added to a head, in bytes; more is made where it is not enough.
const ADDED_BYTES: usize = 512;

/// Changes to a head that there is room for at once where there is more than one.
const EDITS_LEN: usize = 8;

/// Changes to the fields of a head. A name has one change, which is the last one that was asked for, and any number of additions.
#[derive(Default)]
pub(crate) struct HeadEdits<'a> {
    edits: SmallVec<[Edit<'a>; 1]>,
    /// The endpoint's `Server` passes, and where there is none it is ours.
    pub(crate) passes_server: bool,
    /// The status line, where it is not that of the head.
    pub(crate) status: Option<(u16, &'static str)>,
}

/// What `Server` says where it names this proxy.
pub(crate) const SERVER: &str = "forebay";

/// A change to the fields of one name.
struct Edit<'a> {
    name: &'a str,
    /// The value of the one field that takes their place; none to have no such field.
    value: Option<Cow<'a, [u8]>>,
    kind: Kind,
}

/// Effect of an [`Edit`] on the fields of the received head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Removes the fields of the name.
    Replaces,
    /// They pass as well.
    Adds,
    /// Removes the fields whose names begin with this one.
    RemovesBeginning,
}

/// Writes the head of a message as HTTP/1.
pub(crate) struct HeadWriter<'b>(&'b mut Buffer);

// === impl HeadEdits ===

impl<'a> HeadEdits<'a> {
    /// Has no field of this name.
    pub(crate) fn remove(&mut self, name: &'a str) {
        self.edit(name, None);
    }

    /// Has one field of this name, with this value.
    pub(crate) fn set(&mut self, name: &'a str, value: impl Into<Cow<'a, [u8]>>) {
        self.edit(name, Some(value.into()));
    }

    /// Has one more field of this name.
    pub(crate) fn add(&mut self, name: &'a str, value: impl Into<Cow<'a, [u8]>>) {
        self.push(Edit { name, value: Some(value.into()), kind: Kind::Adds });
    }

    /// Has no fields whose names begin so, but those that say where the message ends or what becomes of the connection.
    #[cold]
    pub(crate) fn remove_beginning(&mut self, begin: &'a str) {
        let replacing = self.edits.iter_mut().filter(|edit| edit.kind == Kind::Replaces);
        for edit in replacing.filter(|edit| begins_with(edit.name.as_bytes(), begin)) {
            edit.value = None;
        }
        self.push(Edit { name: begin, value: None, kind: Kind::RemovesBeginning });
    }

    /// Nothing is allocated for one change, and once for some more.
    fn push(&mut self, edit: Edit<'a>) {
        if self.edits.len() == 1 {
            self.edits.reserve(EDITS_LEN);
        }
        self.edits.push(edit);
    }

    fn edit(&mut self, name: &'a str, value: Option<Cow<'a, [u8]>>) {
        let mut changes = self.edits.iter_mut().filter(|edit| edit.kind == Kind::Replaces);
        match changes.find(|edit| edit.name.eq_ignore_ascii_case(name)) {
            Some(edit) => edit.value = value,
            None => self.push(Edit { name, value, kind: Kind::Replaces }),
        }
    }

    /// Takes back what was to be added under this name.
    pub(crate) fn forget_additions(&mut self, name: &str) {
        self.edits.retain(|edit| !(edit.kind == Kind::Adds && edit.name.eq_ignore_ascii_case(name)));
    }

    /// Whether nothing is changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty() && !self.passes_server
    }

    /// Has no field of this name but those that are set.
    pub(crate) fn hide(&mut self, name: &'a str) {
        if !self.replaces(name.as_bytes()) {
            self.remove(name);
        }
    }

    /// Whether what came under this name does not pass.
    pub(crate) fn replaces(&self, name: &[u8]) -> bool {
        self.edits.iter().any(|edit| match edit.kind {
            Kind::Replaces => name.eq_ignore_ascii_case(edit.name.as_bytes()),
            Kind::Adds => false,
            Kind::RemovesBeginning => begins_with(name, edit.name),
        })
    }

    /// Whether a request's field of this name does not pass, be it spelled with dashes or with underscores
    /// here or there.
    pub(crate) fn replaces_alike(&self, name: &[u8]) -> bool {
        self.edits.iter().any(|edit| {
            let named = edit.name.as_bytes();
            match edit.kind {
                Kind::Replaces => is_alike(name, named),
                Kind::Adds => false,
                Kind::RemovesBeginning => name.get(..named.len()).is_some_and(|begin| is_alike(begin, named)),
            }
        })
    }

    /// Gives all that is said to `add`, part by part.
    pub(crate) fn write_key(&self, mut add: impl FnMut(&[u8])) {
        for Edit { name, value, .. } in &self.edits {
            add(name.as_bytes());
            add(value.as_deref().unwrap_or_default());
        }
    }

    /// Whether a field of this name is set.
    pub(crate) fn sets(&self, name: &str) -> bool {
        let mut changes = self.edits.iter().filter(|edit| edit.kind != Kind::Adds);
        changes.any(|edit| edit.value.is_some() && edit.name.eq_ignore_ascii_case(name))
    }
}

/// Whether the name of a field begins so, of one that a snippet may remove.
pub(crate) fn begins_with(name: &[u8], begin: &str) -> bool {
    const KEPT: &[&str] =
        &["connection", "content-length", "date", "trailer", "transfer-encoding", "upgrade"];
    name.get(..begin.len()).is_some_and(|own| own.eq_ignore_ascii_case(begin.as_bytes()))
        && !KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()))
}

#[cfg(test)]
impl HeadEdits<'_> {
    /// The changes as lines; a name alone for fields that do not pass.
    pub(crate) fn told(&self) -> Vec<String> {
        let line = |Edit { name, value, .. }: &Edit<'_>| match value {
            Some(value) => format!("{name}: {}", String::from_utf8_lossy(value)),
            None => (*name).to_owned(),
        };
        self.edits.iter().map(line).collect()
    }
}

// === impl HeadWriter ===

impl<'b> HeadWriter<'b> {
    /// Begins to write at the end of `out`. `len` is how many bytes of another head pass, at most.
    pub(crate) fn new(out: &'b mut Buffer, len: usize) -> Self {
        out.reserve(len + ADDED_BYTES);
        Self(out)
    }

    /// The first line of a response.
    pub(crate) fn status_line(&mut self, status: u16, reason: &[u8]) {
        self.write([b"HTTP/1.1 ", itoa::Buffer::new().format(status).as_bytes(), b" ", reason, b"\r\n"]);
    }

    /// One field.
    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        self.write([name.as_bytes(), b": ", value, b"\r\n"]);
    }

    /// What becomes of the connection, where that has to be said.
    pub(crate) fn connection(&mut self, option: Option<&str>) {
        if let Some(option) = option {
            self.field("Connection", option.as_bytes());
        }
    }

    /// The fields that edits set and add.
    pub(crate) fn edits(&mut self, edits: &HeadEdits<'_>) {
        self.edits_that(edits, |_| true);
    }

    /// The fields that edits set in place of others.
    pub(crate) fn settings(&mut self, edits: &HeadEdits<'_>) {
        self.edits_that(edits, |edit| edit.kind != Kind::Adds);
    }

    /// The fields that edits add to others, which come before them: the order of values of one name counts (RFC 9110 section 5.3).
    pub(crate) fn additions(&mut self, edits: &HeadEdits<'_>) {
        self.edits_that(edits, |edit| edit.kind == Kind::Adds);
    }

    fn edits_that(&mut self, edits: &HeadEdits<'_>, counts: impl Fn(&Edit<'_>) -> bool) {
        for edit in edits.edits.iter().filter(|edit| counts(edit)) {
            if let Some(value) = &edit.value {
                self.field(edit.name, value);
            }
        }
    }

    /// Bytes as they are. Room is made once for all parts.
    #[inline]
    pub(crate) fn write<const N: usize>(&mut self, parts: [&[u8]; N]) {
        let len = parts.iter().map(|part| part.len()).sum();
        self.0.reserve(len);
        let mut free = self.0.free();
        for part in parts {
            let (place, rest) = free.split_at_mut(part.len());
            place.copy_from_slice(part);
            free = rest;
        }
        self.0.filled(len);
    }

    /// The end of the head.
    pub(crate) fn end(&mut self) {
        self.0.extend(b"\r\n");
    }

    /// Bytes that have been written to the buffer.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What has been written since it had so many bytes.
    pub(crate) fn written_since(&self, start: usize) -> &[u8] {
        &self.0.data()[start..]
    }

    /// Passes lines on but those that `drops` names. Neighbours are copied together. A length that is
    /// written in an odd way, such as `\t00`, is written anew.
    #[inline]
    fn pass(&mut self, head: &[u8], fields: &Fields, drops: impl Fn(&Field) -> bool) {
        let mut run = 0..0;
        for field in fields {
            if drops(field) {
                continue;
            }
            let line = field.line();
            if field.known == Known::ContentLength && !field.is_plain_number(head) {
                self.0.extend(&head[run]);
                run = line.end..line.end;
                self.length(fields.content_length);
            } else if run.end == line.start {
                run.end = line.end;
            } else {
                self.0.extend(&head[run]);
                run = line;
            }
        }
        self.0.extend(&head[run]);
    }

    fn length(&mut self, length: Option<u64>) {
        if let Some(length) = length {
            self.field("Content-Length", itoa::Buffer::new().format(length).as_bytes());
        }
    }
}
