//! The figures of watches that replicas share.

/// The figures of a replica that shares watches with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayFigures {
    /// Whether this replica follows a relay.
    pub follows: bool,
    /// The replicas that follow this one.
    pub followers: usize,
    /// Failures of relays, after each of which another one or the API server was asked.
    pub fallbacks: u64,
    /// Watches of followers that ended because the follower was too slow.
    pub cut: u64,
    /// Bytes of lists and events that were sent to followers.
    pub sent_bytes: u64,
}
