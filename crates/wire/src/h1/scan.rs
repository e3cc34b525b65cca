//! One pass over a head, from bytes to positions. Everything that RFC 9112 says of single bytes is checked on the way.
//!
//! Never in here: what a field means.

use std::ops::Range;

use super::malformed::Malformed;
use super::version::Version;
use crate::block::{ends_target, is_control, is_no_plain_name, is_not_visible, position};
use crate::field::{Field, Known};

/// Reads a head from its front. The buffer may end in the middle of it.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Why a scan did not come to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The buffer ends before what is read does.
    Incomplete,
    /// More bytes would not help.
    Malformed(Malformed),
}

type Scanned<T> = Result<T, Stop>;

impl From<Malformed> for Stop {
    fn from(fault: Malformed) -> Self {
        Self::Malformed(fault)
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next byte is.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Passes over empty lines in front of a message (RFC 9112 section 2.2).
    pub(super) fn skip_empty_lines(&mut self) -> Scanned<()> {
        while matches!(self.peek()?, b'\r' | b'\n') {
            self.line_end(Malformed::StartLine)?;
        }
        Ok(())
    }

    /// The method, and the space behind it.
    pub(super) fn method(&mut self) -> Scanned<Range<usize>> {
        self.up_to_space(self.at..self.token_end(self.at))
    }

    /// The target, and the space behind it: visible ASCII and UTF-8 (RFC 9112 section 3.2 allows ASCII only; nginx passes on both). A
    /// fragment is cut off, as it is in HTTP/2: no target has one, and readers differ about where the path ends then.
    pub(super) fn target(&mut self) -> Scanned<Range<usize>> {
        let end = position(self.bytes, self.at, ends_target);
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

    /// `HTTP/1.0` or `HTTP/1.1`.
    pub(super) fn version(&mut self) -> Scanned<Version> {
        let rest = &self.bytes[self.at..];
        let version = match rest.first_chunk() {
            Some(b"HTTP/1.1") => Version::Http11,
            Some(b"HTTP/1.0") => Version::Http10,
            None if b"HTTP/1.".starts_with(rest) => return Err(Stop::Incomplete),
            _ => return Err(Malformed::Version.into()),
        };
        self.at += b"HTTP/1.1".len();
        Ok(version)
    }

    /// A space, then three digits from 100 to 599.
    pub(super) fn status(&mut self) -> Scanned<u16> {
        if self.peek()? != b' ' {
            return Err(Malformed::Version.into());
        }
        self.at += 1;
        let mut status = 0;
        for _ in 0..3 {
            match self.peek()? {
                digit @ b'0'..=b'9' => status = status * 10 + u16::from(digit - b'0'),
                _ => return Err(Malformed::StartLine.into()),
            }
            self.at += 1;
        }
        if (100..600).contains(&status) { Ok(status) } else { Err(Malformed::StartLine.into()) }
    }

    /// The reason phrase with the space before it, both of which may be missing; then the line's end.
    pub(super) fn reason(&mut self) -> Scanned<Range<usize>> {
        let mut reason = self.at..self.at;
        if self.peek()? == b' ' {
            reason.start += 1;
            reason.end = position(self.bytes, reason.start, is_control);
            self.at = reason.end;
        }
        self.line_end(Malformed::StartLine)?;
        Ok(reason)
    }

    /// CRLF. Two readers may differ about a bare LF, so that it must not pass (RFC 9112 section 2.2 leaves the choice).
    pub(super) fn line_end(&mut self, otherwise: Malformed) -> Scanned<()> {
        match self.bytes[self.at..] {
            [b'\r', b'\n', ..] => {
                self.at += 2;
                Ok(())
            }
            [] | [b'\r'] => Err(Stop::Incomplete),
            [b'\n', ..] => Err(Malformed::BareLineFeed.into()),
            _ => Err(otherwise.into()),
        }
    }

    /// The next field with its line's end, or `None` with the empty line that ends the head.
    #[inline]
    pub(super) fn field(&mut self) -> Scanned<Option<Field>> {
        let start = self.at;
        if matches!(self.peek()?, b'\r' | b'\n') {
            return self.line_end(Malformed::StartLine).map(|()| None);
        }
        let plain_end = position(self.bytes, start, is_no_plain_name);
        let (name_end, plain_name) = match self.bytes.get(plain_end) {
            Some(b':') if plain_end > start => (plain_end, true),
            _ => (self.special_name_end(start, plain_end)?, false),
        };
        let colon_end = name_end + 1;
        self.at = position(self.bytes, colon_end, is_control);
        let (value_start, value_end) = self.without_space(colon_end, self.at);
        self.line_end(Malformed::FieldValue)?;
        let name = &self.bytes[start..name_end];
        Ok(Some(Field {
            start: start as u32,
            end: self.at as u32,
            name_len: u16::try_from(name.len()).map_err(|_| Malformed::HeadTooLarge)?,
            known: Known::of(name),
            plain_name,
            value_start: value_start as u32,
            value_end: value_end as u32,
        }))
    }

    /// Where a name ends that has other bytes than letters, digits and dashes, of which `plain_end` is the first.
    #[cold]
    #[inline(never)]
    fn special_name_end(&self, start: usize, plain_end: usize) -> Scanned<usize> {
        let end = self.token_end(plain_end);
        match self.bytes.get(end) {
            None => Err(Stop::Incomplete),
            Some(b':') if end > start => Ok(end),
            Some(_) => Err(name_fault(&self.bytes[start..]).into()),
        }
    }

    /// Where the token ends of which `from` is a part (RFC 9110 section 5.6.2).
    fn token_end(&self, from: usize) -> usize {
        let is_token = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-' || is_special(*b);
        from + self.bytes[from..].iter().take_while(|b| is_token(b)).count()
    }

    /// A value without the white space around it (RFC 9110 section 5.5); an empty one stands right behind the colon.
    #[inline]
    fn without_space(&self, start: usize, end: usize) -> (usize, usize) {
        let value = &self.bytes[start..end];
        match (value, value.last()) {
            // Of what a value may hold, only white space is not above it.
            ([b' ', first, ..], Some(last)) if *first > b' ' && *last > b' ' => (start + 1, end),
            _ => self.trimmed(start, end),
        }
    }

    #[cold]
    #[inline(never)]
    fn trimmed(&self, start: usize, end: usize) -> (usize, usize) {
        let value = &self.bytes[start..end];
        let leading = value.iter().take_while(|&&b| is_space(b)).count();
        let trailing = value[leading..].iter().rev().take_while(|&&b| is_space(b)).count();
        if leading == value.len() { (start, start) } else { (start + leading, end - trailing) }
    }

    fn peek(&self) -> Scanned<u8> {
        self.bytes.get(self.at).copied().ok_or(Stop::Incomplete)
    }

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

/// Bytes of a token that are no letter, digit or dash.
fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
    )
}

/// Which fault there is where no name and colon are. A line without a colon may be folded before it, which only the next line shows.
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
