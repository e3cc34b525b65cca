//! Tokens of HTML, as the tokenizer of the standard finds them (WHATWG HTML, section 13.2.5), with what old
//! browsers did besides: NUL bytes in names, backticks for quotes, comments in `<%...%>`.

use memchr::{memchr, memmem};

/// The place in a page that a text is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside of a tag.
    Data,
    /// In a tag, where an attribute begins.
    Attributes,
    /// In the value of an attribute, in these quotes.
    Value(u8),
}

/// The type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text between tags, and the content of CDATA.
    DataText,
    /// The name of a tag that begins.
    TagNameOpen,
    /// The end of a tag.
    TagNameClose,
    /// The end of a tag that has no content: `/>`.
    TagNameSelfClose,
    /// The name of a closing tag.
    TagClose,
    /// The name of an attribute.
    AttributeName,
    /// The value of an attribute.
    AttributeValue,
    /// A comment of any form.
    Comment,
    /// A document type.
    Doctype,
}

/// A token with its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a [u8],
}

/// The states between two tokens.
#[derive(Clone, Copy, Debug)]
enum State {
    Data,
    TagOpen,
    BeforeAttributeName,
    AfterAttributeName,
    BeforeAttributeValue,
    Value(u8),
    AfterValue,
    SelfClosing,
    TagEnd,
    End,
}

/// A text that becomes tokens.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    state: State,
    is_closing: bool,
}

/// The result of a step: a token, or another state without one.
type Step<'a> = Option<Token<'a>>;

// === impl Scanner ===

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8], place: Place) -> Self {
        let state = match place {
            Place::Data => State::Data,
            Place::Attributes => State::BeforeAttributeName,
            Place::Value(quote) => State::Value(quote),
        };
        Self { text, at: 0, state, is_closing: false }
    }

    /// The next token; none at the end.
    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let token = match self.state {
                State::End => return None,
                State::Data => self.data(),
                State::TagOpen => self.tag_open(),
                State::BeforeAttributeName => self.before_attribute_name(),
                State::AfterAttributeName => self.after_attribute_name(),
                State::BeforeAttributeValue => self.before_value(),
                State::Value(quote) => self.quoted_value(quote),
                State::AfterValue => self.after_value(),
                State::SelfClosing => self.self_closing(),
                State::TagEnd => self.tag_end(),
            };
            if token.is_some() {
                return token;
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// A token of so many bytes from here; the scanner goes on behind it and so many more bytes.
    #[expect(clippy::unnecessary_wraps, reason = "the form of all steps")]
    fn take(&mut self, kind: Kind, len: usize, skipped: usize, state: State) -> Step<'a> {
        let text = &self.rest()[..len];
        self.at += len + skipped;
        self.state = state;
        Some(Token { kind, text })
    }

    /// A token up to a mark, which is skipped; without one, all that is left.
    fn take_until(&mut self, kind: Kind, end: Option<usize>, mark_len: usize, state: State) -> Step<'a> {
        match end {
            Some(end) => self.take(kind, end, mark_len, state),
            None => self.take(kind, self.rest().len(), 0, State::End),
        }
    }

    fn go(&mut self, state: State) -> Step<'a> {
        self.state = state;
        None
    }

    fn data(&mut self) -> Step<'a> {
        let end = memchr(b'<', self.rest());
        let token = self.take_until(Kind::DataText, end, 1, State::TagOpen);
        token.filter(|token| !token.text.is_empty())
    }

    fn tag_open(&mut self) -> Step<'a> {
        let Some(&byte) = self.rest().first() else { return self.go(State::End) };
        match byte {
            b'!' => {
                self.at += 1;
                self.declaration()
            }
            b'/' => {
                self.at += 1;
                self.is_closing = true;
                self.end_tag_open()
            }
            b'?' => {
                self.at += 1;
                self.bogus_comment()
            }
            b'%' => {
                self.at += 1;
                let end = memmem::find(self.rest(), b"%>");
                self.take_until(Kind::Comment, end, 2, State::Data)
            }
            0 => self.tag_name(),
            _ if byte.is_ascii_alphabetic() => self.tag_name(),
            _ => {
                self.at -= 1;
                self.take(Kind::DataText, 1, 0, State::Data)
            }
        }
    }

    fn end_tag_open(&mut self) -> Step<'a> {
        match self.rest().first() {
            None => self.go(State::End),
            Some(b'>') => self.go(State::Data),
            Some(byte) if byte.is_ascii_alphabetic() => self.tag_name(),
            Some(_) => {
                self.is_closing = false;
                self.bogus_comment()
            }
        }
    }

    fn bogus_comment(&mut self) -> Step<'a> {
        let end = memchr(b'>', self.rest());
        self.take_until(Kind::Comment, end, 1, State::Data)
    }

    fn declaration(&mut self) -> Step<'a> {
        let rest = self.rest();
        if rest.get(..7).is_some_and(|begin| begin.eq_ignore_ascii_case(b"doctype")) {
            return self.take_until(Kind::Doctype, memchr(b'>', rest), 1, State::Data);
        }
        if let Some(content) = rest.strip_prefix(b"[CDATA[") {
            self.at += 7;
            return self.take_until(Kind::DataText, memmem::find(content, b"]]>"), 3, State::Data);
        }
        if rest.starts_with(b"--") {
            self.at += 2;
            return self.comment();
        }
        self.bogus_comment()
    }

    /// A comment ends with `-->` or `-!>`, and NUL bytes after the first hyphen do not count.
    fn comment(&mut self) -> Step<'a> {
        let rest = self.rest();
        for begin in memchr::memchr_iter(b'-', rest) {
            let nulls = rest[begin + 1..].iter().take_while(|byte| **byte == 0).count();
            let end = begin + 1 + nulls;
            if matches!(rest.get(end), Some(b'-' | b'!')) && rest.get(end + 1) == Some(&b'>') {
                return self.take(Kind::Comment, begin, end + 2 - begin, State::Data);
            }
        }
        self.take(Kind::Comment, rest.len(), 0, State::End)
    }

    fn tag_name(&mut self) -> Step<'a> {
        let rest = self.rest();
        let end = rest.iter().position(|&byte| is_white(byte) || matches!(byte, b'/' | b'>'));
        match end.map(|end| rest[end]) {
            Some(b'>') if self.is_closing => {
                self.is_closing = false;
                self.take_until(Kind::TagClose, end, 1, State::Data)
            }
            Some(b'>') => self.take_until(Kind::TagNameOpen, end, 0, State::TagEnd),
            Some(b'/') => self.take_until(Kind::TagNameOpen, end, 1, State::SelfClosing),
            _ => self.take_until(Kind::TagNameOpen, end, 1, State::BeforeAttributeName),
        }
    }

    fn tag_end(&mut self) -> Step<'a> {
        self.is_closing = false;
        self.take(Kind::TagNameClose, 1, 0, State::Data)
    }

    fn self_closing(&mut self) -> Step<'a> {
        match self.rest().first() {
            None => self.go(State::End),
            Some(b'>') => {
                self.at -= 1;
                self.take(Kind::TagNameSelfClose, 2, 0, State::Data)
            }
            Some(_) => self.go(State::BeforeAttributeName),
        }
    }

    /// Skips white space and NUL bytes; the byte after them.
    fn skip_white(&mut self) -> Option<u8> {
        let count = self.rest().iter().take_while(|byte| is_white(**byte) || **byte == 0).count();
        self.at += count;
        self.rest().first().copied()
    }

    fn before_attribute_name(&mut self) -> Step<'a> {
        match self.skip_white() {
            None => self.go(State::End),
            Some(b'/') => {
                self.at += 1;
                self.go(State::SelfClosing)
            }
            Some(b'>') => self.take(Kind::TagNameClose, 1, 0, State::Data),
            Some(_) => self.attribute_name(),
        }
    }

    /// The first byte belongs to the name, whatever it is.
    fn attribute_name(&mut self) -> Step<'a> {
        let rest = self.rest();
        let is_end = |byte: u8| is_white(byte) || matches!(byte, b'/' | b'=' | b'>');
        let end = rest[1..].iter().position(|&byte| is_end(byte)).map(|end| end + 1);
        match end.map(|end| rest[end]) {
            Some(b'/') => self.take_until(Kind::AttributeName, end, 1, State::SelfClosing),
            Some(b'=') => self.take_until(Kind::AttributeName, end, 1, State::BeforeAttributeValue),
            Some(b'>') => self.take_until(Kind::AttributeName, end, 0, State::TagEnd),
            _ => self.take_until(Kind::AttributeName, end, 1, State::AfterAttributeName),
        }
    }

    fn after_attribute_name(&mut self) -> Step<'a> {
        match self.skip_white() {
            None => self.go(State::End),
            Some(b'/') => {
                self.at += 1;
                self.go(State::SelfClosing)
            }
            Some(b'=') => {
                self.at += 1;
                self.go(State::BeforeAttributeValue)
            }
            Some(b'>') => self.go(State::TagEnd),
            Some(_) => self.attribute_name(),
        }
    }

    fn before_value(&mut self) -> Step<'a> {
        match self.skip_white() {
            None => self.go(State::End),
            Some(quote @ (b'"' | b'\'' | b'`')) => self.quoted_value(quote),
            Some(_) => {
                let end = self.rest().iter().position(|&byte| is_white(byte) || byte == b'>');
                let is_tag_end = end.is_some_and(|end| self.rest()[end] == b'>');
                let state = if is_tag_end { State::TagEnd } else { State::BeforeAttributeName };
                self.take_until(Kind::AttributeValue, end, usize::from(!is_tag_end), state)
            }
        }
    }

    /// A value in quotes. At the beginning of the text the quote is before it.
    fn quoted_value(&mut self, quote: u8) -> Step<'a> {
        self.at += usize::from(self.at > 0);
        let end = memchr(quote, self.rest());
        self.take_until(Kind::AttributeValue, end, 1, State::AfterValue)
    }

    fn after_value(&mut self) -> Step<'a> {
        match self.rest().first() {
            None => self.go(State::End),
            Some(b'/') => {
                self.at += 1;
                self.go(State::SelfClosing)
            }
            Some(b'>') => self.take(Kind::TagNameClose, 1, 0, State::Data),
            Some(_) => self.go(State::BeforeAttributeName),
        }
    }
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
