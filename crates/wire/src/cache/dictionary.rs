//! Dictionaries of structured fields (RFC 9651 section 3.2). A malformed dictionary counts as missing.

/// Parses a dictionary; the last member of a repeated key counts. None if any part is malformed.
pub(super) fn parse(text: &[u8]) -> Option<Vec<(&[u8], Item)>> {
    Parser { rest: text }.dictionary()
}

/// A value. The content of types that no directive has is dropped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Integer(i64),
    Text(Vec<u8>),
    Boolean(bool),
    Other,
}

/// A parser with the algorithms of RFC 9651 section 4.2. None is a failure, after which the whole field is
/// ignored.
struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    /// Parses a dictionary (section 4.2.2): the last member of a repeated key counts.
    fn dictionary(mut self) -> Option<Vec<(&'a [u8], Item)>> {
        let mut members: Vec<(&[u8], Item)> = Vec::new();
        self.skip(b" ");
        while !self.rest.is_empty() {
            let key = self.key()?;
            let item = if self.eat(b'=') { self.member()? } else { Item::Boolean(true) };
            self.parameters()?;
            members.retain(|(known, _)| *known != key);
            members.push((key, item));
            self.skip(b" \t");
            if self.rest.is_empty() {
                break;
            }
            if !self.eat(b',') {
                return None;
            }
            self.skip(b" \t");
            if self.rest.is_empty() {
                return None;
            }
        }
        Some(members)
    }

    fn member(&mut self) -> Option<Item> {
        if !self.eat(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.eat(b')') {
                return Some(Item::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest, [b' ' | b')', ..]) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.skip(b" ");
            self.key()?;
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        self.rest.first().filter(|byte| byte.is_ascii_lowercase() || **byte == b'*')?;
        Some(self.take(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)))
    }

    fn bare_item(&mut self) -> Option<Item> {
        match *self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.text(),
            b'?' => {
                let item = match self.rest.get(1)? {
                    b'0' => Item::Boolean(false),
                    b'1' => Item::Boolean(true),
                    _ => return None,
                };
                self.rest = &self.rest[2..];
                Some(item)
            }
            b':' => {
                self.eat(b':');
                self.take(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.eat(b':').then_some(Item::Other)
            }
            b'@' => {
                self.eat(b'@');
                matches!(self.number()?, Item::Integer(_)).then_some(Item::Other)
            }
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.take(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
                Some(Item::Other)
            }
            _ => None,
        }
    }

    /// Parses a number (section 4.2.4): 15 digits, or 12 digits and up to 3 after the point.
    fn number(&mut self) -> Option<Item> {
        let negative = self.eat(b'-');
        let whole = self.take(|byte| byte.is_ascii_digit());
        if self.eat(b'.') {
            let part = self.take(|byte| byte.is_ascii_digit());
            return ((1..=12).contains(&whole.len()) && (1..=3).contains(&part.len())).then_some(Item::Other);
        }
        if !(1..=15).contains(&whole.len()) {
            return None;
        }
        let number = whole.iter().fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Item::Integer(if negative { -number } else { number }))
    }

    fn text(&mut self) -> Option<Item> {
        let mut text = Vec::new();
        let mut at = 1;
        loop {
            match *self.rest.get(at)? {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    text.push(*self.rest.get(at).filter(|byte| b"\"\\".contains(byte))?);
                }
                byte @ b' '..=b'~' => text.push(byte),
                _ => return None,
            }
            at += 1;
        }
        self.rest = &self.rest[at + 1..];
        Some(Item::Text(text))
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take(|byte| bytes.contains(&byte));
    }

    fn take(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|&byte| !belongs(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }
}
