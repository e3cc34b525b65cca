//! A client connection, as the requests on it see it; `serve` is its life.

mod serve;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use model::ListenerId;

use crate::filters::Via;
use crate::filters::forwarded::LastLines;
use crate::tls::ClientTls;

pub(crate) use serve::serve;

/// A client connection, as the requests on it see it.
pub(crate) struct Conn {
    /// What is known of a client that came over TLS.
    pub(crate) tls: Option<Box<ClientTls>>,
    /// Who is at the other end.
    pub(crate) peer: SocketAddr,
    /// The listener that it came in at.
    pub(crate) listener: ListenerId,
    /// Where it was accepted.
    pub(crate) local: SocketAddr,
    /// Serial number among the worker's connections.
    pub(crate) serial: u64,
    /// Requests so far.
    pub(crate) requests: Cell<u64>,
    pub(crate) last_lines: RefCell<LastLines>,
}

impl Conn {
    /// The scheme of what is asked for on it.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub(crate) fn via(&self) -> Via {
        Via { peer: self.peer.ip(), port: self.local.port(), scheme: self.scheme() }
    }

    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }
}
