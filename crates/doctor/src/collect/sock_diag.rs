//! The TCP sockets of the calling thread's network namespace, from the kernel over netlink (`sock_diag(7)`).
//!
//! This needs one request for each address family and no text: with 100,000 sockets, reading `/proc/net/tcp`
//! takes seconds. Must not be in here: the owners of sockets.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::netlink::SOCK_DIAG;

use super::netlink::{attribute, dump, u32_at};
use crate::read::sockets::Socket;
use crate::sockets::State;

// Values of linux/sock_diag.h and linux/inet_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const MESSAGE_BYTES: usize = 72;
const REQUEST_BYTES: usize = 56;

/// Offsets in `struct tcp_info` (linux/tcp.h): data segments received and sent.
const DATA_SEGS_IN: usize = 152;
const DATA_SEGS_OUT: usize = 156;

/// A socket and its inode, which is 0 if no process holds the socket.
pub(super) struct SocketEntry {
    pub(super) socket: Socket,
    pub(super) inode: u64,
}

/// Selects the sockets to request.
#[derive(Clone, Copy)]
pub(super) struct Question<'s> {
    pub(super) states: &'s [State],
    /// Also request the number of segments, for which the kernel needs twice the time.
    pub(super) segments: bool,
}

/// Calls `visit` with each socket instead of collecting them: there may be 100,000.
pub(super) fn each(question: Question<'_>, mut visit: impl FnMut(SocketEntry)) -> io::Result<()> {
    ask(AF_INET, question, &mut visit)?;
    match ask(AF_INET6, question, &mut visit) {
        // The kernel has no IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The ports on which a socket listens.
pub(super) fn listening_ports() -> io::Result<HashSet<u16>> {
    let mut ports = HashSet::new();
    each(Question { states: &[State::Listen], segments: false }, |found| {
        ports.insert(found.socket.local.port());
    })?;
    Ok(ports)
}

fn ask(family: u8, question: Question<'_>, visit: &mut impl FnMut(SocketEntry)) -> io::Result<()> {
    dump(Some(SOCK_DIAG), SOCK_DIAG_BY_FAMILY, &request(family, question), |message| {
        parse(message).into_iter().for_each(&mut *visit);
    })
}

/// A request as `struct inet_diag_req_v2`.
fn request(family: u8, question: Question<'_>) -> Vec<u8> {
    let states = question.states.iter().fold(0_u32, |states, state| states | 1 << state.number());
    let extensions = if question.segments { 1 << (INET_DIAG_INFO - 1) } else { 0 };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend([family, IPPROTO_TCP, extensions, 0]);
    bytes.extend(states.to_ne_bytes());
    bytes.resize(REQUEST_BYTES, 0);
    bytes
}

/// `struct inet_diag_msg` and the attributes after it.
fn parse(message: &[u8]) -> Option<SocketEntry> {
    let fixed = message.get(..MESSAGE_BYTES)?;
    let state = State::of(fixed[1])?;
    let port = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let local = SocketAddr::new(address(fixed[0], &fixed[8..24])?, port(4));
    let remote = SocketAddr::new(address(fixed[0], &fixed[24..40])?, port(6));
    let (queued, sending) = (u64::from(u32_at(fixed, 56)), u64::from(u32_at(fixed, 60)));
    let backlog = if state == State::Listen { sending } else { 0 };
    let segments = attribute(&message[MESSAGE_BYTES..], INET_DIAG_INFO).and_then(|info| {
        let both = info.get(DATA_SEGS_IN..DATA_SEGS_OUT + 4)?;
        Some((u64::from(u32_at(both, 0)), u64::from(u32_at(both, 4))))
    });
    let inode = u64::from(u32_at(fixed, 68));
    Some(SocketEntry { socket: Socket { local, remote, state, queued, backlog, segments }, inode })
}

fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?))),
        AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_tells_of_our_own_sockets() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).expect("it listens");
        let (mut served, _) = listener.accept().expect("a client");
        for byte in [b"1", b"2"] {
            client.write_all(byte).expect("room");
            served.read_exact(&mut [0]).expect("a byte");
        }
        let question = Question { states: State::ALL, segments: true };
        let mut found = Vec::new();
        each(question, |one| found.push(one)).expect("an answer");
        // Another test may have had a connection to the same port.
        let local = client.local_addr().expect("an address");
        let is_clients = |one: &&SocketEntry| one.socket.local == local && one.socket.remote == address;
        let outgoing = found.iter().find(is_clients).expect("the client's");
        assert_eq!(outgoing.socket.state, State::Established);
        assert_eq!(outgoing.socket.segments, Some((0, 2)));
        assert!(outgoing.inode > 0);
        let listening =
            found.iter().find(|one| one.socket.state == State::Listen && one.socket.local == address);
        assert!(listening.expect("the listener's").socket.backlog > 0);
    }

    #[test]
    fn what_is_cut_off_is_no_socket() {
        assert!(parse(&[2; 40]).is_none());
    }
}
