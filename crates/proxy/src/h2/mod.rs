//! HTTP/2 (RFC 9113) around the `h2` crate: `server` drives the connections of clients; the other modules are what both sides
//! and the path of a request have in common: sockets, streams, content.

mod body;
mod credit;
mod io;
mod server;
mod stream;
mod tunnel;

pub(crate) use body::{Body, Content, Sender, header_map, pairs};
pub(crate) use io::Io;
pub(crate) use server::{Preface, await_preface, may_begin, serve};
pub(crate) use stream::Stream;
pub(crate) use tunnel::tunnel_stream;
