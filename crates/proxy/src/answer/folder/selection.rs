//! The form of a file that a client gets, and the part of it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use ::files::{File, Kept};
use wire::cache::conditional::Outcome;
use wire::cache::range::ByteRange;
use wire::cache::{Head, Validators};
use wire::coding::{Accepted, Coding};

use super::lookup::Named;
use super::{Content, Note, media_type, note};
use crate::answer::parts::{Frames, Part, Selection};
use crate::body::{FileBody, FilePart};
use crate::io::buffer::Buffers;
use crate::request::Request;

/// A form of a file.
pub(super) struct Form<'p> {
    pub(super) file: &'p Arc<File>,
    pub(super) media_type: &'static str,
    /// The coding that it has.
    pub(super) coding: Option<Coding>,
    /// There are others, so that the answer depends on what the client takes.
    pub(super) has_others: bool,
    pub(super) note: &'p Note,
}

impl<'p> Form<'p> {
    /// The form that the client likes best.
    pub(super) fn choose(request: &Request<'_>, named: &'p Named) -> Self {
        let page = &named.page;
        let accepted = || {
            let head = Head::of_request(request.head, request.parsed);
            Accepted::new(head.values(b"accept-encoding"))
        };
        let offered = page.coded.iter().map(|(coding, _)| coding_of(*coding));
        let coding = if page.coded.is_empty() { None } else { accepted().choose(offered) };
        let coded = page.coded.iter().find(|(offered, _)| Some(coding_of(*offered)) == coding);
        let file = coded.map_or(&page.plain, |(_, file)| file);
        let now = request.worker.clock.unix().as_secs();
        Self {
            file,
            media_type: media_type::of(&named.name),
            coding,
            has_others: !page.coded.is_empty(),
            note: note(file, now),
        }
    }

    fn comparable(&self, now: u64) -> Validators {
        let line = |name: &str| self.note.validators.lines().find_map(|line| line.strip_prefix(name));
        let value = |name| line(name).map(|value| Box::from(value.as_bytes()));
        let modified = u64::try_from(self.file.identity().modified.0).unwrap_or(0).min(now);
        Validators {
            etag: value("ETag: "),
            modified_text: value("Last-Modified: "),
            modified: Some(modified),
            date: now,
        }
    }

    /// The part of it that a request asks for (RFC 9110 sections 13 and 14).
    pub(super) fn select(&self, request: &Request<'_>) -> Selection {
        let head = Head::of_request(request.head, request.parsed);
        let whole = Selection::whole(200);
        let is_conditional = wire::cache::conditional::FIELDS.iter().any(|name| head.has(name.as_bytes()));
        let has_range = head.has(b"range");
        if !is_conditional && !has_range {
            return whole;
        }
        let now = request.worker.clock.unix().as_secs();
        let validators = self.comparable(now);
        match validators.evaluate(head, true, now) {
            Outcome::Proceed => {}
            Outcome::NotModified => return Selection::nothing(304),
            Outcome::PreconditionFailed => return Selection::nothing(412),
        }
        // A range means something for GET alone (section 14.2).
        if has_range && !request.is_head() && validators.range_applies(head, now) {
            return Selection::of_range(request, self.file.size());
        }
        whole
    }

    /// The lines between several parts of it.
    pub(super) fn frames(&self, selection: &Selection) -> Option<Frames> {
        let Part::Several(several) = &selection.part else { return None };
        Some(several.frames(Some(self.media_type.as_bytes()), self.file.size()))
    }

    /// Bytes of what follows the head.
    pub(super) fn len(&self, selection: &Selection, frames: Option<&Frames>) -> u64 {
        match (&selection.part, frames) {
            (Part::Nothing, _) => 0,
            (Part::One(range), _) => range.len(),
            (Part::Several(_), Some(frames)) => frames.len,
            (Part::Whole | Part::Several(_), _) => self.file.size(),
        }
    }

    /// The content that follows the head.
    pub(super) fn content(
        &self,
        selection: &Selection,
        frames: Option<Frames>,
        buffers: &Rc<Buffers>,
    ) -> Content<'p> {
        let file: &'p Arc<File> = self.file;
        if let Some(frames) = frames {
            let mut parts = VecDeque::new();
            for (head, range) in frames.heads {
                parts.push_back(FilePart::Bytes(head));
                parts.push_back(part(range));
            }
            parts.push_back(FilePart::Bytes(frames.end));
            return Content::File(FileBody::new(file, parts, buffers));
        }
        let range = match &selection.part {
            Part::One(range) => *range,
            Part::Whole if file.size() > 0 => ByteRange { first: 0, last: file.size() - 1 },
            _ => return Content::Bytes(&[]),
        };
        match file.kept() {
            Kept::Memory(content) => Content::Bytes(&content[range.first as usize..=range.last as usize]),
            Kept::Open(_) => Content::File(FileBody::new(file, VecDeque::from([part(range)]), buffers)),
        }
    }
}

fn part(range: ByteRange) -> FilePart {
    FilePart::File { at: range.first, end: range.last + 1 }
}

fn coding_of(coding: ::files::Coding) -> Coding {
    match coding {
        ::files::Coding::Brotli => Coding::Brotli,
        ::files::Coding::Zstandard => Coding::Zstd,
        ::files::Coding::Gzip => Coding::Gzip,
    }
}
