//! Streams: ports whose bytes (TCP) or datagrams (UDP) are passed on as they are.
//!
//! Each worker listens at each port with a socket of its own. Ports come and go with the configuration; connections that
//! stand stay as they are. Never in here: what the bytes mean.

mod connect;
mod record;
mod tcp;
mod udp;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterId, Stream, Transport};
use observe::{Reason, StreamCells, StreamCounter, StreamName};

pub(crate) use connect::connect;

use crate::worker::{Worker, WorkerConfig};

/// The ports of a worker.
#[derive(Default)]
pub(crate) struct Streams {
    ports: RefCell<BTreeMap<(Transport, u16), Port>>,
    /// Sessions of all UDP ports.
    ages: Rc<udp::Ages>,
}

/// A port that is configured, or was and still has sessions.
struct Port {
    target: Rc<Target>,
    door: Option<PortListener>,
    /// Why it is not listened at; told once.
    failure: Option<String>,
    is_wanted: bool,
}

/// Where clients come in.
enum PortListener {
    Tcp(tcp::PortListener),
    Udp(udp::PortListener),
}

/// What a port leads to at the moment. Connections keep what they began with.
struct Target(RefCell<Rc<Service>>);

/// What connections of a port are given.
struct Service {
    stream: Stream,
    cells: Arc<StreamCells>,
}

impl Streams {
    /// Goes over to the configuration that the worker has gone over to.
    pub(crate) fn install(&self, worker: &Rc<Worker>) {
        let config = worker.config();
        let mut ports = self.ports.borrow_mut();
        ports.values_mut().for_each(|port| port.is_wanted = false);
        for stream in &config.snapshot.streams {
            let port = ports.entry((stream.transport, stream.port)).or_insert_with(|| Port {
                target: Rc::new(Target(RefCell::new(Service::new(stream, worker)))),
                door: None,
                failure: None,
                is_wanted: true,
            });
            port.is_wanted = true;
            port.target.lead_to(stream, worker);
        }
        ports.values_mut().filter(|port| !port.is_wanted).for_each(|port| port.close(worker));
        drop(ports);
        self.retry(worker);
    }

    /// Listens where that has failed, and forgets ports of which nothing is left.
    pub(crate) fn retry(&self, worker: &Rc<Worker>) {
        let mut ports = self.ports.borrow_mut();
        ports.retain(|_, port| port.is_wanted || port.door.is_some());
        ports.values_mut().for_each(|port| port.open(worker, &self.ages));
    }

    /// Closes all ports.
    pub(crate) fn close(&self, worker: &Rc<Worker>) {
        for port in self.ports.borrow_mut().values_mut() {
            port.is_wanted = false;
            port.close(worker);
        }
    }
}

// === impl Port ===

impl Port {
    fn open(&mut self, worker: &Rc<Worker>, ages: &Rc<udp::Ages>) {
        if let Some(PortListener::Udp(door)) = &self.door {
            if door.is_closed() {
                self.door = None;
            } else if self.is_wanted {
                door.open_again();
            }
        }
        if self.door.is_some() || !self.is_wanted {
            return;
        }
        let service = self.target.now();
        let Stream { transport, port, .. } = service.stream;
        let opened = match transport {
            Transport::Tcp => tcp::PortListener::open(worker, port, &self.target).map(PortListener::Tcp),
            Transport::Udp => {
                udp::PortListener::open(worker, port, &self.target, ages).map(PortListener::Udp)
            }
        };
        match opened {
            Ok(door) => {
                if self.failure.take().is_some() {
                    tracing::info!(port, protocol = protocol(transport), "can be listened at after all");
                }
                self.door = Some(door);
            }
            Err(error) => {
                service.cells.inc(StreamCounter::ListenFailures);
                let reason = error.to_string();
                if self.failure.as_ref() != Some(&reason) {
                    tracing::error!(port, protocol = protocol(transport), %error, "cannot listen");
                    self.failure = Some(reason);
                }
            }
        }
    }

    /// Takes no more clients. Sessions of datagrams need the socket for as long as they last.
    fn close(&mut self, worker: &Rc<Worker>) {
        match &self.door {
            Some(PortListener::Tcp(door)) => {
                door.close(worker);
                self.door = None;
            }
            Some(PortListener::Udp(door)) => door.close(),
            None => {}
        }
    }
}

// === impl Service and Target ===

impl Service {
    /// The cluster that it leads to in a configuration. A connection that comes while its service goes finds none: its own
    /// configuration's id may be another cluster's by now.
    fn cluster(&self, config: &WorkerConfig) -> Result<ClusterId, Reason> {
        let is_same =
            |stream: &&Stream| stream.port == self.stream.port && stream.transport == self.stream.transport;
        let stream = config.snapshot.streams.iter().find(is_same);
        stream.map(|stream| stream.cluster).ok_or(Reason::NoEndpoints)
    }
}

impl Target {
    fn now(&self) -> Rc<Service> {
        Rc::clone(&self.0.borrow())
    }

    fn lead_to(&self, stream: &Stream, worker: &Rc<Worker>) {
        let mut service = self.0.borrow_mut();
        if service.stream == *stream {
            return;
        }
        *service = if name(&service.stream) == name(stream) {
            Rc::new(Service { stream: stream.clone(), cells: Arc::clone(&service.cells) })
        } else {
            Service::new(stream, worker)
        };
    }
}

impl Service {
    fn new(stream: &Stream, worker: &Worker) -> Rc<Self> {
        let cells = worker.recorder.borrow().stream(name(stream));
        Rc::new(Self { stream: stream.clone(), cells })
    }
}

fn name(stream: &Stream) -> StreamName {
    StreamName {
        protocol: protocol(stream.transport),
        port: stream.port,
        namespace: stream.labels.namespace.clone(),
        service: stream.labels.service.clone(),
    }
}

fn protocol(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    }
}

/// Binds a port of all addresses, IPv6 included where the machine has it.
fn bind_any<T>(port: u16, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    bind((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|error| {
        // Neither says that somebody else has the port: IPv6 is not built in, or turned off.
        let has_no_ipv6 = error.kind() == io::ErrorKind::AddrNotAvailable
            || error.raw_os_error() == Some(libc::EAFNOSUPPORT);
        if has_no_ipv6 { bind((Ipv4Addr::UNSPECIFIED, port).into()) } else { Err(error) }
    })
}
