//! QUIC (RFC 9000) on the sockets of a worker: `quinn-proto` decides what is said, `quinn-udp` makes the
//! system calls, in batches, and the worker's event loop calls both.
//!
//! An [`Endpoint`] is one UDP socket of one worker. It gives each [`Connection`] the packets that are its
//! own; a connection's driver, a task, sends and keeps its timers. A connection stays with its worker and its
//! replica, whatever address its client sends from:
//!
//! ```text
//! ids         connection ids, which name the replica, encrypted, and by a hash the worker
//! steering    the filter by which the kernel gives a packet to the worker that its id names
//! shared      what all workers share; packets that one worker hands to another
//! half_open   handshakes in progress, and which clients have to be validated first
//! initial     the frames of packets whose connections are passed through
//! forwarding  packets that come to another replica than their connection's: their form, the way back
//! elsewhere   the same on an endpoint: sent and taken
//! others      the other replicas, and whether those that have left are gone
//! resets      stateless resets: counted, and logged
//! processes   the process that replaces this one in an upgrade: sockets, keys, packets for each other
//! packet      a packet, how it came, and the owner of its connection
//! keys        the keys, of this process or of all replicas
//! tokens      tokens for later connections
//! transport   the bounds of a connection
//! congestion  how much may be under way
//! send_window how much may be written and not acknowledged
//! ```
//!
//! Never in here: HTTP, certificates.

mod congestion;
mod connection;
mod elsewhere;
mod endpoint;
mod forwarding;
mod half_open;
mod ids;
mod initial;
mod keys;
mod others;
mod packet;
mod processes;
mod resets;
mod send_window;
mod shared;
mod socket;
mod steering;
mod tokens;
mod transport;

pub(crate) use connection::Connection;
pub(crate) use endpoint::{Endpoint, Peek, Undecided};
pub(crate) use half_open::{Asked, Begun, HalfOpen};
pub(crate) use initial::frames;
pub(crate) use keys::CommonSecret;
pub(crate) use packet::Packet;
pub(crate) use processes::Inherited;
pub use processes::QuicLegacy;
pub(crate) use quinn_proto::{Incoming, ServerConfig, StreamId};
pub(crate) use send_window::AllSendWindows;
pub(crate) use shared::SharedQuic;
pub(crate) use socket::WorkerSockets;
pub(crate) use transport::{idle_timeout, server_config};
