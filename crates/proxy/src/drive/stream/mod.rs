//! Streams: bytes (TCP) or datagrams (UDP) that are forwarded unchanged. Never in here: the meaning of the
//! bytes.

mod connect;
pub(crate) mod quic;
mod record;
pub(crate) mod tcp;
pub(crate) mod tls;
pub(crate) mod udp;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use clock::Random;
use model::{BackendTarget, Backends, ClusterId, ListenerId, Stream, TlsStream};
use observe::{Reason, StreamCells, StreamName};

pub(crate) use connect::connect;

use crate::worker::{Worker, WorkerConfig};

/// Protocol name of the clients of a [`TlsStream`].
const TLS: &str = "TLS";

/// The current service of a port. Connections keep the one that they began with.
pub(crate) struct Target(RefCell<Rc<Service>>);

/// The service for the connections of a port.
pub(crate) struct Service {
    listener: ListenerId,
    /// Protocol of the clients, for metrics and logs.
    protocol: &'static str,
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
            let (protocol, cells) = (service.protocol, Arc::clone(&service.cells));
            Rc::new(Service { listener, protocol, stream: stream.clone(), cells })
        } else {
            Service::new(listener, stream, worker)
        };
    }
}

impl Service {
    fn new(listener: ListenerId, stream: &Stream, worker: &Worker) -> Rc<Self> {
        let cells = worker.recorder.borrow().stream(name(listener, stream));
        Rc::new(Self { listener, protocol: listener.kind.as_str(), stream: stream.clone(), cells })
    }

    /// The service of a host over TLS, which is made for each connection: beside a handshake that costs
    /// nothing.
    fn of_tls(listener: ListenerId, to: &Arc<TlsStream>, worker: &Worker) -> Rc<Self> {
        let TlsStream { backends, labels, .. } = &**to;
        let stream = Stream {
            backends: backends.clone(),
            accepts_proxy_header: false,
            sends_proxy_header: false,
            counts_responses: false,
            labels: labels.clone(),
        };
        let name = StreamName { protocol: TLS, ..name(listener, &stream) };
        let cells = worker.tls_cells.get(listener, to, || worker.recorder.borrow().stream(name));
        Rc::new(Self { listener, protocol: TLS, stream, cells })
    }

    /// The cluster for a connection in a configuration. A connection that arrives while its service is
    /// removed finds none: its own configuration's id may be another cluster's by now.
    fn cluster(&self, config: &WorkerConfig, random: &Random) -> Result<ClusterId, Reason> {
        let stream = config.snapshot.stream_of(self.listener).ok_or(Reason::NoEndpoints)?;
        cluster(&stream.backends, random)
    }
}

/// The cluster for a connection or a session.
pub(crate) fn cluster(backends: &Backends, random: &Random) -> Result<ClusterId, Reason> {
    match backends {
        Backends::One(cluster) => Ok(*cluster),
        Backends::Split(split) => match split.pick(random.next()).target {
            BackendTarget::Cluster(cluster) => Ok(cluster),
            BackendTarget::Invalid => Err(Reason::BackendInvalid),
        },
        Backends::Canary(canary) => Ok(canary.mainline),
    }
}

fn name(listener: ListenerId, stream: &Stream) -> StreamName {
    StreamName {
        protocol: listener.kind.as_str(),
        port: listener.port,
        namespace: stream.labels.namespace().to_owned(),
        service: stream.labels.service().to_owned(),
    }
}
