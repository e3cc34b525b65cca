//! Transformations that look at one byte after the other: case, white space, NUL bytes, length.

use memchr::{memchr, memchr_iter};

use super::outcome::{Outcome, is_space};

/// A no-break space in ISO 8859-1, and the second byte of one in UTF-8.
const NO_BREAK_SPACE: u8 = 0xa0;
/// The first byte of a no-break space in UTF-8.
const NO_BREAK_SPACE_LEAD: u8 = 0xc2;

pub(super) fn lowercase(text: &[u8]) -> Outcome {
    if text.iter().any(u8::is_ascii_uppercase) {
        Outcome::New(text.to_ascii_lowercase())
    } else {
        Outcome::Same
    }
}

pub(super) fn uppercase(text: &[u8]) -> Outcome {
    if text.iter().any(u8::is_ascii_lowercase) {
        Outcome::New(text.to_ascii_uppercase())
    } else {
        Outcome::Same
    }
}

pub(super) fn length(text: &[u8]) -> Outcome {
    Outcome::New(text.len().to_string().into_bytes())
}

pub(super) fn trim(text: &[u8]) -> Outcome {
    part(text, start(text), end(text))
}

pub(super) fn trim_left(text: &[u8]) -> Outcome {
    part(text, start(text), text.len())
}

pub(super) fn trim_right(text: &[u8]) -> Outcome {
    part(text, 0, end(text))
}

/// The first byte that is no white space.
fn start(text: &[u8]) -> usize {
    text.iter().position(|&byte| !is_space(byte)).unwrap_or(text.len())
}

/// The end of the last byte that is no white space.
fn end(text: &[u8]) -> usize {
    text.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1)
}

fn part(text: &[u8], start: usize, end: usize) -> Outcome {
    if start == 0 && end == text.len() { Outcome::Same } else { Outcome::Part(start.min(end)..end) }
}

pub(super) fn remove_nulls(text: &[u8]) -> Outcome {
    let Some(first) = memchr(0, text) else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in [first].into_iter().chain(memchr_iter(0, &text[first + 1..]).map(|at| first + 1 + at)) {
        new.extend_from_slice(&text[from..at]);
        from = at + 1;
    }
    new.extend_from_slice(&text[from..]);
    Outcome::New(new)
}

pub(super) fn replace_nulls(text: &[u8]) -> Outcome {
    if memchr(0, text).is_none() {
        return Outcome::Same;
    }
    Outcome::New(text.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect())
}

pub(super) fn remove_whitespace(text: &[u8]) -> Outcome {
    let is_removed = |byte: u8| is_space(byte) || byte == NO_BREAK_SPACE;
    if !text.iter().any(|&byte| is_removed(byte)) {
        return Outcome::Same;
    }
    let mut new = Vec::with_capacity(text.len());
    for (at, &byte) in text.iter().enumerate() {
        let is_lead = byte == NO_BREAK_SPACE_LEAD && text.get(at + 1) == Some(&NO_BREAK_SPACE);
        if !is_lead && !is_removed(byte) {
            new.push(byte);
        }
    }
    Outcome::New(new)
}

pub(super) fn compress_whitespace(text: &[u8]) -> Outcome {
    let pairs = text.windows(2).any(|pair| is_space(pair[0]) && is_space(pair[1]));
    if !pairs && !text.iter().any(|&byte| is_space(byte) && byte != b' ') {
        return Outcome::Same;
    }
    let mut new: Vec<u8> = Vec::with_capacity(text.len());
    let mut in_space = false;
    for &byte in text {
        if !is_space(byte) {
            new.push(byte);
        } else if !in_space {
            new.push(b' ');
        }
        in_space = is_space(byte);
    }
    Outcome::New(new)
}

/// The reference's list: `\`, `"`, `'` and `^` are removed; `,`, `;` and white space become one space;
/// spaces before `/` and `(` are removed; letters become lower case.
pub(super) fn cmd_line(text: &[u8]) -> Outcome {
    let changes = |byte: &u8| {
        matches!(byte, b'"' | b'\'' | b'\\' | b'^' | b' ' | b',' | b';' | b'\t' | b'\r' | b'\n' | b'A'..=b'Z')
    };
    let Some(first) = text.iter().position(changes) else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    new.extend_from_slice(&text[..first]);
    let mut is_after_space = false;
    for &byte in &text[first..] {
        match byte {
            b'"' | b'\'' | b'\\' | b'^' => continue,
            b' ' | b',' | b';' | b'\t' | b'\r' | b'\n' => {
                if !is_after_space {
                    new.push(b' ');
                }
                is_after_space = true;
                continue;
            }
            b'/' | b'(' if is_after_space => {
                new.pop();
                new.push(byte);
            }
            _ => new.push(byte.to_ascii_lowercase()),
        }
        is_after_space = false;
    }
    if new == text { Outcome::Same } else { Outcome::New(new) }
}
