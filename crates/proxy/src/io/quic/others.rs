//! The other replicas, by their names in connection ids.
//!
//! A replica that is no longer listed may be finishing its connections: a Pod whose health check fails since
//! it stops is not listed as serving. Packets are forwarded to it as before, and it is asked once a second
//! whether it is there. Once it has not answered for some seconds it is gone: its clients are told by a
//! stateless reset, whose key all replicas derive from their secret, so that they need not wait for their
//! timeout. A replica that answers is never taken for gone: nobody can end its connections elsewhere.
//!
//! Never in here: sockets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use parking_lot::RwLock;

use super::packet::{Owner, ServerId};
use crate::limits::{QUIC_LEFT_REPLICAS_MAX, QUIC_REPLICA_ASK_INTERVAL, QUIC_REPLICA_SILENCE_MAX};

/// The other replicas that this one knows of.
#[derive(Default)]
pub(super) struct Others(RwLock<HashMap<ServerId, Other>>);

struct Other {
    address: IpAddr,
    /// None while it is listed.
    left: Option<Left>,
}

/// The state of a replica that is listed no more.
struct Left {
    since: Instant,
    /// When it was asked first since it was last heard of, and when last.
    asked: Option<[Instant; 2]>,
    is_gone: bool,
}

impl Others {
    /// Sets the replicas that are listed. Others that were are remembered, the latest of them.
    pub(super) fn set(&self, listed: impl Iterator<Item = (ServerId, IpAddr)>, now: Instant) {
        let mut all = self.0.write();
        for other in all.values_mut() {
            other.left.get_or_insert(Left { since: now, asked: None, is_gone: false });
        }
        for (name, address) in listed {
            all.insert(name, Other { address, left: None });
        }
        let mut left: Vec<_> =
            all.iter().filter_map(|(name, one)| Some((one.left.as_ref()?.since, *name))).collect();
        let excess = left.len().saturating_sub(QUIC_LEFT_REPLICAS_MAX);
        left.sort_unstable();
        for (_, name) in left.iter().take(excess) {
            all.remove(name);
        }
    }

    /// Whether an address is another replica's.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.read().values().any(|one| one.address == address)
    }

    /// The owner of the connections that have a replica's name in their ids.
    pub(super) fn owner(&self, name: ServerId) -> Owner {
        match self.0.read().get(&name) {
            None => Owner::Nobody,
            Some(Other { left: Some(Left { is_gone: true, .. }), address }) => Owner::Gone(*address),
            Some(Other { address, .. }) => Owner::Replica(*address),
        }
    }

    /// Whether a replica has left and does not answer.
    pub(super) fn is_gone(&self, name: ServerId) -> bool {
        matches!(self.owner(name), Owner::Gone(_))
    }

    /// Whether a replica is to be asked at this moment whether it is there. Notes that it was.
    pub(super) fn asks(&self, address: IpAddr, now: Instant) -> bool {
        let is_left = self.0.read().values().any(|one| one.address == address && one.left.is_some());
        // Nearly always it is listed.
        if !is_left {
            return false;
        }
        let mut all = self.0.write();
        let left = all.values_mut().filter(|one| one.address == address).find_map(|one| one.left.as_mut());
        let Some(left) = left else { return false };
        let Some([first, last]) = &mut left.asked else {
            left.asked = Some([now; 2]);
            return true;
        };
        left.is_gone = now.saturating_duration_since(*first) >= QUIC_REPLICA_SILENCE_MAX;
        let is_due = now.saturating_duration_since(*last) >= QUIC_REPLICA_ASK_INTERVAL;
        if is_due {
            *last = now;
        }
        is_due
    }

    /// Notes that a replica is there.
    pub(super) fn heard(&self, address: IpAddr) {
        let address = address.to_canonical();
        let is_awaited = |one: &Other| {
            one.address == address && one.left.as_ref().is_some_and(|left| left.asked.is_some())
        };
        // Nearly always it is listed.
        if !self.0.read().values().any(is_awaited) {
            return;
        }
        let mut all = self.0.write();
        let left = all.values_mut().filter(|one| one.address == address).filter_map(|one| one.left.as_mut());
        for left in left {
            left.asked = None;
            left.is_gone = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NAME: ServerId = [1; 8];

    fn address() -> IpAddr {
        "10.0.0.1".parse().unwrap()
    }

    #[test]
    fn a_replica_is_gone_once_it_has_left_and_does_not_answer() {
        let (others, begin) = (Others::default(), clock::instant());
        let at = |seconds| begin + Duration::from_secs(seconds);
        others.set([(NAME, address())].into_iter(), begin);
        assert_eq!(others.owner(NAME), Owner::Replica(address()));
        assert!(!others.asks(address(), at(100)), "it is listed");
        others.set(std::iter::empty(), at(100));
        assert!(others.has(address()));
        assert_eq!(others.owner(NAME), Owner::Replica(address()), "it may be finishing");
        assert!(others.asks(address(), at(101)));
        assert!(!others.asks(address(), at(101)), "it was asked at this moment");
        others.heard(address());
        assert!(others.asks(address(), at(110)));
        assert_eq!(others.owner(NAME), Owner::Replica(address()), "it has answered");
        assert!(others.asks(address(), at(110) + QUIC_REPLICA_SILENCE_MAX));
        assert_eq!(others.owner(NAME), Owner::Gone(address()));
        others.heard(address());
        assert_eq!(others.owner(NAME), Owner::Replica(address()), "it is late");
        others.set([(NAME, address())].into_iter(), at(200));
        assert!(!others.is_gone(NAME) && !others.asks(address(), at(300)));
    }

    #[test]
    fn the_latest_that_have_left_are_remembered() {
        let (others, begin) = (Others::default(), clock::instant());
        for number in 0..QUIC_LEFT_REPLICAS_MAX as u32 + 10 {
            let mut name = [0; 8];
            name[..4].copy_from_slice(&number.to_be_bytes());
            let now = begin + Duration::from_secs(number.into());
            others.set([(name, IpAddr::V4(number.into()))].into_iter(), now);
        }
        assert_eq!(others.0.read().len(), QUIC_LEFT_REPLICAS_MAX + 1);
        assert!(others.has(IpAddr::V4(10.into())) && !others.has(IpAddr::V4(0.into())));
    }
}
