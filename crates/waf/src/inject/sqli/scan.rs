//! Tokens of SQL, one after the other.
//!
//! The scanner takes what any database would take: strings of Oracle, comments of MySQL, words of
//! Microsoft's SQL Server. Never in here: which tokens may follow each other.

use super::token::{Token, kind};
use super::words;

/// The place in a statement that the text is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    /// Outside of a string.
    None,
    /// In a string with single quotes.
    Single,
    /// In a string with double quotes.
    Double,
}

/// The reading of comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `--` begins a comment, and `#` is an operator.
    Ansi,
    /// `--` begins a comment only before white space, and `#` begins one.
    MySql,
}

/// A text that becomes tokens.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    quote: Quote,
    dialect: Dialect,
    /// The number of tokens that have been found.
    pub(super) tokens: usize,
    /// Comments that MySQL and other databases read in different ways.
    ambiguous: usize,
    /// The end of the word around `at`, as far as it is known: a word that begins before it ends there.
    word_end: usize,
}

// === impl Scanner ===

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8], quote: Quote, dialect: Dialect) -> Self {
        Self { text, at: 0, quote, dialect, tokens: 0, ambiguous: 0, word_end: 0 }
    }

    /// Whether MySQL reads a comment in another way.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.ambiguous > 0
    }

    /// The next token; none at the end.
    pub(super) fn next(&mut self) -> Option<Token> {
        if self.at == 0 && self.quote != Quote::None && !self.text.is_empty() {
            let quote = if self.quote == Quote::Single { b'\'' } else { b'"' };
            self.tokens += 1;
            let mut token = self.string(0, quote);
            token.open = 0;
            return Some(token);
        }
        while let Some(&byte) = self.text.get(self.at) {
            if let Some(token) = self.token(byte) {
                self.tokens += 1;
                return Some(token);
            }
        }
        None
    }

    /// The bytes from the current one on.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes bytes as a token.
    pub(super) fn take(&mut self, kind: u8, len: usize) -> Token {
        let token = Token::new(kind, &self.rest()[..len]);
        self.at += len;
        token
    }

    /// The token that begins with a byte; none for white space.
    fn token(&mut self, byte: u8) -> Option<Token> {
        Some(match byte {
            0..=b' ' | 0x7f | 0xa0 => {
                self.at += 1;
                return None;
            }
            b'(' | b')' | b',' | b';' | b'{' | b'}' => self.take(byte, 1),
            b'%' | b'+' | b'^' | b'~' => self.take(kind::OPERATOR, 1),
            b'?' | b']' => self.take(kind::UNKNOWN, 1),
            b'!' | b'&' | b'*' | b':' | b'<'..=b'>' | b'|' => self.operator(),
            b'"' | b'\'' => self.string(1, byte),
            b'#' => self.hash(),
            b'-' => self.dash(),
            b'/' => self.slash(),
            b'$' => self.money(),
            b'.' | b'0'..=b'9' => return self.number(),
            b'@' => self.variable(),
            b'[' => self.bracket(),
            b'\\' => {
                let is_null = self.rest().get(1) == Some(&b'N');
                if is_null { self.take(kind::NUMBER, 2) } else { self.take(b'\\', 1) }
            }
            b'`' => self.tick(),
            b'b' | b'B' => self.digits_in_quotes(|byte| matches!(byte, b'0' | b'1')),
            b'x' | b'X' => self.digits_in_quotes(|byte| byte.is_ascii_hexdigit()),
            b'e' | b'E' => self.escaped_string(),
            b'n' | b'N' if self.is_quoted(1) => self.escaped_string(),
            b'n' | b'N' => self.oracle_string(1),
            b'q' | b'Q' => self.oracle_string(0),
            b'u' | b'U' => self.unicode_string(),
            _ => self.word(),
        })
    }

    /// Whether a single quote is at a distance from here, and something behind it.
    pub(super) fn is_quoted(&self, distance: usize) -> bool {
        let rest = self.rest();
        rest.len() > distance + 1 && rest[distance] == b'\''
    }

    fn operator(&mut self) -> Token {
        let rest = self.rest();
        if rest.starts_with(b"<=>") {
            return self.take(kind::OPERATOR, 3);
        }
        if let Some(kind) = rest.get(..2).and_then(words::kind_of) {
            return self.take(kind, 2);
        }
        let is_colon = rest[0] == b':' && rest.len() > 1;
        self.take(if is_colon { b':' } else { kind::OPERATOR }, 1)
    }

    fn hash(&mut self) -> Token {
        self.ambiguous += 1;
        match self.dialect {
            Dialect::MySql => self.line_comment(),
            Dialect::Ansi => self.take(kind::OPERATOR, 1),
        }
    }

    fn dash(&mut self) -> Token {
        match self.rest() {
            [_, b'-'] => self.line_comment(),
            [_, b'-', next, ..] if is_white(*next) => self.line_comment(),
            [_, b'-', ..] if self.dialect == Dialect::Ansi => {
                self.ambiguous += 1;
                self.line_comment()
            }
            _ => self.take(kind::OPERATOR, 1),
        }
    }

    fn line_comment(&mut self) -> Token {
        let rest = self.rest();
        let len = memchr::memchr(b'\n', rest);
        let token = self.take(kind::COMMENT, len.unwrap_or(rest.len()));
        self.at += usize::from(len.is_some());
        token
    }

    /// Comments within comments, which databases read in different ways, and MySQL's conditional comments
    /// are signs of an attack by themselves.
    fn slash(&mut self) -> Token {
        let rest = self.rest();
        if !rest.starts_with(b"/*") {
            return self.take(kind::OPERATOR, 1);
        }
        let inner = &rest[2..];
        let end = memchr::memmem::find(inner, b"*/");
        let is_nested = end.is_some_and(|end| memchr::memmem::find(&inner[..=end], b"/*").is_some());
        let is_conditional = inner.first() == Some(&b'!');
        let kind = if is_nested || is_conditional { kind::EVIL } else { kind::COMMENT };
        self.take(kind, end.map_or(rest.len(), |end| 2 + end + 2))
    }

    /// A number; none for one with an exponent that has no digits, which MySQL passes over.
    fn number(&mut self) -> Option<Token> {
        let rest = self.rest();
        let count = |from: usize, is_digit: fn(&u8) -> bool| {
            rest.get(from..).unwrap_or_default().iter().take_while(|byte| is_digit(byte)).count()
        };
        let based: Option<fn(&u8) -> bool> = match rest {
            [b'0', b'x' | b'X', ..] => Some(u8::is_ascii_hexdigit),
            [b'0', b'b' | b'B', ..] => Some(|byte| matches!(byte, b'0' | b'1')),
            _ => None,
        };
        if let Some(is_digit) = based {
            let digits = count(2, is_digit);
            return Some(self.take(if digits == 0 { kind::BARE_WORD } else { kind::NUMBER }, 2 + digits));
        }
        let mut len = count(0, u8::is_ascii_digit);
        if rest.get(len) == Some(&b'.') {
            len += 1;
            len += count(len, u8::is_ascii_digit);
            if len == 1 {
                return Some(self.take(b'.', 1));
            }
        }
        let mut is_number = true;
        if matches!(rest.get(len), Some(b'e' | b'E')) {
            len += 1;
            len += usize::from(matches!(rest.get(len), Some(b'+' | b'-')));
            let digits = count(len, u8::is_ascii_digit);
            len += digits;
            is_number = digits > 0;
        }
        // Oracle's suffixes of a float and a double.
        if matches!(rest.get(len), Some(b'd' | b'D' | b'f' | b'F')) {
            let next = rest.get(len + 1).copied();
            len += usize::from(next.is_none_or(|next| is_white(next) || matches!(next, b';' | b'u' | b'U')));
        }
        let token = self.take(kind::NUMBER, len);
        is_number.then_some(token)
    }

    fn variable(&mut self) -> Token {
        let ats = if self.rest().get(1) == Some(&b'@') { 2 } else { 1 };
        self.at += usize::from(ats);
        let mut token = match self.rest().first() {
            Some(b'`') => self.tick(),
            Some(&quote @ (b'\'' | b'"')) => self.string(1, quote),
            _ => {
                let len = self.rest().iter().take_while(|byte| !ends_variable(**byte)).count();
                self.take(kind::VARIABLE, len)
            }
        };
        token.kind = kind::VARIABLE;
        token.ats = ats;
        token
    }

    pub(super) fn word(&mut self) -> Token {
        if self.word_end <= self.at {
            let len = self.rest().iter().take_while(|&&byte| !ENDS_WORD[usize::from(byte)]).count();
            self.word_end = self.at + len;
        }
        let len = self.word_end - self.at;
        let mut token = Token::new(kind::BARE_WORD, &self.text[self.at..self.word_end]);
        // A word that SQL knows ends before a point or a backtick: `SELECT.1`, `SELECT`column``.
        let value = token.value();
        for end in memchr::memchr2_iter(b'.', b'`', value) {
            let known = words::kind_of(&value[..end]).filter(|kind| *kind != kind::BARE_WORD);
            if let Some(kind) = known {
                return self.take(kind, end);
            }
        }
        if len == value.len() {
            token.kind = words::kind_of(value).unwrap_or(kind::BARE_WORD);
        }
        self.at = self.word_end;
        token
    }
}

/// White space as libinjection has it: with NUL and the no-break space of ISO 8859-1.
fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0 | 0xa0)
}

/// For each byte whether it ends a word.
const ENDS_WORD: [bool; 256] = table(b"\t\n\x0b\x0c\r\0\xa0 []{}<>:\\?=@!#~+-*/&|^%(),';\"");

const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut index = 0;
    while index < bytes.len() {
        table[bytes[index] as usize] = true;
        index += 1;
    }
    table
}

fn ends_variable(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r') || b" <>:\\?=@!#~+-*/&|^%(),';`\"".contains(&byte)
}
