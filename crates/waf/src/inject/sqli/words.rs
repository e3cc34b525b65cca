//! The words and phrases that SQL knows, and the shapes of injections.

use std::sync::LazyLock;

use hashbrown::HashMap;

use super::token::kind;
use crate::inject::fingerprint::{Fingerprint, TOKENS_MAX};

/// The length of a phrase that is looked up.
const PHRASE_BYTES_MAX: usize = 32;

/// The tables, made of their text when they are first asked.
struct Tables {
    words: HashMap<&'static [u8], u8, foldhash::fast::FixedState>,
    shapes: Vec<[u8; TOKENS_MAX]>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut words = HashMap::default();
    for line in lines(include_str!("../words.txt")) {
        let mut columns = line.split('\t');
        let kind = columns.next().and_then(|kind| kind.bytes().next()).unwrap_or(kind::BARE_WORD);
        words.extend(columns.map(|word| (word.as_bytes(), kind)));
    }
    let shapes = lines(include_str!("../shapes.txt")).flat_map(str::split_whitespace);
    let mut shapes: Vec<_> = shapes.map(|shape| padded(shape.as_bytes())).collect();
    shapes.sort_unstable();
    Tables { words, shapes }
});

/// Makes the tables before they are asked.
pub(super) fn prepare() {
    LazyLock::force(&TABLES);
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// The type of a word or phrase; none for one that SQL does not know.
pub(super) fn kind_of(word: &[u8]) -> Option<u8> {
    let mut upper = [0; PHRASE_BYTES_MAX];
    let upper = upper.get_mut(..word.len())?;
    upper.copy_from_slice(word);
    upper.make_ascii_uppercase();
    TABLES.words.get(&*upper).copied()
}

/// The type of two words in a row, as one phrase.
pub(super) fn kind_of_phrase(first: &[u8], second: &[u8]) -> Option<(u8, Vec<u8>)> {
    if first.len() + second.len() + 1 > PHRASE_BYTES_MAX {
        return None;
    }
    let phrase = [first, b" ", second].concat();
    kind_of(&phrase).map(|kind| (kind, phrase))
}

/// Whether only injections have this shape.
pub(super) fn is_shape(fingerprint: Fingerprint) -> bool {
    TABLES.shapes.binary_search(&padded(fingerprint.as_bytes())).is_ok()
}

/// A shape in upper case, with NUL bytes behind it.
fn padded(shape: &[u8]) -> [u8; TOKENS_MAX] {
    let mut padded = [0; TOKENS_MAX];
    for (place, letter) in padded.iter_mut().zip(shape) {
        *place = letter.to_ascii_uppercase();
    }
    padded
}
