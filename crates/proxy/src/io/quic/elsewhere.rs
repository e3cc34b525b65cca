//! Packets that an endpoint forwards to other replicas, and those that they forward to it.
//!
//! Never in here: the form of a forwarded packet, which is [`forwarding`](super::forwarding)'s.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use observe::Counter;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::RecvMeta;

use super::endpoint::Endpoint;
use super::forwarding::{Direction, Envelope};
use super::packet::{Owner, Packet, Via};

/// The address as a socket of this family has it.
fn fit(address: IpAddr, is_v6: bool) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) if is_v6 => v4.to_ipv6_mapped().into(),
        canonical => canonical,
    }
}

impl Endpoint {
    fn fit(&self, address: SocketAddr) -> SocketAddr {
        SocketAddr::new(fit(address.ip(), self.local().is_ipv6()), address.port())
    }

    /// Sends a packet to the replica whose connection it belongs to, which has the same port.
    pub(super) fn forward(&self, replica: IpAddr, meta: &RecvMeta, datagram: &[u8]) {
        let Some(keys) = &self.shared().keys.replicas else { return };
        let envelope = Envelope {
            direction: Direction::ToOwner,
            client: meta.addr,
            local: meta.dst_ip,
            ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            packet: datagram,
        };
        let sealed = envelope.seal(&keys.packets, self.unix());
        self.count(Counter::QuicToReplica);
        self.send_plain(self.fit(SocketAddr::new(replica, self.local().port())), None, None, &sealed);
    }

    /// Takes a packet that another replica has forwarded: for a connection here, or for a client of the other
    /// replica that sends to this one.
    pub(super) fn take_forwarded(self: &Rc<Self>, now: Instant, meta: &RecvMeta, datagram: &[u8]) {
        let shared = self.shared();
        let opened = shared.keys.replicas.as_ref().filter(|_| shared.is_replica(meta.addr.ip()));
        let opened = opened.and_then(|keys| Envelope::open(datagram, &keys.packets, self.unix()));
        let Some(Envelope { direction, client, local, ecn, packet }) = opened else {
            return self.count(Counter::QuicForwardRefused);
        };
        match direction {
            Direction::ToClient => {
                self.count(Counter::QuicToClient);
                let local = local.map(|local| fit(local, self.local().is_ipv6()));
                self.send_plain(self.fit(client), local, ecn, packet);
            }
            Direction::ToOwner => match shared.owner_of(packet) {
                Owner::Worker(worker) => {
                    let (remote, bytes) = (self.fit(client), BytesMut::from(packet));
                    let via = Some(Via { replica: meta.addr, local });
                    self.give(now, worker, Packet { remote, local: meta.dst_ip, ecn, bytes, via });
                }
                // It is forwarded once.
                Owner::Nobody | Owner::Replica(_) => self.count(Counter::QuicForwardRefused),
            },
        }
    }

    /// Sends datagrams by the replica that a client's packets come through. False if they come directly.
    pub(super) fn send_via(&self, transmit: &Transmit, bytes: &[u8]) -> bool {
        let Some(via) = self.forwarded().borrow().way_to(transmit.destination) else { return false };
        let Some(keys) = &self.shared().keys.replicas else { return false };
        for packet in bytes[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size).max(1)) {
            let envelope = Envelope {
                direction: Direction::ToClient,
                client: transmit.destination,
                local: via.local,
                ecn: transmit.ecn,
                packet,
            };
            self.send_plain(via.replica, None, None, &envelope.seal(&keys.packets, self.unix()));
        }
        true
    }
}
