//! What a proxy is started with.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

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
    /// The machine's name, for the access log.
    pub hostname: String,
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
