//! Parts of the end-to-end tests: both ends of a connection as raw bytes, and the real binary between them.
//!
//! No code here sleeps or uses fixed ports. Each wait is for an event, and panics if the event does not come
//! within [`PATIENCE`].

#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "what fails in a test panics, wherever it is"
)]

mod accepting;
mod acme;
mod certificate;
mod collector;
mod connection;
mod converter;
pub mod fcgi;
mod forebay;
pub mod frames;
mod grpc_server;
mod h2_client;
mod h2_stream;
mod h2_upstream;
mod h3_client;
pub mod issuer;
pub mod manifest;
pub mod markdown;
mod metrics;
mod mmdb;
mod moody;
mod name_server;
mod needs;
mod output;
mod port;
mod provider;
mod redis;
mod response;
mod runtime;
mod session;
mod set_on_drop;
mod socket;
mod spreading;
mod terminal;
mod tls;
mod tls_info;
mod udp;
mod udp_balancer;
mod udp_relay;
mod upstream;

use std::time::Duration;

pub use acme::AcmeServer;
pub use certificate::{Authority, Certificate};
pub use collector::{Batch, Collector, Span};
pub use connection::{Connection, Ending};
pub use converter::CONVERTED;
pub use forebay::{Ended, Forebay, Setup};
pub use frames::FrameClient;
pub use grpc_server::{GrpcReply, GrpcServer};
pub use h2_client::{Call, H2Client};
pub use h2_stream::{BodyReceiver, BodySender, Trailers};
pub use h2_upstream::{H2Peer, H2Upstream};
pub use h3_client::{
    EarlyClient, H3Call, H3Client, QuicAttempt, QuicClient, QuicReceiver, QuicStream, QuicTokens, h3_head,
};
pub use issuer::Issuer;
pub use metrics::Metrics;
pub use mmdb::mmdb;
pub use moody::Moody;
pub use name_server::{serve_names, serve_names_while};
pub use needs::{left_out, needs, needs_for, this_test};
pub use port::Port;
pub use provider::{CLIENT, Provider};
pub use redis::RedisServer;
pub use response::Response;
pub use set_on_drop::SetOnDrop;
pub use spreading::SpreadingBalancer;
pub use terminal::Terminal;
pub use tls::{TlsClient, TlsServer};
pub use tls_info::TlsInfo;
pub use udp::UdpEcho;
pub use udp_balancer::UdpBalancer;
pub use udp_relay::UdpRelay;
pub use upstream::{Canned, Refusing, Upstream};

/// Longest wait for any event. Long, since a loaded machine is slow; a test that passes never waits that
/// long.
pub const PATIENCE: Duration = Duration::from_secs(60);
