//! HTTP/2 (RFC 9113) at its border: heads translated to and from HTTP/1, and floods told from traffic.
//!
//! Between the protocols on both sides of the proxy there is one form of a head, that of HTTP/1: what HTTP/2 says is
//! written down as such and read by the same strict parser as every other head, so that nothing can be smuggled through
//! the translation. Frames, flow control and header compression are the `h2` crate's.

mod flood;
mod head;
mod pseudo;

pub use flood::{Begun, Flood, FloodGuard};
pub use head::{Pseudo, lines, write_request_head, write_response_head, write_trailers};
pub use pseudo::{ForeignPseudo, ResponseGuard};
