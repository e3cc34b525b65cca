//! Packets that an endpoint forwards to other replicas and to another process of this one, and those that
//! they forward to it.
//!
//! Never in here: the form of a forwarded packet, which is [`forwarding`](super::forwarding)'s and
//! [`processes`](super::processes)'s.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use observe::Counter;
use quinn_proto::Transmit;
use quinn_udp::RecvMeta;

use super::endpoint::Endpoint;
use super::forwarding::{Direction, Envelope, may_introduce, octets};
use super::packet::{Neighbour, Owner, Packet, Via};
use super::processes::Sent;

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

    /// Takes a packet that belongs to a connection of another replica: forwards it, to the same port. Where
    /// that replica is gone, the client is told by a stateless reset.
    pub(super) fn take_for_replica(
        self: &Rc<Self>,
        now: Instant,
        owner: Owner,
        meta: &RecvMeta,
        packet: Packet,
    ) {
        const LONG_HEADER: u8 = 0x80;
        let (Owner::Replica(replica) | Owner::Gone(replica)) = owner else { return };
        if self.shared().others().asks(replica, now) {
            self.ask(replica);
        }
        let is_short = packet.bytes.first().is_some_and(|first| first & LONG_HEADER == 0);
        match owner {
            Owner::Gone(_) if is_short => self.take(now, packet),
            Owner::Gone(_) => {}
            _ => {
                self.count(Counter::QuicToReplica);
                let envelope = Envelope {
                    direction: Direction::ToOwner,
                    client: meta.addr,
                    local: meta.dst_ip,
                    ecn: packet.ecn,
                    packet: &packet.bytes[..],
                };
                self.tell(replica, &envelope);
            }
        }
    }

    /// Asks a replica whether it is there, and tells it of this one.
    fn ask(&self, replica: IpAddr) {
        if let Some(keys) = &self.shared().keys.replicas {
            self.tell(replica, &Envelope::message(Direction::Ask, &octets(keys.own)));
        }
    }

    /// Sends a message to a replica, at the port that all have.
    fn tell(&self, replica: IpAddr, message: &Envelope<'_>) {
        let Some(keys) = &self.shared().keys.replicas else { return };
        let sealed = message.seal(&keys.packets, self.unix());
        self.send_plain(self.fit(SocketAddr::new(replica, self.local().port())), None, None, &sealed);
    }

    /// Takes a message of another replica: a packet for a connection here, or for a client of the other
    /// replica that sends to this one.
    pub(super) fn take_forwarded(self: &Rc<Self>, now: Instant, meta: &RecvMeta, datagram: &[u8]) {
        let shared = self.shared();
        let sender = meta.addr.ip();
        let Some(Envelope { direction, client, local, ecn, packet }) = self.open(now, sender, datagram)
        else {
            return self.count(Counter::QuicForwardRefused);
        };
        shared.others().heard(sender);
        match direction {
            Direction::Ask => self.tell(sender, &Envelope::message(Direction::Here, &[])),
            Direction::Here => {}
            Direction::ToClient => {
                self.count(Counter::QuicToClient);
                let local = local.map(|local| fit(local, self.local().is_ipv6()));
                self.send_plain(self.fit(client), local, ecn, packet);
            }
            Direction::ToOwner => {
                let owner = shared.owner_of(packet);
                let (remote, bytes) = (self.fit(client), BytesMut::from(packet));
                let via = Some(Via { replica: meta.addr, local });
                let packet = Packet { remote, local: meta.dst_ip, ecn, bytes, via };
                match owner {
                    Owner::Worker(worker) => self.give(now, worker, packet),
                    Owner::Process(neighbour) => self.give_to_process(now, neighbour, packet),
                    // It is forwarded once.
                    Owner::Nobody | Owner::Replica(_) | Owner::Gone(_) => {
                        self.count(Counter::QuicForwardRefused);
                    }
                }
            }
        }
    }

    /// Reads a message. None where no replica has made it. One that is not known is taken for a replica from
    /// now on if it has the secret and the address that it names: a message that somebody else has heard and
    /// sends again comes from another one.
    fn open<'a>(&self, now: Instant, sender: IpAddr, datagram: &'a [u8]) -> Option<Envelope<'a>> {
        let shared = self.shared();
        let keys = shared.keys.replicas.as_ref()?;
        let is_known = shared.others().has(sender);
        if !is_known && !may_introduce(datagram) {
            return None;
        }
        let opened = Envelope::open(datagram, &keys.packets, self.unix())?;
        if !is_known {
            if !opened.introduces(sender) {
                return None;
            }
            shared.others().meet(keys.name(sender), sender, now);
        }
        Some(opened)
    }

    /// Gives a packet to the process of this replica that has its connection. Where that has ended, the
    /// client is told by a stateless reset.
    pub(super) fn give_to_process(self: &Rc<Self>, now: Instant, to: Neighbour, packet: Packet) {
        match self.shared().neighbours.send(to, self.local(), &packet) {
            Sent::Taken => self.count(Counter::QuicToProcess),
            Sent::Full => self.count(Counter::QuicForwardFull),
            Sent::Gone => self.take_own(now, packet),
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
