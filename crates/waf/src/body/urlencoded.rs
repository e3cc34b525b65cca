//! `application/x-www-form-urlencoded`, of bodies and of query strings.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::budget::Budget;
use super::sink::{Place, Sink};
use crate::transform::{Transformation, apply};

/// A body in the form of a query string.
pub(super) struct UrlEncoded {
    separator: u8,
    /// The beginning of a pair whose end has not come.
    begun: Vec<u8>,
}

// === impl UrlEncoded ===

impl UrlEncoded {
    pub(super) fn new(separator: u8) -> Self {
        Self { separator, begun: Vec::new() }
    }

    pub(super) fn feed(&mut self, piece: &[u8], budget: &mut Budget, sink: &mut dyn Sink) {
        if !budget.count_no_files(piece.len(), sink) {
            return;
        }
        let mut from = 0;
        for at in memchr_iter(self.separator, piece) {
            let pair = &piece[from..at];
            if self.begun.is_empty() {
                argument(pair, budget, sink);
            } else {
                self.begun.extend_from_slice(pair);
                argument(&self.begun, budget, sink);
                self.begun.clear();
            }
            if budget.has_failed() {
                return;
            }
            from = at + 1;
        }
        self.begun.extend_from_slice(&piece[from..]);
    }

    pub(super) fn end(&mut self, budget: &mut Budget, sink: &mut dyn Sink) {
        argument(&self.begun, budget, sink);
    }
}

fn argument(text: &[u8], budget: &mut Budget, sink: &mut dyn Sink) {
    if let Some(pair) = Pair::decode(text) {
        budget.item(Place::Argument, &pair.name, &pair.value, sink);
    }
}

/// A decoded name with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The text before the first `=`.
    pub name: Cow<'a, [u8]>,
    /// The text after it; empty if there is no `=`.
    pub value: Cow<'a, [u8]>,
}

/// Decoded names and values of a query string. Empty pairs are left out.
pub fn pairs(text: &[u8], separator: u8) -> impl Iterator<Item = Pair<'_>> {
    text.split(move |&byte| byte == separator).filter_map(Pair::decode)
}

// === impl Pair ===

impl<'a> Pair<'a> {
    fn decode(text: &'a [u8]) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let at = memchr(b'=', text).unwrap_or(text.len());
        let decode = |text| apply(Transformation::UrlDecode, Cow::Borrowed(text), None);
        let value = text.get(at + 1..).unwrap_or_default();
        Some(Self { name: decode(&text[..at]), value: decode(value) })
    }
}
