//! The encoding of records as bytes. Pure.
//!
//! A record is a header of a fixed length, then the key, labels, meta and body. The header has a checksum of
//! itself and of the segment's number, so that the remains of another file are not taken for records, and a
//! second checksum of the data behind it.

use crc32fast::Hasher;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 48;

const MAGIC: [u8; 4] = *b"FbC1";
/// Bytes of the header that its checksum is about.
const CHECKED_BYTES: usize = 44;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is a response.
    Put,
    /// There is none with this key any more.
    Removal,
    /// Its meta is a purge.
    Purge,
}

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Self> {
        [Self::Put, Self::Removal, Self::Purge].into_iter().find(|kind| *kind as u8 == byte)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
    pub(crate) hash: u64,
    pub(crate) key_len: u32,
    pub(crate) labels_len: u32,
    pub(crate) meta_len: u32,
    pub(crate) body_len: u32,
    /// Checksum of all that follows the header.
    pub(crate) payload_crc: u32,
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View<'a> {
    pub(crate) header: Header,
    pub(crate) key: &'a [u8],
    pub(crate) labels: &'a [u8],
    pub(crate) meta: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Header {
    /// Bytes of the whole record.
    pub(crate) fn record_len(&self) -> u64 {
        let lens = [self.key_len, self.labels_len, self.meta_len, self.body_len];
        HEADER_BYTES as u64 + lens.into_iter().map(u64::from).sum::<u64>()
    }

    pub(crate) fn encode(&self, segment: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.hash.to_le_bytes());
        let numbers = [self.key_len, self.labels_len, self.meta_len, self.body_len, self.payload_crc];
        for (place, number) in bytes[24..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = header_crc(&bytes, segment);
        bytes[CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// None if the bytes are no header of this segment.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], segment: u64) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if bytes[..4] != MAGIC || bytes[5..8] != [0; 3] || word(CHECKED_BYTES) != header_crc(bytes, segment) {
            return None;
        }
        Some(Self {
            kind: Kind::of(bytes[4])?,
            sequence: long(8),
            hash: long(16),
            key_len: word(24),
            labels_len: word(28),
            meta_len: word(32),
            body_len: word(36),
            payload_crc: word(40),
        })
    }
}

impl<'a> View<'a> {
    /// Decodes a whole record. None if any part of it is damaged.
    pub(crate) fn decode(bytes: &'a [u8], segment: u64) -> Option<Self> {
        let (head, payload) = bytes.split_first_chunk()?;
        let header = Header::decode(head, segment)?;
        if header.record_len() != bytes.len() as u64 || header.payload_crc != crc32fast::hash(payload) {
            return None;
        }
        let (key, rest) = payload.split_at(header.key_len as usize);
        let (labels, rest) = rest.split_at(header.labels_len as usize);
        let (meta, body) = rest.split_at(header.meta_len as usize);
        Some(Self { header, key, labels, meta, body })
    }
}

fn header_crc(bytes: &[u8; HEADER_BYTES], segment: u64) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&segment.to_le_bytes());
    hasher.update(&bytes[..CHECKED_BYTES]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(sequence: u64, parts: [&[u8]; 4], segment: u64) -> Vec<u8> {
        let payload = parts.concat();
        let [key_len, labels_len, meta_len, body_len] = parts.map(|part| part.len() as u32);
        let payload_crc = crc32fast::hash(&payload);
        let kind = Kind::Put;
        let header = Header { kind, sequence, hash: 9, key_len, labels_len, meta_len, body_len, payload_crc };
        [&header.encode(segment)[..], &payload].concat()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else(
            sequence in any::<u64>(),
            parts in any::<[Vec<u8>; 4]>(),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let mut bytes = record(sequence, parts.each_ref().map(Vec::as_slice), 7);
            let view = View::decode(&bytes, 7).unwrap();
            prop_assert_eq!([view.key, view.labels, view.meta, view.body], parts.each_ref().map(Vec::as_slice));
            prop_assert_eq!(view.header.sequence, sequence);
            prop_assert!(View::decode(&bytes, 8).is_none(), "of another segment");
            prop_assert!(View::decode(&bytes[..at.index(bytes.len())], 7).is_none(), "cut off");
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(View::decode(&bytes, 7).is_none(), "a bit flipped at {}", at);
        }
    }
}
