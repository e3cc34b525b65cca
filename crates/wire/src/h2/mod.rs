//! HTTP/2 (RFC 9113): frames, header compression, streams and flow control, without sockets and clocks.
//!
//! [`Connection`] is either side of a connection. It is given the bytes that have arrived and says what they
//! mean, [`Event`] by [`Event`]; what is to be sent gathers in it as frames until the owner of the socket
//! writes them. Heads have the one form that the proxy has for them, whatever the protocol: lines of text and
//! their positions. They are decoded into that form and encoded from it.

pub mod hpack;

mod code;
mod connection;
pub(crate) mod flood;
mod frame;
mod incoming;
mod outgoing;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub use crate::head::lines;
pub use crate::priority::Priority;
pub use code::Code;
pub use connection::{Connection, Event, Fault, Opened, PREFACE};
pub use flood::Begun;
pub use outgoing::{Gone, RequestHead};
pub use settings::Limits;
pub use stream::{Key, Reset, Side};
