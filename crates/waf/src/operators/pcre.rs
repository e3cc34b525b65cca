//! Expressions of PCRE in the syntax of `regex-syntax`: the same bytes match. Look-around, atomic groups and
//! references to groups become groups with the names of `backtrack::Part`.
//!
//! Never in here: an automaton.

use std::fmt::Write as _;

use super::backtrack::Part;

/// A fault of an expression, with the offset of its byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The offset in bytes.
    pub(crate) offset: usize,
    /// The fault, as a sentence.
    pub(crate) message: String,
}

/// A rewritten expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) text: String,
    /// The offset of the first part that needs steps back.
    pub(super) steps_back: Option<usize>,
}

/// Rewrites an expression.
pub(super) fn translate(text: &str) -> Result<Translation, Fault> {
    let mut translator = Translator {
        text: text.as_bytes(),
        at: 0,
        out: String::with_capacity(text.len() + 16),
        open: Vec::new(),
        atom: 0,
        parts: 0,
        steps_back: None,
    };
    translator.run()?;
    Ok(Translation { text: translator.out, steps_back: translator.steps_back })
}

struct Translator<'a> {
    text: &'a [u8],
    at: usize,
    out: String,
    /// The places in `out` of the groups that are open.
    open: Vec<usize>,
    /// The place in `out` of what a quantifier would repeat.
    atom: usize,
    /// Parts that need steps back, so far.
    parts: usize,
    steps_back: Option<usize>,
}

/// The meaning of one escape or character of a class.
enum Atom {
    Byte(u8),
    Set(&'static str),
}

impl<'a> Translator<'a> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn fault<T>(&self, message: &str) -> Result<T, Fault> {
        Err(Fault { offset: self.at, message: message.to_owned() })
    }

    fn literal(&mut self, byte: u8) {
        self.atom = self.out.len();
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            self.out.push(char::from(byte));
        } else {
            let _ = write!(self.out, "\\x{byte:02X}");
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.escape()?,
                b'[' => self.class()?,
                b'(' => self.group()?,
                b'*' | b'+' | b'?' => self.quantifier(1),
                b'{' => match self.counted() {
                    Some(length) => self.quantifier(length),
                    None => self.one_literal(b'{'),
                },
                b')' => {
                    self.atom = self.open.pop().unwrap_or_default();
                    self.out.push(')');
                    self.at += 1;
                }
                // White space and `#` keep their meaning for `(?x)`.
                b'|' | b'^' | b'$' | b'.' | b' ' | b'\t' | b'\n' | b'\r' | b'#' => {
                    self.atom = self.out.len();
                    self.out.push(char::from(byte));
                    self.at += 1;
                }
                _ => self.one_literal(byte),
            }
        }
        Ok(())
    }

    fn one_literal(&mut self, byte: u8) {
        self.literal(byte);
        self.at += 1;
    }

    /// The length of `{n}`, `{n,}` or `{n,m}`; anything else is text, as in PCRE.
    fn counted(&self) -> Option<usize> {
        let rest = self.text.get(self.at + 1..)?;
        let end = rest.iter().position(|&byte| byte == b'}')?;
        let (low, high) = match rest[..end].iter().position(|&byte| byte == b',') {
            Some(comma) => (&rest[..comma], &rest[comma + 1..end]),
            None => (&rest[..end], &rest[..0]),
        };
        let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        (!low.is_empty() && digits(low) && digits(high)).then_some(end + 2)
    }

    fn quantifier(&mut self, length: usize) {
        for &byte in &self.text[self.at..self.at + length] {
            self.out.push(char::from(byte));
        }
        self.at += length;
        match self.peek(0) {
            Some(b'?') => {
                self.out.push('?');
                self.at += 1;
            }
            Some(b'+') => {
                let begin = self.part(Part::Atomic, "");
                self.out.insert_str(self.atom, &begin);
                self.out.push(')');
                self.at += 1;
            }
            _ => {}
        }
    }

    /// The beginning of a group that stands for a part with steps back.
    fn part(&mut self, part: Part, meant: &str) -> String {
        self.parts += 1;
        self.steps_back.get_or_insert(self.at);
        let dot = if meant.is_empty() { "" } else { "." };
        format!("(?P<{}.{}{dot}{meant}>", part.name(), self.parts)
    }

    /// Begins a group that stands for a part with steps back, and that so many bytes begin.
    fn begin(&mut self, part: Part, length: usize) {
        let begin = self.part(part, "");
        self.out.push_str(&begin);
        self.at += length;
    }

    /// A reference to a group, which so many bytes make up.
    fn reference(&mut self, part: Part, group: &[u8], length: usize) -> Result<(), Fault> {
        let group = String::from_utf8_lossy(group);
        if group.is_empty() || group.contains(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        {
            return self.fault("a reference needs the number or name of a group");
        }
        self.atom = self.out.len();
        let begin = self.part(part, &group);
        self.out.push_str(&begin);
        self.out.push_str("a)");
        self.at += length;
        Ok(())
    }

    /// The text between two bytes, from the byte so far ahead.
    fn enclosed(&self, ahead: usize, close: u8) -> Option<&'a [u8]> {
        let rest = self.text.get(self.at + ahead + 1..)?;
        Some(&rest[..rest.iter().position(|&byte| byte == close)?])
    }

    fn group(&mut self) -> Result<(), Fault> {
        if self.peek(1) == Some(b'*') {
            return self.fault("a verb of PCRE is not available");
        }
        if self.peek(1) == Some(b'?') && self.peek(2) == Some(b'#') {
            let Some(end) = self.text[self.at..].iter().position(|&byte| byte == b')') else {
                return self.fault("a comment is not closed");
            };
            self.at += end + 1;
            return Ok(());
        }
        if let (Some(b"?P="), Some(name)) = (self.text.get(self.at + 1..self.at + 4), self.enclosed(3, b')'))
        {
            return self.reference(Part::SameNamed, name, name.len() + 5);
        }
        self.open.push(self.out.len());
        if self.peek(1) != Some(b'?') {
            self.out.push('(');
            self.at += 1;
            return Ok(());
        }
        let (kind, next) = (self.peek(2), self.peek(3));
        let part = match (kind, next) {
            (Some(b'='), _) => Some(Part::Ahead),
            (Some(b'!'), _) => Some(Part::NotAhead),
            (Some(b'<'), Some(b'=')) => Some(Part::Behind),
            (Some(b'<'), Some(b'!')) => Some(Part::NotBehind),
            (Some(b'>'), _) => Some(Part::Atomic),
            _ => None,
        };
        if let Some(part) = part {
            let is_behind = matches!(part, Part::Behind | Part::NotBehind);
            self.begin(part, if is_behind { 4 } else { 3 });
            return Ok(());
        }
        match (kind, next) {
            (Some(b'P'), Some(b'<')) => self.named(4, b'>'),
            (Some(b'<'), _) => self.named(3, b'>'),
            (Some(b'\''), _) => self.named(3, b'\''),
            _ => self.flags(),
        }
    }

    fn named(&mut self, skip: usize, close: u8) -> Result<(), Fault> {
        let start = self.at + skip;
        let Some(length) =
            self.text.get(start..).and_then(|rest| rest.iter().position(|&byte| byte == close))
        else {
            return self.fault("the name of a group is not closed");
        };
        self.out.push_str("(?P<");
        self.out.push_str(&String::from_utf8_lossy(&self.text[start..start + length]));
        self.out.push('>');
        self.at = start + length + 1;
        Ok(())
    }

    fn flags(&mut self) -> Result<(), Fault> {
        let rest = &self.text[self.at + 2..];
        let Some(end) = rest.iter().position(|byte| !b"imsxU-".contains(byte)) else {
            return self.fault("a group is not closed");
        };
        if !matches!(rest.get(end), Some(b':' | b')')) {
            return self.fault("this kind of group is not available");
        }
        if rest[end] == b')' {
            self.open.pop();
        }
        if rest[end] == b')' && end == 0 {
            self.at += 3;
            return Ok(());
        }
        self.out.push_str(&String::from_utf8_lossy(&self.text[self.at..=self.at + 2 + end]));
        self.at += end + 3;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Fault> {
        let Some(byte) = self.peek(1) else { return self.fault("a backslash ends the expression") };
        let assertion = match byte {
            b'b' => "\\b",
            b'B' => "\\B",
            b'A' => "\\A",
            b'z' => "\\z",
            b'Z' => "\\n?\\z",
            b'R' => "(?:\\r\\n|[\\n\\x0B\\x0C\\r\\x85])",
            b'N' => "[^\\n]",
            b'Q' => {
                self.quoted();
                return Ok(());
            }
            b'E' => "",
            b'1'..=b'9' | b'g' | b'k' if self.is_reference() => return self.escaped_reference(),
            _ => {
                match self.atom()? {
                    Atom::Byte(byte) => self.literal(byte),
                    Atom::Set(set) => {
                        self.atom = self.out.len();
                        let _ = write!(self.out, "[{set}]");
                    }
                }
                return Ok(());
            }
        };
        self.atom = self.out.len();
        self.out.push_str(assertion);
        self.at += 2;
        Ok(())
    }

    /// Whether `\1` is not the octal escape that `\101` is.
    fn is_reference(&self) -> bool {
        let is_octal = |ahead: usize| matches!(self.peek(ahead), Some(b'0'..=b'7'));
        !(is_octal(1) && is_octal(2) && is_octal(3))
    }

    /// `\1`, `\g1`, `\g{1}`, `\g{name}`, `\k{name}`, `\k<name>` or `\k'name'`.
    fn escaped_reference(&mut self) -> Result<(), Fault> {
        let skip = if matches!(self.peek(1), Some(b'g' | b'k')) { 2 } else { 1 };
        let close = match self.peek(skip) {
            _ if skip == 1 => None,
            Some(b'{') => Some(b'}'),
            Some(b'<') if self.peek(1) == Some(b'k') => Some(b'>'),
            Some(b'\'') if self.peek(1) == Some(b'k') => Some(b'\''),
            _ => None,
        };
        let (group, length) = if let Some(close) = close {
            let Some(group) = self.enclosed(skip, close) else {
                return self.fault("a reference is not closed");
            };
            (group, skip + group.len() + 2)
        } else {
            let rest = &self.text[self.at + skip..];
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (&rest[..length], skip + length)
        };
        let is_number = group.iter().all(u8::is_ascii_digit);
        self.reference(if is_number { Part::Same } else { Part::SameNamed }, group, length)
    }

    fn quoted(&mut self) {
        self.at += 2;
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' && self.peek(1) == Some(b'E') {
                self.at += 2;
                break;
            }
            self.one_literal(byte);
        }
    }

    /// One escape that stands for a byte or for a set of them; the same within a class and outside.
    fn atom(&mut self) -> Result<Atom, Fault> {
        let Some(byte) = self.peek(1) else { return self.fault("a backslash ends the expression") };
        let atom = match byte {
            b'd' => Atom::Set("\\d"),
            b'D' => Atom::Set("\\D"),
            b'w' => Atom::Set("\\w"),
            b'W' => Atom::Set("\\W"),
            b's' => Atom::Set("\\s"),
            b'S' => Atom::Set("\\S"),
            b'h' => Atom::Set("\\t\\x20\\xA0"),
            b'H' => Atom::Set("[^\\t\\x20\\xA0]"),
            b'v' => Atom::Set("\\n\\x0B\\x0C\\r\\x85"),
            b'V' => Atom::Set("[^\\n\\x0B\\x0C\\r\\x85]"),
            b'n' => Atom::Byte(b'\n'),
            b'r' => Atom::Byte(b'\r'),
            b't' => Atom::Byte(b'\t'),
            b'f' => Atom::Byte(0x0c),
            b'e' => Atom::Byte(0x1b),
            b'a' => Atom::Byte(0x07),
            b'x' => return self.hexadecimal(),
            b'0'..=b'9' => return self.octal(),
            b'c' => {
                let Some(letter) = self.peek(2) else { return self.fault("\\c needs a letter") };
                self.at += 3;
                return Ok(Atom::Byte(letter.to_ascii_uppercase() ^ 0x40));
            }
            b'a'..=b'z' | b'A'..=b'Z' => return self.fault("this escape is not available"),
            _ => Atom::Byte(byte),
        };
        self.at += 2;
        Ok(atom)
    }

    fn hexadecimal(&mut self) -> Result<Atom, Fault> {
        let rest = &self.text[self.at + 2..];
        let (digits, length) = if rest.first() == Some(&b'{') {
            match rest.iter().position(|&byte| byte == b'}') {
                Some(end) => (&rest[1..end], end + 1),
                None => return self.fault("\\x{ is not closed"),
            }
        } else {
            let length = rest.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
            (&rest[..length], length)
        };
        let text = String::from_utf8_lossy(digits);
        let value = if text.is_empty() { Ok(0) } else { u8::from_str_radix(&text, 16) };
        let Ok(byte) = value else { return self.fault("\\x is not one byte") };
        self.at += 2 + length;
        Ok(Atom::Byte(byte))
    }

    fn octal(&mut self) -> Result<Atom, Fault> {
        let rest = &self.text[self.at + 1..];
        let length = rest.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
        if rest.first() != Some(&b'0') && length < 3 {
            return self.fault("a class has no references to groups");
        }
        let text = String::from_utf8_lossy(&rest[..length]);
        let Ok(byte) = u8::from_str_radix(&text, 8) else {
            return self.fault("an octal escape is not one byte");
        };
        self.at += 1 + length;
        Ok(Atom::Byte(byte))
    }

    fn class(&mut self) -> Result<(), Fault> {
        let (start, atom) = (self.at, self.out.len());
        self.at += 1;
        self.out.push('[');
        if self.peek(0) == Some(b'^') {
            self.out.push('^');
            self.at += 1;
        }
        let first = self.at;
        loop {
            match self.peek(0) {
                None => {
                    self.at = start;
                    return self.fault("a class is not closed");
                }
                Some(b']') if self.at > first => {
                    self.out.push(']');
                    self.atom = atom;
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.class_item()?,
            }
        }
    }

    fn class_item(&mut self) -> Result<(), Fault> {
        if self.peek(0) == Some(b'[')
            && matches!(self.peek(1), Some(b':'))
            && let Some(length) = self.text[self.at..].windows(2).position(|pair| pair == b":]")
        {
            self.out.push_str(&String::from_utf8_lossy(&self.text[self.at..self.at + length + 2]));
            self.at += length + 2;
            return Ok(());
        }
        let low = match self.class_atom()? {
            Atom::Set(set) => {
                self.out.push_str(set);
                return Ok(());
            }
            Atom::Byte(low) => low,
        };
        let range = self.peek(0) == Some(b'-') && !matches!(self.peek(1), None | Some(b']'));
        if !range {
            self.literal(low);
            return Ok(());
        }
        self.at += 1;
        match self.class_atom()? {
            Atom::Byte(high) if low <= high => {
                self.literal(low);
                self.out.push('-');
                self.literal(high);
                Ok(())
            }
            Atom::Byte(_) => self.fault("a range of a class is out of order"),
            Atom::Set(set) => {
                self.literal(low);
                self.literal(b'-');
                self.out.push_str(set);
                Ok(())
            }
        }
    }

    fn class_atom(&mut self) -> Result<Atom, Fault> {
        match self.peek(0) {
            Some(b'\\') if self.peek(1) == Some(b'b') => {
                self.at += 2;
                Ok(Atom::Byte(0x08))
            }
            Some(b'\\') => self.atom(),
            Some(byte) => {
                self.at += 1;
                Ok(Atom::Byte(byte))
            }
            None => self.fault("a class is not closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_that_differs_is_rewritten() {
        let cases = [
            (r"a\/b", r"a\x2Fb"),
            (r"\<x\>", r"\x3Cx\x3E"),
            (r"[\w\-.]+", r"[\w\x2D\x2E]+"),
            (r"[a-z&&[^]", r"[a-z\x26\x26\x5B\x5E]"),
            (r"[]a]", r"[\x5Da]"),
            (r"[^]a-]", r"[^\x5Da\x2D]"),
            (r"[[:alpha:]_]", r"[[:alpha:]_]"),
            (r"[\s\x0b]", r"[\s\x0B]"),
            (r"a{2,}b{,3}c{", r"a{2,}b\x7B\x2C3\x7Dc\x7B"),
            (r"\Qa.b\E.", r"a\x2Eb."),
            (r"\x{41}\x4\0\101", r"A\x04\x00A"),
            (r"(?i)(?<n>a)(?'m'b)(?#no)", r"(?i)(?P<n>a)(?P<m>b)"),
            (r"é", r"\xC3\xA9"),
            (r"a*?b+?c??", r"a*?b+?c??"),
        ];
        for (text, expected) in cases {
            let translation = Translation { text: expected.to_owned(), steps_back: None };
            assert_eq!(translate(text), Ok(translation), "{text}");
        }
    }

    #[test]
    fn parts_that_need_steps_back_become_groups_with_names() {
        let cases = [
            (r"a(?=b)", 1, r"a(?P<ahead.1>b)"),
            (r"(?<!a)(?!b)", 0, r"(?P<not_behind.1>a)(?P<not_ahead.2>b)"),
            (r"(?>a|b)c", 0, r"(?P<atomic.1>a|b)c"),
            (r"x(ab)++[a-z]?+", 6, r"x(?P<atomic.1>(ab)+)(?P<atomic.2>[a-z]?)"),
            (r"(a)\1\g{1}", 3, r"(a)(?P<same.1.1>a)(?P<same.2.1>a)"),
            (r"(?<n>a)\k<n>(?P=n)", 7, r"(?P<n>a)(?P<same_named.1.n>a)(?P<same_named.2.n>a)"),
        ];
        for (text, offset, expected) in cases {
            let expected = Translation { text: expected.to_owned(), steps_back: Some(offset) };
            assert_eq!(translate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_available_is_refused_with_its_offset() {
        let cases =
            [(r"(*FAIL)", 0), (r"x\K", 1), (r"[a", 0), (r"(a)\k<n", 3), (r"(a)[\1]", 4), (r"(?R)", 0)];
        for (text, offset) in cases {
            assert_eq!(translate(text).map_err(|fault| fault.offset), Err(offset), "{text}");
        }
    }
}
