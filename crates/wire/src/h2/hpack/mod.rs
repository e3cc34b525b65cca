//! HPACK (RFC 7541): header blocks of HTTP/2 decoded to lines of HTTP/1 and encoded from fields.
//!
//! Both directions know names by number wherever they can: an entry of a table has the number of its name and
//! the results of all checks beside its bytes, so a field that a connection repeats costs one copy.
//!
//! Never in here: frames, the order of pseudo-header fields, the meaning of a field.

mod checked;
mod decoder;
mod encoder;
mod huffman;
mod policy;
mod primitive;
mod static_table;
mod table;

use std::ops::Range;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use policy::Indexing;

use crate::field::Known;

/// Size of a dynamic table before SETTINGS say otherwise (RFC 9113 section 6.5.2).
pub const TABLE_BYTES_DEFAULT: usize = 4096;

/// The name of a decoded field, as far as it is known without comparing bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The pseudo-header field `:method`.
    Method,
    /// The pseudo-header field `:path`.
    Path,
    /// The pseudo-header field `:scheme`.
    Scheme,
    /// The pseudo-header field `:authority`.
    Authority,
    /// The pseudo-header field `:status`.
    Status,
    /// The pseudo-header field `:protocol` (RFC 8441).
    Protocol,
    /// `cookie`, whose lines have to be joined (RFC 9113 section 8.2.3).
    Cookie,
    /// Any other name that begins with a colon. RFC 9113 section 8.1.1 makes the message malformed.
    UnknownPseudo,
    /// Any other field; `Known::Other` if the proxy does not know it.
    Field(Known),
}

/// A decoded field, as positions in the output, which has it as a line of HTTP/1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The name, if it is known.
    pub token: Token,
    /// Position of the name. The line begins with it.
    pub name: Range<usize>,
    /// Position of the value. The line ends two bytes after it.
    pub value: Range<usize>,
    /// Whether the name consists of letters, digits and dashes only.
    pub is_plain_name: bool,
    /// Whether the name is a token without upper-case letters (RFC 9113 section 8.2.1), with or without a
    /// colon before it.
    pub name_is_valid: bool,
    /// Whether the value has no control characters other than the tab, and no white space at its ends.
    pub value_is_valid: bool,
    /// Whether the peer demands that the field is never indexed, on no connection (RFC 7541 section 6.2.3).
    pub is_never_indexed: bool,
}

/// A header block that cannot be decoded: the tables of both sides may differ from here on, which is a
/// connection error of type `COMPRESSION_ERROR` (RFC 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header block that is no valid HPACK")]
pub struct BrokenBlock;

/// A header list whose fields exceed the bound on their sizes (RFC 9113 section 6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header list that is too large")]
pub struct ListTooLarge;

#[cfg(test)]
mod tests;
