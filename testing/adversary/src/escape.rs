//! Bytes for people to read.

use std::fmt;

/// Shows bytes as Rust writes them in a byte string, a line of them after the other.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

/// Bytes that are shown; a case is repeated by its number, not by what is printed.
const SHOWN_MAX: usize = 4096;

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(SHOWN_MAX)];
        write!(f, "b\"{}\"", shown.escape_ascii())?;
        if self.0.len() > SHOWN_MAX {
            write!(f, " and {} bytes more", self.0.len() - SHOWN_MAX)
        } else {
            Ok(())
        }
    }
}
