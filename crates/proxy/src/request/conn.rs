//! A client connection, as the requests on it see it; its life is `drive`'s.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use clients::ClientConnection;
use clients::abuse::{ClientKey, Tally};
use model::ListenerId;

use crate::io::deadline::Deadline;
use crate::io::tls::ClientTls;
use crate::request::forwarded::{LastLines, Via};
use crate::worker::Worker;

const HTTPS_PORT: u16 = 443;

/// A client connection, as the requests on it see it.
pub(crate) struct Conn {
    /// The result of the handshake of a client that came over TLS.
    pub(crate) tls: Option<Box<ClientTls>>,
    /// The address at the other end.
    pub(crate) peer: SocketAddr,
    /// The port that a PROXY header says the client connected to.
    pub(crate) named_port: Option<u16>,
    /// The listener that it came in at.
    pub(crate) listener: ListenerId,
    /// Where it was accepted.
    pub(crate) local: SocketAddr,
    /// Serial number among the worker's connections.
    pub(crate) serial: u64,
    /// Requests so far.
    pub(crate) requests: Cell<u64>,
    /// Requests that are not counted yet for what their clients do.
    pub(crate) tally: Tally,
    pub(crate) last_lines: RefCell<LastLines>,
    /// The client has begun with TLS.
    pub(crate) has_begun_handshake: Cell<bool>,
    /// It was not let in once its client was known.
    pub(crate) is_turned_away: Cell<bool>,
    /// Its place among its client's connections, where these are counted.
    pub(crate) place: Option<ClientConnection>,
    pub(crate) worker: Rc<Worker>,
}

/// A connection that has been let in: its ends, and its place among its client's, where these are counted.
pub(crate) struct Accepted {
    pub(crate) listener: ListenerId,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Option<ClientConnection>,
}

/// The address at the other end of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// A PROXY header names it.
    pub(crate) is_named: bool,
}

impl Conn {
    /// A connection in clear, as far as is known.
    pub(crate) fn new(worker: &Rc<Worker>, accepted: Accepted) -> Self {
        let Accepted { listener, local, peer, place } = accepted;
        Self {
            tls: None,
            peer,
            named_port: None,
            listener,
            local,
            serial: worker.next_serial(),
            requests: Cell::new(0),
            tally: Tally::default(),
            last_lines: RefCell::default(),
            has_begun_handshake: Cell::new(false),
            is_turned_away: Cell::new(false),
            place,
            worker: Rc::clone(worker),
        }
    }

    /// A connection that nobody has opened, from a client to a local address, with one request on it.
    pub(crate) fn offline(
        worker: &Rc<Worker>,
        listener: ListenerId,
        client: IpAddr,
        local: SocketAddr,
        tls: Option<Box<ClientTls>>,
    ) -> Self {
        let accepted = Accepted { listener, local, peer: SocketAddr::new(client, 0), place: None };
        let mut conn = Self::new(worker, accepted);
        (conn.tls, conn.serial) = (tls, 1);
        conn.count_request();
        conn
    }

    /// Whether it takes no more requests after those that it serves.
    pub(crate) fn is_closing(&self) -> bool {
        self.worker.is_closing(self.listener) || self.worker.parts_with(self.serial)
    }

    /// The scheme of what is asked for on it.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Endpoints are told port 443 of every client that came over TLS, whatever the listener's port, and
    /// what came to 443 at a load balancer came over TLS there: as in ingress-nginx.
    pub(crate) fn via(&self) -> Via {
        let own_scheme = self.scheme();
        let own_port = if self.tls.is_some() { HTTPS_PORT } else { self.local.port() };
        let scheme = if self.named_port == Some(HTTPS_PORT) { "https" } else { own_scheme };
        Via { peer: self.peer.ip(), port: self.named_port.unwrap_or(own_port), scheme, own_scheme }
    }

    /// The address at the other end, for counting.
    pub(crate) fn counted_peer(&self) -> Peer {
        Peer { address: self.peer.ip(), is_named: self.named_port.is_some() }
    }

    /// Has the connection's wait for a request end where its client needs room for another, if its
    /// connections are counted.
    pub(crate) fn own(&self, deadline: &Deadline) {
        if self.place.is_some() {
            deadline.set_owner(ClientKey::of(self.peer.ip()).bits());
        }
    }

    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }
}
