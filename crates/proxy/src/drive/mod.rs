//! The tasks that poll: the life of a client connection over HTTP/1, HTTP/2 or HTTP/3, a request from step
//! to step, and the connections of TCP and UDP services.
//!
//! [`accept`] precedes HTTP: the PROXY header, passthrough by the name in the `ClientHello`, TLS. [`conn`]
//! serves one request after the other and waits between them without a buffer; [`http2`] and [`http3`] make
//! a task of each stream, and [`early_data`] decides on requests that come before a handshake is complete.
//! All call [`serve`], which has the steps of a request in their order. After a last response [`lingering`]
//! reads for a while what the client still sends, since a reset would destroy the response. [`stream`]
//! passes on TCP and UDP, and QUIC by name. [`explain`] takes a request through the steps that serve it, so
//! that no decision is written twice.
//!
//! Never in here: what a step decides.

pub(crate) mod accept;
pub(crate) mod conn;
mod early_data;
pub mod explain;
pub(crate) mod h1;
pub(crate) mod http2;
pub(crate) mod http3;
pub(crate) mod lingering;
mod multiplexed;
pub(crate) mod proxy_header;
pub(crate) mod serve;
pub(crate) mod stream;
