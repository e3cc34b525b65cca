//! HTTP/3 (RFC 9114) and QPACK (RFC 9204): frames, header compression and the rules for streams, without
//! sockets and without QUIC.
//!
//! A [`Message`] is what comes on a request stream: it is given bytes and says what they are, [`Part`] by
//! [`Part`]. A [`Connection`] is given the bytes of the peer's unidirectional streams. Heads have the one
//! form that the proxy has for them, whatever the protocol: lines of text and their positions, by the same
//! rules as those of `h2`.

mod code;
mod connection;
mod frame;
mod message;
pub mod qpack;
mod settings;
#[cfg(test)]
mod tests;

pub use crate::h2::RequestHead;
pub use crate::head::{append_field, lines};
pub use crate::priority::Priority;
pub use code::{Code, Fault};
pub use connection::{Connection, Event, OwnStream, StreamUse, UniStream, write_goaway};
pub use message::{
    BlockReader, Message, Opened, Part, write_data_header, write_request, write_response, write_trailers,
};
pub use qpack::{Decoder, Encoder};
pub use settings::Settings;
