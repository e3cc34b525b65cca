//! Streams: bytes (TCP) or datagrams (UDP) that are passed on as they are. Never in here: what the bytes mean.

mod connect;
mod record;
pub(crate) mod tcp;
pub(crate) mod udp;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterId, ListenerId, Stream};
use observe::{Reason, StreamCells, StreamName};

pub(crate) use connect::connect;

use crate::worker::{Worker, WorkerConfig};

/// What a port leads to at the moment. Connections keep what they began with.
pub(crate) struct Target(RefCell<Rc<Service>>);

/// What connections of a port are given.
pub(crate) struct Service {
    listener: ListenerId,
    stream: Stream,
    pub(crate) cells: Arc<StreamCells>,
}

impl Target {
    pub(crate) fn new(listener: ListenerId, stream: &Stream, worker: &Worker) -> Rc<Self> {
        Rc::new(Self(RefCell::new(Service::new(listener, stream, worker))))
    }

    pub(crate) fn now(&self) -> Rc<Service> {
        Rc::clone(&self.0.borrow())
    }

    pub(crate) fn lead_to(&self, stream: &Stream, worker: &Worker) {
        let mut service = self.0.borrow_mut();
        if service.stream == *stream {
            return;
        }
        let listener = service.listener;
        *service = if name(listener, &service.stream) == name(listener, stream) {
            Rc::new(Service { listener, stream: stream.clone(), cells: Arc::clone(&service.cells) })
        } else {
            Service::new(listener, stream, worker)
        };
    }
}

impl Service {
    fn new(listener: ListenerId, stream: &Stream, worker: &Worker) -> Rc<Self> {
        let cells = worker.recorder.borrow().stream(name(listener, stream));
        Rc::new(Self { listener, stream: stream.clone(), cells })
    }

    /// The cluster that it leads to in a configuration. A connection that comes while its service goes finds none: its own
    /// configuration's id may be another cluster's by now.
    fn cluster(&self, config: &WorkerConfig) -> Result<ClusterId, Reason> {
        config.snapshot.stream_of(self.listener).map(|stream| stream.cluster).ok_or(Reason::NoEndpoints)
    }
}

fn name(listener: ListenerId, stream: &Stream) -> StreamName {
    StreamName {
        protocol: listener.kind.as_str(),
        port: listener.port,
        namespace: stream.labels.namespace.clone(),
        service: stream.labels.service.clone(),
    }
}
