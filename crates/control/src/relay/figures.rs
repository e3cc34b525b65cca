//! The figures of a replica that shares watches.
//!
//! Never in here: their collection.

use std::net::IpAddr;

/// The figures of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The relay that this replica follows; none while it watches the API server itself.
    pub relay: Option<IpAddr>,
    /// The replicas that follow this one.
    pub followers: usize,
    /// Failures of relays, after each of which another one or the API server was asked.
    pub fallbacks: u64,
    /// Watches of followers that ended because the follower was too slow.
    pub cut: u64,
    /// Bytes of lists and events that were sent to followers.
    pub sent_bytes: u64,
}
