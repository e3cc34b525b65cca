//! Character references of HTML, as far as ModSecurity decodes them: into one byte each.

use memchr::memchr;

use super::outcome::Outcome;

/// The names, and the byte that each stands for.
const NAMES: [(&[u8], u8); 6] =
    [(b"quot", b'"'), (b"amp", b'&'), (b"lt", b'<'), (b"gt", b'>'), (b"nbsp", 0xa0), (b"apos", b'\'')];

pub(super) fn decode(text: &[u8]) -> Outcome {
    let Some(first) = memchr(b'&', text) else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    let (mut from, mut next) = (0, Some(first));
    let mut is_changed = false;
    while let Some(at) = next {
        new.extend_from_slice(&text[from..at]);
        from = at + 1;
        if let Some((byte, len)) = reference(&text[from..]) {
            is_changed = true;
            new.push(byte);
            from += len;
            from += usize::from(text.get(from) == Some(&b';'));
        } else {
            new.push(b'&');
        }
        next = memchr(b'&', &text[from..]).map(|after| from + after);
    }
    new.extend_from_slice(&text[from..]);
    if is_changed { Outcome::New(new) } else { Outcome::Same }
}

/// The byte of a reference whose `&` is before `text`, and the length of the reference without its `;`.
///
/// A name ends where it is complete, as in browsers: `&ltscript` is `<script`. ModSecurity drops the rest of
/// the word.
fn reference(text: &[u8]) -> Option<(u8, usize)> {
    if text.first() != Some(&b'#') {
        let name = NAMES
            .iter()
            .find(|name| text.get(..name.0.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.0)))?;
        return Some((name.1, name.0.len()));
    }
    let (radix, begin) = if matches!(text.get(1), Some(b'x' | b'X')) { (16, 2) } else { (10, 1) };
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let len = text[begin..].iter().take_while(is_digit).count();
    let digits = &text[begin..begin + len];
    let value = digits.iter().fold(0u64, |value, &byte| {
        let digit = char::from(byte).to_digit(radix).unwrap_or(0);
        value.saturating_mul(u64::from(radix)).saturating_add(u64::from(digit)).min(i64::MAX as u64)
    });
    (len > 0).then_some((value as u8, begin + len))
}
