//! The instructions on the peer's QPACK streams (RFC 9204 sections 4.3 and 4.4), for a side without dynamic
//! tables.

use crate::h3::code::{Code, Fault};

/// The instructions of the peer's encoder. Without a table it may only set its capacity to 0.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::h3) struct EncoderStream;

/// The instructions of the peer's decoder. Nothing refers to a table, so that it may only cancel streams.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::h3) struct DecoderStream {
    /// Further bytes of an integer that have come; none outside of one.
    integer_bytes: Option<u8>,
}

/// "Set Dynamic Table Capacity" with 0 (RFC 9204 section 4.3.1).
const NO_CAPACITY: u8 = 0x20;
/// "Stream Cancellation" (RFC 9204 section 4.4.2).
const CANCELLATION: u8 = 0x40;
const CANCELLATION_MASK: u8 = 0xc0;
/// An identifier that continues in the next byte.
const PREFIX_MAX: u8 = 0x3f;
const CONTINUES: u8 = 0x80;
/// Bytes that an integer of 62 bits may have after its first one.
const INTEGER_BYTES_MAX: u8 = 9;

impl EncoderStream {
    /// Reads all of the input.
    pub(in crate::h3) fn receive(input: &mut &[u8]) -> Result<(), Fault> {
        let bytes = std::mem::take(input);
        if bytes.iter().all(|byte| *byte == NO_CAPACITY) {
            Ok(())
        } else {
            Err(Fault::of_connection(Code::QPACK_ENCODER_STREAM_ERROR))
        }
    }
}

impl DecoderStream {
    /// Reads all of the input.
    pub(in crate::h3) fn receive(&mut self, input: &mut &[u8]) -> Result<(), Fault> {
        const WRONG: Fault = Fault::of_connection(Code::QPACK_DECODER_STREAM_ERROR);
        for byte in std::mem::take(input) {
            match &mut self.integer_bytes {
                Some(len) => {
                    *len += 1;
                    if byte & CONTINUES == 0 {
                        self.integer_bytes = None;
                    } else if *len == INTEGER_BYTES_MAX {
                        return Err(WRONG);
                    }
                }
                None if byte & CANCELLATION_MASK == CANCELLATION => {
                    self.integer_bytes = (byte & PREFIX_MAX == PREFIX_MAX).then_some(0);
                }
                None => return Err(WRONG),
            }
        }
        Ok(())
    }
}
