//! Message bodies: their length, and the part of an input that belongs to them (RFC 9112 section 6).

use super::chunked::Chunked;
use super::decoded::{Decoded, InvalidBody};
use crate::fcgi::{Content, ContentPiece};

/// The delimitation of a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The message has no body.
    Empty,
    /// The body has this length, at least one byte.
    Length(u64),
    /// Transfer coding `chunked`.
    Chunked,
    /// The body ends with the connection; responses only.
    UntilClose,
}

impl Body {
    /// The body of a `Content-Length`.
    pub fn of_length(length: u64) -> Self {
        if length == 0 { Self::Empty } else { Self::Length(length) }
    }
}

/// Follows a body through its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyDecoder {
    /// The number of bytes that have not arrived.
    Length(u64),
    /// The decoder of the `chunked` coding.
    Chunked(Chunked),
    /// All input is content.
    UntilClose,
    /// The decoder of a `FastCGI` response. It is boxed, because hardly any response needs it.
    FastCgi(Box<Content>),
}

impl BodyDecoder {
    /// Creates a decoder for the body's first byte.
    pub fn new(body: Body) -> Self {
        match body {
            Body::Empty => Self::Length(0),
            Body::Length(length) => Self::Length(length),
            Body::Chunked => Self::Chunked(Chunked::default()),
            Body::UntilClose => Self::UntilClose,
        }
    }

    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Length(remaining) => *remaining == 0,
            Self::Chunked(chunked) => chunked.is_done(),
            Self::UntilClose => false,
            Self::FastCgi(content) => content.is_done(),
        }
    }

    /// Classifies the front of `input`. Content is counted at once; the caller must consume all of it.
    ///
    /// # Errors
    /// The framing is malformed; no later byte can be trusted.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, InvalidBody> {
        match self {
            Self::Length(0) => Ok(Decoded::End { skip: 0, trailers: 0 }),
            Self::Length(remaining) => {
                let len = (*remaining).min(input.len() as u64) as usize;
                *remaining -= len as u64;
                Ok(if len == 0 { Decoded::More { skip: 0 } } else { Decoded::Data { skip: 0, len } })
            }
            Self::Chunked(chunked) => chunked.decode(input),
            Self::UntilClose if input.is_empty() => Ok(Decoded::More { skip: 0 }),
            Self::UntilClose => Ok(Decoded::Data { skip: 0, len: input.len() }),
            Self::FastCgi(content) => match content.decode(input) {
                Ok(ContentPiece::Data { skip, len }) => Ok(Decoded::Data { skip, len }),
                Ok(ContentPiece::More { skip }) => Ok(Decoded::More { skip }),
                Ok(ContentPiece::End { skip }) => Ok(Decoded::End { skip, trailers: skip }),
                Err(_) => Err(InvalidBody::Record),
            },
        }
    }

    /// Handles the end of the input. Ok if the body ends with it.
    ///
    /// # Errors
    /// The body is shorter than announced.
    pub fn finish(&mut self) -> Result<(), InvalidBody> {
        match self {
            Self::UntilClose => {
                *self = Self::Length(0);
                Ok(())
            }
            done if done.is_done() => Ok(()),
            _ => Err(InvalidBody::Truncated),
        }
    }
}
