//! Settings of a Service's port that hold for all its endpoints, and the object that decides them.
//!
//! "Upstream-level settings come from the FIRST Ingress that references that Service port"; "affinity type
//! and mode from the first that sets them, the cookie's settings from the last."

use std::collections::HashMap;
use std::sync::Arc;

use model::{Affinity, Balance, HashBy};

use crate::names::{NsName, PortRef};

/// The settings that an object requests for a Service's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BackendSettings {
    /// The load balancing algorithm if neither a cookie nor a hash decides.
    pub(super) balance: Balance,
    /// Requests go to the Service's virtual address instead of its Pods.
    pub(super) by_virtual_address: bool,
    /// The input of the hash that selects an endpoint.
    pub(super) hash_by: Option<Arc<HashBy>>,
    /// The affinity of clients to an endpoint.
    pub(super) affinity: Option<Arc<Affinity>>,
}

/// The settings of each Service's port, decided by all objects together.
#[derive(Debug, Default)]
pub(super) struct BackendConsensus {
    /// The settings of ports without other requests.
    usual: BackendSettings,
    /// The settings of ports for which at least one object requests others than `usual`, whether it is the
    /// first object or not.
    disputed: HashMap<(NsName, PortRef), BackendSettings>,
}

impl BackendSettings {
    /// The load balancing algorithm, considering affinity and hash.
    pub(super) fn picks(&self) -> Balance {
        match (&self.affinity, &self.hash_by) {
            (Some(affinity), _) => Balance::Cookie(Arc::clone(affinity)),
            (None, Some(hash_by)) => Balance::Hash(Arc::clone(hash_by)),
            (None, None) => self.balance.clone(),
        }
    }

    /// Adds the settings that a younger object may contribute.
    fn add(&mut self, younger: &Self) {
        match (&mut self.affinity, &younger.affinity) {
            (Some(affinity), Some(younger)) if affinity.cookie != younger.cookie => {
                Arc::make_mut(affinity).cookie.clone_from(&younger.cookie);
            }
            (affinity @ None, Some(younger)) => *affinity = Some(Arc::clone(younger)),
            _ => {}
        }
    }
}

impl BackendConsensus {
    /// Decides the settings. The objects come in order of age, the oldest first, each with its settings and
    /// the backends that it names.
    pub(super) fn of<'s, B: Iterator<Item = (NsName, PortRef)>>(
        usual: BackendSettings,
        objects: impl Iterator<Item = (&'s BackendSettings, B)> + Clone,
    ) -> Self {
        let mut decided: HashMap<_, Option<BackendSettings>> = HashMap::new();
        for (_, backends) in objects.clone().filter(|(settings, _)| **settings != usual) {
            decided.extend(backends.map(|backend| (backend, None)));
        }
        if !decided.is_empty() {
            for (settings, backends) in objects {
                for backend in backends {
                    decided.entry(backend).and_modify(|decided| match decided {
                        None => *decided = Some(settings.clone()),
                        Some(decided) => decided.add(settings),
                    });
                }
            }
        }
        let disputed = decided.into_iter().filter_map(|(backend, first)| Some((backend, first?))).collect();
        Self { usual, disputed }
    }

    /// Whether an object has requested other settings for a Service's port than the usual ones.
    pub(super) fn is_disputed(&self, service: NsName, port: PortRef) -> bool {
        self.disputed.contains_key(&(service, port))
    }

    /// The settings of a Service's port.
    pub(super) fn settings(&self, service: &NsName, port: &PortRef) -> BackendSettings {
        if self.disputed.is_empty() {
            return self.usual.clone();
        }
        self.disputed.get(&(service.clone(), port.clone())).unwrap_or(&self.usual).clone()
    }
}

#[cfg(test)]
mod tests {
    use model::AffinityMode;

    use super::*;

    fn affinity(mode: AffinityMode, name: &str) -> BackendSettings {
        let cookie = model::AffinityCookie {
            name: model::CookieText::new(name).unwrap(),
            ..model::AffinityCookie::default()
        };
        let affinity =
            Affinity { mode, change_on_failure: false, cookie, header: None, age_max: None, key: None };
        BackendSettings { affinity: Some(Arc::new(affinity)), ..BackendSettings::default() }
    }

    fn decide(objects: &[BackendSettings]) -> BackendSettings {
        let backend = || (NsName::new("default", "web"), PortRef::Number(80));
        let objects = objects.iter().map(|settings| (settings, std::iter::once(backend())));
        let (service, port) = backend();
        BackendConsensus::of(BackendSettings::default(), objects).settings(&service, &port)
    }

    #[test]
    fn the_first_decides_but_for_the_cookie() {
        let ewma = BackendSettings { balance: Balance::Ewma, ..BackendSettings::default() };
        let decided = decide(&[
            ewma.clone(),
            affinity(AffinityMode::Persistent, "a"),
            affinity(AffinityMode::Balanced, "b"),
            BackendSettings::default(),
        ]);
        assert_eq!(decided.balance, Balance::Ewma);
        assert_eq!(decided.affinity, affinity(AffinityMode::Persistent, "b").affinity);
        assert_eq!(decide(&[BackendSettings::default(), ewma]), BackendSettings::default());
    }
}
