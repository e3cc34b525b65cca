//! JSON (RFC 8259): each scalar becomes an argument with the path to it as its name, as in ModSecurity 3:
//! `json.a.b` for `{"a": {"b": 1}}`, and `json.a.array_0` for `{"a": [1]}`.

use std::mem;

use memchr::memchr2;

use super::budget::Budget;
use super::sink::{Place, Sink};

/// The length of a name. Names grow with the depth of a body, and each element of the deepest array has one.
const NAME_BYTES_MAX: usize = 8 * 1024;

/// A parser of JSON that keeps the path to where it is, and the scalar that it reads.
pub(super) struct Json {
    depth_max: usize,
    containers: Vec<Container>,
    /// The name of the current element, or what it begins with.
    path: Vec<u8>,
    expected: Expected,
    token: Token,
    /// The current scalar or key, decoded.
    text: Vec<u8>,
    key: Vec<u8>,
    /// The first half of a surrogate pair, if the string's last escape was one.
    surrogate: Option<u16>,
    has_data: bool,
}

/// An object or an array that has not ended.
struct Container {
    is_array: bool,
    /// The number of elements before the current one.
    index: usize,
    /// The length of the container's name in the path.
    name_len: usize,
}

/// The next thing that the grammar allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Nothing,
}

/// The token that has begun.
#[derive(Clone, Copy)]
enum Token {
    None,
    /// A number or a literal.
    Word,
    String,
    /// A string, after a backslash.
    Escape,
    /// A string, within `\uHHHH`.
    Unicode {
        digits: u8,
        value: u16,
    },
}

// === impl Json ===

impl Json {
    pub(super) fn new(depth_max: usize) -> Self {
        Self {
            depth_max,
            containers: Vec::new(),
            path: Vec::new(),
            expected: Expected::Value,
            token: Token::None,
            text: Vec::new(),
            key: Vec::new(),
            surrogate: None,
            has_data: false,
        }
    }

    pub(super) fn feed(&mut self, piece: &[u8], budget: &mut Budget, sink: &mut dyn Sink) {
        if !budget.count_no_files(piece.len(), sink) {
            return;
        }
        self.has_data = true;
        let mut rest = piece;
        while !rest.is_empty() && !budget.has_failed() {
            match self.step(rest, budget, sink) {
                Ok(used) => rest = &rest[used..],
                Err(message) => budget.fail(message, sink),
            }
        }
    }

    pub(super) fn end(&mut self, budget: &mut Budget, sink: &mut dyn Sink) {
        if budget.has_failed() || !self.has_data {
            return;
        }
        let word = if matches!(self.token, Token::Word) { self.end_word(budget, sink) } else { Ok(()) };
        if let Err(message) = word {
            budget.fail(message, sink);
        } else if self.expected != Expected::Nothing || !matches!(self.token, Token::None) {
            budget.fail("JSON: premature end", sink);
        }
    }

    /// Reads at least one byte, unless a word ends before it.
    fn step(&mut self, rest: &[u8], budget: &mut Budget, sink: &mut dyn Sink) -> Result<usize, &'static str> {
        let byte = rest[0];
        match self.token {
            Token::None => self.begin(byte)?,
            Token::Word => {
                let len = rest.iter().take_while(|byte| is_word(**byte)).count();
                self.text.extend_from_slice(&rest[..len]);
                if len < rest.len() {
                    self.end_word(budget, sink)?;
                }
                return Ok(len);
            }
            Token::String if byte == b'"' => self.end_string(budget, sink)?,
            Token::String if byte == b'\\' => self.token = Token::Escape,
            Token::String => {
                let len = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                if rest[..len].iter().any(|&byte| byte < b' ') {
                    return Err("JSON: control character in a string");
                }
                self.end_surrogate();
                self.text.extend_from_slice(&rest[..len]);
                return Ok(len);
            }
            Token::Escape => self.escape(byte)?,
            Token::Unicode { digits, value } => {
                let digit = char::from(byte).to_digit(16).ok_or("JSON: invalid escape")?;
                let value = value << 4 | digit as u16;
                self.token = Token::Unicode { digits: digits + 1, value };
                if digits == 3 {
                    self.push_unit(value);
                    self.token = Token::String;
                }
            }
        }
        Ok(1)
    }

    /// The first byte of a token, or white space.
    fn begin(&mut self, byte: u8) -> Result<(), &'static str> {
        let is_value = matches!(self.expected, Expected::Value | Expected::ValueOrEnd);
        match (byte, self.expected) {
            (b' ' | b'\t' | b'\r' | b'\n', _) => {}
            (b'"', Expected::Key | Expected::KeyOrEnd) => self.token = Token::String,
            (b'"', _) if is_value => self.token = Token::String,
            (b'{' | b'[', _) if is_value => self.open(byte == b'[')?,
            (b'}', Expected::KeyOrEnd | Expected::CommaOrEnd) => self.close(false)?,
            (b']', Expected::ValueOrEnd | Expected::CommaOrEnd) => self.close(true)?,
            (b':', Expected::Colon) => self.expected = Expected::Value,
            (b',', Expected::CommaOrEnd) => {
                let is_array = self.containers.last().is_some_and(|container| container.is_array);
                self.expected = if is_array { Expected::Value } else { Expected::Key };
            }
            _ if is_value && is_word(byte) => {
                self.token = Token::Word;
                self.text.push(byte);
            }
            (_, Expected::Nothing) => return Err("JSON: data after the end"),
            _ => return Err("JSON: unexpected character"),
        }
        Ok(())
    }

    /// Writes the name of the element that begins into the path.
    fn name_element(&mut self) -> Result<(), &'static str> {
        match self.containers.last() {
            None => self.path.extend_from_slice(b"json"),
            Some(container) => {
                self.path.truncate(container.name_len);
                if container.is_array {
                    self.path.extend_from_slice(b".array_");
                    self.path.extend_from_slice(container.index.to_string().as_bytes());
                } else {
                    self.path.push(b'.');
                    let key = if self.key.is_empty() { &b"empty-key"[..] } else { &self.key };
                    self.path.extend_from_slice(key);
                }
            }
        }
        if self.path.len() > NAME_BYTES_MAX { Err("JSON: a name is too long") } else { Ok(()) }
    }

    fn open(&mut self, is_array: bool) -> Result<(), &'static str> {
        if self.containers.len() >= self.depth_max {
            return Err("JSON: depth beyond SecRequestBodyJsonDepthLimit");
        }
        self.name_element()?;
        self.containers.push(Container { is_array, index: 0, name_len: self.path.len() });
        self.expected = if is_array { Expected::ValueOrEnd } else { Expected::KeyOrEnd };
        Ok(())
    }

    fn close(&mut self, is_array: bool) -> Result<(), &'static str> {
        match self.containers.pop() {
            Some(container) if container.is_array == is_array => {}
            _ => return Err("JSON: unexpected bracket"),
        }
        self.end_element();
        Ok(())
    }

    fn end_element(&mut self) {
        self.expected = match self.containers.last_mut() {
            None => Expected::Nothing,
            Some(container) => {
                container.index += 1;
                Expected::CommaOrEnd
            }
        };
    }

    fn end_word(&mut self, budget: &mut Budget, sink: &mut dyn Sink) -> Result<(), &'static str> {
        self.token = Token::None;
        if self.text == b"null" {
            self.text.clear();
        } else if !(self.text == b"true" || self.text == b"false" || is_number(&self.text)) {
            return Err("JSON: invalid literal or number");
        }
        self.scalar(budget, sink)
    }

    fn end_string(&mut self, budget: &mut Budget, sink: &mut dyn Sink) -> Result<(), &'static str> {
        self.token = Token::None;
        self.end_surrogate();
        if std::str::from_utf8(&self.text).is_err() {
            return Err("JSON: a string is not UTF-8");
        }
        if matches!(self.expected, Expected::Key | Expected::KeyOrEnd) {
            self.key.clear();
            mem::swap(&mut self.key, &mut self.text);
            self.expected = Expected::Colon;
            return Ok(());
        }
        self.scalar(budget, sink)
    }

    /// Passes the scalar on whose text is complete.
    fn scalar(&mut self, budget: &mut Budget, sink: &mut dyn Sink) -> Result<(), &'static str> {
        self.name_element()?;
        budget.item(Place::Argument, &self.path, &self.text, sink);
        self.text.clear();
        self.end_element();
        Ok(())
    }

    fn escape(&mut self, byte: u8) -> Result<(), &'static str> {
        let decoded = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.token = Token::Unicode { digits: 0, value: 0 };
                return Ok(());
            }
            _ => return Err("JSON: invalid escape"),
        };
        self.end_surrogate();
        self.text.push(decoded);
        self.token = Token::String;
        Ok(())
    }

    /// Adds a unit of UTF-16. Half a surrogate pair that is alone becomes a question mark.
    fn push_unit(&mut self, unit: u16) {
        if let Some(first) = self.surrogate.take() {
            if let Some(Ok(character)) = char::decode_utf16([first, unit]).next() {
                self.push_char(character);
                return;
            }
            self.text.push(b'?');
        }
        match char::from_u32(u32::from(unit)) {
            Some(character) => self.push_char(character),
            None if unit < 0xdc00 => self.surrogate = Some(unit),
            None => self.text.push(b'?'),
        }
    }

    fn push_char(&mut self, character: char) {
        self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Half a surrogate pair stays alone if anything but another `\uHHHH` comes after it.
    fn end_surrogate(&mut self) {
        if self.surrogate.take().is_some() {
            self.text.push(b'?');
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Whether a text is a number by the grammar of RFC 8259 section 6.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest[0] == b'0' {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let count = digits(exponent);
        return count > 0 && count == exponent.len();
    }
    rest.is_empty()
}
