//! HTTP/2 (RFC 9113) at its border: heads translated to and from HTTP/1, and the detection of floods.
//!
//! All protocols share one form of a head, that of HTTP/1: a head of HTTP/2 is written in this form and
//! parsed by the same strict parser as every other head, so nothing can be smuggled through the translation.
//! Frames, flow control and header compression belong to the `h2` crate.

mod flood;
mod head;
mod pseudo;

pub use flood::{Begun, Flood, FloodGuard};
pub use head::{Pseudo, lines, write_request_head, write_response_head, write_trailers};
pub use pseudo::{ForeignPseudo, ResponseGuard};
