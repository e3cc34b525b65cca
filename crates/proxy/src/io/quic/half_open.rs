//! Connections of a worker whose handshakes are in progress, and when a client has to show first that it
//! receives at its address (Retry, RFC 9000 section 8.1.2).
//!
//! The TLS session of a handshake is what a first packet costs in memory, and its signature in time; the
//! address of the packet may be forged. So a worker takes few connections from addresses that are not
//! validated, and few of one network. Must not be in here: packets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

use crate::limits::{
    QUIC_HALF_OPEN_MAX, QUIC_HALF_OPEN_PER_NETWORK_MAX, QUIC_HALF_OPEN_UNVALIDATED_MAX,
    QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX,
};

/// The handshakes of a worker.
#[derive(Default)]
pub(crate) struct HalfOpen(Rc<RefCell<Counts>>);

#[derive(Default)]
struct Counts {
    total: usize,
    by_network: HashMap<IpAddr, usize>,
}

/// A handshake that is counted until this is dropped.
pub(crate) struct Begun {
    all: Rc<RefCell<Counts>>,
    network: IpAddr,
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
    pub(crate) fn begin(&self, client: IpAddr, is_validated: bool) -> Asked {
        let network = network(client);
        let mut counts = self.0.borrow_mut();
        let of_network = counts.by_network.get(&network).copied().unwrap_or(0);
        let is_pressed = of_network >= QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX;
        if !is_validated && (is_pressed || counts.total >= QUIC_HALF_OPEN_UNVALIDATED_MAX) {
            return Asked::Unvalidated;
        }
        if of_network >= QUIC_HALF_OPEN_PER_NETWORK_MAX || counts.total >= QUIC_HALF_OPEN_MAX {
            return Asked::TooMany;
        }
        counts.total += 1;
        *counts.by_network.entry(network).or_default() += 1;
        drop(counts);
        Asked::Begun(Begun { all: Rc::clone(&self.0), network, is_pressed })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut counts = self.all.borrow_mut();
        counts.total -= 1;
        if let Some(count) = counts.by_network.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.by_network.remove(&self.network);
            }
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
    use super::*;

    fn address(number: usize) -> IpAddr {
        [10, 0, (number >> 8) as u8, number as u8].into()
    }

    /// Begins handshakes until one may not; returns those and the verdict.
    fn fill(
        half_open: &HalfOpen,
        is_validated: bool,
        client: impl Fn(usize) -> IpAddr,
    ) -> (Vec<Begun>, Asked) {
        let mut begun = Vec::new();
        loop {
            match half_open.begin(client(begun.len()), is_validated) {
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
        assert!(matches!(half_open.begin(address(7), true), Asked::Begun(_)), "a validated one is taken");
        drop(begun);
        assert!(half_open.0.borrow().by_network.is_empty() && half_open.0.borrow().total == 0);
    }

    #[test]
    fn a_network_has_a_share() {
        let half_open = HalfOpen::default();
        let (unvalidated, verdict) = fill(&half_open, false, |_| address(1));
        assert_eq!(unvalidated.len(), QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX);
        assert!(matches!(verdict, Asked::Unvalidated));
        assert!(unvalidated.iter().all(|one| !one.is_pressed));
        let (validated, verdict) = fill(&half_open, true, |_| address(1));
        assert_eq!(unvalidated.len() + validated.len(), QUIC_HALF_OPEN_PER_NETWORK_MAX);
        assert!(validated.iter().all(|one| one.is_pressed));
        assert!(matches!(verdict, Asked::TooMany));
        assert!(matches!(half_open.begin(address(2), true), Asked::Begun(_)), "another network");
        drop((unvalidated, validated));
        let of_subscriber = |number: usize| Ipv6Addr::from_bits(1 << 64 | number as u128).into();
        let (begun, _) = fill(&half_open, false, of_subscriber);
        assert_eq!(begun.len(), QUIC_HALF_OPEN_UNVALIDATED_PER_NETWORK_MAX, "one network of IPv6");
    }

    #[test]
    fn a_worker_has_a_bound_for_all() {
        let half_open = HalfOpen::default();
        let (begun, verdict) = fill(&half_open, true, address);
        assert_eq!(begun.len(), QUIC_HALF_OPEN_MAX);
        assert!(matches!(verdict, Asked::TooMany));
    }
}
