//! Forms of values that several fields share.

/// The largest number of seconds; larger numbers count as this one (RFC 9111 section 1.2.2).
pub const SECONDS_MAX: u32 = 1 << 31;

/// Parses a number of seconds: digits, and nothing else.
pub(super) fn seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    Some(digits.iter().fold(0, digit).min(SECONDS_MAX))
}

/// Whether a text could be the name of a field (RFC 9110 section 5.6.2).
pub(super) fn is_token(text: &[u8]) -> bool {
    let is_mark = |byte: &u8| b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// The elements of a list in which quoted texts may contain commas. A quote without an end is no quote, so it
/// hides nothing.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = element_len(text);
        rest = text.get(end + 1..);
        Some(text[..end].trim_ascii())
    })
    .filter(|element| !element.is_empty())
}

/// Length up to the comma that ends the first element.
fn element_len(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b',' => return at,
            b'"' => at += quoted_len(&text[at..]).unwrap_or(1),
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of the quoted text that begins here, including both quotes.
fn quoted_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}
