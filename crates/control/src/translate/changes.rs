//! Finds the inputs that differ from those of the previous translation.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::inputs::Input;
use crate::acme::Held;
use crate::index::{Index, Store, Version};
use crate::names::NsName;
use crate::objects::{
    ConfigMap, EndpointSlice, Endpoints, Ingress, IngressClass, Resource, Secret, Service, Sourced,
};
use crate::options::Options;
use crate::resolve::Resolved;

/// The inputs that differ from the previous translation.
pub(super) enum Changes {
    Everything,
    These(These),
}

/// Changed objects. Objects of the Gateway API are not among them: their reader compares them itself.
#[derive(Default)]
pub(super) struct These {
    /// The Ingresses that were added, replaced or removed.
    pub(super) ingresses: Vec<Replaced>,
    /// Each changed Ingress has the place of the one that it replaces, and all others have their places.
    pub(super) in_place: bool,
    /// The Services whose `EndpointSlice`s or `Endpoints` differ.
    pub(super) endpoints: Vec<NsName>,
    /// All other inputs.
    pub(super) others: Vec<Input>,
    /// Objects of the Gateway API exist or existed.
    pub(super) has_gateways: bool,
    /// The objects of the Gateway API are those of the previous translation.
    pub(super) has_same_gateways: bool,
}

/// An Ingress before and after a change.
pub(super) struct Replaced {
    /// None for an added Ingress.
    pub(super) old: Option<Arc<Sourced<Ingress>>>,
    /// None for a removed Ingress.
    pub(super) new: Option<Arc<Sourced<Ingress>>>,
}

/// The objects and options of the previous translation.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ingresses: Of<Ingress>,
    classes: Of<IngressClass>,
    configmaps: Of<ConfigMap>,
    secrets: Of<Secret>,
    services: Of<Service>,
    slices: Of<EndpointSlice>,
    endpoints: Of<Endpoints>,
    acme: Arc<Held>,
    has_gateways: bool,
    /// The versions of the stores of the Gateway API.
    gateways: Vec<Version>,
    rest: Option<Rest>,
}

/// The objects of a kind, in the order of their store.
#[derive(Debug)]
struct Of<T> {
    objects: Vec<Arc<Sourced<T>>>,
    /// The version of the store that has them; none before the first translation.
    version: Option<Version>,
}

/// The difference between two versions of a store.
struct Difference<T> {
    gone: Vec<Arc<Sourced<T>>>,
    come: Vec<Arc<Sourced<T>>>,
    /// Each object in `come` has the place and the name of the one in `gone`.
    in_place: bool,
}

#[derive(Debug, PartialEq)]
struct Rest {
    options: Options,
    namespaces: Option<BTreeSet<String>>,
    resolved: Resolved,
    now: i64,
}

impl These {
    /// Whether nothing but endpoints has changed.
    pub(super) fn is_of_endpoints(&self) -> bool {
        self.has_same_gateways && self.ingresses.is_empty() && self.others.is_empty()
    }
}

impl Seen {
    /// The inputs that differ from the previous translation. Of a store that knows the places of its changes,
    /// only these are compared, else all objects, by address. `Seen` holds
    /// the old objects, so that no new object can have the address of an old one.
    pub(super) fn changes(
        &mut self,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: i64,
    ) -> Changes {
        let of_ingresses = self.ingresses.follow(&index.ingresses);
        let mut these = These { in_place: of_ingresses.in_place, ..These::default() };
        let has_gateways = !index.gateway.is_empty();
        these.has_gateways = has_gateways || self.has_gateways;
        self.has_gateways = has_gateways;
        let versions = index.gateway.versions();
        these.has_same_gateways = self.gateways == versions;
        self.gateways = versions;
        let others = &mut these.others;
        self.classes.follow(&index.classes).each(|it| others.push(Input::Class(it.name().to_owned())));
        self.configmaps.follow(&index.configmaps).each(|it| {
            others.extend([Input::ConfigMap(it.key()), Input::ConfigMaps]);
        });
        self.secrets.follow(&index.secrets).each(|it| others.push(Input::Secret(it.key())));
        self.services.follow(&index.services).each(|it| others.push(Input::Service(it.key())));
        let of_endpoints = &mut these.endpoints;
        self.endpoints.follow(&index.endpoints).each(|it| of_endpoints.push(it.key()));
        self.slices.follow(&index.slices).each(|slice| {
            of_endpoints.extend(slice.service_name().map(|name| NsName::new(slice.namespace(), name)));
        });
        these.ingresses = of_ingresses.replaced();
        let changes = &mut these.others;
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
        Changes::These(these)
    }
}

impl<T> Default for Of<T> {
    fn default() -> Self {
        Self { objects: Vec::new(), version: None }
    }
}

impl<T: Resource> Of<T> {
    /// Replaces the objects by those of a store, and returns the difference.
    fn follow(&mut self, now: &Store<T>) -> Difference<T> {
        let mut difference = Difference { gone: Vec::new(), come: Vec::new(), in_place: true };
        if self.version.as_ref() == Some(now.version()) {
            return difference;
        }
        let changed = self.version.as_ref().and_then(|version| now.changed_since(version));
        self.version = Some(now.version().clone());
        let Difference { gone, come, in_place } = &mut difference;
        if self.objects.is_empty() {
            self.objects.reserve_exact(now.len());
        }
        let mut compare = |place: usize, object: &Arc<Sourced<T>>| match self.objects.get_mut(place) {
            Some(old) if Arc::ptr_eq(old, object) => {}
            Some(old) => {
                *in_place &= old.key() == object.key();
                gone.push(std::mem::replace(old, Arc::clone(object)));
                come.push(Arc::clone(object));
            }
            None => {
                *in_place = false;
                self.objects.push(Arc::clone(object));
                come.push(Arc::clone(object));
            }
        };
        match changed {
            Some(places) => {
                let objects = places.into_iter().filter_map(|place| Some((place, now.at(place)?)));
                objects.for_each(|(place, object)| compare(place, object));
            }
            None => now.iter().enumerate().for_each(|(place, object)| compare(place, object)),
        }
        *in_place &= now.len() == self.objects.len();
        gone.extend(self.objects.drain(now.len()..));
        if *in_place {
            return difference;
        }
        // An object that only changed its position is in both lists, and is not reported.
        let before: foldhash::HashSet<_> = gone.iter().map(Arc::as_ptr).collect();
        let now: foldhash::HashSet<_> = come.iter().map(Arc::as_ptr).collect();
        come.retain(|object| !before.contains(&Arc::as_ptr(object)));
        gone.retain(|object| !now.contains(&Arc::as_ptr(object)));
        difference
    }
}

impl<T: Resource> Difference<T> {
    /// Calls a function for each object that was added or removed.
    fn each(&self, differs: impl FnMut(&Arc<Sourced<T>>)) {
        self.come.iter().chain(&self.gone).for_each(differs);
    }
}

impl Difference<Ingress> {
    /// The objects by name.
    fn replaced(self) -> Vec<Replaced> {
        let mut gone: HashMap<NsName, _> = self.gone.into_iter().map(|old| (old.key(), old)).collect();
        let pair = |new: Arc<Sourced<Ingress>>| {
            let old = if gone.is_empty() { None } else { gone.remove(&new.key()) };
            Replaced { old, new: Some(new) }
        };
        let mut replaced: Vec<_> = self.come.into_iter().map(pair).collect();
        replaced.extend(gone.into_values().map(|old| Replaced { old: Some(old), new: None }));
        replaced
    }
}
