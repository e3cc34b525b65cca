//! Expressions of PCRE in the syntax of `regex-syntax`: the same bytes match. What needs steps back
//! (references, look-around, atomic groups) is refused.
//!
//! Never in here: an automaton.

use std::fmt::Write as _;

/// A fault of an expression, with the offset of its byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The offset in bytes.
    pub(crate) offset: usize,
    /// The fault, as a sentence.
    pub(crate) message: String,
}

/// Rewrites an expression.
pub(crate) fn translate(text: &str) -> Result<String, Fault> {
    let mut translator =
        Translator { text: text.as_bytes(), at: 0, out: String::with_capacity(text.len() + 16) };
    translator.run()?;
    Ok(translator.out)
}

struct Translator<'a> {
    text: &'a [u8],
    at: usize,
    out: String,
}

/// The meaning of one escape or character of a class.
enum Atom {
    Byte(u8),
    Set(&'static str),
}

impl Translator<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn fault<T>(&self, message: &str) -> Result<T, Fault> {
        Err(Fault { offset: self.at, message: message.to_owned() })
    }

    fn literal(&mut self, byte: u8) {
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
                b'*' | b'+' | b'?' => self.quantifier(1)?,
                b'{' => match self.counted() {
                    Some(length) => self.quantifier(length)?,
                    None => self.one_literal(b'{'),
                },
                // White space and `#` keep their meaning for `(?x)`.
                b'|' | b')' | b'^' | b'$' | b'.' | b' ' | b'\t' | b'\n' | b'\r' | b'#' => {
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

    fn quantifier(&mut self, length: usize) -> Result<(), Fault> {
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
                return self.fault("a possessive quantifier needs steps back, which are not available");
            }
            _ => {}
        }
        Ok(())
    }

    fn group(&mut self) -> Result<(), Fault> {
        if self.peek(1) == Some(b'*') {
            return self.fault("a verb of PCRE is not available");
        }
        if self.peek(1) != Some(b'?') {
            self.out.push('(');
            self.at += 1;
            return Ok(());
        }
        let (kind, next) = (self.peek(2), self.peek(3));
        match (kind, next) {
            (Some(b'=' | b'!'), _) | (Some(b'<'), Some(b'=' | b'!')) => {
                self.fault("look-around needs steps back, which are not available")
            }
            (Some(b'>'), _) => self.fault("an atomic group needs steps back, which are not available"),
            (Some(b'#'), _) => match self.text[self.at..].iter().position(|&byte| byte == b')') {
                Some(end) => {
                    self.at += end + 1;
                    Ok(())
                }
                None => self.fault("a comment is not closed"),
            },
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
            _ => {
                match self.atom()? {
                    Atom::Byte(byte) => self.literal(byte),
                    Atom::Set(set) => {
                        let _ = write!(self.out, "[{set}]");
                    }
                }
                return Ok(());
            }
        };
        self.out.push_str(assertion);
        self.at += 2;
        Ok(())
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
            return self.fault("a reference to a group needs steps back, which are not available");
        }
        let text = String::from_utf8_lossy(&rest[..length]);
        let Ok(byte) = u8::from_str_radix(&text, 8) else {
            return self.fault("an octal escape is not one byte");
        };
        self.at += 1 + length;
        Ok(Atom::Byte(byte))
    }

    fn class(&mut self) -> Result<(), Fault> {
        let start = self.at;
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
            assert_eq!(translate(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_needs_steps_back_is_refused_with_its_offset() {
        let cases = [
            (r"a(?=b)", 1),
            (r"a(?<!b)", 1),
            (r"(?>a)", 0),
            (r"(a)\1", 3),
            (r"a++", 2),
            (r"(*FAIL)", 0),
            (r"x\K", 1),
            (r"[a", 0),
        ];
        for (text, offset) in cases {
            assert_eq!(translate(text).map_err(|fault| fault.offset), Err(offset), "{text}");
        }
    }
}
