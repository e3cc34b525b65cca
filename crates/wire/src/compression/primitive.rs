//! Integers and strings (RFC 7541 section 5).

use super::{BrokenBlock, huffman};

/// Bytes that an integer may have after its first one: enough for 32 bits.
const INTEGER_BYTES_MAX: u32 = 5;

/// Reads a header block from front to back.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(block: &'a [u8]) -> Self {
        Self { rest: block }
    }

    /// All that is unread.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next byte, which stays unread.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads an integer whose first byte has `prefix_bits` bits of it.
    #[inline]
    pub(crate) fn integer(&mut self, prefix_bits: u32) -> Result<usize, BrokenBlock> {
        let (first, rest) = self.rest.split_first().ok_or(BrokenBlock)?;
        self.rest = rest;
        let prefix_max = (1 << prefix_bits) - 1;
        let prefix = usize::from(*first) & prefix_max;
        if prefix < prefix_max { Ok(prefix) } else { self.long_integer(prefix) }
    }

    #[inline(never)]
    fn long_integer(&mut self, prefix: usize) -> Result<usize, BrokenBlock> {
        let mut value = prefix as u64;
        for nth in 0..INTEGER_BYTES_MAX {
            let (byte, rest) = self.rest.split_first().ok_or(BrokenBlock)?;
            self.rest = rest;
            value += u64::from(byte & 0x7f) << (7 * nth);
            if byte & 0x80 == 0 {
                // Positions in the output and in the tables have 32 bits.
                return u32::try_from(value).map(|value| value as usize).map_err(|_| BrokenBlock);
            }
        }
        Err(BrokenBlock)
    }

    /// Appends the text of a string to `out`.
    #[inline]
    pub(crate) fn string(&mut self, out: &mut Vec<u8>) -> Result<(), BrokenBlock> {
        self.string_after(7, out)
    }

    /// The same for a string whose length has `prefix_bits` bits of the first byte; the bit above them says
    /// that it is in the Huffman code (RFC 9204 section 4.1.2).
    #[inline]
    pub(crate) fn string_after(&mut self, prefix_bits: u32, out: &mut Vec<u8>) -> Result<(), BrokenBlock> {
        let is_coded = self.peek().is_some_and(|first| first & 1 << prefix_bits != 0);
        let len = self.integer(prefix_bits)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(BrokenBlock)?;
        self.rest = rest;
        if is_coded {
            return huffman::decode(bytes, out);
        }
        out.extend_from_slice(bytes);
        Ok(())
    }
}

/// Appends an integer whose first byte has `prefix_bits` bits of it and `flags` above them.
#[inline]
pub(crate) fn integer(prefix_bits: u32, flags: u8, value: usize, out: &mut Vec<u8>) {
    let prefix_max = (1 << prefix_bits) - 1;
    if value < prefix_max {
        out.push(flags | value as u8);
    } else if value - prefix_max < 0x80 {
        out.extend_from_slice(&[flags | prefix_max as u8, (value - prefix_max) as u8]);
    } else {
        out.push(flags | prefix_max as u8);
        long_integer(value - prefix_max, out);
    }
}

#[cold]
fn long_integer(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a string as it is.
#[inline]
pub(crate) fn raw(bytes: &[u8], out: &mut Vec<u8>) {
    integer(7, 0, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a string in the Huffman code, or as it is where the code would not make it shorter.
pub(crate) fn shorter(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    // Most lengths fit the one byte that is left for them.
    out.push(0);
    huffman::encode(bytes.iter().copied(), out);
    let len = out.len() - start - 1;
    if len >= bytes.len() {
        out.truncate(start);
        raw(bytes, out);
    } else if len < 0x7f {
        out[start] = 0x80 | len as u8;
    } else {
        let coded_end = out.len();
        integer(7, 0x80, len, out);
        let length_bytes = out.len() - coded_end;
        out[start..].rotate_right(length_bytes);
        out.remove(start + length_bytes);
    }
}
