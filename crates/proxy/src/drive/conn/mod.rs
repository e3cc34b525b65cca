//! The life of a client connection: one request after the other, idle between them, and a clean end.

mod linger;
mod serve;

pub(crate) use serve::serve;
