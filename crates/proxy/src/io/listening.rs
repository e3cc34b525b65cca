//! Listening TCP sockets and their accept loops: one socket per worker on the same address. Never in here:
//! handling of accepted connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::task::Poll;

use model::{ListenAddresses, ListenerId};
use observe::{Counter, Reason};
use reactor::{JoinHandle, TcpListener, TcpStream};
use rustix::net::{Shutdown, shutdown};
use socket2::{Domain, Protocol, Socket, Type};

use crate::io::deadline::Deadline;
use crate::io::socket::is_about_descriptors;
use crate::io::sys;
use crate::io::turn;
use crate::limits::{ACCEPT_BACKLOG, ACCEPT_RETRY_DELAY, ACCEPTS_PER_TURN_MAX, SPARE_ACCEPTS_MAX};
use crate::worker::Worker;

/// Binds one worker's socket. Connections inherit `TCP_NODELAY`, so that it is set once and not for each of
/// them.
pub(crate) fn bind(address: SocketAddr, only_v6: bool) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        // `[::]` accepts IPv4 too, unless that has a socket of its own.
        socket.set_only_v6(only_v6)?;
    }
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

/// Takes a worker's share of the sockets that were handed to this process for an address, or else binds one.
pub(crate) fn bind_for(worker: &Worker, address: SocketAddr, only_v6: bool) -> io::Result<Vec<StdListener>> {
    let handed = worker.handed.take(address, worker.index() as usize, worker.workers() as usize);
    if handed.is_empty() { bind(address, only_v6).map(|one| vec![one]) } else { Ok(handed) }
}

/// Fails if another process listens at the address: the workers' sockets would share it with a process that
/// has set `SO_REUSEPORT` too, such as a second proxy, and each would get some of the connections.
pub(crate) fn probe(address: SocketAddr, only_v6: bool) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.bind(&address.into())
}

/// Binds a port on the configured addresses, or on the listener's own. The second argument of `bind` is
/// whether an IPv6 socket is for IPv6 alone.
pub(crate) fn bind_all<T>(
    listen: &ListenAddresses,
    listener: ListenerId,
    bind: impl Fn(SocketAddr, bool) -> io::Result<T>,
) -> Result<Vec<T>, BindError> {
    let at = |ip: IpAddr, only_v6| {
        let address = SocketAddr::new(ip, listener.port);
        bind(address, only_v6).map_err(|error| BindError { address, error })
    };
    if let Some(own) = listener.address {
        return Ok(vec![at(own, true)?]);
    }
    let (any_v4, any_v6) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    if *listen == ListenAddresses::default() {
        let bound = at(any_v6, false);
        return bound
            .or_else(|failed| if failed.has_no_ipv6() { at(any_v4, false) } else { Err(failed) })
            .map(|one| vec![one]);
    }
    let ListenAddresses { v4, v6, without_v6 } = listen;
    let v4 = if v4.is_empty() { vec![any_v4] } else { v4.iter().copied().map(IpAddr::V4).collect() };
    let v6 = match (without_v6, v6.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec![any_v6],
        (false, false) => v6.iter().copied().map(IpAddr::V6).collect(),
    };
    let mut bound = Vec::new();
    for ip in v4.into_iter().chain(v6) {
        match at(ip, true) {
            Ok(one) => bound.push(one),
            Err(failed) if ip == any_v6 && failed.has_no_ipv6() => {}
            Err(failed) => return Err(failed),
        }
    }
    Ok(bound)
}

/// An address that cannot be bound, and why.
pub(crate) struct BindError {
    pub(crate) address: SocketAddr,
    pub(crate) error: io::Error,
}

impl BindError {
    /// Neither error says that the port is in use: IPv6 is not built in, or turned off.
    fn has_no_ipv6(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrNotAvailable
            || self.error.raw_os_error() == Some(libc::EAFNOSUPPORT)
    }
}

impl From<BindError> for io::Error {
    fn from(failed: BindError) -> Self {
        failed.error
    }
}

/// Handler of an accepted connection, with the client's address.
type Admit = Rc<dyn Fn(TcpStream, SocketAddr)>;

/// A listening socket, and the task that accepts from it.
pub(crate) struct Acceptor {
    listener: Rc<TcpListener>,
    admit: Admit,
    accepting: JoinHandle<()>,
    /// A service manager keeps the socket.
    is_kept: bool,
}

impl Acceptor {
    /// `refuse` handles a connection that only the spare descriptor could accept.
    pub(crate) fn start(
        worker: &Rc<Worker>,
        socket: StdListener,
        admit: Admit,
        refuse: impl Fn(TcpStream) + 'static,
    ) -> io::Result<Self> {
        let listener = Rc::new(TcpListener::from_std(socket)?);
        let local = listener.local_addr()?;
        let is_kept = worker.handed.kept().contains(&local);
        let worker = Rc::clone(worker);
        let from = Rc::clone(&listener);
        let admitting = Rc::clone(&admit);
        let accepting = {
            let worker = Rc::clone(&worker);
            async move { accept_each(&worker, &from, local, &*admitting, refuse).await }
        };
        let accepting = reactor::spawn(worker.vital.task(accepting));
        Ok(Self { listener, admit, accepting, is_kept })
    }

    /// Accepts no more, and leaves the socket and the connections that wait there to the process that has
    /// taken it over.
    pub(crate) fn let_go(&self) {
        self.accepting.abort();
    }

    /// The port that the socket is bound to.
    pub(crate) fn port(&self) -> Option<u16> {
        self.listener.local_addr().ok().map(|local| local.port())
    }

    /// Accepts the connections that are established already, and few more: closing the listener would reset
    /// them. A client that connects again and again would otherwise keep the worker here for ever. A socket
    /// that a service manager keeps stays open, with what waits there for the next process.
    pub(crate) fn close(&self) {
        self.accepting.abort();
        if self.is_kept {
            return;
        }
        let waiting = sys::established_waiting(&*self.listener).unwrap_or(0);
        for _ in 0..waiting.saturating_add(ACCEPTS_PER_TURN_MAX) {
            let Ok((stream, peer)) = self.listener.try_accept() else { break };
            (self.admit)(stream, peer);
        }
        // The task drops the socket only when it runs next. On a listening socket this cannot fail.
        let _ = shutdown(&self.listener, Shutdown::Read);
    }
}

/// Accepts connections for as long as it is polled.
async fn accept_each(
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
                    if worker.notices.descriptors.is_due(worker.clock.now()) {
                        tracing::warn!(%error, %local, "cannot accept connections for the moment; told once a minute");
                    }
                    if is_about_descriptors(&error) {
                        worker.make_room();
                        turn_away(worker, listener, &refuse);
                    }
                    let pause = Deadline::new(&worker.deadlines);
                    let _ = pause.within(ACCEPT_RETRY_DELAY, |_| Poll::<()>::Pending).await;
                }
            }
        }
        turn::yield_now(&worker.clock).await;
    }
}

/// Refuses waiting clients one after the other, with the spare descriptor: a client without an answer waits
/// for as long as its timeout.
fn turn_away(worker: &Worker, listener: &TcpListener, refuse: impl Fn(TcpStream)) {
    for _ in 0..SPARE_ACCEPTS_MAX {
        if !worker.with_spare_descriptor(|| accept_one(worker, listener, &refuse)) {
            return;
        }
    }
}

/// False where no client waits.
fn accept_one(worker: &Worker, listener: &TcpListener, refuse: impl Fn(TcpStream)) -> bool {
    let Ok((stream, _)) = listener.try_accept() else { return false };
    let recorder = worker.recorder.borrow();
    recorder.count(Counter::ConnectionsAccepted);
    recorder.count(Counter::SpareDescriptor);
    recorder.reason(Reason::ConnectionLimit);
    drop(recorder);
    refuse(stream);
    true
}

/// Counts an accepted connection. Returns the client's address, or none if there is no room for the
/// connection.
pub(crate) fn client(worker: &Worker, peer: SocketAddr) -> Option<SocketAddr> {
    worker.recorder.borrow().count(Counter::ConnectionsAccepted);
    // On a socket for both families, IPv4 clients appear as `::ffff:1.2.3.4`.
    worker.has_room().then(|| SocketAddr::new(peer.ip().to_canonical(), peer.port()))
}

/// The client went away between its handshake and `accept`.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}
