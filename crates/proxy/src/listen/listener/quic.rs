//! HTTP/3 on the UDP port beside a TCP port with TLS.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use model::{Http3 as Mode, ListenerId, ListenerKind};
use quinn_proto::ServerConfig;

use crate::drive::http3;
use crate::drive::stream::quic::Passthrough;
use crate::io::listening::bind_all;
use crate::io::quic::{Endpoint, Incoming, WorkerSockets, server_config};
use crate::io::tls::{QuicConfigs, ServerConfigs};
use crate::worker::Worker;

/// The sockets of a port for HTTP/3; none where it is not served.
#[derive(Default)]
pub(super) struct Http3 {
    endpoints: Vec<Rc<Endpoint>>,
    /// Why the port is not bound; logged once.
    failure: Option<String>,
}

/// The configuration of new connections, made once for each generation.
#[derive(Default)]
struct Current(RefCell<Option<Made>>);

/// The configuration of a generation.
#[derive(Clone)]
struct Made {
    generation: u64,
    config: Arc<ServerConfig>,
    crypto: Arc<QuicConfigs>,
}

impl Http3 {
    /// Opens the sockets, or closes them, as the worker's configuration says. `port` is that of TCP; none
    /// where that is closed.
    pub(super) fn update(&mut self, worker: &Rc<Worker>, listener: ListenerId, port: Option<u16>) {
        self.endpoints.retain(|endpoint| !endpoint.has_ended());
        let config = worker.config();
        let is_wanted =
            listener.is_tls() && config.settings().tls.http3 != Mode::Off && !worker.expects_proxy_header();
        let Some(port) = port.filter(|_| is_wanted) else {
            if !self.endpoints.is_empty() {
                self.close();
                worker.note_http3(listener, false);
            }
            return;
        };
        if !self.endpoints.is_empty() {
            self.endpoints.iter().for_each(|endpoint| endpoint.open_again());
            self.set_passthrough(worker, listener);
            return worker.note_http3(listener, true);
        }
        let opened = open(worker, listener, port);
        worker.note_http3(listener, opened.is_ok());
        match opened {
            Ok(endpoints) => {
                if self.failure.take().is_some() {
                    tracing::info!(port, "HTTP/3 can be served after all");
                }
                self.endpoints = endpoints;
                self.set_passthrough(worker, listener);
            }
            Err(error) => {
                let reason = error.to_string();
                if self.failure.as_ref() != Some(&reason) {
                    tracing::error!(port, %error, "cannot serve HTTP/3 on the UDP port");
                    self.failure = Some(reason);
                }
            }
        }
    }

    /// Has server names read before a connection is taken, while a host is passed through.
    fn set_passthrough(&self, worker: &Rc<Worker>, listener: ListenerId) {
        let config = worker.config();
        let is_wanted = config.tls_listeners.get(listener).is_some_and(ServerConfigs::has_passthrough);
        for endpoint in &self.endpoints {
            let peek = endpoint.peek();
            if !is_wanted && peek.as_ref().is_none_or(|peek| peek.is_idle()) {
                endpoint.set_peek(None);
                continue;
            }
            let Some(crypto) = config.tls_listeners.of_quic(listener) else { continue };
            match peek {
                Some(peek) => peek.configure(crypto),
                None => endpoint.set_peek(Some(Passthrough::new(worker, listener, crypto))),
            }
        }
    }

    /// Takes no more connections.
    pub(super) fn close(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.close());
    }

    /// Leaves the sockets and new connections to the process that replaces this one.
    pub(super) fn hand_over(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.let_go());
    }

    /// Leaves the sockets to their connections: others are opened in their place.
    pub(super) fn let_go(&mut self) {
        self.close();
        self.endpoints.clear();
    }

    /// Whether no connections are left.
    pub(super) fn is_over(&self) -> bool {
        self.endpoints.iter().all(|endpoint| endpoint.has_ended())
    }
}

fn open(worker: &Rc<Worker>, listener: ListenerId, port: u16) -> io::Result<Vec<Rc<Endpoint>>> {
    let config = worker.config();
    if !config.settings().tls.versions.v13 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "ssl-protocols has no TLSv1.3, which it needs",
        ));
    }
    // Both would get some of the packets.
    let is_taken = config
        .snapshot
        .listeners()
        .iter()
        .any(|other| other.id.kind == ListenerKind::Udp && other.id.port == port);
    if is_taken {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "a UDP service has the port"));
    }
    let bind = |address, only_v6| worker.quic.bind(address, only_v6, worker.index());
    let sockets = bind_all(&config.settings().listen, ListenerId { port, ..listener }, bind)?;
    sockets.into_iter().map(|sockets| start(worker, listener, sockets)).collect()
}

fn start(worker: &Rc<Worker>, listener: ListenerId, sockets: WorkerSockets) -> io::Result<Rc<Endpoint>> {
    let current = Current::default();
    let config = current.of(worker, listener).ok_or(io::ErrorKind::Unsupported)?;
    let admitting = Rc::clone(worker);
    let admit = move |endpoint: &Rc<Endpoint>, incoming: Incoming| match current.of(&admitting, listener) {
        Some(config) => {
            endpoint.configure(Arc::clone(&config.config));
            let config = config.for_client(&admitting, incoming.remote_address().ip());
            http3::admit(&admitting, listener, endpoint, incoming, config);
        }
        None => endpoint.refuse(incoming),
    };
    Endpoint::start(worker, listener, sockets, config.config, Rc::new(admit))
}

impl Made {
    /// The configuration for a client at an address.
    fn for_client(self, worker: &Worker, address: IpAddr) -> Arc<ServerConfig> {
        let config = worker.config();
        let client = &config.settings().client;
        let promises = [u64::from(client.http2_streams_max), client.head_bytes_max as u64];
        match self.crypto.for_client(address, promises) {
            Some(crypto) => {
                let mut config = ServerConfig::clone(&self.config);
                config.crypto = crypto;
                Arc::new(config)
            }
            None => self.config,
        }
    }
}

impl Current {
    /// The configuration of this moment, with the certificates in force; none if the listener has no TLS.
    fn of(&self, worker: &Worker, listener: ListenerId) -> Option<Made> {
        let config = worker.config();
        let generation = config.snapshot.generation;
        if let Some(made) = self.0.borrow().as_ref().filter(|made| made.generation == generation) {
            return Some(made.clone());
        }
        let crypto = config.tls_listeners.of_quic(listener)?;
        let config = server_config(Arc::clone(&crypto), &worker.quic, config.settings());
        let made = Made { generation, config, crypto };
        *self.0.borrow_mut() = Some(made.clone());
        Some(made)
    }
}
