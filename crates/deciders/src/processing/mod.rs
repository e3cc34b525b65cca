//! The conversation with an external processor about one request and its response, without the stream that
//! carries it: the parts that are sent, which answers may come, and what these mean.

mod conversation;
mod head;

pub use conversation::{Change, Conversation, Received, Violation};
pub use head::{BadMutation, Head, HeadField, HeadKind, Immediate, Visibility};

use crate::proto::processing::{BodySendMode, HeaderSendMode, ProcessingMode};

/// The way of a message: to the endpoint or to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client's request.
    Request,
    /// The endpoint's response.
    Response,
}

/// How the content of a message is sent to the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyMode {
    /// Not at all.
    #[default]
    None,
    /// Piece by piece; each one is replaced by the answer to it.
    Streamed,
    /// As a whole; longer content than may be buffered is an error.
    Buffered,
    /// As a whole, or as much of it as may be buffered.
    BufferedPartial,
}

/// The parts of a message that are sent to the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Head of the message.
    pub headers: bool,
    /// Content of the message.
    pub body: BodyMode,
    /// Trailers of the message, if it has any.
    pub trailers: bool,
}

impl Default for Parts {
    /// The defaults that Envoy has.
    fn default() -> Self {
        Self { headers: true, body: BodyMode::None, trailers: false }
    }
}

/// The parts of a request and its response that are sent to the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Of the request.
    pub request: Parts,
    /// Of the response.
    pub response: Parts,
}

impl BodyMode {
    fn of(number: i32) -> Option<Self> {
        match BodySendMode::try_from(number) {
            Ok(BodySendMode::None) => Some(Self::None),
            Ok(BodySendMode::Streamed) => Some(Self::Streamed),
            Ok(BodySendMode::Buffered) => Some(Self::Buffered),
            Ok(BodySendMode::BufferedPartial) => Some(Self::BufferedPartial),
            Ok(BodySendMode::FullDuplexStreamed) | Err(_) => None,
        }
    }

    fn number(self) -> i32 {
        let mode = match self {
            Self::None => BodySendMode::None,
            Self::Streamed => BodySendMode::Streamed,
            Self::Buffered => BodySendMode::Buffered,
            Self::BufferedPartial => BodySendMode::BufferedPartial,
        };
        mode.into()
    }
}

impl Modes {
    /// The parts of one direction.
    pub fn of(&self, direction: Direction) -> Parts {
        match direction {
            Direction::Request => self.request,
            Direction::Response => self.response,
        }
    }

    /// Changes the modes as the processor asks; none if it asks for a mode that is not offered. A head or
    /// trailers that it says nothing about stay as they are configured; content that it says nothing about is
    /// not sent, since the protocol has no other word for that.
    fn overridden(self, by: &ProcessingMode) -> Option<Self> {
        let send = |number, usual| match HeaderSendMode::try_from(number) {
            Ok(HeaderSendMode::Default) => Some(usual),
            Ok(HeaderSendMode::Send) => Some(true),
            Ok(HeaderSendMode::Skip) => Some(false),
            Err(_) => None,
        };
        let request = Parts {
            headers: self.request.headers,
            body: BodyMode::of(by.request_body_mode)?,
            trailers: send(by.request_trailer_mode, self.request.trailers)?,
        };
        let response = Parts {
            headers: send(by.response_header_mode, self.response.headers)?,
            body: BodyMode::of(by.response_body_mode)?,
            trailers: send(by.response_trailer_mode, self.response.trailers)?,
        };
        Some(Self { request, response })
    }
}
