//! QPACK (RFC 9204): header blocks of HTTP/3 decoded to lines of HTTP/1 and encoded from fields.
//!
//! A [`Decoder`] holds the dynamic table that the peer's encoder fills, an [`Encoder`] the one that it fills
//! for the peer. Neither allocates a table before the peer uses one. Our encoder refers to an entry only once
//! the peer has acknowledged it, so that a lost packet never makes a response wait for another stream.
//!
//! Never in here: frames, the order of pseudo-header fields, the meaning of a field.

mod decoder;
mod encoder;
mod instructions;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub(super) use decoder::Section;
pub use encoder::Encoder;
pub(super) use encoder::SectionWriter;
pub(super) use instructions::{DecoderStream, EncoderStream};

/// The bound of a dynamic table that we allow the peer's encoder, in bytes, and that we use of the peer's.
pub const TABLE_BYTES_MAX: usize = 4096;
/// The streams that may wait for entries of the table at the same time.
pub const BLOCKED_STREAMS_MAX: usize = 16;
