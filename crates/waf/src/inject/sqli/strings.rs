//! The many forms of strings, and of names in quotes.

use memchr::{memchr, memchr_iter, memmem};

use super::scan::Scanner;
use super::token::{Token, kind};
use super::words;

// === impl Scanner ===

impl Scanner<'_> {
    /// A string whose quote ends `skipped` bytes from here. Its end is the first quote that neither a
    /// backslash nor another quote escapes.
    pub(super) fn string(&mut self, skipped: usize, quote: u8) -> Token {
        let begin = (self.at + skipped).min(self.text.len());
        let inner = &self.text[begin..];
        let mut end = None;
        // A quote that is the second one of a pair.
        let mut second = usize::MAX;
        for at in memchr_iter(quote, inner) {
            if at == second {
                continue;
            }
            let backslashes = inner[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            if backslashes % 2 == 1 {
                continue;
            }
            if inner.get(at + 1) == Some(&quote) {
                second = at + 1;
                continue;
            }
            end = Some(at);
            break;
        }
        self.quoted(begin, end, 1, quote)
    }

    /// A string from `begin` on. Behind it are `closing` bytes; without an end, it goes on to the text's
    /// end.
    fn quoted(&mut self, begin: usize, end: Option<usize>, closing: usize, quote: u8) -> Token {
        let inner = &self.text[begin..];
        let mut token = Token::new(kind::STRING, &inner[..end.unwrap_or(inner.len())]);
        token.open = quote;
        token.close = if end.is_some() { quote } else { 0 };
        self.at = end.map_or(self.text.len(), |end| begin + end + closing);
        token
    }

    /// A name in MySQL's backticks, which may be a function's.
    pub(super) fn tick(&mut self) -> Token {
        let mut token = self.string(1, b'`');
        let is_function = words::kind_of(token.value()) == Some(kind::FUNCTION);
        token.kind = if is_function { kind::FUNCTION } else { kind::BARE_WORD };
        token
    }

    /// A name in the brackets of SQL Server.
    pub(super) fn bracket(&mut self) -> Token {
        let rest = self.rest();
        let len = memchr(b']', rest).map_or(rest.len(), |end| end + 1);
        self.take(kind::BARE_WORD, len)
    }

    /// PostgreSQL's `E'...'` and MySQL's `N'...'`.
    pub(super) fn escaped_string(&mut self) -> Token {
        if self.is_quoted(1) { self.string(2, b'\'') } else { self.word() }
    }

    /// `U&'...'` of the standard.
    pub(super) fn unicode_string(&mut self) -> Token {
        if self.rest().get(1) != Some(&b'&') || self.rest().get(2) != Some(&b'\'') {
            return self.word();
        }
        let mut token = self.string(3, b'\'');
        token.open = b'u';
        if token.close == b'\'' {
            token.close = b'u';
        }
        token
    }

    /// `X'...'` and `B'...'` with digits alone.
    pub(super) fn digits_in_quotes(&mut self, is_digit: fn(u8) -> bool) -> Token {
        if self.is_quoted(1) {
            let digits = self.rest()[2..].iter().take_while(|byte| is_digit(**byte)).count();
            if self.rest().get(2 + digits) == Some(&b'\'') {
                return self.take(kind::NUMBER, digits + 3);
            }
        }
        self.word()
    }

    /// Oracle's `q'[...]'`, after so many bytes.
    pub(super) fn oracle_string(&mut self, skipped: usize) -> Token {
        let rest = self.rest().get(skipped..).unwrap_or_default();
        let [b'q' | b'Q', b'\'', delimiter @ b'!'..=0x7f, inner @ ..] = rest else { return self.word() };
        let closing = match delimiter {
            b'(' => b')',
            b'[' => b']',
            b'{' => b'}',
            b'<' => b'>',
            other => *other,
        };
        let end = memmem::find(inner, &[closing, b'\'']);
        let begin = self.text.len() - inner.len();
        self.quoted(begin, end, 2, b'q')
    }

    /// Sums such as `$1,000.00`, and PostgreSQL's `$$...$$` and `$name$...$name$`.
    pub(super) fn money(&mut self) -> Token {
        let rest = self.rest();
        let after = &rest[1..];
        let digits = after.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.' | b',')).count();
        if digits == 1 && after[0] == b'.' {
            return self.word();
        }
        if digits > 0 {
            return self.take(kind::NUMBER, 1 + digits);
        }
        let name = after.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if after.get(name) != Some(&b'$') {
            return self.take(kind::BARE_WORD, 1);
        }
        let tag = &rest[..name + 2];
        let begin = self.at + tag.len();
        self.quoted(begin, memmem::find(&rest[tag.len()..], tag), tag.len(), b'$')
    }
}
