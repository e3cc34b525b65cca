//! HTTP/3 on the UDP port beside a TCP port with TLS.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use model::{ListenerId, ListenerKind};
use quinn_proto::ServerConfig;

use crate::drive::http3;
use crate::io::listening::bind_all;
use crate::io::quic::{Endpoint, bind, server_config};
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
struct Current(RefCell<Option<(u64, Arc<ServerConfig>)>>);

impl Http3 {
    /// Opens the sockets, or closes them, as the worker's configuration says. `port` is that of TCP; none
    /// where that is closed.
    pub(super) fn update(&mut self, worker: &Rc<Worker>, listener: ListenerId, port: Option<u16>) {
        self.endpoints.retain(|endpoint| !endpoint.has_ended());
        let config = worker.config();
        let is_wanted = listener.is_tls() && config.settings().tls.http3 && !worker.expects_proxy_header();
        let Some(port) = port.filter(|_| is_wanted) else {
            if !self.endpoints.is_empty() {
                self.close();
                worker.note_http3(listener, false);
            }
            return;
        };
        if !self.endpoints.is_empty() {
            self.endpoints.iter().for_each(|endpoint| endpoint.open_again());
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

    /// Takes no more connections.
    pub(super) fn close(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.close());
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
    // Both would get some of the packets.
    let is_taken = config
        .snapshot
        .listeners()
        .iter()
        .any(|other| other.id.kind == ListenerKind::Udp && other.id.port == port);
    if is_taken {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "a UDP service has the port"));
    }
    let sockets = bind_all(&config.settings().listen, ListenerId { port, ..listener }, bind)?;
    sockets.into_iter().map(|socket| start(worker, listener, socket)).collect()
}

fn start(worker: &Rc<Worker>, listener: ListenerId, socket: std::net::UdpSocket) -> io::Result<Rc<Endpoint>> {
    let current = Current::default();
    let config = current.of(worker, listener).ok_or(io::ErrorKind::Unsupported)?;
    let number = u8::try_from(worker.index())
        .map_err(|_| io::Error::other("connection ids have room for 256 workers"))?;
    let admitting = Rc::clone(worker);
    let admit = move |endpoint: &Rc<Endpoint>, incoming| match current.of(&admitting, listener) {
        Some(config) => {
            endpoint.configure(Arc::clone(&config));
            http3::admit(&admitting, listener, endpoint, incoming, config);
        }
        None => endpoint.refuse(incoming),
    };
    Endpoint::start(listener, number, &worker.quic, socket, config, Rc::new(admit))
}

impl Current {
    /// The configuration of this moment, with the certificates in force; none if the listener has no TLS.
    fn of(&self, worker: &Worker, listener: ListenerId) -> Option<Arc<ServerConfig>> {
        let config = worker.config();
        let generation = config.snapshot.generation;
        if let Some((made_for, config)) = &*self.0.borrow()
            && *made_for == generation
        {
            return Some(Arc::clone(config));
        }
        let crypto = config.tls_listeners.of_quic(listener)?;
        let made = server_config(crypto, &worker.quic, config.settings());
        *self.0.borrow_mut() = Some((generation, Arc::clone(&made)));
        Some(made)
    }
}
