//! Options of a proxy, fixed at its start.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use balance::Rollouts;
use cache_disk::Disk;
use count_exchange::LimitRedis;
use identity::oidc::directory::Directory;

use crate::io::handed::HandedSockets;
use crate::listen::ended::WorkerEnds;
use crate::replicas::ReplicaSecret;
use crate::upstream::checks::HealthNews;

/// Options that do not change while a proxy runs.
#[derive(Debug)]
pub struct Options {
    /// One worker for each entry, which is the CPU that it is pinned to, if any.
    pub workers: Vec<Option<usize>>,
    /// Local addresses to connect to endpoints from; empty to let the kernel choose.
    pub source_addresses: Vec<IpAddr>,
    /// Limits of one worker's descriptors.
    pub budget: Budget,
    /// Folder for request bodies that are too long for memory; none to stream these.
    pub body_folder: Option<OwnedFd>,
    /// Memory for cached responses, in bytes; none for no cache.
    pub cache_bytes: Option<u64>,
    /// The secret of the replicas; none to share nothing with them.
    pub replica_secret: Option<ReplicaSecret>,
    /// The providers at which people sign in, for what replicas say of their sessions.
    pub sign_ins: Directory,
    /// UDP port at which replicas exchange their counts, the same for all; none to have each count alone.
    pub replicas_udp_port: Option<u16>,
    /// Redis that counts for all replicas, in place of their exchange.
    pub limit_redis: Option<LimitRedis>,
    /// Files that routes may serve; none where there are none to be served.
    pub files: Option<Arc<files::Store>>,
    /// The second tier of the cache, if there is one.
    pub cache_disk: Option<Arc<Disk>>,
    /// Certificate for hosts without their own where no default one is configured; without it, their
    /// handshakes fail.
    pub fallback_certificate: Option<model::Certificate>,
    /// The canaries whose shares grow over a time.
    pub rollouts: Arc<Rollouts>,
    /// Changes of the health of endpoints.
    pub health_news: Arc<HealthNews>,
    /// Reports a worker whose thread has ended.
    pub worker_ends: Arc<WorkerEnds>,
    /// Listening sockets that another process has handed to this one.
    pub handed: Arc<HandedSockets>,
    /// The machine's name, for the access log.
    pub hostname: String,
}

/// A worker's share of a global limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) index: u32,
    /// Number of workers.
    pub(crate) of: u32,
}

impl Share {
    /// The worker's share of a number: an equal part, with the remainder going to the first workers, and at
    /// least one.
    pub(crate) fn of(self, whole: u32) -> usize {
        let left_over = u32::from(self.index < whole % self.of);
        (whole / self.of + left_over).max(1) as usize
    }
}

/// Limits of a worker's descriptors that clients cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Client connections. For another one, idle connections are closed, the longest idle first; where all
    /// are busy it is answered with 503.
    pub connections: usize,
    /// UDP sessions. For another one, a session without a response is ended, or else the one that has been
    /// idle for longest.
    pub datagram_sessions: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shared_out() {
        let shares = |whole| [0, 1, 2].map(|index| Share { index, of: 3 }.of(whole));
        assert_eq!((shares(10), shares(9), shares(1)), ([4, 3, 3], [3, 3, 3], [1, 1, 1]));
    }
}
