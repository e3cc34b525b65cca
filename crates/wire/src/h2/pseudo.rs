//! Pseudo-header fields of responses: `:status` and no other (RFC 9113 section 8.3.2).
//!
//! The `h2` crate also accepts those of requests in a response and drops them. This module does not decode
//! header compression: the crate checks that pseudo-header fields come before all others, so the first two
//! fields of a block decide.

/// A response with a pseudo-header field other than `:status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a response with a pseudo-header field of a request")]
pub struct ForeignPseudo;

/// Follows the bytes of an endpoint on a connection.
#[derive(Clone, Debug)]
pub struct ResponseGuard {
    /// The header of the present frame.
    header: [u8; FRAME_HEADER_BYTES],
    header_len: usize,
    /// Bytes of the frame that have not arrived.
    left: usize,
    /// Bytes before its fields that have not arrived: length of the padding, priority.
    prefix_left: usize,
    /// The next byte is the length of the padding.
    awaits_padding: bool,
    /// Bytes of padding after its fields.
    padding: usize,
    /// The beginning of the header block, as long as it is undecided.
    block: [u8; BLOCK_BYTES],
    block_len: usize,
    is_undecided: bool,
}

/// Length of a frame's header (RFC 9113 section 4.1).
const FRAME_HEADER_BYTES: usize = 9;
/// The longest beginning of a block: two changes of the table's size, `:status` in its longest form and the
/// name of the next field.
const BLOCK_BYTES: usize = 64;
/// The longest string that is read.
const TEXT_BYTES: usize = 16;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// Indexes of RFC 7541 appendix A: 1 to 14 are pseudo-header fields, 8 to 14 of them `:status`.
const PSEUDO_LAST: usize = 14;
const STATUS_FIRST: usize = 8;
/// The last entry of the static table. A pseudo-header field in the dynamic table has been seen before as a
/// literal.
const STATIC_LAST: usize = 61;
const STATUS: &[u8] = b":status";
/// The text `:status` in the Huffman code of RFC 7541 appendix B.
const STATUS_HUFFMAN: &[u8] = &[0xb8, 0x84, 0x8d, 0x36, 0xa3];
/// The 7 bits of `:` in that code.
const COLON_HUFFMAN: u8 = 0b101_1100;

impl Default for ResponseGuard {
    /// The state at the first byte of a connection.
    fn default() -> Self {
        Self {
            header: [0; FRAME_HEADER_BYTES],
            header_len: 0,
            left: 0,
            prefix_left: 0,
            awaits_padding: false,
            padding: 0,
            block: [0; BLOCK_BYTES],
            block_len: 0,
            is_undecided: false,
        }
    }
}

impl ResponseGuard {
    /// Examines bytes from the endpoint, however they are cut.
    ///
    /// # Errors
    /// A header block has a pseudo-header field other than `:status`.
    pub fn received(&mut self, mut bytes: &[u8]) -> Result<(), ForeignPseudo> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let payload = take(&mut bytes, self.left);
                self.left -= payload.len();
                if self.is_undecided {
                    self.examine(payload)?;
                }
                continue;
            }
            let header = take(&mut bytes, FRAME_HEADER_BYTES - self.header_len);
            self.header[self.header_len..self.header_len + header.len()].copy_from_slice(header);
            self.header_len += header.len();
            if self.header_len == FRAME_HEADER_BYTES {
                self.begin();
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        let [a, b, c, kind, flags, ..] = self.header;
        (self.header_len, self.prefix_left, self.padding) = (0, 0, 0);
        self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if kind == HEADERS {
            (self.block_len, self.is_undecided) = (0, true);
            self.awaits_padding = flags & PADDED != 0;
            self.prefix_left = usize::from(self.awaits_padding) + if flags & PRIORITY == 0 { 0 } else { 5 };
        } else if kind != CONTINUATION {
            self.is_undecided = false;
        }
    }

    fn examine(&mut self, mut payload: &[u8]) -> Result<(), ForeignPseudo> {
        if self.awaits_padding {
            self.padding = payload.first().copied().map_or(0, usize::from);
            self.awaits_padding = false;
        }
        self.prefix_left -= take(&mut payload, self.prefix_left).len();
        let in_padding = self.padding.saturating_sub(self.left).min(payload.len());
        let fields = &payload[..payload.len() - in_padding];
        let len = fields.len().min(BLOCK_BYTES - self.block_len);
        self.block[self.block_len..self.block_len + len].copy_from_slice(&fields[..len]);
        self.block_len += len;
        match Block(&self.block[..self.block_len]).has_foreign() {
            Some(true) => return Err(ForeignPseudo),
            Some(false) => self.is_undecided = false,
            // A `:status` that is longer than any valid one, or more changes of the table's size than are
            // allowed.
            None if self.block_len == BLOCK_BYTES => return Err(ForeignPseudo),
            None => {}
        }
        Ok(())
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(len.min(bytes.len()));
    *bytes = rest;
    taken
}

/// The name of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    /// `:status`, or an entry of the dynamic table, which may be it.
    Status,
    Foreign,
    Ordinary,
}

/// The unread beginning of a header block (RFC 7541 section 6). Each step returns none if more bytes are
/// needed.
struct Block<'a>(&'a [u8]);

impl<'a> Block<'a> {
    /// Whether one of the first two fields is a pseudo-header field other than `:status`.
    fn has_foreign(mut self) -> Option<bool> {
        while self.0.first()? & 0xe0 == 0x20 {
            self.integer(5)?;
        }
        let is_indexed = self.0.first()? & 0x80 != 0;
        let mut name = self.name()?;
        if name == Name::Status {
            if !is_indexed {
                self.text()?;
            }
            name = self.name()?;
        }
        Some(name == Name::Foreign)
    }

    fn name(&mut self) -> Option<Name> {
        let prefix_bits = match self.0.first()? {
            0x80.. => 7,
            0x40.. => 6,
            _ => 4,
        };
        let index = self.integer(prefix_bits)?;
        Some(match index {
            0 => self.literal_name()?,
            STATUS_FIRST..=PSEUDO_LAST => Name::Status,
            1..STATUS_FIRST => Name::Foreign,
            _ if index <= STATIC_LAST => Name::Ordinary,
            _ => Name::Status,
        })
    }

    fn literal_name(&mut self) -> Option<Name> {
        let is_huffman = self.0.first()? & 0x80 != 0;
        let text = self.text()?;
        let first = text.first().copied().unwrap_or_default();
        let (status, is_pseudo) =
            if is_huffman { (STATUS_HUFFMAN, first >> 1 == COLON_HUFFMAN) } else { (STATUS, first == b':') };
        Some(if text == status {
            Name::Status
        } else if is_pseudo {
            Name::Foreign
        } else {
            Name::Ordinary
        })
    }

    /// A string literal (RFC 7541 section 5.2). A string that is longer than any `:status` is cut, because
    /// its beginning decides.
    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.integer(7)?;
        if self.0.len() < len.min(TEXT_BYTES) {
            return None;
        }
        Some(take(&mut self.0, len))
    }

    /// An integer with a prefix (RFC 7541 section 5.1), up to 16 bits.
    fn integer(&mut self, prefix_bits: u32) -> Option<usize> {
        let max = (1 << prefix_bits) - 1;
        let mut value = usize::from(*take(&mut self.0, 1).first()?) & max;
        if value < max {
            return Some(value);
        }
        for shift in [0, 7] {
            let byte = usize::from(*take(&mut self.0, 1).first()?);
            value += (byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_HEADERS: u8 = 4;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 1];
        bytes.extend_from_slice(payload);
        bytes
    }

    fn is_refused(bytes: &[u8]) -> bool {
        let refused = [1, 3, bytes.len()].map(|size| {
            let mut guard = ResponseGuard::default();
            bytes.chunks(size).any(|piece| guard.received(piece).is_err())
        });
        assert!(refused.iter().all(|one| *one == refused[0]), "it does not depend on how {bytes:?} are cut");
        refused[0]
    }

    const PATH: &[u8] = b"\0\x05:path\x01/";

    #[test]
    fn responses_have_no_pseudo_header_field_but_status() {
        let cases: [(&[u8], bool); 13] = [
            (b"\x88", false),
            (b"\x88\x5f\x01a", false),
            // The table's size changes first; `:status` is a literal with an indexed name, with a plain name,
            // and with a name in Huffman code.
            (b"\x3f\xe1\x1f\x20\x48\x03404\x84", true),
            (b"\0\x07:status\x03404\x44\x01/", true),
            (b"\x40\x85\xb8\x84\x8d\x36\xa3\x03404\x54\x01a", false),
            (b"\x40\x85\xb8\x84\x8d\x36\xa3\x03404\x84", true),
            (b"\x40\x85\xb8\x84\x8d\x36\xa3\x03404\xbe\x84", false),
            // The field `:path` in Huffman code, and by entries of the static table.
            (b"\x88\0\x84\xb9\x58\xd3\x3f\x01/", true),
            (b"\x84\x88", true),
            (b"\x88\x14\x01/", true),
            // The first field is an entry of the dynamic table.
            (b"\xbe\x84", true),
            (b"\xbe\x5f\x01a", false),
            // Trailers have no pseudo-header fields.
            (b"\x40\x0bgrpc-status\x010", false),
        ];
        for (block, refused) in cases {
            assert_eq!(is_refused(&frame(HEADERS, END_HEADERS, block)), refused, "{block:?}");
            let padded = [&[3, 0, 0, 0, 1, 16], block, &[0; 3]].concat();
            let bytes = [
                frame(4, 0, &[0, 3, 0, 0, 0, 100]),
                frame(HEADERS, END_HEADERS | PADDED | PRIORITY, &padded),
                frame(0, 1, PATH),
            ];
            assert_eq!(is_refused(&bytes.concat()), refused, "{block:?} with padding");
        }
        assert!(is_refused(&frame(HEADERS, END_HEADERS, &[b"\x88", PATH].concat())));
    }

    #[test]
    fn a_block_that_does_not_come_to_its_fields_is_refused() {
        assert!(is_refused(&frame(
            HEADERS,
            END_HEADERS,
            &[[0x20; BLOCK_BYTES].as_slice(), &[0x88, 0x84]].concat()
        )));
        let long = [b"\x48\x50".as_slice(), &[b'2'; 80], &[0x84]].concat();
        assert!(is_refused(&frame(HEADERS, END_HEADERS, &long)));
        let name = [b"\0\x50".as_slice(), &[b'a'; 80], b"\x01b"].concat();
        assert!(!is_refused(&frame(HEADERS, END_HEADERS, &name)), "trailers with a long name");
    }

    #[test]
    fn blocks_are_examined_over_several_frames() {
        let block = [b"\x48\x03404", PATH].concat();
        for cut in 1..block.len() {
            let padded = [&[4], &block[..cut], &[0; 4]].concat();
            for first in [frame(HEADERS, 0, &block[..cut]), frame(HEADERS, PADDED, &padded)] {
                assert!(
                    is_refused(&[first, frame(CONTINUATION, END_HEADERS, &block[cut..])].concat()),
                    "{cut}"
                );
            }
        }
    }
}
