//! The entries of a block that is being made.
//!
//! Must not be in here: files.

use crate::coder::Coder;
use crate::frame::{Event, Frame};
use crate::limits::{BLOCK_BYTES, BLOCK_FRAMES};
use crate::pack::{put_event, put_frame};

/// Collects entries. Its coder has no memory at the begin, so that a block can be read without others.
#[derive(Default)]
pub(crate) struct Packer {
    coder: Coder,
    entries: Vec<u8>,
    frames: u32,
}

impl Packer {
    /// Appends a frame. Returns its entry.
    pub(crate) fn frame(&mut self, frame: &Frame) -> &[u8] {
        let begin = self.entries.len();
        let mut bytes = Vec::new();
        self.coder.encode(frame, &mut bytes);
        put_frame(&mut self.entries, &bytes);
        self.frames += 1;
        &self.entries[begin..]
    }

    /// Appends an event. Returns its entry.
    pub(crate) fn event(&mut self, event: &Event) -> &[u8] {
        let begin = self.entries.len();
        put_event(&mut self.entries, event);
        &self.entries[begin..]
    }

    /// The entries so far.
    pub(crate) fn entries(&self) -> &[u8] {
        &self.entries
    }

    /// Whether the block has as many frames or bytes as it should have.
    pub(crate) fn is_full(&self) -> bool {
        self.frames >= BLOCK_FRAMES || self.entries.len() >= BLOCK_BYTES
    }
}
