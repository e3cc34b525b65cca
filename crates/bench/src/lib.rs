//! Programs to measure Forebay and its peers: a load generator, the server behind the proxy, and a byte relay
//! as the lower limit.
//!
//! Each is one event loop per thread, without a runtime: a measuring program has to cost less than what it
//! measures, and must not share its faults, so that nothing here is code of the proxy. Only HTTP/2, QUIC and
//! TLS use libraries.
//!
//! Must not be in here: printing, command lines, child processes, or any judgement of figures.

pub mod cpu;
pub mod epoll;
pub mod generator;
pub mod h2c;
pub mod payload;
pub mod plain_proxy;
pub mod relay;
pub mod report;
pub mod tls;

mod background;
mod framing;
mod socket;
