//! Identities of checks: of a group of endpoints in this process, and of one endpoint at all replicas.
//!
//! Never in here: verdicts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use model::HealthCheck;

use crate::upstream::protocol::Protocol;

/// Identity of a group of endpoints: clusters with equal keys share their checks.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    /// Name of the cluster.
    pub(crate) cluster: Arc<str>,
    /// The protocol towards the endpoints; for those that depend on the client, the one in clear.
    pub(crate) protocol: Protocol,
    pub(crate) check: Arc<HealthCheck>,
}

/// Identity of a checked endpoint at all replicas: they agree on it if they check it in the same way. If they
/// do not, because one has another configuration or version for a while, each finds the others silent and
/// checks on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CheckId(pub(crate) u128);

impl GroupKey {
    /// The worker that checks the group's endpoints.
    pub(crate) fn worker(&self, workers: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        self.cluster.hash(&mut hasher);
        (hasher.finish() % u64::from(workers.max(1))) as u32
    }
}

impl CheckId {
    pub(super) fn of(key: &GroupKey, address: SocketAddr) -> Self {
        let GroupKey { cluster, protocol, check } = key;
        let is_tls = protocol.tls.is_some();
        let text = format!("{cluster}\0{address}\0{:?}\0{is_tls}\0{check:?}", protocol.version);
        let digest = digest(&SHA256, text.as_bytes());
        Self(u128::from_be_bytes(*digest.as_ref().first_chunk().expect("a digest has 32 bytes")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use model::HealthProbe;

    use super::*;

    fn key(cluster: &str, rise: u32) -> GroupKey {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(1));
        let probe = HealthProbe::Connect;
        let check = HealthCheck { probe, interval, timeout, rise, fall: 2, always: false };
        GroupKey { cluster: cluster.into(), protocol: Protocol::default(), check: Arc::new(check) }
    }

    #[test]
    fn one_worker_checks_a_cluster() {
        let owners: Vec<_> = (0..100).map(|number| key(&format!("c{number}"), 2).worker(4)).collect();
        assert!((0..4).all(|worker| owners.contains(&worker)) && owners.iter().all(|owner| *owner < 4));
        assert_eq!(key("a", 2).worker(4), key("a", 3).worker(4));
    }

    #[test]
    fn an_identity_depends_on_all_that_is_checked() {
        let id = |cluster: &str, rise, last| {
            CheckId::of(&key(cluster, rise), SocketAddr::from(([10, 0, 0, last], 80)))
        };
        assert_eq!(id("a", 2, 1), id("a", 2, 1));
        let all = [id("a", 2, 1), id("b", 2, 1), id("a", 3, 1), id("a", 2, 2)];
        assert_eq!(BTreeSet::from(all).len(), all.len());
    }
}
