//! What measures Forebay and its peers: a load generator, the server behind the proxy, and the floor below it.
//!
//! All three are one raw readiness loop a thread: a program that measures must be leaner than what it measures, and must
//! not share its faults, so nothing here is the proxy's own code.
//!
//! Must not be in here: printing, command lines, child processes, or any opinion on what a figure ought to be.

pub mod cpu;
pub mod epoll;
pub mod generator;
pub mod payload;
pub mod relay;

mod background;
mod framing;
mod socket;
