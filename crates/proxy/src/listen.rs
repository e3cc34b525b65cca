//! Listening: a socket per worker on the same address, among which the kernel spreads the connections.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use observe::{Counter, Reason};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::buffer::Buffer;
use crate::conn;
use crate::deadline::Deadline;
use crate::head::HeadEdits;
use crate::limits::{ACCEPT_BACKLOG, ACCEPT_RETRY_DELAY, ACCEPTS_PER_TURN_MAX, REFUSED_BYTES_READ};
use crate::options::Listen;
use crate::reply::Answer;
use crate::socket::is_about_descriptors;
use crate::worker::Worker;

/// Binds one worker's socket. Connections inherit `TCP_NODELAY`, so that it is set once and not for each of them.
pub(crate) fn bind(address: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        // `[::]` takes IPv4 too.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

/// Fails if somebody listens at the address already: the workers' sockets would share it with another process that has set
/// `SO_REUSEPORT` too, such as a second proxy, and each would get some of the connections.
pub(crate) fn probe(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())
}

/// Accepts connections for as long as it is polled.
pub(crate) async fn accept(worker: Rc<Worker>, listener: Rc<TcpListener>, listen: Listen) {
    let local = listen.address;
    let refuse = |stream: TcpStream| turn_away(&worker, &stream, listen);
    accept_each(&worker, &listener, local, |stream, peer| admit(&worker, stream, peer, listen), refuse).await;
}

/// The same, for connections of any kind. `refuse` gets a connection for which there is no other descriptor.
pub(crate) async fn accept_each(
    worker: &Worker,
    listener: &TcpListener,
    local: SocketAddr,
    admit: impl Fn(TcpStream, SocketAddr),
    refuse: impl Fn(TcpStream),
) {
    loop {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            match listener.accept().await {
                Ok((stream, peer)) => admit(stream, peer),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    if worker.is_to_tell_of_shortage() {
                        tracing::warn!(%error, %local, "cannot accept connections for the moment; told once a minute");
                    }
                    if is_about_descriptors(&error) {
                        worker.make_room();
                        worker.with_spare_descriptor(|| accept_one(listener, &refuse));
                    }
                    let pause = Deadline::new(&worker.deadlines);
                    let _ = pause.within(ACCEPT_RETRY_DELAY, |_| Poll::<()>::Pending).await;
                }
            }
        }
        worker.clock.yield_now().await;
    }
}

/// Takes what clients have established already; a listener that is closed would reset them.
pub(crate) async fn accept_last(worker: &Rc<Worker>, listener: &TcpListener, listen: Listen) {
    poll_fn(|cx| {
        accept_waiting(cx, listener, |stream, peer| admit(worker, stream, peer, listen));
        Poll::Ready(())
    })
    .await;
}

/// The same, for connections of any kind.
pub(crate) fn accept_waiting(
    cx: &mut Context<'_>,
    listener: &TcpListener,
    admit: impl Fn(TcpStream, SocketAddr),
) {
    while let Poll::Ready(Ok((stream, peer))) = listener.poll_accept(cx) {
        admit(stream, peer);
    }
}

fn accept_one(listener: &TcpListener, refuse: impl Fn(TcpStream)) {
    if let Poll::Ready(Ok((stream, _))) = listener.poll_accept(&mut Context::from_waker(Waker::noop())) {
        refuse(stream);
    }
}

fn admit(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr, listen: Listen) {
    match client(worker, peer) {
        Some(peer) => _ = tokio::task::spawn_local(conn::serve(Rc::clone(worker), stream, peer, listen)),
        None => turn_away(worker, &stream, listen),
    }
}

/// Counts a connection that was accepted. Returns who it is from, or none if there is no room for it.
pub(crate) fn client(worker: &Worker, peer: SocketAddr) -> Option<SocketAddr> {
    worker.recorder.borrow().count(Counter::ConnectionsAccepted);
    // Through a socket for both families IPv4 clients come in as `::ffff:1.2.3.4`.
    worker.has_room().then(|| SocketAddr::new(peer.ip().to_canonical(), peer.port()))
}

/// Answers 503 to a client for which there is no room, without waiting for anything: it may not get to hear it. One that is about
/// to speak TLS could not read it.
fn turn_away(worker: &Worker, stream: &TcpStream, listen: Listen) {
    if listen.tls {
        return;
    }
    let answer = Answer::to(Reason::ConnectionLimit);
    let mut bytes = Buffer::small(&worker.buffers);
    answer.write_head(&mut bytes, &worker.date(), Some("close"), &HeadEdits::default());
    bytes.extend(answer.body());
    let _ = send(stream, bytes.data(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = recv(stream, &mut [0; REFUSED_BYTES_READ], RecvFlags::DONTWAIT);
}

/// The client went away between its handshake and `accept`.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}
