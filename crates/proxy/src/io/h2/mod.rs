//! HTTP/2 on a socket: a [`Link`] is the connection, a [`Stream`] one request on it. The protocol is
//! `wire::h2`'s.

mod link;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use link::{Link, Progress, Slot};
pub(crate) use stream::{Broken, HeadFault, Stream};
