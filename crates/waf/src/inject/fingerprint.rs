//! The shape of an injection of SQL.

use std::fmt;

/// The number of tokens in a shape.
pub(super) const TOKENS_MAX: usize = 5;

/// The shape of an injection, as libinjection writes it: a letter for each of its first tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    letters: [u8; TOKENS_MAX],
    len: u8,
}

// === impl Fingerprint ===

impl Fingerprint {
    pub(super) fn push(&mut self, letter: u8) {
        if let Some(place) = self.letters.get_mut(usize::from(self.len)) {
            *place = letter;
            self.len += 1;
        }
    }

    /// The letters, in the order of the tokens.
    pub fn as_bytes(&self) -> &[u8] {
        self.letters.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().escape_ascii().fmt(formatter)
    }
}
