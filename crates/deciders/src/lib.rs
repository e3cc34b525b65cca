//! Services that decide about requests, in Envoy's protocols: their messages, what the messages mean, and the
//! framing of gRPC.
//!
//! Never in here: sockets, clocks, threads, HTTP parsing.

pub mod authz;
pub mod grpc;
pub mod processing;
pub mod proto;
