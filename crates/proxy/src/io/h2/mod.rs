//! HTTP/2 (RFC 9113) around the `h2` crate: sockets, streams and content, as both sides and the path of a
//! request use them.

mod body;
mod credit;
mod io;
mod stream;

pub(crate) use body::{Body, Content, Sender, header_map, pairs};
pub(crate) use credit::Credit;
pub(crate) use io::{Io, Seen};
pub(crate) use stream::Stream;
