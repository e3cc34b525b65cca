//! Packets that come to another replica than their connection's: a load balancer has sent a client elsewhere,
//! since its address changed or a Pod stopped.
//!
//! The replica that gets such a packet forwards it to the one that its connection id names, to the UDP port
//! of HTTP/3 there. The answer goes back the same way, since a client takes packets only from the address
//! that it sends to. A forwarded packet has a head that no packet of QUIC has, with the client's address, and
//! a code under the replicas' secret:
//!
//! ```text
//! mark: 3 | kind: 1 | seconds: 4 | client: 16, 2 | address it sent to: 16 | ECN: 1 | packet | code: 16
//! ```
//!
//! Here is the form of these packets, and the way back to each client; [`elsewhere`](super::elsewhere) sends
//! and takes them. A packet is forwarded once: a replica that is not the owner drops it. One that is lost,
//! late or repeated is for QUIC what any packet is.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{Key, sign};
use quinn_proto::EcnCodepoint;

use super::packet::{MARK, Via};
use crate::limits::{QUIC_FORWARDED_AGE_MAX, QUIC_FORWARDED_CLIENT_AGE_MAX, QUIC_FORWARDED_CLIENTS_MAX};

const HEAD_BYTES: usize = MARK.len() + 1 + 4 + 16 + 2 + 16 + 1;
const CODE_BYTES: usize = 16;

/// The clients whose packets come through other replicas.
#[derive(Default)]
pub(super) struct Forwarded(HashMap<SocketAddr, (Via, Instant)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToOwner = 1,
    ToClient = 2,
    /// Asks a replica whether it is there. The content is the address of the replica that asks, by which it
    /// introduces itself to one that has not heard of it.
    Ask = 3,
    /// The answer to that question.
    Here = 4,
}

/// A forwarded packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope<'a> {
    pub(super) direction: Direction,
    pub(super) client: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) packet: &'a [u8],
}

impl Forwarded {
    /// Notes the way that a client's packet came.
    pub(super) fn note(&mut self, client: SocketAddr, via: Option<Via>, now: Instant) {
        match via {
            Some(via) if self.has_room_for(client, now) => _ = self.0.insert(client, (via, now)),
            Some(_) => {}
            None if self.0.is_empty() => {}
            None => _ = self.0.remove(&client),
        }
    }

    fn has_room_for(&mut self, client: SocketAddr, now: Instant) -> bool {
        if self.0.len() < QUIC_FORWARDED_CLIENTS_MAX || self.0.contains_key(&client) {
            return true;
        }
        let is_recent = |at: Instant| now.saturating_duration_since(at) < QUIC_FORWARDED_CLIENT_AGE_MAX;
        self.0.retain(|_, (_, at)| is_recent(*at));
        self.0.len() < QUIC_FORWARDED_CLIENTS_MAX
    }

    pub(super) fn way_to(&self, client: SocketAddr) -> Option<Via> {
        // Nearly always there are none.
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&client).map(|(via, _)| *via)
    }
}

pub(super) fn is_envelope(datagram: &[u8]) -> bool {
    datagram.starts_with(&MARK)
}

/// Whether an envelope may be an introduction, as far as can be told without the key.
pub(super) fn may_introduce(datagram: &[u8]) -> bool {
    const INTRODUCTION_BYTES: usize = HEAD_BYTES + 16 + CODE_BYTES;
    datagram.len() == INTRODUCTION_BYTES && datagram[MARK.len()] == Direction::Ask as u8
}

impl Envelope<'_> {
    /// A message from one replica to another that is no packet.
    pub(super) fn message(direction: Direction, content: &[u8]) -> Envelope<'_> {
        let client = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        Envelope { direction, client, local: None, ecn: None, packet: content }
    }

    /// Whether this is a question by which the replica at an address introduces itself.
    pub(super) fn introduces(&self, sender: IpAddr) -> bool {
        self.direction == Direction::Ask && self.packet == octets(sender.to_canonical())
    }

    pub(super) fn seal(&self, key: &Key, now: Duration) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.packet.len() + CODE_BYTES);
        out.extend_from_slice(&MARK);
        out.push(self.direction as u8);
        out.extend_from_slice(&seconds(now).to_be_bytes());
        out.extend_from_slice(&octets(self.client.ip()));
        out.extend_from_slice(&self.client.port().to_be_bytes());
        out.extend_from_slice(&self.local.map_or([0; 16], octets));
        out.push(self.ecn.map_or(0, |ecn| ecn as u8));
        out.extend_from_slice(self.packet);
        let code = sign(key, &out);
        out.extend_from_slice(&code.as_ref()[..CODE_BYTES]);
        out
    }

    /// Reads a datagram. None if no replica has made it, or not lately.
    pub(super) fn open<'a>(datagram: &'a [u8], key: &Key, now: Duration) -> Option<Envelope<'a>> {
        let (signed, code) = datagram.split_last_chunk::<CODE_BYTES>()?;
        let (head, packet) = signed.split_first_chunk::<HEAD_BYTES>()?;
        verify_slices_are_equal(&sign(key, signed).as_ref()[..CODE_BYTES], code).ok()?;
        let (direction, rest) = head.strip_prefix(&MARK)?.split_first()?;
        let (time, rest) = rest.split_first_chunk()?;
        let (client, rest) = rest.split_first_chunk::<16>()?;
        let (port, rest) = rest.split_first_chunk()?;
        let (local, rest) = rest.split_first_chunk::<16>()?;
        let [ecn] = rest else { return None };
        let age = seconds(now).wrapping_sub(u32::from_be_bytes(*time)).cast_signed();
        if u64::from(age.unsigned_abs()) > QUIC_FORWARDED_AGE_MAX.as_secs() {
            return None;
        }
        let direction = match direction {
            1 => Direction::ToOwner,
            2 => Direction::ToClient,
            3 => Direction::Ask,
            4 => Direction::Here,
            _ => return None,
        };
        let local = Some(Ipv6Addr::from(*local)).filter(|local| !local.is_unspecified());
        Some(Envelope {
            direction,
            client: SocketAddr::new(Ipv6Addr::from(*client).to_canonical(), u16::from_be_bytes(*port)),
            local: local.map(|local| local.to_canonical()),
            ecn: EcnCodepoint::from_bits(*ecn),
            packet,
        })
    }
}

/// The seconds of a time since 1970, which begin again after 136 years.
fn seconds(now: Duration) -> u32 {
    now.as_secs() as u32
}

pub(super) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::HMAC_SHA256;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn key(secret: &str) -> Key {
        Key::new(HMAC_SHA256, secret.as_bytes())
    }

    fn envelope(packet: &[u8]) -> Envelope<'_> {
        Envelope {
            direction: Direction::ToOwner,
            client: "192.0.2.1:50000".parse().unwrap(),
            local: Some("2001:db8::1".parse().unwrap()),
            ecn: Some(EcnCodepoint::Ect0),
            packet,
        }
    }

    #[test]
    fn what_is_sealed_is_opened() {
        let key = key("secret");
        for (packet, direction, local, ecn) in [
            (&b"packet"[..], Direction::ToOwner, Some("2001:db8::1".parse().unwrap()), None),
            (&[0; 1400], Direction::ToClient, None, Some(EcnCodepoint::Ce)),
            (b"", Direction::Ask, None, None),
            (b"", Direction::Here, None, None),
        ] {
            let envelope = Envelope { direction, local, ecn, ..envelope(packet) };
            let sealed = envelope.seal(&key, NOW);
            assert!(is_envelope(&sealed));
            assert_eq!(Envelope::open(&sealed, &key, NOW), Some(envelope));
        }
    }

    #[test]
    fn what_no_replica_has_made_or_is_old_is_refused() {
        let sealed = envelope(b"packet").seal(&key("secret"), NOW);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(Envelope::open(&changed, &key("secret"), NOW), None, "byte {at}");
            assert_eq!(Envelope::open(&sealed[..at], &key("secret"), NOW), None, "{at} bytes");
        }
        assert_eq!(Envelope::open(&sealed, &key("another"), NOW), None);
        let age_max = QUIC_FORWARDED_AGE_MAX;
        assert!(Envelope::open(&sealed, &key("secret"), NOW + age_max).is_some());
        // It comes from a clock that is ahead of ours.
        let ahead = envelope(b"packet").seal(&key("secret"), NOW + age_max);
        assert!(Envelope::open(&ahead, &key("secret"), NOW).is_some());
        let second = Duration::from_secs(1);
        assert_eq!(Envelope::open(&sealed, &key("secret"), NOW + age_max + second), None);
        let too_far = envelope(b"packet").seal(&key("secret"), NOW + age_max + second);
        assert_eq!(Envelope::open(&too_far, &key("secret"), NOW), None);
    }

    #[test]
    fn a_question_introduces_the_replica_that_sends_it_and_no_other() {
        let (sender, key) = ("10.0.0.1".parse::<IpAddr>().unwrap(), key("secret"));
        let own = octets(sender);
        let sealed = Envelope::message(Direction::Ask, &own).seal(&key, NOW);
        assert!(may_introduce(&sealed));
        let opened = Envelope::open(&sealed, &key, NOW).unwrap();
        assert!(opened.introduces(sender) && opened.introduces("::ffff:10.0.0.1".parse().unwrap()));
        assert!(!opened.introduces("10.0.0.2".parse().unwrap()), "somebody else has sent it again");
        for (direction, content) in
            [(Direction::Here, &own[..]), (Direction::ToOwner, &own), (Direction::Ask, &[])]
        {
            let sealed = Envelope::message(direction, content).seal(&key, NOW);
            assert!(!may_introduce(&sealed));
            assert!(!Envelope::open(&sealed, &key, NOW).unwrap().introduces(sender));
        }
    }

    #[test]
    fn the_way_to_a_client_is_that_of_its_last_packet() {
        let (mut forwarded, now) = (Forwarded::default(), clock::instant());
        let client: SocketAddr = "192.0.2.1:50000".parse().unwrap();
        let via = |port| Via { replica: SocketAddr::from(([10, 0, 0, 1], port)), local: None };
        forwarded.note(client, Some(via(1)), now);
        forwarded.note(client, Some(via(2)), now);
        assert_eq!(forwarded.way_to(client), Some(via(2)));
        forwarded.note(client, None, now);
        assert_eq!(forwarded.way_to(client), None);
        let number = |at: usize| SocketAddr::from(([10, 1, (at >> 8) as u8, at as u8], 1));
        (0..QUIC_FORWARDED_CLIENTS_MAX).for_each(|at| forwarded.note(number(at), Some(via(1)), now));
        forwarded.note(client, Some(via(1)), now);
        assert_eq!(forwarded.way_to(client), None, "there is room for so many");
        forwarded.note(client, Some(via(1)), now + QUIC_FORWARDED_CLIENT_AGE_MAX);
        assert_eq!(forwarded.way_to(client), Some(via(1)), "old ones are forgotten");
    }
}
