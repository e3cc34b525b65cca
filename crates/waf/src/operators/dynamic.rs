//! Expressions with macros: compiled when a transaction has their values, and kept for the next one.
//!
//! Never in here: variables.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;

use super::pattern::{Pattern, Reading};
use crate::limits::WORK_MAX;
use crate::limits::{EXPANDED_EXPRESSION_BYTES_MAX, EXPANDED_EXPRESSIONS_MAX, EXPRESSION_BYTES_MAX};
use crate::template::{Template, Values};

/// Work for each byte that an expression takes when it is compiled.
const WORK_PER_BYTE: usize = 4;

/// An expression with macros.
pub(crate) struct Dynamic {
    template: Template,
    reading: Reading,
    known: Mutex<Vec<Known>>,
}

/// An expression with the values of its macros; without a pattern if it has a fault.
struct Known {
    text: String,
    pattern: Option<Arc<Pattern>>,
}

impl Dynamic {
    pub(super) fn new(template: Template, reading: Reading) -> Dynamic {
        Dynamic { template, reading, known: Mutex::default() }
    }

    /// The expression with the values of its macros, in which nothing is escaped, as in ModSecurity 3. One
    /// that has a fault then matches nothing. Work is added.
    pub(super) fn pattern(&self, values: &dyn Values, work: &mut usize) -> Option<Arc<Pattern>> {
        let text = source(&self.template.expand(values));
        *work += text.len();
        let mut known = self.known.lock();
        if let Some(place) = known.iter().position(|known| known.text == text) {
            known[..=place].rotate_right(1);
            return known[0].pattern.clone();
        }
        drop(known);
        if text.len() > EXPANDED_EXPRESSION_BYTES_MAX {
            *work += WORK_MAX;
            return None;
        }
        let pattern = Pattern::new(&text, self.reading).ok().map(Arc::new);
        // A fault may be that the expression would take too much.
        let bytes = pattern.as_ref().map_or(EXPRESSION_BYTES_MAX / 4, |pattern| pattern.memory());
        *work += bytes * WORK_PER_BYTE;
        let mut known = self.known.lock();
        known.truncate(EXPANDED_EXPRESSIONS_MAX - 1);
        known.insert(0, Known { text, pattern: pattern.clone() });
        pattern
    }
}

/// An expression as text: bytes beyond ASCII as escapes.
fn source(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii() {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}
