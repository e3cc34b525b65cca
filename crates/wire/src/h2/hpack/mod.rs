//! HPACK (RFC 7541): header blocks of HTTP/2 decoded to lines of HTTP/1 and encoded from fields.
//!
//! Both directions know names by number wherever they can: an entry of a table has the number of its name and
//! the results of all checks beside its bytes, so a field that a connection repeats costs one copy.
//!
//! Never in here: frames, the order of pseudo-header fields, the meaning of a field.

mod decoder;
mod encoder;
mod policy;
mod static_table;

pub use crate::compression::{BrokenBlock, Decoded, ListTooLarge, Token};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use policy::Indexing;

/// Size of a dynamic table before SETTINGS say otherwise (RFC 9113 section 6.5.2).
pub const TABLE_BYTES_DEFAULT: usize = 4096;

#[cfg(test)]
mod tests;
