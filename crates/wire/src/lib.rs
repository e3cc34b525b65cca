//! Protocols as pure functions and state machines: bytes in, meaning out.
//!
//! Never in here: sockets, clocks, randomness, tokio. Code that depends on the time has it as an argument.

mod block;
pub mod cache;
pub mod client_hello;
pub mod coding;
mod compression;
pub mod date;
pub mod fcgi;
pub mod field;
pub mod h1;
pub mod h2;
pub mod h3;
mod head;
pub mod hop_by_hop;
pub mod host;
pub mod path;
mod priority;
pub mod proxy_protocol;
pub mod quic;
pub mod rendezvous;
pub mod trace_context;
mod varint;

pub use field::{Field, Known};
