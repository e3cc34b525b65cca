//! Message bodies: how long they are, and what of a piece of input belongs to them (RFC 9112 section 6).

use super::chunked::Chunked;
use super::decoded::{Decoded, InvalidBody};
use crate::fcgi::{Content, ContentPiece};

/// How a message's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    Empty,
    /// So many bytes, at least one.
    Length(u64),
    /// Transfer coding `chunked`.
    Chunked,
    /// Up to the end of the connection; responses only.
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
    /// So many bytes are to come.
    Length(u64),
    /// See [`Chunked`].
    Chunked(Chunked),
    /// Everything is content.
    UntilClose,
    /// See [`Content`]: of a response that did not come by HTTP. On the heap, since hardly any does.
    FastCgi(Box<Content>),
}

impl BodyDecoder {
    /// A decoder at the body's first byte.
    pub fn new(body: Body) -> Self {
        match body {
            Body::Empty => Self::Length(0),
            Body::Length(length) => Self::Length(length),
            Body::Chunked => Self::Chunked(Chunked::default()),
            Body::UntilClose => Self::UntilClose,
        }
    }

    /// Whether nothing more belongs to the body.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Length(remaining) => *remaining == 0,
            Self::Chunked(chunked) => chunked.is_done(),
            Self::UntilClose => false,
            Self::FastCgi(content) => content.is_done(),
        }
    }

    /// Says what the front of `input` is. Content is counted off at once; the caller must take all of it.
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

    /// The input has ended. Ok if the body ends with it.
    ///
    /// # Errors
    /// More was announced than has come.
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
