//! Conditional requests (RFC 9110 section 13): of clients to stored responses, and of a cache to an endpoint.

use super::freshness::date_of;
use super::head::Head;
use super::syntax::elements;
use crate::date;

/// Names of the fields that make a request conditional, in lower case. A cache that sends its own request
/// leaves out those of its client.
pub const FIELDS: [&str; 5] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"];

/// Least number of seconds between `Last-Modified` and the later `Date`, from which the former distinguishes
/// all states (RFC 9110 section 8.8.2.2).
const STRONG_DATE_SECONDS: u64 = 1;

/// The validators of a response or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// The unchanged `ETag`.
    pub etag: Option<Box<[u8]>>,
    /// The unchanged `Last-Modified`.
    pub modified_text: Option<Box<[u8]>>,
    /// `Last-Modified`, in seconds since 1970.
    pub modified: Option<u64>,
    /// `Date`, or the time of arrival.
    pub date: u64,
}

/// The result of a conditional request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client gets the representation.
    Proceed,
    /// The client gets a 304.
    NotModified,
    /// The client gets a 412.
    PreconditionFailed,
}

impl Validators {
    /// The validators of a response that arrived at `now`.
    pub fn of(response: Head<'_>, now: u64) -> Self {
        let modified = date_of(response, b"last-modified", now);
        Self {
            etag: response.value(b"etag").filter(|tag| !tag.is_empty()).map(Box::from),
            modified_text: modified.and(response.value(b"last-modified")).map(Box::from),
            modified,
            date: date_of(response, b"date", now).unwrap_or(now),
        }
    }

    /// Whether the response cannot be validated at an endpoint.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.modified_text.is_none()
    }

    /// Appends the lines with which a cache validates its response (RFC 9111 section 4.3.1): both validators,
    /// unchanged.
    pub fn write_conditions(&self, out: &mut Vec<u8>) {
        let lines = [(&b"If-None-Match: "[..], &self.etag), (b"If-Modified-Since: ", &self.modified_text)];
        for (name, value) in lines {
            if let Some(value) = value {
                out.extend(name);
                out.extend(value.iter());
                out.extend(b"\r\n");
            }
        }
    }

    /// Evaluates a client's conditions for a stored response (RFC 9111 section 4.3.2): `If-None-Match`, and
    /// only without it `If-Modified-Since`. A cache ignores the conditions for the origin, `If-Match` and
    /// `If-Unmodified-Since` (RFC 9110 section 13.2.1). For GET and HEAD only.
    pub fn evaluate_stored(&self, request: Head<'_>, now: u64) -> Outcome {
        let not_modified = if request.has(b"if-none-match") {
            self.none_match_fails(request)
        } else {
            // Section 4.3.2: without a `Last-Modified`, the time of sending counts as the time of the last
            // change.
            let modified = self.modified.unwrap_or(self.date);
            let mut since = request.values(b"if-modified-since");
            since.next().filter(|_| since.next().is_none()).and_then(|since| date::parse(since, now))
                >= Some(modified)
        };
        if not_modified { Outcome::NotModified } else { Outcome::Proceed }
    }

    /// Evaluates all conditions in their order (RFC 9110 section 13.2.2), as the owner of the resource does.
    /// `is_read` means that the method is GET or HEAD.
    pub fn evaluate(&self, request: Head<'_>, is_read: bool, now: u64) -> Outcome {
        let date = |name: &[u8]| date_of(request, name, now);
        let passes = if request.has(b"if-match") {
            self.is_in_list(request, b"if-match", |ours, theirs| is_strong(ours) && ours == theirs)
        } else {
            // A date that cannot be parsed is no condition (section 13.1.4).
            date(b"if-unmodified-since").zip(self.modified).is_none_or(|(since, modified)| modified <= since)
        };
        if !passes {
            return Outcome::PreconditionFailed;
        }
        if request.has(b"if-none-match") {
            return match self.none_match_fails(request) {
                true if is_read => Outcome::NotModified,
                true => Outcome::PreconditionFailed,
                false => Outcome::Proceed,
            };
        }
        let unmodified = date(b"if-modified-since").zip(self.modified).is_some_and(|(since, at)| at <= since);
        if is_read && unmodified { Outcome::NotModified } else { Outcome::Proceed }
    }

    /// Whether the `Range` of a request applies (RFC 9110 section 13.1.5): `If-Range` is missing, or names
    /// exactly this state. Weak tags and ambiguous dates do not apply.
    pub fn range_applies(&self, request: Head<'_>, now: u64) -> bool {
        let mut lines = request.values(b"if-range");
        let Some(value) = lines.next() else { return true };
        if lines.next().is_some() {
            return false;
        }
        if value.starts_with(b"\"") || value.starts_with(b"W/") {
            return is_strong(value) && self.etag.as_deref() == Some(value);
        }
        let Some(modified) = self.modified else { return false };
        date::parse(value, now) == Some(modified) && modified + STRONG_DATE_SECONDS <= self.date
    }

    /// Whether `If-None-Match` contains the present tag, by the weak comparison (section 13.1.2).
    fn none_match_fails(&self, request: Head<'_>) -> bool {
        self.is_in_list(request, b"if-none-match", |ours, theirs| opaque(ours) == opaque(theirs))
    }

    fn is_in_list(&self, request: Head<'_>, name: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        request.values(name).any(|line| line == b"*")
            || self
                .etag
                .as_deref()
                .is_some_and(|ours| request.values(name).flat_map(elements).any(|theirs| same(ours, theirs)))
    }
}

/// Whether a tag is strong (section 8.8.3).
fn is_strong(tag: &[u8]) -> bool {
    tag.starts_with(b"\"")
}

/// A tag without its mark for a weak tag.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}
