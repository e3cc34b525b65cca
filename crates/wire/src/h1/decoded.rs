//! The meaning of an input for a body, whatever the delimitation.

/// A body that contradicts its framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBody {
    /// The chunk does not have the form of RFC 9112 section 7.1.
    #[error("malformed chunk")]
    Chunk,
    /// The trailer fields are malformed, or too many.
    #[error("malformed trailers")]
    Trailers,
    /// The record does not have the form of `FastCGI`, or the body is shorter than announced.
    #[error("malformed record")]
    Record,
    /// The connection ended first.
    #[error("ended before its end")]
    Truncated,
}

/// The meaning of the front of some input for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// `skip` bytes of framing, then `len` bytes of content.
    Data {
        /// The length of framing to be skipped.
        skip: usize,
        /// Length of the content.
        len: usize,
    },
    /// `skip` bytes of framing, and then more input is needed.
    More {
        /// The length of framing to be skipped.
        skip: usize,
    },
    /// The body ends with `skip` bytes of framing, of which the trailer fields are the part from `trailers`.
    End {
        /// The length of framing to be skipped.
        skip: usize,
        /// Offset of trailer fields in that framing; `skip` minus 2 (an empty line) without trailers.
        trailers: usize,
    },
}
