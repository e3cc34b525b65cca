//! Records of streams: counters, response times, the access log.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use clock::{Clock, Moment};
use observe::access::{StreamRecord, write_stream_line};
use observe::{Reason, StreamCounter};

use super::Service;
use crate::body::tunnel::{Side, TunnelObserver};
use crate::worker::{Log, Worker};

/// Counts a connection or session while it is open, and its bytes.
pub(super) struct Tracked {
    service: Rc<Service>,
    clock: Clock,
    threshold: Duration,
    /// When the client last sent bytes that have not been answered.
    asked: Cell<Option<Moment>>,
    begin: Moment,
    is_open: Cell<bool>,
}

/// The outcome of a connection or session.
pub(super) struct Outcome {
    pub(super) client: IpAddr,
    /// Why it failed, if it did.
    pub(super) fault: Option<Reason>,
    /// Bytes received from the client.
    pub(super) received: u64,
    /// Bytes sent to the client.
    pub(super) sent: u64,
}

impl Tracked {
    pub(super) fn begin(service: &Rc<Service>, worker: &Worker) -> Self {
        service.cells.inc(StreamCounter::Opened);
        service.cells.inc(StreamCounter::Active);
        Self {
            service: Rc::clone(service),
            clock: worker.clock.clone(),
            threshold: worker.config().settings().stream.response_threshold,
            asked: Cell::new(None),
            begin: worker.clock.now(),
            is_open: Cell::new(true),
        }
    }

    /// Ends the count of the connection, and records its outcome, and its endpoint if it had one.
    pub(super) fn end(&self, worker: &Worker, outcome: &Outcome, upstream: Option<SocketAddr>) {
        self.close();
        if let Some(reason) = outcome.fault {
            worker.recorder.borrow().reason(reason);
        }
        let config = worker.config();
        let settings = &config.settings().stream;
        if !settings.access_log {
            return;
        }
        let Log { streams, time, hostname, pid, .. } = &worker.log;
        let time = &mut *time.borrow_mut();
        let record = StreamRecord {
            time: time.at(worker.clock.unix()),
            remote_addr: outcome.client,
            protocol: self.service.protocol,
            status: outcome.fault.map_or(200, status),
            bytes_sent: outcome.sent,
            bytes_received: outcome.received,
            session_time: worker.clock.now().since(self.begin),
            server_port: self.service.listener.port,
            upstream,
            labels: &self.service.stream.labels,
            hostname,
            pid: *pid,
        };
        streams.borrow_mut().line(|out| write_stream_line(&settings.log_format, &record, out));
    }

    fn close(&self) {
        if self.is_open.replace(false) {
            self.service.cells.dec(StreamCounter::Active);
        }
    }
}

impl TunnelObserver for Tracked {
    fn received(&self, from: Side, len: usize) {
        let cells = &self.service.cells;
        match from {
            Side::Client => {
                self.asked.set(Some(self.clock.now()));
                cells.add(StreamCounter::BytesReceived, len as u64);
            }
            Side::Upstream => {
                if let Some(asked) = self.asked.take() {
                    cells.response(self.clock.now().since(asked), self.threshold);
                }
                cells.add(StreamCounter::BytesSent, len as u64);
            }
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.close();
    }
}

/// The value of nginx's `$status` for a stream.
fn status(reason: Reason) -> u16 {
    match reason {
        Reason::BadProxyHeader | Reason::ProxyHeaderTimeout => 400,
        // The stream was established, and one side left later.
        Reason::ClientAborted | Reason::UpstreamReset => 200,
        _ => 502,
    }
}
