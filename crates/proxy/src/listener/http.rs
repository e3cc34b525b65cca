//! Ports where HTTP is spoken, in clear or over TLS.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use model::ListenerId;
use observe::Reason;
use tokio::net::TcpStream;

use super::socket::{self, Acceptor};
use crate::admission::{self, Peer};
use crate::conn;
use crate::worker::Worker;

/// Listens at a port that has come with a change of the configuration.
pub(super) fn open(worker: &Rc<Worker>, listener: ListenerId) -> io::Result<Vec<Acceptor>> {
    let sockets = socket::bind_all(&worker.config().settings().listen, listener, socket::bind)?;
    sockets.into_iter().map(|socket| accept_from(worker, listener, socket)).collect()
}

/// Accepts connections from a socket that is bound.
pub(super) fn accept_from(
    worker: &Rc<Worker>,
    listener: ListenerId,
    socket: TcpListener,
) -> io::Result<Acceptor> {
    let local = socket.local_addr()?;
    let (admitting, refusing) = (Rc::clone(worker), Rc::clone(worker));
    let admit = move |stream, peer| admit(&admitting, listener, local, stream, peer);
    let refuse = move |stream| admission::turn_away(&refusing, listener, &stream, Reason::ConnectionLimit);
    Acceptor::start(worker, socket, Rc::new(admit), refuse)
}

fn admit(worker: &Rc<Worker>, listener: ListenerId, local: SocketAddr, stream: TcpStream, peer: SocketAddr) {
    let Some(peer) = socket::client(worker, peer) else {
        return admission::turn_away(worker, listener, &stream, Reason::ConnectionLimit);
    };
    // Behind a load balancer that says whom it speaks for, the client is not known yet.
    let admitted = if worker.expects_proxy_header() {
        Ok(None)
    } else {
        admission::admit(worker, Peer { address: peer.ip(), is_named: false })
    };
    match admitted {
        Ok(place) => {
            let worker = Rc::clone(worker);
            tokio::task::spawn_local(conn::serve(worker, listener, local, stream, peer, place));
        }
        Err(reason) => {
            worker.recorder.borrow().reason(reason);
            admission::turn_away(worker, listener, &stream, reason);
        }
    }
}
