//! Inputs of the threads.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use clients::Clients;
use clock::Clock;
use observe::Recorder;

/// Inputs of the thread.
#[expect(missing_debug_implementations, reason = "counts of clients have no text")]
pub struct Parts {
    /// The clients whose counts are exchanged.
    pub clients: Arc<Clients>,
    /// The clock by which requests were counted.
    pub clock: Clock,
    /// Counts exchanges and failures.
    pub recorder: Recorder,
}

/// The replicas of this Forebay.
#[derive(Clone, Debug, Default)]
pub struct Replicas {
    /// The own address, at which datagrams are received; none where nothing is shared.
    pub own: Option<IpAddr>,
    /// The others' addresses.
    pub others: BTreeSet<IpAddr>,
}
