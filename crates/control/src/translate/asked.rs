//! What Ingresses ask of Services together.
//!
//! "Upstream-level settings come from the FIRST Ingress that references that Service port."

use std::collections::HashMap;

use super::endpoints::Like;
use super::lookup::{Lookup, Need};
use super::readings::Reading;
use crate::names::{NsName, PortRef};
use crate::objects::{Ingress, Sourced};

/// What is asked of each Service's port.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Where nobody asks for anything else.
    usual: Like,
    /// Where somebody does, be it the first one or not.
    disputed: HashMap<(NsName, PortRef), Like>,
}

impl Asked {
    /// What is asked of a Service's port.
    pub(super) fn of(&self, service: &NsName, port: &PortRef) -> Like {
        if self.disputed.is_empty() {
            return self.usual;
        }
        self.disputed.get(&(service.clone(), port.clone())).copied().unwrap_or(self.usual)
    }

    /// Asks the Ingresses, the oldest first. Says of which Services something else is asked than before.
    pub(super) fn ask<'r>(
        &mut self,
        usual: Like,
        readings: impl Iterator<Item = &'r Reading> + Clone,
        lookup: &Lookup<'_>,
    ) {
        let mut firsts: HashMap<_, Option<Like>> = HashMap::new();
        for reading in readings.clone().filter(|reading| reading.like != usual) {
            firsts.extend(backends(&reading.ingress).map(|backend| (backend, None)));
        }
        if firsts.is_empty() && self.disputed.is_empty() && self.usual == usual {
            return;
        }
        if !firsts.is_empty() {
            for reading in readings {
                for backend in backends(&reading.ingress) {
                    firsts.entry(backend).and_modify(|like| _ = like.get_or_insert(reading.like));
                }
            }
        }
        let disputed = firsts.into_iter().filter_map(|(backend, like)| Some((backend, like?))).collect();
        let old = std::mem::replace(self, Self { usual, disputed });
        for (service, port) in old.disputed.keys().chain(self.disputed.keys()) {
            if old.of(service, port) != self.of(service, port) {
                lookup.note_change(&Need::Service(service.clone()));
            }
        }
    }
}

/// The ports of Services that an Ingress names.
fn backends(ingress: &Sourced<Ingress>) -> impl Iterator<Item = (NsName, PortRef)> {
    let spec = &ingress.spec;
    let paths = spec.rules.iter().filter_map(|rule| rule.value.http.as_ref()).flat_map(|http| &http.paths);
    let of_paths = paths.map(|path| &path.value.backend);
    let all = spec.default_backend.iter().map(|backend| &backend.value).chain(of_paths);
    all.filter_map(|backend| {
        let (service, port) = backend.service()?;
        Some((NsName::new(ingress.namespace(), service), port))
    })
}
