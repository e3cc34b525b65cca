//! A worker's end of the access log.

use std::cell::RefCell;
use std::sync::Arc;

use jiff::tz::TimeZone;
use observe::access::TimeCache;
use observe::log::{Sink, Sinks};

/// The worker's end of the access log.
pub(crate) struct Log {
    pub(crate) sink: RefCell<Sink>,
    /// The access log of TCP connections and UDP sessions.
    pub(crate) streams: RefCell<Sink>,
    /// The audit log of firewalls, if there is one.
    pub(crate) audit: Option<RefCell<Sink>>,
    pub(crate) time: RefCell<TimeCache>,
    pub(crate) hostname: Arc<str>,
    /// Process id, read once: reading it is a system call.
    pub(crate) pid: u32,
}

impl Log {
    pub(crate) fn new(sinks: Sinks, hostname: Arc<str>) -> Self {
        Self {
            sink: RefCell::new(sinks.requests),
            streams: RefCell::new(sinks.streams),
            audit: sinks.audit.map(RefCell::new),
            time: RefCell::new(TimeCache::new(TimeZone::system())),
            hostname,
            pid: std::process::id(),
        }
    }

    /// Hands all lines over to the writer.
    pub(crate) fn flush(&self) {
        for sink in [&self.sink, &self.streams].into_iter().chain(&self.audit) {
            sink.borrow_mut().flush();
        }
    }
}
