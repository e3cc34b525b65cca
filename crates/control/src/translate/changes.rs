//! Finds the inputs that differ from those of the previous translation.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::inputs::Input;
use crate::acme::Held;
use crate::index::{Index, Store};
use crate::names::NsName;
use crate::objects::{
    ConfigMap, EndpointSlice, Endpoints, Ingress, IngressClass, Resource, Secret, Service, Sourced,
};
use crate::options::Options;
use crate::resolve::Resolved;

/// The inputs that differ from the previous translation.
pub(super) enum Changes {
    Everything,
    These(Vec<Input>),
    /// Only `EndpointSlice`s and `Endpoints` differ: those of these Services. Nothing else does, nor do the
    /// objects that are no inputs.
    Endpoints(Vec<NsName>),
}

/// The objects and options of the previous translation.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ingresses: Vec<Arc<Sourced<Ingress>>>,
    classes: Vec<Arc<Sourced<IngressClass>>>,
    configmaps: Vec<Arc<Sourced<ConfigMap>>>,
    secrets: Vec<Arc<Sourced<Secret>>>,
    services: Vec<Arc<Sourced<Service>>>,
    slices: Vec<Arc<Sourced<EndpointSlice>>>,
    endpoints: Vec<Arc<Sourced<Endpoints>>>,
    acme: Arc<Held>,
    rest: Option<Rest>,
}

#[derive(Debug, PartialEq)]
struct Rest {
    options: Options,
    namespaces: Option<BTreeSet<String>>,
    resolved: Resolved,
    now: i64,
}

impl Seen {
    /// The inputs that differ from the previous translation. Objects are compared by address. `Seen` holds
    /// the old objects, so that no new object can have the address of an old one.
    pub(super) fn changes(
        &mut self,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: i64,
    ) -> Changes {
        let mut changes = Vec::new();
        let mut has_ingresses = false;
        differences(&mut self.ingresses, &index.ingresses, |_| has_ingresses = true);
        differences(&mut self.classes, &index.classes, |class| {
            changes.push(Input::Class(class.name().to_owned()));
        });
        differences(&mut self.configmaps, &index.configmaps, |configmap| {
            changes.extend([Input::ConfigMap(configmap.key()), Input::ConfigMaps]);
        });
        differences(&mut self.secrets, &index.secrets, |secret| changes.push(Input::Secret(secret.key())));
        differences(&mut self.services, &index.services, |it| changes.push(Input::Service(it.key())));
        let mut of_endpoints = Vec::new();
        differences(&mut self.endpoints, &index.endpoints, |it| of_endpoints.push(it.key()));
        differences(&mut self.slices, &index.slices, |slice| {
            of_endpoints.extend(slice.service_name().map(|name| NsName::new(slice.namespace(), name)));
        });
        let held = options.acme.held();
        if !Arc::ptr_eq(&held, &self.acme) {
            changes.extend(held.differences(&self.acme).into_iter().map(|host| Input::Acme(host.to_owned())));
            self.acme = held;
        }
        let rest = &mut self.rest;
        let same = rest.as_ref().filter(|rest| {
            // If the clock was set back, a value may have been made for a time that is now in the future.
            rest.options == *options && rest.namespaces == index.namespaces && rest.now <= now
        });
        let Some(same) = same else {
            let namespaces = index.namespaces.clone();
            *rest = Some(Rest { options: options.clone(), namespaces, resolved: resolved.clone(), now });
            return Changes::Everything;
        };
        if same.resolved != *resolved {
            let names = same.resolved.keys().chain(resolved.keys());
            let differs = |name: &&String| same.resolved.get(*name) != resolved.get(*name);
            changes.extend(names.filter(differs).cloned().map(Input::Name));
            *rest = rest.take().map(|rest| Rest { resolved: resolved.clone(), ..rest });
        }
        if let Some(rest) = rest {
            rest.now = now;
        }
        // Gateways compare their objects themselves.
        let has_others = has_ingresses || !changes.is_empty() || !index.gateway.is_empty();
        if !has_others && !of_endpoints.is_empty() {
            return Changes::Endpoints(of_endpoints);
        }
        changes.extend(of_endpoints.into_iter().map(Input::Service));
        Changes::These(changes)
    }
}

/// Calls a function for each object that was added or removed, and stores the new objects.
fn differences<T: Resource>(
    before: &mut Vec<Arc<Sourced<T>>>,
    now: &Store<T>,
    mut differs: impl FnMut(&Sourced<T>),
) {
    let mut gone = Vec::new();
    let mut come = Vec::new();
    let mut count = 0;
    for object in now.iter() {
        match before.get_mut(count) {
            Some(old) if Arc::ptr_eq(old, object) => {}
            Some(old) => {
                gone.push(std::mem::replace(old, Arc::clone(object)));
                come.push(object);
            }
            None => {
                before.push(Arc::clone(object));
                come.push(object);
            }
        }
        count += 1;
    }
    gone.extend(before.drain(count..));
    // An object that only changed its position is in both lists, and is not reported.
    let mut places: foldhash::HashSet<_> = gone.iter().map(Arc::as_ptr).collect();
    come.into_iter().filter(|object| !places.remove(&Arc::as_ptr(object))).for_each(|it| differs(it));
    gone.iter().filter(|object| places.contains(&Arc::as_ptr(object))).for_each(|it| differs(it));
}
