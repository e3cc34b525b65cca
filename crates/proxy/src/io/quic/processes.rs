//! Two processes of one replica during an upgrade: the sockets of QUIC, the keys of connection ids, and the
//! packets that one has received and that belong to a connection of the other.
//!
//! The successor gets the sockets of its predecessor, so that the kernel's group of sockets stays as it is.
//! Both have one end of a channel. The successor reads the sockets, and gives its predecessor the packets of
//! the connections that this one is finishing; it answers by its own copy of the socket. Where the successor
//! has fewer workers, each of them reads several sockets; where it has more, further sockets join the group.
//! The filter that selects a socket is then replaced by the successor's, since it names workers. A thread
//! for each channel reads it:
//!
//! ```text
//! keys    1 | generation: 1 | seed: 32 | numbers of workers: 4 each
//! reads   2
//! packet  3 | socket's address: 16, 2 | client: 16, 2 | address it sent to: 16 | ECN: 1 |
//!         replica that has forwarded it: 16, 2 | address of that: 16 | packet
//! ```
//!
//! Never in here: what a process does with a packet.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use bytes::BytesMut;
use parking_lot::{Mutex, RwLock};
use quinn_proto::EcnCodepoint;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair, sockopt,
};

use super::forwarding::octets;
use super::keys::{SEED_BYTES, Seed};
use super::packet::{Neighbour, Packet, Via};

/// The sockets of QUIC of a process, for one that replaces it.
#[derive(Debug)]
pub struct QuicLegacy {
    /// The successor's end of the channel.
    pub channel: OwnedFd,
    /// The sockets of each address, in the order in which the kernel has them.
    pub sockets: Vec<OwnedFd>,
}

/// The parts that a process has from its predecessor.
pub(crate) struct Inherited {
    pub(super) channel: OwnedFd,
    pub(super) generation: u8,
    pub(super) seed: Seed,
    pub(super) sockets: HandedSockets,
}

/// The sockets of each address, in the order in which the kernel has them, with their workers' numbers. None
/// is for one that its worker has taken.
pub(super) type HandedSockets = BTreeMap<SocketAddr, Vec<(u32, Option<UdpSocket>)>>;

/// The ends of channels to the processes before and after this one.
#[derive(Default)]
pub(super) struct Neighbours {
    predecessor: RwLock<Option<Arc<Channel>>>,
    /// The thread that reads the channel to the predecessor, to its end.
    following: Mutex<Option<JoinHandle<()>>>,
    successor: RwLock<Option<Arc<Channel>>>,
}

/// Takes what comes from another process.
pub(super) trait Receives: Send + Sync + 'static {
    /// The other process has received a packet on the socket of this address.
    fn take_from(&self, from: Neighbour, address: SocketAddr, packet: Packet);
    /// The predecessor has ended.
    fn close_handed(&self);
    /// The successor, which has read the sockets, has ended.
    fn wake_receivers(&self);
}

/// One end of a channel.
struct Channel {
    socket: OwnedFd,
    /// The other process reads the sockets.
    reads: AtomicBool,
    is_closed: AtomicBool,
}

/// The fate of a packet for another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Taken,
    /// It has more waiting than it may, and this one is lost.
    Full,
    /// There is no such process.
    Gone,
}

const KEYS: u8 = 1;
const READS: u8 = 2;
const PACKET: u8 = 3;
/// Bytes of a packet's head.
const HEAD_BYTES: usize = 1 + 18 + 18 + 16 + 1 + 18 + 16;
/// Bytes of the longest message.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Bytes that may wait in a channel, where the kernel allows them.
const CHANNEL_BYTES: usize = 4 << 20;

impl fmt::Debug for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the seed, which is a secret.
        f.debug_struct("Inherited").field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

impl Inherited {
    /// Takes over the end of a channel, and the sockets that came with it.
    pub(crate) fn new(channel: OwnedFd, sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        let (len, _) = recv(&channel, &mut message[..], RecvFlags::empty())?;
        let wrong = || io::Error::other("the process before says nothing of its keys");
        let (head, workers) = message[..len].split_at_checked(2 + SEED_BYTES).ok_or_else(wrong)?;
        let (workers, rest) = workers.as_chunks::<4>();
        if head[0] != KEYS || !rest.is_empty() || workers.len() != sockets.len() {
            return Err(wrong());
        }
        let mut by_address = HandedSockets::new();
        for (socket, worker) in sockets.into_iter().zip(workers) {
            let socket = UdpSocket::from(socket);
            socket.set_nonblocking(true)?;
            let of_address = by_address.entry(socket.local_addr()?).or_default();
            of_address.push((u32::from_be_bytes(*worker), Some(socket)));
        }
        let seed = head[2..].try_into().map_err(|_| wrong())?;
        Ok(Self { channel, generation: head[1], seed, sockets: by_address })
    }
}

impl Neighbours {
    /// Opens the channel to a successor; returns its end, in which the keys wait for it.
    pub(super) fn open(
        &self,
        shared: &Arc<impl Receives>,
        generation: u8,
        seed: &Seed,
        workers: &[u32],
    ) -> io::Result<OwnedFd> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (own, others) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let mut message = vec![KEYS, generation];
        message.extend_from_slice(seed);
        message.extend(workers.iter().flat_map(|worker| worker.to_be_bytes()));
        send(&own, &message, SendFlags::NOSIGNAL)?;
        let channel = Channel::new(own);
        channel.listen(shared, Neighbour::Successor)?;
        *self.successor.write() = Some(channel);
        Ok(others)
    }

    /// Uses the channel that a predecessor has opened.
    pub(super) fn follow(&self, shared: &Arc<impl Receives>, channel: OwnedFd) -> io::Result<()> {
        let channel = Channel::new(channel);
        *self.following.lock() = Some(channel.listen(shared, Neighbour::Predecessor)?);
        *self.predecessor.write() = Some(channel);
        Ok(())
    }

    /// Waits for the end of the predecessor, if a successor gives it packets by way of this process.
    pub(super) fn await_predecessor(&self) {
        let following = self.following.lock().take().filter(|_| self.has(Neighbour::Successor));
        if let Some(thread) = following {
            // A thread that has panicked has ended as well.
            let _ = thread.join();
        }
    }

    fn of(&self, neighbour: Neighbour) -> &RwLock<Option<Arc<Channel>>> {
        match neighbour {
            Neighbour::Predecessor => &self.predecessor,
            Neighbour::Successor => &self.successor,
        }
    }

    /// Whether there is such a process.
    pub(super) fn has(&self, neighbour: Neighbour) -> bool {
        self.of(neighbour).read().as_ref().is_some_and(|channel| !channel.is_closed())
    }

    /// Whether the successor reads the sockets of this process.
    pub(super) fn successor_reads(&self) -> bool {
        let successor = self.successor.read();
        successor
            .as_ref()
            .is_some_and(|channel| !channel.is_closed() && channel.reads.load(Ordering::Relaxed))
    }

    /// Tells the predecessor that this process reads its sockets.
    pub(super) fn tell_reads(&self) {
        if let Some(channel) = &*self.predecessor.read() {
            // It may have ended.
            let _ = send(&channel.socket, &[READS], SendFlags::NOSIGNAL);
        }
    }

    /// Ends the channels: the other processes see it as they would see the end of this one.
    #[cfg(test)]
    fn close(&self) {
        for channel in [&self.predecessor, &self.successor] {
            if let Some(channel) = channel.write().take() {
                rustix::net::shutdown(&channel.socket, rustix::net::Shutdown::Both).unwrap();
            }
        }
    }

    /// Gives a packet of a socket at an address to another process.
    pub(super) fn send(&self, to: Neighbour, address: SocketAddr, packet: &Packet) -> Sent {
        let channel = self.of(to).read();
        let Some(channel) = channel.as_ref().filter(|channel| !channel.is_closed()) else {
            return Sent::Gone;
        };
        let message = seal(address, packet);
        match send(&channel.socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => Sent::Taken,
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNREFUSED) => {
                channel.is_closed.store(true, Ordering::Relaxed);
                Sent::Gone
            }
            Err(_) => Sent::Full,
        }
    }
}

impl Channel {
    fn new(socket: OwnedFd) -> Arc<Self> {
        // The kernel gives less than that where its own bound is lower.
        let _ = sockopt::set_socket_send_buffer_size(&socket, CHANNEL_BYTES);
        Arc::new(Self { socket, reads: AtomicBool::new(false), is_closed: AtomicBool::new(false) })
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Has a thread read the channel, until the other process ends or the state of this one is dropped.
    fn listen(self: &Arc<Self>, shared: &Arc<impl Receives>, from: Neighbour) -> io::Result<JoinHandle<()>> {
        let (channel, shared) = (Arc::clone(self), Arc::downgrade(shared));
        let run = move || {
            let mut space = vec![0; MESSAGE_BYTES_MAX + HEAD_BYTES];
            // At its end, a channel gives nothing.
            let receive = |space: &mut [u8]| {
                retry_on_intr(|| recv(&channel.socket, &mut *space, RecvFlags::empty())).map(|(len, _)| len)
            };
            while let Ok(len @ 1..) = receive(&mut space) {
                let Some(shared) = shared.upgrade() else { break };
                match space[0] {
                    READS => channel.reads.store(true, Ordering::Relaxed),
                    PACKET => {
                        if let Some((address, packet)) = open(&space[..len]) {
                            shared.take_from(from, address, packet);
                        }
                    }
                    _ => {}
                }
            }
            channel.is_closed.store(true, Ordering::Relaxed);
            match shared.upgrade() {
                Some(shared) if from == Neighbour::Predecessor => shared.close_handed(),
                Some(shared) => shared.wake_receivers(),
                None => {}
            }
        };
        std::thread::Builder::new().name("quic neighbour".to_owned()).spawn(run)
    }
}

// === The form of a packet ===

fn put(out: &mut Vec<u8>, address: SocketAddr) {
    out.extend_from_slice(&octets(address.ip()));
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn seal(address: SocketAddr, packet: &Packet) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + packet.bytes.len());
    out.push(PACKET);
    put(&mut out, address);
    put(&mut out, packet.remote);
    out.extend_from_slice(&packet.local.map_or([0; 16], octets));
    out.push(packet.ecn.map_or(0, |ecn| ecn as u8));
    let nobody = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    put(&mut out, packet.via.map_or(nobody, |via| via.replica));
    out.extend_from_slice(&packet.via.and_then(|via| via.local).map_or([0; 16], octets));
    out.extend_from_slice(&packet.bytes);
    out
}

/// The front of a message that is being read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn ip(&mut self) -> Option<Ipv6Addr> {
        self.take::<16>().map(Ipv6Addr::from)
    }

    fn port(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }
}

/// Reads a message: the address of the socket, and the packet.
fn open(message: &[u8]) -> Option<(SocketAddr, Packet)> {
    let mut rest = Reader(message.strip_prefix(&[PACKET])?);
    let address = SocketAddr::new(rest.ip()?.to_canonical(), rest.port()?);
    // A socket of IPv6 has the addresses of IPv4 as mapped ones.
    let fit = |ip: Ipv6Addr| if address.is_ipv6() { IpAddr::V6(ip) } else { ip.to_canonical() };
    let known = |ip: Ipv6Addr| (!ip.is_unspecified()).then(|| fit(ip));
    let remote = SocketAddr::new(fit(rest.ip()?), rest.port()?);
    let local = known(rest.ip()?);
    let [ecn] = rest.take()?;
    let replica = SocketAddr::new(fit(rest.ip()?), rest.port()?);
    let via_local = known(rest.ip()?);
    let via = (replica.port() != 0).then_some(Via { replica, local: via_local });
    let ecn = EcnCodepoint::from_bits(ecn);
    Some((address, Packet { remote, local, ecn, bytes: BytesMut::from(rest.0), via }))
}

#[cfg(test)]
mod tests {
    use super::super::shared::SharedQuic;
    use super::*;

    fn packet(remote: &str, local: Option<&str>, via: Option<Via>) -> Packet {
        Packet {
            remote: remote.parse().unwrap(),
            local: local.map(|local| local.parse().unwrap()),
            ecn: Some(EcnCodepoint::Ce),
            bytes: BytesMut::from(&b"packet"[..]),
            via,
        }
    }

    fn facts(packet: &Packet) -> (SocketAddr, Option<IpAddr>, Option<u8>, &[u8], Option<Via>) {
        (packet.remote, packet.local, packet.ecn.map(|ecn| ecn as u8), &packet.bytes, packet.via)
    }

    #[test]
    fn what_is_given_to_another_process_comes_as_it_was() {
        let (v4, v6): (SocketAddr, SocketAddr) =
            ("0.0.0.0:443".parse().unwrap(), "[::]:443".parse().unwrap());
        let via = Via { replica: "10.0.0.2:443".parse().unwrap(), local: Some("10.0.0.3".parse().unwrap()) };
        let mapped = Via { replica: "[::ffff:10.0.0.2]:443".parse().unwrap(), local: None };
        for (address, sent) in [
            (v4, packet("192.0.2.1:50000", Some("192.0.2.9"), None)),
            (v4, packet("192.0.2.1:50000", None, Some(via))),
            (v6, packet("[::ffff:192.0.2.1]:50000", Some("::ffff:192.0.2.9"), Some(mapped))),
            (v6, packet("[2001:db8::1]:50000", Some("2001:db8::2"), None)),
        ] {
            let message = seal(address, &sent);
            let (to, opened) = open(&message).unwrap();
            assert_eq!((to, facts(&opened)), (address, facts(&sent)));
            assert!((0..HEAD_BYTES).all(|len| open(&message[..len]).is_none()));
        }
    }

    #[test]
    fn a_successor_gets_sockets_and_keys_and_each_side_sees_the_others_end() {
        let (first, address) =
            (SharedQuic::new(None, 1, None).unwrap(), SocketAddr::from(([127, 0, 0, 1], 0)));
        let socket = first.bind(address, false, 0).unwrap();
        let local = socket.own.local_addr().unwrap();
        let QuicLegacy { channel, sockets } = first.bequeath().unwrap().expect("there is a socket");
        assert_eq!(sockets.len(), 1);
        let inherited = Inherited::new(channel, sockets).unwrap();
        let second = SharedQuic::new(None, 1, Some(inherited)).unwrap();
        assert!(!first.neighbours.successor_reads() && second.neighbours.has(Neighbour::Predecessor));
        let same = second.bind(local, false, 0).unwrap();
        assert_eq!(same.own.local_addr().unwrap(), local);
        let until = |holds: &dyn Fn() -> bool| {
            let begun = clock::instant();
            while !holds() {
                assert!(begun.elapsed().as_secs() < 10, "it takes too long");
                std::thread::yield_now();
            }
        };
        until(&|| first.neighbours.successor_reads());
        assert_eq!(second.ids().own(), first.ids().own());
        assert_eq!(second.ids().spread(), first.ids().spread());
        assert_eq!(second.ids().generation(), first.ids().generation() + 1);
        assert_eq!(
            first.neighbours.send(Neighbour::Predecessor, local, &packet("192.0.2.1:1", None, None)),
            Sent::Gone
        );
        let to_second = |packet: &Packet| first.neighbours.send(Neighbour::Successor, local, packet);
        assert_eq!(to_second(&packet("192.0.2.1:1", None, None)), Sent::Taken);
        first.neighbours.close();
        until(&|| !second.neighbours.has(Neighbour::Predecessor));
        drop((socket, same));
    }

    #[test]
    fn without_sockets_there_is_nothing_to_hand_over() {
        assert!(SharedQuic::new(None, 1, None).unwrap().bequeath().unwrap().is_none());
    }
}
