//! Heads on their way through: fields pass in the order and letter case in which they arrived, without
//! hop-by-hop ones, together with changes and additions. One writer for both directions; heads for HTTP/2
//! are made from its output.
//!
//! Never in here: sockets, and the meaning of a field.

mod request;
mod response;
mod subrequest;

use std::borrow::Cow;

use smallvec::SmallVec;
use wire::cache::Head;
use wire::field::is_alike;
use wire::h1::Fields;
use wire::{Field, Known};

use crate::io::buffer::Buffer;
pub(crate) use request::{BodyLength, RequestOptions, end_request_head, passes_name, write_request_head};
pub(crate) use response::{Delivery, connection_option, write_interim_head, write_response_head};
pub(crate) use subrequest::{Subrequest, write_subrequest_head};

/// Initial room for fields that are added to a head, in bytes; it grows where that is not enough.
const ADDED_BYTES: usize = 512;

/// Initial capacity for several changes to a head.
const EDITS_LEN: usize = 8;

/// Changes over a received head: fields are looked up as the recipient gets them, and nothing is written
/// before the end. A name has one change, which is the last one that was asked for, and any number of
/// additions.
#[derive(Default)]
pub(crate) struct HeadEdits<'a> {
    /// The head below; none below an answer of the proxy's own.
    received: Option<Head<'a>>,
    edits: SmallVec<[Edit<'a>; 1]>,
    /// The endpoint's `Server` passes; a response without one gets ours.
    pub(crate) passes_server: bool,
    /// The status line, where it is not that of the head.
    pub(crate) status: Option<(u16, &'static str)>,
}

/// The value of `Server` where it names this proxy.
pub(crate) const SERVER: &str = "forebay";

/// A change to the fields of one name.
struct Edit<'a> {
    name: &'a str,
    /// The value of the one field that replaces them; none to remove them.
    value: Option<Cow<'a, [u8]>>,
    kind: Kind,
}

/// Effect of an [`Edit`] on the fields of the received head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Removes the fields of the name.
    Replaces,
    /// Adds a field, beside the received ones.
    Adds,
    /// Removes the fields whose names begin with this one.
    RemovesBeginning,
}

/// Writes the head of a message as HTTP/1.
pub(crate) struct HeadWriter<'b>(&'b mut Buffer);

// === impl HeadEdits ===

impl<'a> HeadEdits<'a> {
    /// No changes yet over a received head.
    pub(crate) fn over(received: Head<'a>) -> Self {
        Self { received: Some(received), ..Self::default() }
    }

    /// The same changes over a received head.
    pub(crate) fn put_over(self, received: Head<'a>) -> Self {
        Self { received: Some(received), ..self }
    }

    /// The values of a name as the recipient gets them, in their order.
    pub(crate) fn values<'s>(&'s self, name: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        let changes = self.edits.iter().filter(|edit| edit.name.as_bytes().eq_ignore_ascii_case(name));
        let received = self.passing(name).map(|value| -> &'s [u8] { value });
        received.chain(changes.filter_map(|edit| edit.value.as_deref()))
    }

    /// The received values of a name that no change replaces, in their order.
    pub(crate) fn passing<'s>(&'s self, name: &'s [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 's> {
        let received = self.received.filter(|_| !self.replaces(name));
        received.into_iter().flat_map(|head| head.values(name))
    }

    /// Removes the fields of this name.
    pub(crate) fn remove(&mut self, name: &'a str) {
        self.edit(name, None);
    }

    /// Replaces the fields of this name by one with this value.
    pub(crate) fn set(&mut self, name: &'a str, value: impl Into<Cow<'a, [u8]>>) {
        self.edit(name, Some(value.into()));
    }

    /// Adds a field of this name.
    pub(crate) fn add(&mut self, name: &'a str, value: impl Into<Cow<'a, [u8]>>) {
        self.push(Edit { name, value: Some(value.into()), kind: Kind::Adds });
    }

    /// Removes the fields whose names begin like this, except those for framing and the connection.
    #[cold]
    pub(crate) fn remove_beginning(&mut self, begin: &'a str) {
        let replacing = self.edits.iter_mut().filter(|edit| edit.kind == Kind::Replaces);
        for edit in replacing.filter(|edit| begins_with(edit.name.as_bytes(), begin)) {
            edit.value = None;
        }
        self.push(Edit { name: begin, value: None, kind: Kind::RemovesBeginning });
    }

    /// Without an allocation for one change, and with one for some more.
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

    /// Drops the additions of this name.
    pub(crate) fn forget_additions(&mut self, name: &str) {
        self.edits.retain(|edit| !(edit.kind == Kind::Adds && edit.name.eq_ignore_ascii_case(name)));
    }

    /// Whether there are no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty() && !self.passes_server
    }

    /// Removes the fields of this name except those that are set here.
    pub(crate) fn hide(&mut self, name: &'a str) {
        if !self.replaces(name.as_bytes()) {
            self.remove(name);
        }
    }

    /// Whether received fields of this name do not pass.
    pub(crate) fn replaces(&self, name: &[u8]) -> bool {
        self.edits.iter().any(|edit| match edit.kind {
            Kind::Replaces => name.eq_ignore_ascii_case(edit.name.as_bytes()),
            Kind::Adds => false,
            Kind::RemovesBeginning => begins_with(name, edit.name),
        })
    }

    /// Whether a request's field of this name does not pass, whether either is spelled with dashes or
    /// underscores.
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

    /// Passes all changes to `add`, part by part, for a cache key.
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

/// Whether the name of a field begins like this, and the field may be removed by a snippet.
pub(crate) fn begins_with(name: &[u8], begin: &str) -> bool {
    const KEPT: &[&str] =
        &["connection", "content-length", "date", "trailer", "transfer-encoding", "upgrade"];
    name.get(..begin.len()).is_some_and(|own| own.eq_ignore_ascii_case(begin.as_bytes()))
        && !KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()))
}

#[cfg(test)]
impl HeadEdits<'_> {
    /// The changes as lines; a name alone for fields that do not pass.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |Edit { name, value, .. }: &Edit<'_>| match value {
            Some(value) => format!("{name}: {}", String::from_utf8_lossy(value)),
            None => (*name).to_owned(),
        };
        self.edits.iter().map(line).collect()
    }
}

// === impl HeadWriter ===

impl<'b> HeadWriter<'b> {
    /// Begins to write at the end of `out`. `len` is an upper bound of the bytes that pass from another
    /// head.
    pub(crate) fn new(out: &'b mut Buffer, len: usize) -> Self {
        out.reserve(len + ADDED_BYTES);
        Self(out)
    }

    /// The first line of a response.
    pub(crate) fn status_line(&mut self, status: u16, reason: &[u8]) {
        self.write([b"HTTP/1.1 ", itoa::Buffer::new().format(status).as_bytes(), b" ", reason, b"\r\n"]);
    }

    /// Writes one field.
    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        self.write([name.as_bytes(), b": ", value, b"\r\n"]);
    }

    /// Writes the `Connection` option, if there is one.
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

    /// The fields that edits add to others, which come before them: the order of values of one name counts
    /// (RFC 9110 section 5.3).
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

    /// Writes bytes as they are. Room is made once for all parts.
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

    /// The bytes written since the buffer had this length.
    pub(crate) fn written_since(&self, start: usize) -> &[u8] {
        &self.0.data()[start..]
    }

    /// Passes lines on, except those that `drops` selects. Adjacent lines are copied together. A length that
    /// is written in an odd way, such as `\t00`, is rewritten.
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

#[cfg(test)]
mod tests {
    use wire::h1::{Fields, parse_response};

    use super::*;

    /// The values of a name where a head with three fields `X-A` is changed so.
    fn values_after(change: impl FnOnce(&mut HeadEdits<'_>)) -> Vec<String> {
        let head = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 2\r\nx-a: 3\r\n\r\n";
        let response = parse_response(head, Fields::default()).unwrap().unwrap();
        let mut edits = HeadEdits::over(Head::of_response(head, &response));
        change(&mut edits);
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        edits.values(b"X-A").map(text).collect()
    }

    #[test]
    fn a_lookup_sees_the_head_as_its_recipient_gets_it() {
        assert_eq!(values_after(|_| ()), ["1", "3"]);
        assert_eq!(values_after(|edits| edits.set("x-A", &b"4"[..])), ["4"]);
        assert_eq!(values_after(|edits| edits.add("X-A", &b"4"[..])), ["1", "3", "4"]);
        assert_eq!(values_after(|edits| edits.remove("X-A")), [""; 0]);
        assert_eq!(values_after(|edits| edits.remove_beginning("X-")), [""; 0]);
        assert_eq!(values_after(|edits| edits.set("X-B", &b"4"[..])), ["1", "3"]);
    }

    #[test]
    fn an_answer_of_our_own_has_no_fields_but_those_that_are_set() {
        let mut edits = HeadEdits::default();
        assert_eq!(edits.values(b"X-A").count(), 0);
        edits.set("X-A", &b"1"[..]);
        assert!(edits.values(b"x-a").eq([b"1"]) && edits.passing(b"x-a").next().is_none());
    }
}
