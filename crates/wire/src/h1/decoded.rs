//! What a piece of input means to a body, however that is delimited.

/// A body that is not what its framing says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBody {
    /// Not of the form of RFC 9112 section 7.1.
    #[error("malformed chunk")]
    Chunk,
    /// Trailer fields that are malformed, or too many.
    #[error("malformed trailers")]
    Trailers,
    /// Not of the form of `FastCGI`, or shorter than announced.
    #[error("malformed record")]
    Record,
    /// The connection ended first.
    #[error("ended before its end")]
    Truncated,
}

/// What the front of some input means to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// `skip` bytes of framing, then `len` bytes of content.
    Data {
        /// Framing to be passed over.
        skip: usize,
        /// Content.
        len: usize,
    },
    /// `skip` bytes of framing, and then more input is needed.
    More {
        /// Framing to be passed over.
        skip: usize,
    },
    /// The body ends; `skip` bytes of framing were its last, of which the trailer fields are the part from `trailers`.
    End {
        /// Framing to be passed over.
        skip: usize,
        /// Where in that framing trailer fields begin; `skip` less 2 (an empty line) where there are none.
        trailers: usize,
    },
}
