//! Request heads (RFC 9112 section 3).

use std::ops::Range;

use super::head::Fields;
use super::malformed::Malformed;
use super::scan::{Scanner, Stop};
use super::version::Version;
use crate::field::Known;
use crate::host;

/// The longest request head, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Bound of the request line, and of each other line.
    pub line_bytes_max: usize,
    /// Bound of the whole head.
    pub head_bytes_max: usize,
}

/// A request head: positions in the buffer that it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Length of the head, including the empty line.
    pub len: usize,
    /// Position of the first byte; empty lines before the request line are skipped (RFC 9112 section 2.2).
    pub start: usize,
    /// Position of the method.
    pub method: Range<usize>,
    /// Position of the target.
    pub target: Range<usize>,
    /// Form of the target.
    pub form: TargetForm,
    /// The version in the request line.
    pub version: Version,
    /// Position of the host of the request; empty if it names none.
    pub host: Range<usize>,
    /// Whether the client waits for a 100 (`Expect: 100-continue`).
    pub expects_continue: bool,
    /// Fields of the head.
    pub fields: Fields,
}

/// Forms of a request target (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// The origin form, `/path?query`.
    #[default]
    Origin,
    /// The absolute form, `http://host/path`. The path begins at this offset in the buffer, which equals the
    /// target's end for an empty path.
    Absolute {
        /// Offset of the path.
        path: usize,
    },
    /// The authority form, `host:port`, for CONNECT.
    Authority,
    /// The asterisk form, `*`, for OPTIONS.
    Asterisk,
}

impl Request {
    /// Whether the client keeps the connection open for further requests (RFC 9112 section 9.3).
    pub fn is_persistent(&self) -> bool {
        !self.fields.close && (self.version == Version::Http11 || self.fields.keep_alive)
    }

    /// The target in origin form: path and query.
    pub fn origin_target<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        match self.form {
            TargetForm::Absolute { path } if path == self.target.end => b"/",
            TargetForm::Absolute { path } => &head[path..self.target.end],
            _ => &head[self.target.clone()],
        }
    }

    /// Whether the request asks for another protocol (RFC 9110 section 7.8) and may switch to it. `Upgrade`
    /// on a request with a body is ignored: the other protocol could not begin before the body has ended.
    pub fn is_upgrade(&self) -> bool {
        self.version == Version::Http11
            && self.fields.upgrade
            && !self.has_body()
            && self.fields.find(Known::Upgrade).is_some()
    }

    /// Whether a body follows (RFC 9112 section 6.3).
    pub fn has_body(&self) -> bool {
        self.fields.chunked || self.fields.content_length.is_some_and(|length| length > 0)
    }
}

/// Position in a head where the target lacks a slash between host and query. `http://host?query` is valid and
/// has the origin form `/?query` (RFC 9112 section 3.2.1), which is a part of the head only once the slash is
/// inserted.
pub fn missing_slash(head: &[u8]) -> Option<usize> {
    let start = head.iter().take_while(|b| b"\r\n".contains(b)).count();
    let target_start = start + memchr::memchr(b' ', &head[start..])? + 1;
    let host_start = target_start + scheme_len(&head[target_start..])?;
    let ends = |b: &u8| *b <= b' ' || b"/?#".contains(b);
    let host_len = head[host_start..].iter().position(ends).filter(|&len| len > 0)?;
    let end = host_start + host_len;
    (head[end] == b'?').then_some(end)
}

/// Length of the scheme of a target in absolute form; none for other forms.
fn scheme_len(target: &[u8]) -> Option<usize> {
    let schemes = [&b"http://"[..], b"https://"];
    let begins =
        |scheme: &&&[u8]| target.len() > scheme.len() && target[..scheme.len()].eq_ignore_ascii_case(scheme);
    schemes.iter().find(begins).map(|scheme| scheme.len())
}

/// Reads a request head from the front of `bytes`; none if it is incomplete. The memory of `fields` is
/// reused.
///
/// # Errors
/// The head is malformed, whatever bytes follow.
pub fn parse_request(
    bytes: &[u8],
    limits: RequestLimits,
    fields: Fields,
) -> Result<Option<Request>, Malformed> {
    let mut request = Request { fields, ..Request::default() };
    Ok(request.parse(bytes, limits)?.then_some(request))
}

impl Request {
    /// Reads the request head at the front of `bytes` into `self`. Returns false if the head is incomplete;
    /// the contents of
    /// `self` are then unspecified.
    ///
    /// # Errors
    /// The head is malformed, whatever bytes follow.
    pub fn parse(&mut self, bytes: &[u8], limits: RequestLimits) -> Result<bool, Malformed> {
        self.fields.clear();
        let scanned = self.scan(bytes);
        let seen = if scanned.is_ok() { &bytes[..self.len] } else { bytes };
        if let Some(fault) = too_long(seen, self.start, limits) {
            return Err(fault);
        }
        match scanned {
            Ok(()) => self.finish(bytes).map(|()| true),
            Err(Stop::Incomplete) => Ok(false),
            Err(Stop::Malformed(fault)) => Err(fault),
        }
    }

    /// Fills in the positions.
    fn scan(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut scanner = Scanner::new(bytes);
        let found = scanner.skip_empty_lines();
        self.start = scanner.position();
        found?;
        self.scan_line(&mut scanner)?;
        self.fields.scan(&mut scanner, bytes)?;
        self.len = scanner.position();
        Ok(())
    }

    fn scan_line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Stop> {
        self.method = scanner.method()?;
        self.target = scanner.target()?;
        self.version = scanner.version()?;
        scanner.line_end(Malformed::StartLine)
    }

    /// Reads the request line at the front of a head whose fields come from elsewhere.
    pub(crate) fn read_line(&mut self, head: &[u8]) -> Result<(), Malformed> {
        self.start = 0;
        self.scan_line(&mut Scanner::new(head)).map_err(Malformed::from)
    }

    /// Checks the head once its line and its fields are known.
    pub(crate) fn settle(&mut self, head: &[u8], limits: RequestLimits) -> Result<(), Malformed> {
        self.len = head.len();
        too_long(head, 0, limits).map_or_else(|| self.finish(head), Err)
    }

    /// Determines form, host and expectation from the fields.
    fn finish(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.fields.check_framing(self.version)?;
        self.fields.drop_listed(bytes);
        let host_field =
            self.fields.find(Known::Host).map(|field| field.value_start as usize..field.value_end as usize);
        if self.fields.has_duplicate_host {
            return Err(Malformed::DuplicateHost);
        }
        if self.version == Version::Http11 && host_field.is_none() {
            return Err(Malformed::MissingHost);
        }
        if host_field.as_ref().is_some_and(|range| !host::is_valid_at(bytes, range.clone())) {
            return Err(Malformed::Host);
        }
        self.host = host_field.unwrap_or(0..0);
        self.settle_form(bytes)?;
        self.expects_continue = self.version == Version::Http11
            && match self.fields.find(Known::Expect) {
                None => false,
                Some(field) if field.value(bytes).eq_ignore_ascii_case(b"100-continue") => true,
                Some(_) => return Err(Malformed::Expect),
            };
        Ok(())
    }

    fn settle_form(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let target = &bytes[self.target.clone()];
        self.form = match (target, &bytes[self.method.clone()]) {
            (_, b"CONNECT") => TargetForm::Authority,
            ([b'/', ..], _) => TargetForm::Origin,
            (b"*", b"OPTIONS") => TargetForm::Asterisk,
            _ => return self.settle_absolute(bytes),
        };
        Ok(())
    }

    /// Applies the host of an absolute target, which replaces `Host` (RFC 9112 section 3.2.2).
    fn settle_absolute(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let target = &bytes[self.target.clone()];
        let scheme_len = scheme_len(target).ok_or(Malformed::StartLine)?;
        let rest = &target[scheme_len..];
        let authority_len = rest.iter().position(|b| b"/?#".contains(b)).unwrap_or(rest.len());
        let begin = self.target.start + scheme_len;
        self.host = begin..begin + authority_len;
        if authority_len == 0 || !host::is_valid_at(bytes, self.host.clone()) {
            return Err(Malformed::Host);
        }
        if rest.get(authority_len).is_some_and(|&b| b != b'/') {
            return Err(Malformed::Target);
        }
        self.form = TargetForm::Absolute { path: self.host.end };
        Ok(())
    }
}

/// The limit that the received part of a head exceeds; none within the limits.
fn too_long(bytes: &[u8], start: usize, limits: RequestLimits) -> Option<Malformed> {
    if bytes.len() <= limits.line_bytes_max {
        return None;
    }
    let line_len = memchr::memchr(b'\n', &bytes[start..]).unwrap_or(bytes.len() - start);
    if line_len > limits.line_bytes_max {
        return Some(Malformed::LineTooLong);
    }
    let longest = bytes[start..].split(|&b| b == b'\n').map(<[u8]>::len).max().unwrap_or(0);
    let head_is_too_long = bytes.len() > limits.head_bytes_max || longest > limits.line_bytes_max;
    head_is_too_long.then_some(Malformed::HeadTooLarge)
}

#[cfg(test)]
mod tests;
