//! The sockets that a proxy starts with: those of HTTP and HTTPS in its first configuration.
//!
//! They are bound for all workers before the first connection is accepted, since the kernel would otherwise
//! spread connections over too few. The proxy does not start if the first listener of HTTP or the first of
//! HTTPS cannot be bound: they are the proxy's own. Others come from objects, which must not keep the proxy
//! from starting: they are retried like those of later configurations.

use std::io;
use std::net::{SocketAddr, TcpListener};

use model::ListenerId;
use routing::Snapshot;

use crate::io::listening::{BindError, bind, bind_all, probe};

/// All sockets that were bound.
pub(crate) struct Bound {
    /// Addresses of the sockets, with the ports that the kernel has chosen.
    pub(crate) addresses: Vec<(ListenerId, SocketAddr)>,
    pub(crate) by_worker: Vec<FirstSockets>,
}

/// The sockets of one worker.
pub(crate) type FirstSockets = Vec<(ListenerId, TcpListener)>;

/// Binds each port once for each worker.
pub(crate) fn bind_first(snapshot: &Snapshot, workers: usize) -> io::Result<Bound> {
    let by_worker = (0..workers).map(|_| FirstSockets::new()).collect();
    let mut bound = Bound { addresses: Vec::new(), by_worker };
    let of_hosts = snapshot.listeners().iter().filter(|listener| listener.hosts().is_some());
    let ids: Vec<_> = of_hosts.map(|listener| listener.id).collect();
    let listen = &snapshot.settings.listen;
    let mut free = Vec::new();
    // All are probed before the first is bound: a port of one address and the same port of all addresses are
    // both ours.
    for (at, &id) in ids.iter().enumerate() {
        let is_own = !ids[..at].iter().any(|before| before.kind == id.kind);
        match bind_all(listen, id, probe) {
            Ok(_) => free.push(id),
            Err(error) if is_own => return Err(with_address(error)),
            // The worker that retries it reports the error.
            Err(_) => {}
        }
    }
    for id in free {
        let bind = |address, only_v6| bind_for_each(address, only_v6, workers);
        for (address, sockets) in bind_all(listen, id, bind).map_err(with_address)? {
            bound.addresses.push((id, address));
            let by_worker = bound.by_worker.iter_mut().zip(sockets);
            by_worker.for_each(|(of_worker, socket)| of_worker.push((id, socket)));
        }
    }
    Ok(bound)
}

fn bind_for_each(
    address: SocketAddr,
    only_v6: bool,
    workers: usize,
) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    let (mut local, mut sockets) = (address, Vec::new());
    for _ in 0..workers {
        let socket = bind(local, only_v6)?;
        local = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok((local, sockets))
}

fn with_address(BindError { address, error }: BindError) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}
