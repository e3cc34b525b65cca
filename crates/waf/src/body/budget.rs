//! The bounds of a body, and its first error.
//!
//! Never in here: the form of a body.

use super::sink::{Place, Settings, Sink};

/// The remaining room of a body's names and values.
pub(super) struct Budget {
    arguments: usize,
    no_files_bytes: usize,
    has_failed: bool,
}

// === impl Budget ===

impl Budget {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            arguments: settings.arguments_max,
            no_files_bytes: settings.no_files_bytes_max,
            has_failed: false,
        }
    }

    /// Whether the body has had an error, after which nothing is parsed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Reports the first error, and no other one.
    pub(super) fn fail(&mut self, message: &str, sink: &mut dyn Sink) {
        if !self.has_failed {
            self.has_failed = true;
            sink.error(message);
        }
    }

    /// Passes an argument on, or a file, which takes an argument's room.
    pub(super) fn item(&mut self, place: Place, name: &[u8], value: &[u8], sink: &mut dyn Sink) {
        if self.has_failed {
            return;
        }
        match self.arguments.checked_sub(1) {
            None => self.fail("more arguments than SecArgumentsLimit", sink),
            Some(rest) => {
                self.arguments = rest;
                sink.item(place, name, value);
            }
        }
    }

    /// Counts bytes that do not belong to a file; false if there are too many.
    pub(super) fn count_no_files(&mut self, bytes: usize, sink: &mut dyn Sink) -> bool {
        match self.no_files_bytes.checked_sub(bytes) {
            None => self.fail("more bytes beside files than SecRequestBodyNoFilesLimit", sink),
            Some(rest) => self.no_files_bytes = rest,
        }
        !self.has_failed
    }
}
