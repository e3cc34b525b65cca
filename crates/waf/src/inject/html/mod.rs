//! HTML injection: a text becomes tokens of HTML in each of five places of a page, and tokens that run
//! script are looked for.

mod judge;
mod scan;

use memchr::{memchr, memchr2};

use super::work;

use scan::{Place, Scanner};

/// Makes the table of events.
pub(super) fn prepare() {
    judge::prepare();
}

/// Looks at the text in each place.
pub(super) fn detect(text: &[u8], work: &mut usize) -> bool {
    // Script needs a tag, or an attribute with a value.
    if memchr2(b'<', b'=', text).is_none() {
        return false;
    }
    let has = |byte| memchr(byte, text).is_some();
    (has(b'<') && in_place(text, Place::Data, work))
        || in_place(text, Place::Attributes, work)
        || [b'\'', b'"', b'`']
            .into_iter()
            .any(|quote| has(quote) && in_place(text, Place::Value(quote), work))
}

fn in_place(text: &[u8], place: Place, steps: &mut usize) -> bool {
    *steps += text.len();
    let mut scanner = Scanner::new(text, place);
    let mut attribute = judge::Attribute::Harmless;
    while let Some(token) = scanner.next() {
        *steps += work::PER_TOKEN;
        if judge::is_script(&token, &mut attribute) {
            return true;
        }
    }
    false
}

#[cfg(test)]
pub(super) mod tests;
