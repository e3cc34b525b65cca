//! The other replicas, by their names in connection ids.
//!
//! A replica that is listed is there as far as the cluster knows, also while its Pod starts or stops. One
//! that is listed no more may still finish its connections: packets are forwarded to it as before, and it is
//! asked once a second whether it is there. It is gone once it has left several questions in a row unanswered
//! for a time that no slow process needs. Its clients are then told by a stateless reset, whose key all
//! replicas derive from their secret, so that they need not wait for their timeout. Until then they get
//! silence, which ends no connection.
//!
//! Replicas need not learn of each other in any order: one that stops follows the configuration no more, and
//! does not hear of those that start meanwhile. So each replica introduces itself to those that it forwards
//! packets to, by a question that holds its address, until it has heard of them.
//!
//! Never in here: sockets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use parking_lot::RwLock;

use super::packet::{Owner, ServerId};
use crate::limits::{
    QUIC_LEFT_REPLICAS_MAX, QUIC_REPLICA_ASK_INTERVAL, QUIC_REPLICA_QUESTIONS_MIN, QUIC_REPLICA_SILENCE_MAX,
};

/// The other replicas that this one knows of.
#[derive(Default)]
pub(super) struct Others(RwLock<HashMap<ServerId, Other>>);

struct Other {
    address: IpAddr,
    /// Since when it is not listed; none while it is.
    left: Option<Instant>,
    /// It has sent something that this replica has taken: it knows this replica's address.
    is_known_to: bool,
    /// The questions since it was last heard of.
    asked: Option<Asked>,
    is_gone: bool,
}

/// Questions that have no answer yet.
struct Asked {
    first: Instant,
    last: Instant,
    count: u32,
}

impl Other {
    fn new(address: IpAddr, left: Option<Instant>) -> Self {
        Self { address, left, is_known_to: false, asked: None, is_gone: false }
    }

    fn awaits_answer(&self) -> bool {
        self.left.is_some() || !self.is_known_to
    }

    /// Notes that a packet is for it. Returns whether it is to be asked a question.
    fn ask(&mut self, now: Instant) -> bool {
        let Some(asked) = &mut self.asked else {
            self.asked = Some(Asked { first: now, last: now, count: 1 });
            return true;
        };
        let is_silent = asked.count >= QUIC_REPLICA_QUESTIONS_MIN
            && now.saturating_duration_since(asked.first) >= QUIC_REPLICA_SILENCE_MAX;
        self.is_gone = self.left.is_some() && is_silent;
        let is_due = now.saturating_duration_since(asked.last) >= QUIC_REPLICA_ASK_INTERVAL;
        if is_due {
            asked.last = now;
            asked.count = asked.count.saturating_add(1);
        }
        is_due
    }
}

impl Others {
    /// Sets the replicas that are listed. Others that were are remembered, the latest of them.
    pub(super) fn set(&self, listed: impl Iterator<Item = (ServerId, IpAddr)>, now: Instant) {
        let mut all = self.0.write();
        let mut before = std::mem::take(&mut *all);
        for (name, address) in listed {
            let known = before.remove(&name);
            let is_known_to = known.is_some_and(|known| known.is_known_to);
            all.insert(name, Other { is_known_to, ..Other::new(address, None) });
        }
        for (name, mut other) in before {
            if other.left.is_none() {
                // Questions from before say nothing of its end.
                other.asked = None;
            }
            other.left.get_or_insert(now);
            all.insert(name, other);
        }
        forget_excess(&mut all);
    }

    /// Notes a replica that has introduced itself.
    pub(super) fn meet(&self, name: ServerId, address: IpAddr, now: Instant) {
        let mut all = self.0.write();
        all.entry(name).or_insert_with(|| Other::new(address.to_canonical(), Some(now)));
        forget_excess(&mut all);
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
            Some(Other { is_gone: true, address, .. }) => Owner::Gone(*address),
            Some(Other { address, .. }) => Owner::Replica(*address),
        }
    }

    /// Whether a replica has left and does not answer.
    pub(super) fn is_gone(&self, name: ServerId) -> bool {
        matches!(self.owner(name), Owner::Gone(_))
    }

    /// Whether a replica that a packet is for is to be asked at this moment whether it is there. Notes that
    /// it was.
    pub(super) fn asks(&self, address: IpAddr, now: Instant) -> bool {
        let awaits_answer = |one: &Other| one.address == address && one.awaits_answer();
        // Nearly always it is listed, and was heard of.
        if !self.0.read().values().any(awaits_answer) {
            return false;
        }
        let mut all = self.0.write();
        all.values_mut().find(|one| awaits_answer(one)).is_some_and(|other| other.ask(now))
    }

    /// Notes that a replica is there, and knows this one.
    pub(super) fn heard(&self, address: IpAddr) {
        let address = address.to_canonical();
        let is_news =
            |one: &Other| one.address == address && (one.asked.is_some() || !one.is_known_to || one.is_gone);
        // Nearly always it is listed, and was heard of before.
        if !self.0.read().values().any(is_news) {
            return;
        }
        for other in self.0.write().values_mut().filter(|one| one.address == address) {
            other.is_known_to = true;
            other.asked = None;
            other.is_gone = false;
        }
    }
}

/// Forgets replicas that have left: the latest of them are remembered.
fn forget_excess(all: &mut HashMap<ServerId, Other>) {
    let mut left: Vec<_> = all.iter().filter_map(|(name, one)| Some((one.left?, *name))).collect();
    let excess = left.len().saturating_sub(QUIC_LEFT_REPLICAS_MAX);
    left.sort_unstable();
    for (_, name) in left.iter().take(excess) {
        all.remove(name);
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

    fn listed() -> impl Iterator<Item = (ServerId, IpAddr)> {
        [(NAME, address())].into_iter()
    }

    #[test]
    fn a_replica_is_gone_once_it_has_left_and_does_not_answer() {
        let (others, begin) = (Others::default(), clock::instant());
        let at = |seconds| begin + Duration::from_secs(seconds);
        others.set(listed(), begin);
        others.heard(address());
        assert_eq!(others.owner(NAME), Owner::Replica(address()));
        assert!(!others.asks(address(), at(100)), "it is listed, and was heard of");
        others.set(std::iter::empty(), at(100));
        assert!(others.has(address()));
        assert_eq!(others.owner(NAME), Owner::Replica(address()), "it may be finishing");
        assert!(others.asks(address(), at(101)));
        assert!(!others.asks(address(), at(101)), "it was asked at this moment");
        others.heard(address());
        assert!(others.asks(address(), at(110)));
        assert_eq!(others.owner(NAME), Owner::Replica(address()), "it has answered");
        let silent = at(110) + QUIC_REPLICA_SILENCE_MAX;
        assert!(others.asks(address(), silent));
        assert_eq!(others.owner(NAME), Owner::Replica(address()), "one question may have been lost");
        for second in 1..=u64::from(QUIC_REPLICA_QUESTIONS_MIN) {
            assert!(others.asks(address(), silent + Duration::from_secs(second)));
        }
        assert_eq!(others.owner(NAME), Owner::Gone(address()));
        others.heard(address());
        assert_eq!(others.owner(NAME), Owner::Replica(address()), "it is late");
        others.set(listed(), at(200));
        assert!(!others.is_gone(NAME) && !others.asks(address(), at(300)));
    }

    #[test]
    fn a_replica_that_is_slow_is_not_gone() {
        let (others, begin) = (Others::default(), clock::instant());
        others.set(listed(), begin);
        others.set(std::iter::empty(), begin);
        for second in 0..QUIC_REPLICA_SILENCE_MAX.as_secs() {
            assert!(others.asks(address(), begin + Duration::from_secs(second)));
            assert_eq!(others.owner(NAME), Owner::Replica(address()), "after {second} s");
        }
    }

    #[test]
    fn a_replica_that_is_listed_is_never_gone_and_asked_until_it_is_heard_of() {
        let (others, begin) = (Others::default(), clock::instant());
        others.set(listed(), begin);
        for second in 0..1000 {
            assert!(others.asks(address(), begin + Duration::from_secs(second)), "it may not know us");
            assert_eq!(others.owner(NAME), Owner::Replica(address()));
        }
        // Questions that it left unanswered while it was listed do not count once it is not.
        others.set(std::iter::empty(), begin + Duration::from_secs(1000));
        assert!(others.asks(address(), begin + Duration::from_secs(1001)));
        assert_eq!(others.owner(NAME), Owner::Replica(address()));
        others.set(listed(), begin + Duration::from_secs(1001));
        others.heard(address());
        assert!(!others.asks(address(), begin + Duration::from_secs(1002)));
    }

    #[test]
    fn a_replica_that_introduces_itself_is_known_from_then_on() {
        let (others, now) = (Others::default(), clock::instant());
        others.meet(NAME, "::ffff:10.0.0.1".parse().unwrap(), now);
        assert!(others.has(address()));
        assert_eq!(others.owner(NAME), Owner::Replica(address()));
        others.set(listed(), now);
        others.meet(NAME, address(), now);
        others.heard(address());
        assert!(!others.asks(address(), now), "it is listed: nothing changes by it");
    }

    #[test]
    fn the_latest_that_have_left_are_remembered() {
        let (others, begin) = (Others::default(), clock::instant());
        let name = |number: u32| {
            let mut name = [0; 8];
            name[..4].copy_from_slice(&number.to_be_bytes());
            name
        };
        for number in 0..QUIC_LEFT_REPLICAS_MAX as u32 + 10 {
            let now = begin + Duration::from_secs(number.into());
            others.set([(name(number), IpAddr::V4(number.into()))].into_iter(), now);
        }
        assert_eq!(others.0.read().len(), QUIC_LEFT_REPLICAS_MAX + 1);
        assert!(others.has(IpAddr::V4(10.into())) && !others.has(IpAddr::V4(0.into())));
        let later = begin + Duration::from_secs(10_000);
        others.meet(name(5000), IpAddr::V4(5000.into()), later);
        assert_eq!(others.0.read().len(), QUIC_LEFT_REPLICAS_MAX + 1);
        assert!(others.has(IpAddr::V4(5000.into())) && !others.has(IpAddr::V4(9.into())));
    }
}
