//! Bytes of records that were received and not used up: decrypted ones that nobody has read yet, and
//! ciphertext.

use std::ops::Range;

use super::format::{CONTENT_BYTES_MAX, EXPANSION_BYTES_MAX, Fault, HEADER_BYTES, first_record, record_len};

/// Received bytes. Nothing is allocated while there are none.
#[derive(Default)]
pub(in crate::io::tls) struct Received {
    bytes: Vec<u8>,
    /// Decrypted bytes that have not been read.
    plain: Range<usize>,
    /// Where the ciphertext begins.
    next: usize,
    end: usize,
}

/// Room for two records of the largest size, with what protects them.
const BYTES: usize = 2 * (HEADER_BYTES + CONTENT_BYTES_MAX + EXPANSION_BYTES_MAX);

impl Received {
    pub(in crate::io::tls) fn plain(&self) -> &[u8] {
        &self.bytes[self.plain.clone()]
    }

    pub(in crate::io::tls) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.next == self.end
    }

    /// Whether the first record, with the bytes of it that have come, fits into so much space.
    pub(in crate::io::tls) fn fits(&self, space: usize) -> bool {
        match record_len(&self.bytes[self.next..self.end]) {
            Some(len) => len <= space,
            None => self.ciphertext_len() < space,
        }
    }

    fn ciphertext_len(&self) -> usize {
        self.end - self.next
    }

    /// Moves decrypted bytes into `space`.
    pub(in crate::io::tls) fn read(&mut self, space: &mut [u8]) -> usize {
        let len = space.len().min(self.plain.len());
        space[..len].copy_from_slice(&self.plain()[..len]);
        self.plain.start += len;
        len
    }

    /// The first record, if all of it has come.
    pub(in crate::io::tls) fn record(&mut self) -> Result<Option<&mut [u8]>, Fault> {
        first_record(&mut self.bytes[self.next..self.end])
    }

    /// The first record was decrypted, and its content is at `content` within it.
    pub(in crate::io::tls) fn opened(&mut self, len: usize, content: Range<usize>) {
        debug_assert!(self.plain.is_empty(), "data before it has been read");
        self.plain = self.next + content.start..self.next + content.end;
        self.next += len;
    }

    /// Keeps ciphertext for later.
    pub(in crate::io::tls) fn keep(&mut self, ciphertext: &[u8]) {
        if ciphertext.is_empty() {
            return;
        }
        self.compact();
        if self.bytes.len() < self.end + ciphertext.len() {
            self.bytes.resize(self.end + ciphertext.len(), 0);
        }
        self.bytes[self.end..self.end + ciphertext.len()].copy_from_slice(ciphertext);
        self.end += ciphertext.len();
    }

    /// Moves all ciphertext to the front of `space`, which has room for it.
    pub(in crate::io::tls) fn hand_over(&mut self, space: &mut [u8]) -> usize {
        let len = self.ciphertext_len();
        space[..len].copy_from_slice(&self.bytes[self.next..self.end]);
        self.next = self.end;
        len
    }

    /// Room for the rest of the first record, and more.
    pub(in crate::io::tls) fn room(&mut self) -> &mut [u8] {
        self.compact();
        if self.bytes.len() < BYTES {
            self.bytes.resize(BYTES, 0);
        }
        &mut self.bytes[self.end..]
    }

    pub(in crate::io::tls) fn filled(&mut self, len: usize) {
        self.end += len;
    }

    /// Gives the memory back, if there are no bytes.
    pub(in crate::io::tls) fn release(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            *self = Self::default();
        }
    }

    /// Moves the bytes to the front.
    fn compact(&mut self) {
        let start = if self.plain.is_empty() { self.next } else { self.plain.start };
        self.bytes.copy_within(start..self.end, 0);
        self.plain = self.plain.start.saturating_sub(start)..self.plain.end.saturating_sub(start);
        self.next -= start;
        self.end -= start;
    }
}
