//! A client connection, as the requests on it see it; `serve` is its life.

mod linger;
mod serve;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use model::ListenerId;

use crate::admission::{self, Peer};
use crate::clients::ClientPlace;
use crate::clients::abuse::{ClientKey, Tally};
use crate::deadline::Deadline;
use crate::filters::Via;
use crate::filters::forwarded::LastLines;
use crate::tls::ClientTls;
use crate::worker::Worker;

pub(crate) use serve::serve;

const HTTPS_PORT: u16 = 443;

/// A client connection, as the requests on it see it.
pub(crate) struct Conn {
    /// What is known of a client that came over TLS.
    pub(crate) tls: Option<Box<ClientTls>>,
    /// Who is at the other end.
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
    pub(crate) place: Option<ClientPlace>,
    pub(crate) worker: Rc<Worker>,
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.worker.abuse.conclude(&self.tally);
        if self.requests.get() == 0 && !self.is_turned_away.get() {
            let has_begun_handshake = self.has_begun_handshake.get();
            admission::note_unused(&self.worker, self.listener, self.counted_peer(), has_begun_handshake);
        }
    }
}

impl Conn {
    /// Whether it takes no more requests after those that it serves.
    pub(crate) fn is_closing(&self) -> bool {
        self.worker.is_closing(self.listener) || self.worker.parts_with(self.serial)
    }

    /// The scheme of what is asked for on it.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Endpoints are told port 443 of every client that came over TLS, whatever the listener's port, and what came to 443 at a load
    /// balancer came over TLS there: as in ingress-nginx.
    pub(crate) fn via(&self) -> Via {
        let own_scheme = self.scheme();
        let own_port = if self.tls.is_some() { HTTPS_PORT } else { self.local.port() };
        let scheme = if self.named_port == Some(HTTPS_PORT) { "https" } else { own_scheme };
        Via { peer: self.peer.ip(), port: self.named_port.unwrap_or(own_port), scheme, own_scheme }
    }

    /// Who is at the other end, for who counts that.
    pub(crate) fn counted_peer(&self) -> Peer {
        Peer { address: self.peer.ip(), is_named: self.named_port.is_some() }
    }

    /// Has the connection's wait for a request end where its client needs room for another, if its connections are counted.
    pub(crate) fn own(&self, deadline: &Deadline) {
        if self.place.is_some() {
            deadline.set_owner(ClientKey::of(self.peer.ip()).bits());
        }
    }

    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }
}
