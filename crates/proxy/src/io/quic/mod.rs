//! QUIC (RFC 9000) on the sockets of a worker: `quinn-proto` decides what is said, `quinn-udp` makes the
//! system calls, in batches, and the worker's event loop calls both.
//!
//! An [`Endpoint`] is one UDP socket of one worker. It gives each [`Connection`] the packets that are its
//! own; a connection's driver, a task, sends and keeps its timers. A connection id says, encrypted, which
//! worker has the connection: a packet that the kernel gives to another one, since the client's address has
//! changed, is handed over.
//!
//! Never in here: HTTP, certificates.

mod connection;
mod endpoint;
mod ids;
mod transport;

pub(crate) use connection::Connection;
pub(crate) use endpoint::{Endpoint, bind};
pub(crate) use ids::SharedQuic;
pub(crate) use quinn_proto::{Incoming, ServerConfig, StreamId};
pub(crate) use transport::{idle_timeout, server_config};
