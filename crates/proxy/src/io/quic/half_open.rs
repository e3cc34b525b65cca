//! Connections of a worker whose handshakes are in progress, and when a client has to show first that it
//! receives at its address (Retry, RFC 9000 section 8.1.2).
//!
//! The TLS session of a handshake is what a first packet costs in memory, and its signature in time; the
//! address of the packet may be forged. So a worker takes few connections from addresses that are not
//! validated, and few of one network; and fewer still of a network several of whose connections have just
//! ended for a flood, since their clients come back at once. Must not be in here: packets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use clock::Moment;

use crate::limits::{
    QUIC_FLOOD_HANDSHAKE_INTERVAL, QUIC_FLOOD_MEMORY, QUIC_FLOODING_NETWORKS_MAX, QUIC_FLOODS_MAX,
    QUIC_HALF_OPEN_MAX, QUIC_HALF_OPEN_PER_NETWORK_MAX, QUIC_HALF_OPEN_UNVALIDATED_MAX,
    QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX,
};

/// The handshakes of a worker.
#[derive(Default)]
pub(crate) struct HalfOpen(Rc<RefCell<Counts>>);

#[derive(Default)]
struct Counts {
    total: usize,
    /// By address and port: more than one of them only where a client has several connections at one port.
    by_client: HashMap<SocketAddr, usize>,
    by_network: HashMap<IpAddr, usize>,
    flooding: HashMap<IpAddr, Floods>,
}

/// The connections of a network that have ended for a flood.
struct Floods {
    count: u32,
    last: Moment,
    /// When the network may begin its next handshake.
    next: Moment,
}

/// A handshake that is counted until this is dropped.
pub(crate) struct Begun {
    all: Rc<RefCell<Counts>>,
    client: SocketAddr,
    /// Its network has so many handshakes in progress that it waits for a share of the worker's time.
    pub(crate) is_pressed: bool,
}

/// The verdict on a connection that a client asks for.
pub(crate) enum Asked {
    Begun(Begun),
    /// The client has to show first that it receives at its address.
    Unvalidated,
    /// Too many are in progress: the packet is dropped, and the client sends it again.
    TooMany,
}

impl HalfOpen {
    /// Counts the connection that a client at an address asks for, if it may begin.
    pub(crate) fn begin(&self, client: SocketAddr, is_validated: bool, now: Moment) -> Asked {
        let network = network(client.ip());
        let counts = &mut *self.0.borrow_mut();
        let of_network = counts.by_network.get(&network).copied().unwrap_or(0);
        let total = counts.total;
        let floods = counts.flooding.get_mut(&network).filter(|floods| floods.are_too_many(now));
        let is_pressed = of_network >= QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX || floods.is_some();
        if !is_validated && (is_pressed || total >= QUIC_HALF_OPEN_UNVALIDATED_MAX) {
            return Asked::Unvalidated;
        }
        let has_to_wait = floods.as_ref().is_some_and(|floods| floods.next > now);
        if has_to_wait || of_network >= QUIC_HALF_OPEN_PER_NETWORK_MAX || total >= QUIC_HALF_OPEN_MAX {
            return Asked::TooMany;
        }
        if let Some(floods) = floods {
            floods.next = now.after(QUIC_FLOOD_HANDSHAKE_INTERVAL);
        }
        counts.total += 1;
        *counts.by_client.entry(client).or_default() += 1;
        *counts.by_network.entry(network).or_default() += 1;
        Asked::Begun(Begun { all: Rc::clone(&self.0), client, is_pressed })
    }

    /// Whether a first packet of a client is not worth being decrypted: it would be dropped, and belongs to
    /// no handshake in progress.
    pub(crate) fn is_closed_to(&self, client: SocketAddr, now: Moment) -> bool {
        let counts = self.0.borrow();
        if counts.total < QUIC_HALF_OPEN_PER_NETWORK_MAX && counts.flooding.is_empty() {
            return false;
        }
        let network = network(client.ip());
        let of_network = counts.by_network.get(&network).copied().unwrap_or(0);
        let is_full = counts.total >= QUIC_HALF_OPEN_MAX || of_network >= QUIC_HALF_OPEN_PER_NETWORK_MAX;
        let has_to_wait =
            || counts.flooding.get(&network).is_some_and(|one| one.are_too_many(now) && one.next > now);
        (is_full || has_to_wait()) && !counts.by_client.contains_key(&client)
    }

    /// Notes that a connection of a client has ended for a flood.
    pub(crate) fn note_flood(&self, client: IpAddr, now: Moment) {
        let flooding = &mut self.0.borrow_mut().flooding;
        let network = network(client);
        if flooding.len() >= QUIC_FLOODING_NETWORKS_MAX && !flooding.contains_key(&network) {
            flooding.retain(|_, floods| floods.are_recent(now));
            if flooding.len() >= QUIC_FLOODING_NETWORKS_MAX {
                return;
            }
        }
        let floods = flooding.entry(network).or_insert(Floods { count: 0, last: now, next: now });
        if !floods.are_recent(now) {
            floods.count = 0;
        }
        floods.count = floods.count.saturating_add(1);
        floods.last = now;
    }
}

impl Floods {
    fn are_recent(&self, now: Moment) -> bool {
        self.last.after(QUIC_FLOOD_MEMORY) > now
    }

    fn are_too_many(&self, now: Moment) -> bool {
        self.count > QUIC_FLOODS_MAX && self.are_recent(now)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let counts = &mut *self.all.borrow_mut();
        counts.total -= 1;
        count_down(&mut counts.by_client, self.client);
        count_down(&mut counts.by_network, network(self.client.ip()));
    }
}

fn count_down<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// An address of IPv4; of IPv6 the network of 64 bits, which is what a subscriber commonly has (RFC 6177).
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Moment = Moment::BEGIN;

    fn address(number: usize) -> SocketAddr {
        ([10, 0, (number >> 8) as u8, number as u8], 1000).into()
    }

    fn port(number: usize) -> SocketAddr {
        ([10, 0, 0, 1], number as u16 + 1).into()
    }

    /// Begins handshakes until one may not; returns those and the verdict.
    fn fill(
        half_open: &HalfOpen,
        is_validated: bool,
        client: impl Fn(usize) -> SocketAddr,
    ) -> (Vec<Begun>, Asked) {
        let mut begun = Vec::new();
        loop {
            match half_open.begin(client(begun.len()), is_validated, NOW) {
                Asked::Begun(one) => begun.push(one),
                verdict => return (begun, verdict),
            }
        }
    }

    #[test]
    fn forged_addresses_begin_few_handshakes() {
        let half_open = HalfOpen::default();
        let (begun, verdict) = fill(&half_open, false, address);
        assert_eq!(begun.len(), QUIC_HALF_OPEN_UNVALIDATED_MAX);
        assert!(matches!(verdict, Asked::Unvalidated));
        let validated = half_open.begin(address(1000), true, NOW);
        assert!(matches!(validated, Asked::Begun(_)), "a validated one is taken");
        drop((begun, validated));
        let counts = half_open.0.borrow();
        assert!(counts.total == 0 && counts.by_network.is_empty() && counts.by_client.is_empty());
    }

    #[test]
    fn a_network_has_a_share() {
        let half_open = HalfOpen::default();
        let (unvalidated, verdict) = fill(&half_open, false, port);
        assert_eq!(unvalidated.len(), QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX);
        assert!(matches!(verdict, Asked::Unvalidated));
        assert!(unvalidated.iter().all(|one| !one.is_pressed));
        let (validated, verdict) = fill(&half_open, true, |number| port(1000 + number));
        assert_eq!(unvalidated.len() + validated.len(), QUIC_HALF_OPEN_PER_NETWORK_MAX);
        assert!(validated.iter().all(|one| one.is_pressed));
        assert!(matches!(verdict, Asked::TooMany));
        assert!(half_open.is_closed_to(port(5000), NOW), "it is not decrypted");
        assert!(!half_open.is_closed_to(port(0), NOW), "its handshake goes on");
        assert!(!half_open.is_closed_to(address(2), NOW), "another network");
        assert!(matches!(half_open.begin(address(2), true, NOW), Asked::Begun(_)), "another network");
        drop((unvalidated, validated));
        let of_subscriber =
            |number: usize| SocketAddr::new(Ipv6Addr::from_bits(1 << 64 | number as u128).into(), 1);
        let (begun, _) = fill(&half_open, false, of_subscriber);
        assert_eq!(begun.len(), QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX, "one network of IPv6");
    }

    #[test]
    fn a_worker_has_a_bound_for_all() {
        let half_open = HalfOpen::default();
        let (begun, verdict) = fill(&half_open, true, address);
        assert_eq!(begun.len(), QUIC_HALF_OPEN_MAX);
        assert!(matches!(verdict, Asked::TooMany));
        assert!(half_open.is_closed_to(address(5000), NOW));
    }

    #[test]
    fn a_network_that_floods_begins_few_handshakes_for_a_while() {
        let half_open = HalfOpen::default();
        (0..QUIC_FLOODS_MAX).for_each(|_| half_open.note_flood(port(0).ip(), NOW));
        assert!(matches!(half_open.begin(port(0), false, NOW), Asked::Begun(_)), "some are nobody's fault");
        half_open.note_flood(port(0).ip(), NOW);
        assert!(matches!(half_open.begin(port(0), false, NOW), Asked::Unvalidated));
        let first = half_open.begin(port(0), true, NOW);
        assert!(matches!(&first, Asked::Begun(begun) if begun.is_pressed));
        assert!(half_open.is_closed_to(port(1), NOW) && !half_open.is_closed_to(port(0), NOW));
        assert!(matches!(half_open.begin(port(1), true, NOW), Asked::TooMany));
        assert!(!half_open.is_closed_to(address(2), NOW), "another network");
        let later = NOW.after(QUIC_FLOOD_HANDSHAKE_INTERVAL);
        assert!(!half_open.is_closed_to(port(1), later));
        assert!(matches!(half_open.begin(port(1), true, later), Asked::Begun(_)), "in its turn");
        let much_later = NOW.after(QUIC_FLOOD_MEMORY + Duration::from_millis(1));
        assert!(matches!(half_open.begin(port(2), false, much_later), Asked::Begun(_)), "it is forgotten");
    }

    #[test]
    fn few_networks_are_remembered() {
        let half_open = HalfOpen::default();
        (0..2 * QUIC_FLOODING_NETWORKS_MAX)
            .for_each(|number| half_open.note_flood(address(number).ip(), NOW));
        assert_eq!(half_open.0.borrow().flooding.len(), QUIC_FLOODING_NETWORKS_MAX);
        half_open.note_flood(address(5000).ip(), NOW.after(QUIC_FLOOD_MEMORY));
        assert_eq!(half_open.0.borrow().flooding.len(), 1, "old ones make room");
    }
}
