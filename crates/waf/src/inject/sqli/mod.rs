//! SQL injection: a text becomes tokens, tokens are folded to five at most, and their shape is looked up.
//!
//! Never in here: a grammar of one database. The shapes are those that attacks on any of them have.

mod fold;
mod scan;
mod strings;
mod token;
mod verdict;
mod words;

use memchr::{memchr, memchr_iter};

use super::fingerprint::Fingerprint;
use super::work;
use fold::Folder;
use scan::{Dialect, Quote, Scanner};

/// Makes the tables of words and shapes.
pub(super) fn prepare() {
    words::prepare();
}

/// Looks at the text in each place of a statement in which it can be.
pub(super) fn detect(text: &[u8], work: &mut usize) -> Option<Fingerprint> {
    if is_word(text) {
        return None;
    }
    let single = memchr(b'\'', text).map(|_| Quote::Single);
    [Some(Quote::None), single]
        .into_iter()
        .flatten()
        .find_map(|quote| {
            let (found, is_ambiguous) = shape(text, quote, Dialect::Ansi, work);
            found.or_else(|| is_ambiguous.then(|| shape(text, quote, Dialect::MySql, work).0).flatten())
        })
        .or_else(|| memchr(b'"', text).and_then(|_| shape(text, Quote::Double, Dialect::MySql, work).0))
}

/// Whether a text is one token for certain, which is no injection: a number, or letters and digits with
/// points, before which no word ends that SQL knows.
fn is_word(text: &[u8]) -> bool {
    let Some(first) = text.first() else { return true };
    if !text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')) {
        return false;
    }
    if first.is_ascii_digit() {
        return text.iter().all(u8::is_ascii_digit);
    }
    let beginning = &text[..text.len().min(token::VALUE_BYTES_MAX)];
    first.is_ascii_alphabetic()
        && memchr_iter(b'.', beginning)
            .all(|point| words::kind_of(&text[..point]).is_none_or(|kind| kind == token::kind::BARE_WORD))
}

/// The shape of the text, if it is one of an injection; and whether MySQL would read a comment in another
/// way.
fn shape(text: &[u8], quote: Quote, dialect: Dialect, steps: &mut usize) -> (Option<Fingerprint>, bool) {
    let mut folder = Folder::new(Scanner::new(text, quote, dialect));
    let len = folder.fold();
    *steps += folder.scanner.at.min(text.len()) + folder.scanner.tokens * work::PER_TOKEN;
    let fingerprint = folder.fingerprint(len);
    let is_injection = words::is_shape(fingerprint) && verdict::confirm(text, &folder, fingerprint);
    (is_injection.then_some(fingerprint), folder.scanner.is_ambiguous())
}

#[cfg(test)]
pub(super) mod tests;
