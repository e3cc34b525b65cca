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

use crate::io::handed::HandedSockets;
use crate::io::listening::{BindError, bind, bind_all, probe};

/// All sockets that were bound.
pub(crate) struct Bound {
    /// Addresses of the sockets, with the ports that the kernel has chosen.
    pub(crate) addresses: Vec<(ListenerId, SocketAddr)>,
    pub(crate) by_worker: Vec<FirstSockets>,
}

/// The sockets of one worker.
pub(crate) type FirstSockets = Vec<(ListenerId, TcpListener)>;

/// Binds each port once for each worker, or takes over the sockets that were handed to this process for it.
pub(crate) fn bind_first(snapshot: &Snapshot, workers: usize, handed: &HandedSockets) -> io::Result<Bound> {
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
        let probe = |address: SocketAddr, only_v6| {
            if handed.has(address) { Ok(()) } else { probe(address, only_v6) }
        };
        match bind_all(listen, at_port(id, handed), probe) {
            Ok(_) => free.push(id),
            Err(error) if is_own => return Err(with_address(error)),
            // The worker that retries it reports the error.
            Err(_) => {}
        }
    }
    for id in free {
        let bind = |address, only_v6| match take_for_each(address, only_v6, workers, handed)? {
            Some(taken) => Ok(taken),
            None => bind_for_each(address, only_v6, workers),
        };
        for (address, sockets) in bind_all(listen, at_port(id, handed), bind).map_err(with_address)? {
            bound.addresses.push((id, address));
            for (worker, socket) in sockets {
                bound.by_worker[worker].push((id, socket));
            }
        }
    }
    Ok(bound)
}

/// The listener at the port that the process before had, where any port will do.
fn at_port(id: ListenerId, handed: &HandedSockets) -> ListenerId {
    ListenerId { port: handed.port(&id.kind.as_str().to_ascii_lowercase(), id.port), ..id }
}

/// An address, and the sockets there, each with its worker.
type BoundAddress = (SocketAddr, Vec<(usize, TcpListener)>);

fn bind_for_each(address: SocketAddr, only_v6: bool, workers: usize) -> io::Result<BoundAddress> {
    let (mut local, mut sockets) = (address, Vec::new());
    for worker in 0..workers {
        let socket = bind(local, only_v6)?;
        local = socket.local_addr()?;
        sockets.push((worker, socket));
    }
    Ok((local, sockets))
}

/// Shares out the sockets that were handed over for an address; none where there are none. A worker that
/// gets none binds one of its own, or accepts from another one's where the system refuses that: a socket of
/// systemd has its port for itself.
fn take_for_each(
    address: SocketAddr,
    only_v6: bool,
    workers: usize,
    handed: &HandedSockets,
) -> io::Result<Option<BoundAddress>> {
    let share = |worker| handed.take(address, worker, workers).into_iter().map(move |one| (worker, one));
    let mut sockets: Vec<_> = (0..workers).flat_map(share).collect();
    let Some((_, first)) = sockets.first() else { return Ok(None) };
    let first = first.try_clone()?;
    let local = first.local_addr()?;
    for worker in 0..workers {
        if !sockets.iter().any(|(user, _)| *user == worker) {
            let socket = bind(local, only_v6).or_else(|_| first.try_clone())?;
            sockets.push((worker, socket));
        }
    }
    Ok(Some((local, sockets)))
}

fn with_address(BindError { address, error }: BindError) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}
