//! The part of a representation that a request is for, and the lines of a response with several parts; for
//! whoever has all of it, be it a file or a response that is kept.
//!
//! Never in here: where the bytes are.

use wire::cache::Head;
use wire::cache::range::{self, ByteRange, Multipart, Ranges};

use crate::request::Request;

/// The part of a representation that is sent.
pub(crate) struct Selection {
    pub(crate) status: u16,
    pub(crate) part: Part,
}

/// A part of a representation.
pub(crate) enum Part {
    Whole,
    Nothing,
    One(ByteRange),
    Several(Box<Several>),
}

/// Several parts, in the order in which they are sent.
pub(crate) struct Several {
    ranges: Box<[ByteRange]>,
    boundary: String,
}

/// The text between several parts.
pub(crate) struct Frames {
    /// The lines before each part.
    pub(crate) heads: Vec<(Vec<u8>, ByteRange)>,
    /// The lines after the last part.
    pub(crate) end: Vec<u8>,
    /// Bytes of all of it, the parts included.
    pub(crate) len: u64,
}

impl Selection {
    pub(crate) fn whole(status: u16) -> Self {
        Self { status, part: Part::Whole }
    }

    /// Whether it is all of what is found, and not of what is shown in its place.
    pub(crate) fn is_whole(&self) -> bool {
        self.status == 200 && matches!(self.part, Part::Whole)
    }

    pub(crate) fn nothing(status: u16) -> Self {
        Self { status, part: Part::Nothing }
    }

    /// The part that a request's `Range` selects of a representation of so many bytes (RFC 9110 section
    /// 14.2), where that counts.
    pub(crate) fn of_range(request: &Request<'_>, length: u64) -> Self {
        let range = Head::of_request(request.head, request.parsed).value(b"range");
        match range.map_or(Ranges::Whole, |range| range::parse(range, length)) {
            Ranges::Whole => Self::whole(200),
            Ranges::One(range) => Self { status: 206, part: Part::One(range) },
            Ranges::Several(ranges) => {
                let boundary = String::from_utf8_lossy(&request.worker.random.hex_id()).into_owned();
                Self { status: 206, part: Part::Several(Box::new(Several { ranges, boundary })) }
            }
            Ranges::Unsatisfiable => Self::nothing(416),
        }
    }
}

impl Several {
    /// The value of `Content-Type` for all of it.
    pub(crate) fn content_type(&self) -> Vec<u8> {
        let mut value = Vec::new();
        self.multipart(None, 0).write_content_type(&mut value);
        value
    }

    /// The text between the parts of a representation of this type, which has so many bytes.
    pub(crate) fn frames(&self, content_type: Option<&[u8]>, length: u64) -> Frames {
        let multipart = self.multipart(content_type, length);
        let head = |range: &ByteRange| {
            let mut head = Vec::new();
            multipart.write_part_head(*range, &mut head);
            (head, *range)
        };
        let heads: Vec<_> = self.ranges.iter().map(head).collect();
        let mut end = Vec::new();
        multipart.write_end(&mut end);
        let parts: u64 = heads.iter().map(|(head, range)| head.len() as u64 + range.len()).sum();
        let len = parts + end.len() as u64;
        Frames { heads, end, len }
    }

    fn multipart<'m>(&'m self, content_type: Option<&'m [u8]>, length: u64) -> Multipart<'m> {
        Multipart { boundary: &self.boundary, content_type, length }
    }
}
