//! The parts that HPACK (RFC 7541) and QPACK (RFC 9204) have in common: integers, strings, the Huffman code,
//! the dynamic table, the checks of names and values, and the form of a decoded field.
//!
//! Never in here: static tables, representations of fields, frames.

pub(crate) mod checked;
pub(crate) mod huffman;
pub(crate) mod primitive;
pub(crate) mod table;

use std::ops::Range;

use crate::field::Known;

/// Decodes the header blocks of one direction of a connection.
pub(crate) trait FieldDecoder {
    /// Decodes a whole block. Appends each field to `out` as a line `name: value\r\n`, and passes its
    /// position to `on_field`, which may truncate `out` again. The first error of `on_field`, or that the
    /// fields are larger than `list_bytes_max`, is returned inside `Ok`.
    ///
    /// # Errors
    ///
    /// [`BrokenBlock`] if the block is not valid.
    fn decode<E: From<ListTooLarge>>(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        out: &mut Vec<u8>,
        on_field: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<Result<(), E>, BrokenBlock>;
}

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
/// connection error of type `COMPRESSION_ERROR` (RFC 9113 section 4.3) or `QPACK_DECOMPRESSION_FAILED` (RFC
/// 9204 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header block that cannot be decoded")]
pub struct BrokenBlock;

/// A header list whose fields exceed the bound on their sizes (RFC 9113 section 6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header list that is too large")]
pub struct ListTooLarge;
