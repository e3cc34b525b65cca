//! HTTP/1.0 and 1.1 (RFC 9112), as strict as an intermediary must be: what two readers could frame differently is
//! refused, never repaired.

mod block;
mod body;
mod chunked;
mod head;
mod request;
mod response;
mod scan;

pub use body::{Body, BodyDecoder, Decoded, InvalidBody};
pub use chunked::{Chunked, chunk_head, write_chunk_head};
pub use head::{FIELDS_MAX, Fields, Malformed, Version};
pub use request::{Request, RequestLimits, TargetForm, parse_request};
pub use response::{Response, parse_response};
