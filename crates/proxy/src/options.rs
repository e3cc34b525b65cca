//! What a proxy is started with.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cache_disk::Disk;

use crate::limit_redis::LimitRedis;
use crate::replicas::ReplicaSecret;

/// What does not change while a proxy runs.
#[derive(Debug)]
pub struct Options {
    /// One worker for each entry, which is the CPU that it stays on, if any.
    pub workers: Vec<Option<usize>>,
    /// Local addresses to connect to endpoints from; empty to have the kernel choose.
    pub source_addresses: Vec<IpAddr>,
    /// What one worker may have open.
    pub budget: Budget,
    /// Folder for the bodies of requests that are too long to be kept in memory; none to keep none of these.
    pub body_folder: Option<OwnedFd>,
    /// Memory for responses that are kept, in bytes; none to keep none.
    pub cache_bytes: Option<u64>,
    /// What other replicas are known by; none to share nothing with them.
    pub replica_secret: Option<ReplicaSecret>,
    /// UDP port at which they tell each other what they count, the same for all; none to have each count alone.
    pub replicas_udp_port: Option<u16>,
    /// Redis that counts what replicas count together, in place of their telling each other.
    pub limit_redis: Option<LimitRedis>,
    /// Files that routes may serve; none where there are none to be served.
    pub files: Option<Arc<files::Store>>,
    /// The second tier of the cache, if there is one.
    pub cache_disk: Option<Arc<Disk>>,
    /// The machine's name, for the access log.
    pub hostname: String,
}

/// Which part of what is there for all workers is a worker's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) index: u32,
    /// How many workers there are.
    pub(crate) of: u32,
}

impl Share {
    /// The worker's part of a number: as much as the others', what is left over goes to the first ones, and it is never nothing.
    pub(crate) fn of(self, whole: u32) -> usize {
        let left_over = u32::from(self.index < whole % self.of);
        (whole / self.of + left_over).max(1) as usize
    }
}

/// What a worker may have open at a time, as far as clients decide it. Each takes a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Client connections. For another one, connections that wait for a request are closed, those that have waited for longest
    /// first; where all are busy it is answered 503.
    pub connections: usize,
    /// Clients of UDP services. For another one, a session without an answer is ended, or else the one that has been idle for
    /// longest.
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
