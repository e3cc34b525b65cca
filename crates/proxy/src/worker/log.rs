//! A worker's end of the access log.

use std::cell::RefCell;
use std::sync::Arc;

use jiff::tz::TimeZone;
use observe::access::TimeCache;
use observe::log::Sink;

/// The worker's end of the access log.
pub(crate) struct Log {
    pub(crate) sink: RefCell<Sink>,
    /// The access log of TCP connections and UDP sessions.
    pub(crate) streams: RefCell<Sink>,
    pub(crate) time: RefCell<TimeCache>,
    pub(crate) hostname: Arc<str>,
    /// Process id, read once: reading it is a system call.
    pub(crate) pid: u32,
}

impl Log {
    pub(crate) fn new(sink: Sink, streams: Sink, hostname: Arc<str>) -> Self {
        Self {
            sink: RefCell::new(sink),
            streams: RefCell::new(streams),
            time: RefCell::new(TimeCache::new(TimeZone::system())),
            hostname,
            pid: std::process::id(),
        }
    }
}
