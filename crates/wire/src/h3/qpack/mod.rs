//! QPACK (RFC 9204): header blocks of HTTP/3 decoded to lines of HTTP/1 and encoded from fields.
//!
//! Neither direction uses a dynamic table: ours announces a capacity of 0, which is the default, so that no
//! block refers to an entry and no block waits for one.
//!
//! Never in here: frames, the order of pseudo-header fields, the meaning of a field.

mod decoder;
mod encoder;
mod instructions;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub(super) use encoder::{begin, field, status};
pub(super) use instructions::{DecoderStream, EncoderStream};
