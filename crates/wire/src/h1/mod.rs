//! HTTP/1.0 and 1.1 (RFC 9112), as strict as an intermediary must be: a message that two readers could frame
//! differently is refused, never repaired.

mod body;
mod chunked;
mod decoded;
mod head;
mod malformed;
mod request;
mod response;
mod scan;
mod version;

pub use body::{Body, BodyDecoder};
pub use chunked::{Chunked, chunk_head, write_chunk_head};
pub use decoded::{Decoded, InvalidBody};
pub use head::{FIELDS_MAX, Fields};
pub use malformed::Malformed;
pub use request::{Request, RequestLimits, TargetForm, missing_slash, parse_request};
pub use response::{Response, parse_response};
pub use version::Version;
