//! Listeners: the ports of a worker, whatever their protocols.
//!
//! Each worker has a socket of its own for each port, and the kernel spreads connections among them. Ports
//! change with the configuration; established connections are not affected. Never in here: handling of
//! accepted connections.

mod closed;
mod first;
mod http;
mod quic;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use model::{ListenAddresses, ListenerId, ListenerKind};
use observe::{StreamCells, StreamCounter, StreamName};

pub(crate) use closed::ClosedByWorker;
pub use closed::ClosedPorts;
pub(crate) use first::{Bound, FirstSockets, bind_first};

use crate::drive::stream::{Target, tcp, udp};
use crate::io::listening;
use crate::replicas::listed_replicas;
use crate::worker::Worker;
use listening::Acceptor;

/// The ports of a worker.
pub(crate) struct Listeners {
    ports: RefCell<BTreeMap<ListenerId, Port>>,
    /// Sessions of all UDP ports.
    ages: Rc<udp::Ages>,
    /// The addresses to bind.
    listen: RefCell<ListenAddresses>,
    /// Reports ports that cannot be bound.
    closed: ClosedByWorker,
}

/// A port that is configured, or was and still has sessions.
struct Port {
    id: ListenerId,
    content: Content,
    opened: Option<Opened>,
    /// HTTP/3 beside it, if the port has TLS and the settings ask for that.
    http3: quic::Http3,
    /// Why the port is not bound; logged once.
    failure: Option<String>,
    is_wanted: bool,
}

/// Content of a port.
enum Content {
    /// The listener's hosts in the configuration in force. Cells exist once the port could not be bound.
    Hosts(Option<Arc<StreamCells>>),
    Stream(Rc<Target>),
}

/// A port that is bound, at one address or several.
enum Opened {
    Tcp(Vec<Acceptor>),
    Udp(Vec<udp::PortListener>),
}

impl Listeners {
    /// Starts with sockets that are bound already.
    pub(crate) fn with(worker: &Rc<Worker>, first: FirstSockets, closed: ClosedByWorker) -> io::Result<Self> {
        let mut ports = BTreeMap::<_, Port>::new();
        for (id, socket) in first {
            let acceptor = http::accept_from(worker, id, socket)?;
            let port = ports.entry(id).or_insert_with(|| Port::new(id, Content::Hosts(None)));
            match &mut port.opened {
                Some(Opened::Tcp(acceptors)) => acceptors.push(acceptor),
                opened => *opened = Some(Opened::Tcp(vec![acceptor])),
            }
        }
        let listen = RefCell::new(worker.config().settings().listen.clone());
        Ok(Self { ports: RefCell::new(ports), ages: Rc::default(), listen, closed })
    }

    /// Applies the worker's new configuration.
    pub(crate) fn install(&self, worker: &Rc<Worker>) {
        let config = worker.config();
        let mut ports = self.ports.borrow_mut();
        ports.values_mut().for_each(|port| port.is_wanted = false);
        for listener in config.snapshot.listeners() {
            let port = ports.entry(listener.id).or_insert_with(|| {
                let target = listener.stream().map(|stream| Target::new(listener.id, stream, worker));
                Port::new(listener.id, target.map_or(Content::Hosts(None), Content::Stream))
            });
            port.is_wanted = true;
            if let (Content::Stream(target), Some(stream)) = (&port.content, listener.stream()) {
                target.lead_to(stream, worker);
            }
        }
        ports.values_mut().filter(|port| !port.is_wanted).for_each(Port::close);
        let listen = &config.settings().listen;
        if *self.listen.borrow() != *listen {
            self.listen.borrow_mut().clone_from(listen);
            // UDP sessions go on with the sockets that they have.
            ports.values_mut().for_each(|port| {
                port.close();
                port.opened = None;
                port.http3.let_go();
            });
        }
        drop(ports);
        if worker.index() == 0 {
            worker.quic.set_replicas(listed_replicas(&config.snapshot));
        }
        worker.tls_cells.sweep();
        self.retry(worker);
    }

    /// Retries ports that could not be bound, and drops closed ports whose last session has ended.
    pub(crate) fn retry(&self, worker: &Rc<Worker>) {
        let mut ports = self.ports.borrow_mut();
        ports.retain(|id, port| {
            let is_kept = port.is_wanted || port.opened.is_some() || !port.http3.is_over();
            if !is_kept {
                self.closed.note(*id, None);
            }
            is_kept
        });
        for port in ports.values_mut() {
            port.open(worker, &self.ages);
            // The kernel may have chosen the port of TCP.
            let beside = match (&port.content, &port.opened) {
                (Content::Hosts(_), Some(Opened::Tcp(acceptors))) if port.is_wanted => {
                    acceptors.first().and_then(Acceptor::port)
                }
                _ => None,
            };
            port.http3.update(worker, port.id, beside);
            self.closed.note(port.id, port.failure.as_deref().filter(|_| port.is_wanted));
        }
    }

    /// Accepts no more, and leaves the sockets of TCP and QUIC to the process that has taken them over.
    pub(crate) fn let_go(&self) {
        for port in self.ports.borrow_mut().values_mut() {
            port.is_wanted = false;
            port.let_go();
        }
    }

    /// Closes all ports.
    pub(crate) fn close(&self) {
        for port in self.ports.borrow_mut().values_mut() {
            port.is_wanted = false;
            port.close();
        }
    }
}

// === impl Port ===

impl Port {
    fn new(id: ListenerId, content: Content) -> Self {
        Self { id, content, opened: None, http3: quic::Http3::default(), failure: None, is_wanted: true }
    }

    fn open(&mut self, worker: &Rc<Worker>, ages: &Rc<udp::Ages>) {
        if let Some(Opened::Udp(listeners)) = &self.opened {
            if listeners.iter().all(udp::PortListener::is_closed) {
                self.opened = None;
            } else if self.is_wanted {
                listeners.iter().for_each(udp::PortListener::open_again);
            }
        }
        if self.opened.is_some() || !self.is_wanted {
            return;
        }
        let ListenerId { kind, port, address } = self.id;
        let (protocol, address) = (kind.as_str(), address.map(tracing::field::display));
        match self.listen(worker, ages) {
            Ok(opened) => {
                if self.failure.take().is_some() {
                    tracing::info!(address, port, protocol, "can be listened at after all");
                }
                self.opened = Some(opened);
            }
            Err(error) => {
                self.count_failure(worker);
                let reason = error.to_string();
                if self.failure.as_ref() != Some(&reason) {
                    tracing::error!(address, port, protocol, %error, "cannot listen");
                    self.failure = Some(reason);
                }
            }
        }
    }

    fn listen(&self, worker: &Rc<Worker>, ages: &Rc<udp::Ages>) -> io::Result<Opened> {
        match &self.content {
            Content::Hosts(_) => http::open(worker, self.id).map(Opened::Tcp),
            Content::Stream(target) if self.id.kind == ListenerKind::Udp => {
                udp::PortListener::open(worker, self.id, target, ages).map(Opened::Udp)
            }
            Content::Stream(target) => tcp::open(worker, self.id, target).map(Opened::Tcp),
        }
    }

    /// HTTP listeners have cells only for this, so that metrics do not list healthy ones.
    fn count_failure(&mut self, worker: &Worker) {
        let ListenerId { kind, port, .. } = self.id;
        match &mut self.content {
            Content::Hosts(cells) => {
                let name = || StreamName {
                    protocol: kind.as_str(),
                    port,
                    namespace: String::new(),
                    service: String::new(),
                };
                let cells = cells.get_or_insert_with(|| worker.recorder.borrow().stream(name()));
                cells.inc(StreamCounter::ListenFailures);
            }
            Content::Stream(target) => target.now().cells.inc(StreamCounter::ListenFailures),
        }
    }

    /// Accepts no more, and leaves what waits in the queue of a TCP port, and QUIC, to another process.
    fn let_go(&mut self) {
        if let Some(Opened::Tcp(acceptors)) = &self.opened {
            acceptors.iter().for_each(Acceptor::let_go);
            self.opened = None;
        }
        self.http3.hand_over();
        self.close();
    }

    /// Accepts no more clients except those that are established already. UDP sessions need the socket for
    /// as long as they last.
    fn close(&mut self) {
        self.http3.close();
        match &self.opened {
            Some(Opened::Tcp(acceptors)) => {
                acceptors.iter().for_each(Acceptor::close);
                self.opened = None;
            }
            Some(Opened::Udp(listeners)) => listeners.iter().for_each(udp::PortListener::close),
            None => {}
        }
    }
}
