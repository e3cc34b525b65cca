//! Numbers and texts in bytes: written, and read from bytes that may be anything.

/// Bytes that are no record, or not all of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Appends a number in seven bits a byte, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number that may be negative: small ones of either sign are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Appends a text after its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads from the begin of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Broken> {
        let (first, rest) = self.0.split_first().ok_or(Broken)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Broken)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Broken)
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Broken> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A number of things of which each takes memory.
    pub(crate) fn count(&mut self, max: usize) -> Result<usize, Broken> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= max).ok_or(Broken)
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8], Broken> {
        let len = usize::try_from(self.number()?).map_err(|_| Broken)?;
        self.take(len)
    }

    /// Four bytes, the lowest first.
    pub(crate) fn u32(&mut self) -> Result<u32, Broken> {
        let bytes = self.take(4)?.try_into().map_err(|_| Broken)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Eight bytes, the lowest first.
    pub(crate) fn u64(&mut self) -> Result<u64, Broken> {
        let bytes = self.take(8)?.try_into().map_err(|_| Broken)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
