//! The instructions on the peer's QPACK streams (RFC 9204 sections 4.3 and 4.4).

use super::decoder::Decoder;
use super::encoder::Encoder;
use crate::compression::primitive::Reader;
use crate::h3::code::{Code, Fault};

/// The instructions of the peer's encoder, which fill the table of our [`Decoder`].
#[derive(Debug, Default)]
pub(in crate::h3) struct EncoderStream {
    /// An instruction that has not come whole.
    pending: Vec<u8>,
}

/// The instructions of the peer's decoder, about the table of our [`Encoder`].
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::h3) struct DecoderStream {
    pending: [u8; INTEGER_BYTES_MAX],
    len: u8,
}

/// The largest integer has 62 bits (RFC 9204 section 4.1.1): a prefix, and nine bytes more.
const INTEGER_BYTES_MAX: usize = 10;
/// The Huffman code makes a byte to 30 bits at most: a longer string has no room in the table.
const CODED_BYTES_PER_BYTE: u64 = 4;

const INSERT_NAMED: u8 = 0x80;
const INSERT_NAMED_STATIC: u8 = 0x40;
const INSERT_LITERAL: u8 = 0x40;
const SET_CAPACITY: u8 = 0x20;
const ACKNOWLEDGMENT: u8 = 0x80;
const CANCELLATION: u8 = 0x40;

const WRONG: Fault = Fault::of_connection(Code::QPACK_ENCODER_STREAM_ERROR);

impl EncoderStream {
    /// Reads all of the input. Before each instruction, `pay` decides whether the peer may send one more.
    pub(in crate::h3) fn receive(
        &mut self,
        decoder: &mut Decoder,
        input: &mut &[u8],
        mut pay: impl FnMut() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let bytes = std::mem::take(input);
        let mut joined = std::mem::take(&mut self.pending);
        let is_joined = !joined.is_empty();
        if is_joined {
            joined.extend_from_slice(bytes);
        }
        let all = if is_joined { &joined[..] } else { bytes };
        let mut at = 0;
        while let Some(len) = instruction_len(&all[at..], decoder.table_bytes_max())? {
            pay()?;
            apply(decoder, &all[at..at + len])?;
            at += len;
        }
        // The bounds of strings are those of an instruction that is kept here.
        if at < all.len() {
            self.pending = if is_joined && at == 0 { joined } else { all[at..].to_vec() };
        }
        decoder.report();
        Ok(())
    }
}

/// The length of the instruction at the front of `bytes`; none while it is incomplete.
fn instruction_len(bytes: &[u8], table_bytes_max: usize) -> Result<Option<usize>, Fault> {
    let Some(first) = bytes.first() else { return Ok(None) };
    let start = match *first {
        INSERT_NAMED.. => integer(bytes, 6, WRONG)?.map(|(_, len)| len),
        INSERT_LITERAL.. => string_end(bytes, 0, 5, table_bytes_max)?,
        _ => return Ok(integer(bytes, 5, WRONG)?.map(|(_, len)| len)),
    };
    start.map_or(Ok(None), |start| string_end(bytes, start, 7, table_bytes_max))
}

/// The end of a string that begins at `start`; none while it is incomplete.
fn string_end(
    bytes: &[u8],
    start: usize,
    prefix_bits: u32,
    table_bytes_max: usize,
) -> Result<Option<usize>, Fault> {
    let Some((string_len, len)) = integer(&bytes[start..], prefix_bits, WRONG)? else { return Ok(None) };
    if string_len > CODED_BYTES_PER_BYTE * table_bytes_max as u64 {
        return Err(WRONG);
    }
    let end = start + len + string_len as usize;
    Ok(if end <= bytes.len() { Some(end) } else { None })
}

/// The integer at the front of `bytes`, and how many bytes it takes; none while it is incomplete.
fn integer(bytes: &[u8], prefix_bits: u32, wrong: Fault) -> Result<Option<(u64, usize)>, Fault> {
    let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
    let prefix_max = (1 << prefix_bits) - 1;
    let mut value = u64::from(*first) & prefix_max;
    if value < prefix_max {
        return Ok(Some((value, 1)));
    }
    for (nth, byte) in rest.iter().take(INTEGER_BYTES_MAX - 1).enumerate() {
        value += u64::from(byte & 0x7f) << (7 * nth);
        if byte & 0x80 == 0 {
            return Ok(Some((value, nth + 2)));
        }
    }
    if rest.len() >= INTEGER_BYTES_MAX - 1 { Err(wrong) } else { Ok(None) }
}

/// Changes the table by an instruction that has come whole.
fn apply(decoder: &mut Decoder, instruction: &[u8]) -> Result<(), Fault> {
    let mut reader = Reader::new(instruction);
    let first = reader.peek().unwrap_or_default();
    let mut number = |prefix_bits| reader.integer(prefix_bits).map_err(|_| WRONG);
    match first {
        INSERT_NAMED.. => {
            let index = number(6)?;
            decoder.insert_named(first & INSERT_NAMED_STATIC != 0, index, &mut reader)
        }
        INSERT_LITERAL.. => decoder.insert_literal(&mut reader),
        SET_CAPACITY.. => decoder.set_capacity(number(5)?),
        _ => decoder.duplicate(number(5)?),
    }
}

impl DecoderStream {
    /// Reads all of the input. Before each instruction, `pay` decides whether the peer may send one more.
    pub(in crate::h3) fn receive(
        &mut self,
        encoder: &mut Encoder,
        input: &mut &[u8],
        mut pay: impl FnMut() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        const WRONG: Fault = Fault::of_connection(Code::QPACK_DECODER_STREAM_ERROR);
        for byte in std::mem::take(input) {
            let at = usize::from(self.len);
            self.pending[at] = *byte;
            self.len += 1;
            let (first, bytes) = (self.pending[0], &self.pending[..=at]);
            let prefix_bits = if first & ACKNOWLEDGMENT != 0 { 7 } else { 6 };
            let Some((value, _)) = integer(bytes, prefix_bits, WRONG)? else { continue };
            self.len = 0;
            pay()?;
            let is_right = if first & ACKNOWLEDGMENT != 0 {
                encoder.acknowledge(value)
            } else if first & CANCELLATION != 0 {
                encoder.cancel(value);
                true
            } else {
                encoder.increment(value)
            };
            if !is_right {
                return Err(WRONG);
            }
        }
        Ok(())
    }
}
