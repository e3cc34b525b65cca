//! Settings of a Service's port that hold for its endpoints as a whole, and which object decides them.
//!
//! "Upstream-level settings come from the FIRST Ingress that references that Service port."

use std::collections::HashMap;

use model::Balance;

use crate::names::{NsName, PortRef};

/// What an object asks of a Service's port. The first object to ask decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BackendSettings {
    pub(super) balance: Balance,
    /// Requests go to the Service's virtual address instead of its Pods.
    pub(super) by_virtual_address: bool,
}

/// The settings of each Service's port, decided by all objects together.
#[derive(Debug, Default)]
pub(super) struct BackendConsensus {
    /// The settings of ports that no object asks anything else of.
    usual: BackendSettings,
    /// The settings of ports of which some object asks something other than `usual`, whether it is the first to ask or not.
    disputed: HashMap<(NsName, PortRef), BackendSettings>,
}

impl BackendConsensus {
    /// Decides the settings. The objects come with the oldest first, each with its settings and the backends that it names.
    pub(super) fn of<B: Iterator<Item = (NsName, PortRef)>>(
        usual: BackendSettings,
        objects: impl Iterator<Item = (BackendSettings, B)> + Clone,
    ) -> Self {
        let mut firsts: HashMap<_, Option<BackendSettings>> = HashMap::new();
        for (_, backends) in objects.clone().filter(|(settings, _)| *settings != usual) {
            firsts.extend(backends.map(|backend| (backend, None)));
        }
        if !firsts.is_empty() {
            for (settings, backends) in objects {
                for backend in backends {
                    firsts.entry(backend).and_modify(|first| _ = first.get_or_insert(settings));
                }
            }
        }
        let disputed = firsts.into_iter().filter_map(|(backend, first)| Some((backend, first?))).collect();
        Self { usual, disputed }
    }

    /// The settings of a Service's port.
    pub(super) fn settings(&self, service: &NsName, port: &PortRef) -> BackendSettings {
        if self.disputed.is_empty() {
            return self.usual;
        }
        self.disputed.get(&(service.clone(), port.clone())).copied().unwrap_or(self.usual)
    }
}
