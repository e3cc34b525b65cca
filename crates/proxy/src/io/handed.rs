//! Listening sockets that come from another process: from systemd, or from the Forebay that this one
//! replaces. They stay open from one process to the next, so that no connection is refused in between.
//!
//! Never in here: the way by which they come, which is the binary's.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{OwnedFd, RawFd};

use parking_lot::Mutex;
use rustix::net::sockopt::socket_acceptconn;
use socket2::Socket;

use crate::io::quic::Inherited;
use crate::io::sys;
use crate::limits::ACCEPT_BACKLOG;

/// Sockets that were handed to this process and are not in use yet.
#[derive(Debug, Default)]
pub struct HandedSockets {
    /// By address, in the order in which they came. A socket that is taken leaves an empty place, so that
    /// the others keep their numbers.
    by_address: Mutex<BTreeMap<SocketAddr, Vec<Option<TcpListener>>>>,
    /// Ports that the first process got from the kernel, by what they are for.
    chosen: BTreeMap<String, u16>,
    /// Addresses of sockets that a service manager keeps.
    kept: BTreeSet<SocketAddr>,
    /// Sockets and keys of QUIC.
    quic: Mutex<Option<Inherited>>,
}

impl HandedSockets {
    /// Takes over the descriptors with these numbers, which nothing else in this process uses. `chosen` are
    /// ports that the other process got from the kernel; `names` say for sockets in their order what their
    /// ports are for: `http`, `https` or `admin`.
    ///
    /// # Errors
    /// A number is not that of a listening TCP socket.
    pub fn new(numbers: &[RawFd], names: &[&str], mut chosen: BTreeMap<String, u16>) -> io::Result<Self> {
        let mut by_address = BTreeMap::<_, Vec<_>>::new();
        for (place, &number) in numbers.iter().enumerate() {
            let wrong = |error: io::Error| {
                io::Error::new(
                    error.kind(),
                    format!("descriptor {number} is no listening TCP socket: {error}"),
                )
            };
            let (socket, address) = sys::copy_descriptor(number).and_then(prepared).map_err(wrong)?;
            // Only now: a number that is wrong may be that of a descriptor of this process's own.
            drop(sys::take_descriptor(number)?);
            if let Some(name) = names.get(place) {
                chosen.insert((*name).to_owned(), address.port());
            }
            by_address.entry(address).or_default().push(Some(socket));
        }
        Ok(Self { by_address: Mutex::new(by_address), chosen, kept: BTreeSet::new(), quic: Mutex::default() })
    }

    /// Says that a service manager keeps the sockets of these addresses: they outlive this process, and what
    /// waits there when it ends is for the next one.
    #[must_use]
    pub fn with_kept(mut self, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.kept = addresses.into_iter().collect();
        self
    }

    /// Takes over the descriptors with these numbers as well: the channel to the process before, and its
    /// sockets of QUIC.
    ///
    /// # Errors
    /// There is no such descriptor, or it is none of these.
    pub fn with_quic(self, numbers: &[RawFd]) -> io::Result<Self> {
        let mut descriptors = numbers.iter().map(|number| sys::take_descriptor(*number));
        if let Some(channel) = descriptors.next() {
            let inherited = Inherited::new(channel?, descriptors.collect::<io::Result<_>>()?)?;
            *self.quic.lock() = Some(inherited);
        }
        Ok(self)
    }

    /// Takes what there is for QUIC.
    pub(crate) fn take_quic(&self) -> Option<Inherited> {
        self.quic.lock().take()
    }

    /// The addresses of all sockets that nobody has taken.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.by_address.lock().keys().copied().collect()
    }

    /// The addresses of the sockets that a service manager keeps.
    pub fn kept(&self) -> &BTreeSet<SocketAddr> {
        &self.kept
    }

    /// The port to listen at: that of the process before where any will do.
    pub fn port(&self, what: &str, configured: u16) -> u16 {
        match configured {
            0 => self.chosen.get(what).copied().unwrap_or(0),
            port => port,
        }
    }

    /// Whether sockets of an address were handed over.
    pub fn has(&self, address: SocketAddr) -> bool {
        self.by_address.lock().keys().any(|handed| matches(*handed, address))
    }

    /// Takes the share of one of several users of an address. Each socket belongs to one of them.
    pub fn take(&self, address: SocketAddr, user: usize, of: usize) -> Vec<TcpListener> {
        let mut by_address = self.by_address.lock();
        let handed = by_address.iter_mut().filter(|(handed, _)| matches(**handed, address));
        let places = handed.flat_map(|(_, places)| places.iter_mut());
        places.skip(user).step_by(of.max(1)).filter_map(Option::take).collect()
    }

    /// Closes the sockets that nobody has taken, and returns their addresses.
    pub fn close_rest(&self) -> Vec<SocketAddr> {
        let all = std::mem::take(&mut *self.by_address.lock());
        let is_left = |places: &Vec<Option<TcpListener>>| places.iter().any(Option::is_some);
        all.into_iter().filter(|(_, places)| is_left(places)).map(|(address, _)| address).collect()
    }
}

/// A descriptor that was handed to this process, and that nothing else in it uses.
///
/// # Errors
/// There is no such descriptor.
pub fn handed_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    sys::take_descriptor(number)
}

/// Copies of those of some descriptors of this process that are TCP sockets at which it listens, to be
/// handed to another process. Numbers of descriptors that are closed by now are passed over.
pub fn listening_sockets(numbers: impl IntoIterator<Item = RawFd>) -> Vec<OwnedFd> {
    let copies = numbers.into_iter().filter_map(|number| sys::copy_descriptor(number).ok());
    copies.filter(is_listening).collect()
}

/// A socket in the state that the proxy gives to its own, with its address. An error for anything that does
/// not listen for TCP.
fn prepared(descriptor: OwnedFd) -> io::Result<(TcpListener, SocketAddr)> {
    if !is_listening(&descriptor) {
        return Err(io::Error::other("it does not listen for TCP"));
    }
    let socket = Socket::from(descriptor);
    let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok((socket.into(), address))
}

/// Whether a descriptor is that of a TCP socket that listens.
fn is_listening(descriptor: &OwnedFd) -> bool {
    let is_tcp = || {
        socket2::SockRef::from(descriptor).local_addr().is_ok_and(|local| local.is_ipv4() || local.is_ipv6())
    };
    socket_acceptconn(descriptor).unwrap_or(false) && is_tcp()
}

/// Whether a socket serves a wanted address. A wildcard of IPv4 serves for that of both families where it
/// was handed over in its place.
fn matches(handed: SocketAddr, wanted: SocketAddr) -> bool {
    let are_wildcards = handed.ip().is_unspecified() && wanted.ip().is_unspecified();
    handed.port() == wanted.port() && (handed.ip() == wanted.ip() || (are_wildcards && wanted.is_ipv6()))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    fn handed(count: usize) -> (HandedSockets, SocketAddr) {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = first.local_addr().unwrap();
        let mut numbers: Vec<_> = (1..count).map(|_| first.try_clone().unwrap().into_raw_fd()).collect();
        numbers.push(first.into_raw_fd());
        (HandedSockets::new(&numbers, &[], BTreeMap::new()).unwrap(), address)
    }

    #[test]
    fn each_socket_goes_to_one_user() {
        let (sockets, address) = handed(5);
        assert!(sockets.has(address));
        let taken: Vec<_> = (0..2).map(|user| sockets.take(address, user, 2).len()).collect();
        assert_eq!(taken, [3, 2]);
        assert!(sockets.take(address, 0, 1).is_empty());
        assert!(sockets.close_rest().is_empty());
        let (sockets, address) = handed(2);
        assert_eq!(sockets.take(address, 2, 3).len(), 0);
        assert_eq!(sockets.close_rest(), [address]);
        assert!(!sockets.has(address));
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = socket.as_raw_fd();
        let error = HandedSockets::new(&[number], &[], BTreeMap::new()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("descriptor {number} is no listening")), "{error}");
        assert!(socket.local_addr().is_ok(), "it is left alone");
        assert!(HandedSockets::new(&[1 << 20], &[], BTreeMap::new()).is_err());
    }

    #[test]
    fn a_wildcard_of_one_family_serves_for_both() {
        let at = |v6: bool, port| {
            let ip = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            SocketAddr::new(ip, port)
        };
        assert!(matches(at(true, 80), at(true, 80)) && matches(at(false, 80), at(true, 80)));
        assert!(!matches(at(true, 80), at(false, 80)) && !matches(at(true, 80), at(true, 81)));
        assert!(!matches(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)), at(true, 80)));
    }

    #[test]
    fn a_port_of_the_kernel_stays() {
        let chosen = BTreeMap::from([("http".to_owned(), 40_001)]);
        let sockets = HandedSockets::new(&[], &[], chosen).unwrap();
        assert_eq!(
            [sockets.port("http", 0), sockets.port("http", 80), sockets.port("https", 0)],
            [40_001, 80, 0]
        );
    }

    #[test]
    fn the_sockets_of_this_process_are_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let local = listener.local_addr().unwrap();
        let other = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let found = listening_sockets([listener.as_raw_fd(), other.as_raw_fd(), 1 << 20]);
        let addresses: Vec<_> =
            found.into_iter().map(|one| TcpListener::from(one).local_addr().unwrap()).collect();
        assert_eq!(addresses, [local]);
    }
}
