//! HTTP/3 on a connection of QUIC: a [`Link`] is the connection, a [`Stream`] one request on it. The protocol
//! is `wire::h3`'s.

mod link;
mod slot;
mod stream;
mod waiting;

pub(crate) use link::{Link, Progress};
pub(crate) use stream::Stream;
pub(crate) use waiting::AllWaiting;
