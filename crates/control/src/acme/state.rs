//! The hosts that need certificates, and the state of the certificate of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::answer::Answer;
use super::settings::{ChallengeKind, Settings};
use crate::certificate::Pair;

/// The hosts that need certificates, and how they are obtained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// None where ACME is not configured, or cannot be used.
    pub settings: Option<Arc<Settings>>,
    /// Names of hosts, in lower case.
    pub hosts: BTreeSet<String>,
    /// The hosts among them that nothing serves over HTTP, so that challenges are answered in handshakes
    /// alone.
    pub by_handshake: BTreeSet<String>,
    /// The revision of `Held` that the translation was made with.
    pub revision: u64,
}

/// The present state of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Grows with each change.
    pub(crate) revision: u64,
    pub(crate) hosts: BTreeMap<String, Arc<HostState>>,
}

/// The state of one host.
#[derive(Debug, Default)]
pub(crate) struct HostState {
    /// The certificate, valid or not.
    pub(crate) pair: Option<Arc<Pair>>,
    /// The answer to the challenge of an order in progress.
    pub(crate) answer: Option<Answer>,
    /// Why the last order failed; none if none has failed since a certificate was issued.
    pub(crate) fault: Option<String>,
}

impl Wanted {
    /// The settings for the certificate of one host.
    pub(super) fn settings_of(&self, host: &str, settings: &Arc<Settings>) -> Arc<Settings> {
        let kind = ChallengeKind::TlsAlpn01;
        if !self.by_handshake.contains(host) || !settings.challenges.contains(&kind) {
            return Arc::clone(settings);
        }
        Arc::new(Settings { challenges: vec![kind], ..Settings::clone(settings) })
    }
}

impl Held {
    /// The state of a host; none for a host without certificate and order.
    pub(crate) fn get(&self, host: &str) -> Option<&Arc<HostState>> {
        self.hosts.get(host)
    }

    /// The hosts whose state differs.
    pub(crate) fn differences<'h>(&'h self, other: &'h Self) -> BTreeSet<&'h str> {
        let is_same = |host: &str| match (self.hosts.get(host), other.hosts.get(host)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let all = self.hosts.keys().chain(other.hosts.keys()).map(String::as_str);
        all.filter(|host| !is_same(host)).collect()
    }
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs().cast_signed())
}
