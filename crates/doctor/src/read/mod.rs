//! Parsers for the files in a sample: text in, values out.
//!
//! Must not be in here: IO, or the meaning of a value.

pub(crate) mod cgroups;
pub(crate) mod conntrack;
pub(crate) mod counters;
pub(crate) mod devices;
pub(crate) mod ipvs;
pub(crate) mod kernel;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod ports;
pub(crate) mod processes;
pub(crate) mod prometheus;
pub(crate) mod routes;
pub(crate) mod sockets;
pub(crate) mod udp;
pub(crate) mod usage;
