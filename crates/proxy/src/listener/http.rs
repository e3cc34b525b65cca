//! Ports where HTTP is spoken, in clear or over TLS.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use model::ListenerId;
use observe::Reason;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::net::TcpStream;

use super::socket::{self, Acceptor};
use crate::admission;
use crate::buffer::Buffer;
use crate::conn;
use crate::head::HeadEdits;
use crate::limits::REFUSED_BYTES_READ;
use crate::reply::Answer;
use crate::worker::Worker;

/// Listens at a port that has come with a change of the configuration.
pub(super) fn open(worker: &Rc<Worker>, listener: ListenerId) -> io::Result<Vec<Acceptor>> {
    let sockets = socket::bind_all(&worker.config().settings().listen, listener.port, socket::bind)?;
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
    let refuse = move |stream| turn_away(&refusing, listener, &stream, Reason::ConnectionLimit);
    Acceptor::start(worker, socket, Rc::new(admit), refuse)
}

fn admit(worker: &Rc<Worker>, listener: ListenerId, local: SocketAddr, stream: TcpStream, peer: SocketAddr) {
    let Some(peer) = socket::client(worker, peer) else {
        return turn_away(worker, listener, &stream, Reason::ConnectionLimit);
    };
    // Behind a load balancer that says whom it speaks for, the client is not known yet.
    let admitted = if worker.expects_proxy_header() { Ok(None) } else { admission::admit(worker, peer.ip()) };
    match admitted {
        Ok(place) => {
            let worker = Rc::clone(worker);
            tokio::task::spawn_local(conn::serve(worker, listener, local, stream, peer, place));
        }
        Err(reason) => {
            worker.recorder.borrow().reason(reason);
            turn_away(worker, listener, &stream, reason);
        }
    }
}

/// What a client is told that is about to speak TLS: a fatal alert in clear, `internal_error` (RFC 8446 sections 5.1 and 6.2), which says
/// that it is not its fault.
const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Answers a client for which there is no room, without waiting for anything: it may not get to hear it. One that is about
/// to speak TLS could not read it, and gets an alert.
fn turn_away(worker: &Worker, listener: ListenerId, stream: &TcpStream, reason: Reason) {
    if listener.is_tls() {
        let _ = send(stream, &TLS_ALERT, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let _ = recv(stream, &mut [0; REFUSED_BYTES_READ], RecvFlags::DONTWAIT);
        return;
    }
    let answer = Answer::to(reason);
    let mut bytes = Buffer::small(&worker.buffers);
    answer.write_head(&mut bytes, &worker.date(), Some("close"), &HeadEdits::default());
    bytes.extend(answer.body());
    let _ = send(stream, bytes.data(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = recv(stream, &mut [0; REFUSED_BYTES_READ], RecvFlags::DONTWAIT);
}
