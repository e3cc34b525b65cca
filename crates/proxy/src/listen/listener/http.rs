//! Listeners of HTTP, in cleartext or over TLS.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use model::ListenerId;
use observe::Reason;
use reactor::TcpStream;

use crate::admit::admission;
use crate::drive::conn;
use crate::io::listening::{self, Acceptor};
use crate::request::conn::{Accepted, Peer};
use crate::worker::Worker;

/// Binds a port that is new in the configuration.
pub(super) fn open(worker: &Rc<Worker>, listener: ListenerId) -> io::Result<Vec<Acceptor>> {
    let bind = |address, only_v6| listening::bind_for(worker, address, only_v6);
    let sockets = listening::bind_all(&worker.config().settings().listen, listener, bind)?;
    sockets.into_iter().flatten().map(|socket| accept_from(worker, listener, socket)).collect()
}

/// Accepts connections from a bound socket.
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
    let Some(peer) = listening::client(worker, peer) else {
        return admission::turn_away(worker, listener, &stream, Reason::ConnectionLimit);
    };
    // Behind a load balancer with PROXY headers, the client is not known yet.
    let admitted = if worker.expects_proxy_header() {
        Ok(None)
    } else {
        admission::admit(worker, Peer { address: peer.ip(), is_named: false })
    };
    match admitted {
        Ok(place) => {
            let worker = Rc::clone(worker);
            reactor::spawn_detached(conn::serve(worker, stream, Accepted { listener, local, peer, place }));
        }
        Err(reason) => {
            worker.recorder.borrow().reason(reason);
            admission::turn_away(worker, listener, &stream, reason);
        }
    }
}
