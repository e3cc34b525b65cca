//! External processors, which change requests and responses on their way.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::ClusterId;

/// A service that sees and changes the requests of a route and their responses, by Envoy's protocol
/// `ext_proc` (`forebay.io/ext-proc-url`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// The endpoints of the service, which speak HTTP/2.
    pub cluster: ClusterId,
    /// The parts that the service gets, and its rights.
    pub policy: Arc<ProcessorPolicy>,
}

/// The parts of requests and responses that an external processor gets, and its rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessorPolicy {
    /// Host and port of the service, for `:authority`.
    pub authority: String,
    /// The parts of a request that it gets.
    pub request: ProcessedParts,
    /// The parts of a response that it gets.
    pub response: ProcessedParts,
    /// The time for the answer to a message.
    pub message_timeout: Duration,
    /// The longest time that the processor may ask for instead; none if it may not ask.
    pub message_timeout_max: Option<Duration>,
    /// Without an answer, requests and responses pass unchanged. They are answered with 500 or 504 otherwise.
    pub fails_open: bool,
    /// The processor may choose the parts for each request.
    pub allows_mode_override: bool,
    /// The longest body that is buffered for the processor, in bytes.
    pub body_bytes_max: u64,
}

/// The parts of a message that a processor gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessedParts {
    /// Head of the message.
    pub headers: bool,
    /// Content of the message.
    pub body: ProcessedBody,
    /// The trailers, if there are any.
    pub trailers: bool,
}

/// How a processor gets the content of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ProcessedBody {
    /// Not at all.
    #[default]
    None,
    /// Piece by piece.
    Streamed,
    /// As a whole.
    Buffered,
    /// As much as is buffered.
    BufferedPartial,
}

impl Default for ProcessedParts {
    fn default() -> Self {
        Self { headers: true, body: ProcessedBody::None, trailers: false }
    }
}
