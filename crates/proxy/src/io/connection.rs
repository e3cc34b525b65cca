//! A connection to an endpoint.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clock::Moment;
use observe::PortCells;

use crate::io::socket::Socket;

/// A connection to an endpoint.
pub(crate) struct Connection {
    socket: Option<Socket>,
    /// When the connection was opened.
    pub(crate) opened: Moment,
    /// When it was last put back into the pool.
    pub(crate) idle_since: Moment,
    /// How long the endpoint keeps an idle connection, from `Keep-Alive: timeout` in a response; none
    /// without that header.
    pub(crate) idle_max: Option<Duration>,
    /// Number of requests made on it.
    pub(crate) requests: u64,
    /// Whether the connection is closed gracefully, so that data in flight still arrives, rather than reset.
    pub(crate) closes_in_order: bool,
    ports: Arc<PortCells>,
}

impl Connection {
    pub(crate) fn new(socket: Socket, opened: Moment, ports: Arc<PortCells>) -> Self {
        ports.taken();
        Self {
            socket: Some(socket),
            opened,
            idle_since: opened,
            idle_max: None,
            requests: 0,
            closes_in_order: false,
            ports,
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.socket.as_ref().expect("a connection loses its socket only when it is dropped or moved")
    }

    /// Whether the connection has neither ended nor received data while it was idle. Usually the readiness
    /// in the event loop decides without a system call. The socket is read only if it is marked as ready,
    /// which it also is after a read that filled its buffer.
    pub(crate) fn is_quiet(&self) -> bool {
        is_blocked(&self.socket().peek_noted())
    }

    /// The same as [`is_quiet`](Self::is_quiet), but the socket is always read.
    pub(crate) fn is_quiet_now(&self) -> bool {
        is_blocked(&self.socket().peek_now())
    }

    /// Moves the connection to the event loop of the calling worker.
    pub(crate) fn adopt(mut self) -> io::Result<Self> {
        if let Some(socket) = self.socket.take() {
            self.socket = Some(socket.adopt()?);
        }
        Ok(self)
    }
}

fn is_blocked(peeked: &io::Result<usize>) -> bool {
    peeked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

impl Drop for Connection {
    /// Resets the connection, except after a tunnel. No data that matters is in flight when we close a
    /// connection, and a reset leaves no `TIME_WAIT`, which would hold a port for a minute.
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take().filter(|_| !self.closes_in_order) {
            socket.reset();
        }
        self.ports.given_back();
    }
}
