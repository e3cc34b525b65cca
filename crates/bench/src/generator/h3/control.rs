//! Reads the server's unidirectional streams, of which only the end of a connection counts: GOAWAY on the
//! control stream (RFC 9114 section 5.2).
//!
//! Must not be in here: requests.

use super::{frame, varint};

/// The stream type of the control stream (RFC 9114 section 6.2.1).
const CONTROL: u64 = 0x00;

/// Longest frame that is kept to be read; the payload of a longer one is skipped.
const FRAME_BYTES_MAX: u64 = 16;

/// Reads one unidirectional stream of the server.
#[derive(Debug, Default)]
pub(super) struct UniReader {
    kind: Option<u64>,
    partial: Vec<u8>,
    /// Bytes of a long frame that are still to come.
    to_skip: u64,
}

/// The bytes with which the client's control stream begins: its type and empty SETTINGS, which mean that no
/// dynamic table and no push is wanted.
pub(super) const CONTROL_PREFACE: [u8; 3] = [CONTROL as u8, frame::SETTINGS as u8, 0];

impl UniReader {
    /// Takes `bytes`, which continue the stream. Returns the identifier of a GOAWAY: requests on streams from
    /// this one on were not processed.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Option<u64> {
        let mut goaway = None;
        while !bytes.is_empty() {
            if self.kind.is_some_and(|kind| kind != CONTROL) {
                return None;
            }
            let skipped = bytes.len().min(usize::try_from(self.to_skip).unwrap_or(usize::MAX));
            self.to_skip -= skipped as u64;
            bytes = &bytes[skipped..];
            if let Some((first, rest)) = bytes.split_first() {
                self.partial.push(*first);
                bytes = rest;
                goaway = self.step().or(goaway);
            }
        }
        goaway
    }

    /// Handles what is complete in the bytes that are kept. Returns the identifier of a GOAWAY.
    fn step(&mut self) -> Option<u64> {
        let mut bytes = &*self.partial;
        if self.kind.is_none() {
            self.kind = varint::take(&mut bytes);
            if self.kind.is_some() {
                self.partial.clear();
            }
            return None;
        }
        let kind = varint::take(&mut bytes)?;
        let length = varint::take(&mut bytes)?;
        if length > FRAME_BYTES_MAX {
            self.to_skip = length;
        } else if (bytes.len() as u64) < length {
            return None;
        }
        let goaway = (kind == frame::GOAWAY).then(|| varint::take(&mut bytes)).flatten();
        self.partial.clear();
        goaway
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goaway_is_found_behind_other_frames_however_it_is_cut() {
        let long = [&b"\x40\x21\x40\x64"[..], &[b'x'; 100]].concat();
        let bytes = [&b"\0\x04\x02\x06\x08"[..], &long, b"\x07\x02\x40\x48\x21\0"].concat();
        for step in 1..=bytes.len() {
            let mut reader = UniReader::default();
            let found: Vec<_> = bytes.chunks(step).filter_map(|piece| reader.feed(piece)).collect();
            assert_eq!(found, [0x48], "{step}");
        }
    }

    #[test]
    fn other_streams_have_no_frames() {
        let mut reader = UniReader::default();
        assert_eq!(reader.feed(b"\x02\x07\x01\x00\x07\x01\x00"), None);
    }
}
