//! Scanner of heads: one pass from bytes to positions, which checks all that RFC 9112 requires of single
//! bytes.
//!
//! Never in here: the meaning of a field.

use std::ops::Range;

use super::malformed::Malformed;
use super::version::Version;
use crate::block::{
    ends_plain_target, ends_target, is_control, is_no_plain_name, is_no_plain_text, is_not_visible, position,
};
use crate::field::{Field, Known};

/// Reads a head from the front of a buffer, which may hold only part of it.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The reason why a scan did not reach the end of the head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The buffer ends first: more bytes may complete the head.
    Incomplete,
    /// The head is malformed, whatever bytes follow.
    Malformed(Malformed),
}

type Scanned<T> = Result<T, Stop>;

/// Positions in the line of a field.
struct Line {
    name_end: usize,
    plain_name: bool,
    value_start: usize,
    value_end: usize,
    /// Byte after the line's CRLF.
    end: usize,
}

impl From<Malformed> for Stop {
    fn from(fault: Malformed) -> Self {
        Self::Malformed(fault)
    }
}

impl From<Stop> for Malformed {
    /// The fault of a line that is whole.
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Incomplete => Self::StartLine,
            Stop::Malformed(fault) => fault,
        }
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Skips empty lines before a message (RFC 9112 section 2.2).
    pub(super) fn skip_empty_lines(&mut self) -> Scanned<()> {
        while matches!(self.peek()?, b'\r' | b'\n') {
            self.line_end(Malformed::StartLine)?;
        }
        Ok(())
    }

    /// The method, and the space after it.
    #[inline]
    pub(super) fn method(&mut self) -> Scanned<Range<usize>> {
        let plain_end = position(self.bytes, self.at, is_no_plain_name);
        let end = if self.has_at(plain_end, b" ") { plain_end } else { self.token_end(plain_end) };
        self.up_to_space(self.at..end)
    }

    /// The target, and the space after it: visible ASCII and UTF-8 (RFC 9112 section 3.2 allows ASCII only;
    /// nginx forwards both). A fragment is cut off, as in HTTP/2: a target must not have one, and parsers
    /// disagree about whether it belongs to the path.
    #[inline]
    pub(super) fn target(&mut self) -> Scanned<Range<usize>> {
        let plain_end = position(self.bytes, self.at, ends_plain_target);
        if self.has_at(plain_end, b" ") {
            return self.up_to_space(self.at..plain_end);
        }
        self.special_target(plain_end)
    }

    /// Reads a target as [`target`](Self::target) does, with a fragment or bytes other than visible ASCII,
    /// the first of which is at `plain_end`.
    #[cold]
    #[inline(never)]
    fn special_target(&mut self, plain_end: usize) -> Scanned<Range<usize>> {
        let end = position(self.bytes, plain_end, ends_target);
        let word_end = match self.bytes.get(end) {
            Some(b'#') => position(self.bytes, end, is_not_visible),
            _ => end,
        };
        let word = self.up_to_space(self.at..word_end)?;
        let text = &self.bytes[word.clone()];
        if text.is_ascii() || std::str::from_utf8(text).is_ok() {
            Ok(word.start..end)
        } else {
            Err(Malformed::StartLine.into())
        }
    }

    /// The version, `HTTP/1.0` or `HTTP/1.1`.
    #[inline]
    pub(super) fn version(&mut self) -> Scanned<Version> {
        // Each is one comparison of a word; a `match` on both texts compiles to comparisons of single bytes.
        let version = if self.has_at(self.at, b"HTTP/1.1") {
            Version::Http11
        } else if self.has_at(self.at, b"HTTP/1.0") {
            Version::Http10
        } else {
            let is_begun = b"HTTP/1.".starts_with(&self.bytes[self.at..]);
            return Err(if is_begun { Stop::Incomplete } else { Malformed::Version.into() });
        };
        self.at += b"HTTP/1.1".len();
        Ok(version)
    }

    /// The status: a space, followed by three digits from 100 to 599.
    #[inline]
    pub(super) fn status(&mut self) -> Scanned<u16> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some([b' ', class @ b'1'..=b'5', tens @ b'0'..=b'9', ones @ b'0'..=b'9']) = rest.first_chunk()
        else {
            return Err(status_fault(rest));
        };
        self.at += 4;
        let digit = |byte: u8| u16::from(byte - b'0');
        Ok(digit(*class) * 100 + digit(*tens) * 10 + digit(*ones))
    }

    /// The reason phrase with the space before it, both of which are optional, and the line's end.
    #[inline]
    pub(super) fn reason(&mut self) -> Scanned<Range<usize>> {
        let mut reason = self.at..self.at;
        if self.peek()? == b' ' {
            reason.start += 1;
            reason.end = position(self.bytes, reason.start, is_no_plain_text);
            if !self.has_at(reason.end, b"\r\n") {
                reason.end = position(self.bytes, reason.end, is_control);
            }
            self.at = reason.end;
        }
        self.line_end(Malformed::StartLine)?;
        Ok(reason)
    }

    /// The end of a line, CRLF. A bare LF is refused, because parsers disagree about whether it ends a line
    /// (RFC 9112 section 2.2 leaves the choice).
    #[inline]
    pub(super) fn line_end(&mut self, otherwise: Malformed) -> Scanned<()> {
        if !self.has_at(self.at, b"\r\n") {
            return Err(self.line_end_fault(self.at, otherwise));
        }
        self.at += 2;
        Ok(())
    }

    /// The fault at an offset that has no CRLF.
    #[cold]
    fn line_end_fault(&self, at: usize, otherwise: Malformed) -> Stop {
        match self.bytes.get(at..).unwrap_or_default() {
            [] | [b'\r'] => Stop::Incomplete,
            [b'\n', ..] => Malformed::BareLineFeed.into(),
            _ => otherwise.into(),
        }
    }

    /// Passes each field to `each`, up to the empty line that ends the head.
    #[inline]
    pub(super) fn fields(&mut self, mut each: impl FnMut(Field) -> Result<(), Malformed>) -> Scanned<()> {
        // A local, because `self.at` would be loaded and stored for each field.
        let mut start = self.at;
        loop {
            let line = match self.plain_line(start) {
                Some(line) => line,
                None if self.has_at(start, b"\r\n") => break,
                None => self.special_line(start)?,
            };
            let name = &self.bytes[start..line.name_end];
            each(Field {
                start: start as u32,
                end: line.end as u32,
                name_len: u16::try_from(name.len()).map_err(|_| Malformed::HeadTooLarge)?,
                known: Known::of(name),
                plain_name: line.plain_name,
                value_start: line.value_start as u32,
                value_end: line.value_end as u32,
            })?;
            start = line.end;
        }
        self.at = start + 2;
        Ok(())
    }

    /// The field at an offset if it is plain, as nearly all are: a name of letters, digits and dashes, one
    /// space, and a value of printable ASCII. None for anything else, which
    /// [`special_line`](Self::special_line) reads or refuses.
    #[expect(clippy::inline_always, reason = "what is returned in memory costs a third more instructions")]
    #[inline(always)]
    fn plain_line(&self, start: usize) -> Option<Line> {
        let name_end = position(self.bytes, start, is_no_plain_name);
        let [b':', b' ', first, ..] = self.bytes.get(name_end..)? else { return None };
        let value_start = name_end + 2;
        let value_end = position(self.bytes, value_start, is_no_plain_text);
        let [last, b'\r', b'\n', ..] = self.bytes.get(value_end - 1..)? else { return None };
        let is_plain = name_end > start && *first != b' ' && *last != b' ';
        is_plain.then_some(Line { name_end, plain_name: true, value_start, value_end, end: value_end + 2 })
    }

    /// The field at an offset in any form that RFC 9112 allows, or its fault.
    #[cold]
    #[inline(never)]
    fn special_line(&self, start: usize) -> Scanned<Line> {
        if matches!(self.bytes.get(start), None | Some(b'\r' | b'\n')) {
            return Err(self.line_end_fault(start, Malformed::StartLine));
        }
        let plain_end = position(self.bytes, start, is_no_plain_name);
        let (name_end, plain_name) = match self.bytes.get(plain_end) {
            Some(b':') if plain_end > start => (plain_end, true),
            _ => (self.special_name_end(start, plain_end)?, false),
        };
        let colon_end = name_end + 1;
        let text_end = position(self.bytes, colon_end, is_control);
        if !self.has_at(text_end, b"\r\n") {
            return Err(self.line_end_fault(text_end, Malformed::FieldValue));
        }
        let (value_start, value_end) = self.trimmed(colon_end, text_end);
        Ok(Line { name_end, plain_name, value_start, value_end, end: text_end + 2 })
    }

    /// The end of a name with bytes other than letters, digits and dashes, the first of which is at
    /// `plain_end`.
    fn special_name_end(&self, start: usize, plain_end: usize) -> Scanned<usize> {
        let end = self.token_end(plain_end);
        match self.bytes.get(end) {
            None => Err(Stop::Incomplete),
            Some(b':') if end > start => Ok(end),
            Some(_) => Err(name_fault(&self.bytes[start..]).into()),
        }
    }

    /// The end of the token (RFC 9110 section 5.6.2) that continues at `from`.
    fn token_end(&self, from: usize) -> usize {
        let is_token = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-' || is_special(*b);
        from + self.bytes[from..].iter().take_while(|b| is_token(b)).count()
    }

    /// Trims white space from both ends of a value (RFC 9110 section 5.5). An empty value is placed right
    /// after the colon.
    fn trimmed(&self, start: usize, end: usize) -> (usize, usize) {
        let value = &self.bytes[start..end];
        let leading = value.iter().take_while(|&&b| is_space(b)).count();
        let trailing = value[leading..].iter().rev().take_while(|&&b| is_space(b)).count();
        if leading == value.len() { (start, start) } else { (start + leading, end - trailing) }
    }

    /// Whether the buffer has these bytes at an offset.
    #[inline]
    fn has_at<const LEN: usize>(&self, at: usize, bytes: &[u8; LEN]) -> bool {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk) == Some(bytes)
    }

    #[inline]
    fn peek(&self) -> Scanned<u8> {
        self.bytes.get(self.at).copied().ok_or(Stop::Incomplete)
    }

    #[inline]
    fn up_to_space(&mut self, word: Range<usize>) -> Scanned<Range<usize>> {
        match self.bytes.get(word.end) {
            None => Err(Stop::Incomplete),
            Some(b' ') if !word.is_empty() => {
                self.at = word.end + 1;
                Ok(word)
            }
            Some(_) => Err(Malformed::StartLine.into()),
        }
    }
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether a byte belongs to tokens and is no letter, digit or dash.
fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
    )
}

/// The fault of bytes that do not begin with a space and a status.
#[cold]
fn status_fault(bytes: &[u8]) -> Stop {
    let digits = match bytes {
        [] => return Stop::Incomplete,
        [b' ', digits @ ..] => &digits[..digits.len().min(3)],
        _ => return Malformed::Version.into(),
    };
    let may_follow = digits.len() < 3 && digits.iter().all(u8::is_ascii_digit);
    if may_follow { Stop::Incomplete } else { Malformed::StartLine.into() }
}

/// The fault of a line that does not begin with a name and a colon. Searches the lines after it too: a line
/// without a colon may be followed by a folded one, which is then the fault.
#[cold]
fn name_fault(lines: &[u8]) -> Malformed {
    for line in lines.split(|&b| b == b'\n') {
        if line.first().is_some_and(|&b| is_space(b)) {
            return Malformed::ObsoleteFold;
        }
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        if name.len() < line.len() && name.last().is_some_and(|&b| is_space(b)) {
            return Malformed::SpaceBeforeColon;
        }
    }
    Malformed::FieldName
}

#[cfg(test)]
mod tests;
