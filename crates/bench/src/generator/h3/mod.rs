//! HTTP/3 of the generator (RFC 9114): QUIC by `quinn-proto`, the frames and QPACK by ourselves.
//!
//! Every connection has a UDP socket of its own, as separate clients have: a server that spreads packets over
//! its threads by address then has them all busy. The dynamic table of QPACK is not used in either direction,
//! and the server is told so.
//!
//! Must not be in here: when requests are due, and how they are counted.

mod clients;
mod control;
mod link;
mod qpack;
mod response;
mod session;
mod varint;

pub(super) use clients::QuicClients;
pub(super) use link::{ReceiveBuffer, Timers};
pub(super) use qpack::request;
pub(super) use session::Session;

/// The protocol that is offered in ALPN.
pub(super) const ALPN_H3: &[u8] = b"h3";

/// Frames (RFC 9114 section 7.2).
mod frame {
    pub(super) const DATA: u64 = 0x00;
    pub(super) const HEADERS: u64 = 0x01;
    pub(super) const CANCEL_PUSH: u64 = 0x03;
    pub(super) const SETTINGS: u64 = 0x04;
    pub(super) const PUSH_PROMISE: u64 = 0x05;
    pub(super) const GOAWAY: u64 = 0x07;
    pub(super) const MAX_PUSH_ID: u64 = 0x0d;
    /// Frames of HTTP/2 that must not be sent in HTTP/3.
    pub(super) const RESERVED: [u64; 4] = [0x02, 0x06, 0x08, 0x09];
}

/// Error codes (RFC 9114 section 8.1).
mod code {
    pub(super) const NO_ERROR: u32 = 0x100;
    pub(super) const REQUEST_REJECTED: u32 = 0x10b;
    pub(super) const REQUEST_CANCELLED: u32 = 0x10c;
}
