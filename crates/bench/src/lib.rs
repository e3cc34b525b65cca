//! What measures Forebay and its peers: a load generator, the server behind the proxy, and the floor below it.
//!
//! They are one raw readiness loop a thread: a program that measures must be leaner than what it measures, and must not
//! share its faults, so nothing here is the proxy's own code. Only HTTP/2 and TLS are left to libraries.
//!
//! Must not be in here: printing, command lines, child processes, or any opinion on what a figure ought to be.

pub mod cpu;
pub mod epoll;
pub mod generator;
pub mod h2c;
pub mod payload;
pub mod relay;
pub mod report;
pub mod tls;

mod background;
mod framing;
mod socket;
