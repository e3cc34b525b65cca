//! What holds for the endpoints of a Service's port as a whole, and who says it.
//!
//! "Upstream-level settings come from the FIRST Ingress that references that Service port."

use std::collections::HashMap;

use model::Balance;

use crate::names::{NsName, PortRef};

/// What objects ask of a Service's port. The first to ask decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BackendSettings {
    pub(super) balance: Balance,
    /// Requests go to the Service's virtual address, not to its Pods.
    pub(super) by_virtual_address: bool,
}

/// What all objects together ask of each Service's port.
#[derive(Debug, Default)]
pub(super) struct BackendConsensus {
    /// Where nobody asks for anything else.
    usual: BackendSettings,
    /// Where somebody does, be it the first one or not.
    disputed: HashMap<(NsName, PortRef), BackendSettings>,
}

impl BackendConsensus {
    /// Asks the objects, the oldest first: each has settings for the backends that it names.
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

    /// What is asked of a Service's port.
    pub(super) fn settings(&self, service: &NsName, port: &PortRef) -> BackendSettings {
        if self.disputed.is_empty() {
            return self.usual;
        }
        self.disputed.get(&(service.clone(), port.clone())).copied().unwrap_or(self.usual)
    }
}
