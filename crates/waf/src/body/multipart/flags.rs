//! The flags of a multipart body, and the length of its lines.

use crate::body::sink::{Flag, Sink};

/// The length of a header line. A longer line of content is taken in pieces of this length.
pub(super) const LINE_BYTES_MAX: usize = 4096;

/// A set of flags.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    set: u16,
    has_lf: bool,
    has_crlf: bool,
}

// === impl Flags ===

impl Flags {
    pub(super) fn set(&mut self, flag: Flag) {
        self.set |= 1 << flag as u16;
    }

    pub(super) fn has(self, flag: Flag) -> bool {
        self.set & 1 << flag as u16 != 0
    }

    pub(super) fn line_end(&mut self, has_return: bool) {
        self.has_crlf |= has_return;
        self.has_lf |= !has_return;
    }

    pub(super) fn report(mut self, sink: &mut dyn Sink) {
        if self.has_lf {
            self.set(Flag::LfLine);
            if self.has_crlf {
                self.set(Flag::CrlfLfLines);
            }
        }
        for flag in Flag::ALL {
            if self.has(flag) {
                sink.flag(flag);
            }
        }
    }
}
