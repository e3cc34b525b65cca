//! The objects of all sources, by kind and name.
//!
//! Never in here: async, IO, or the meaning of objects.

mod gateway_api;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;
use indexmap::{Equivalent, IndexSet};

use crate::names::NsName;
use crate::objects::{
    ConfigMap, EndpointSlice, Endpoints, Ingress, IngressClass, Object, Resource, Secret, Service, Sourced,
};
use crate::problem::{Problem, Reason, Severity};

pub use gateway_api::GatewayStores;

/// Objects by kind, namespace and name. They stay in the order in which they were added until an object is
/// removed; this order replaces the age of objects without a creation time. Objects are shared, so that a new
/// index of the same objects copies only pointers.
#[derive(Debug, Default)]
pub struct Index {
    /// Ingresses of all classes, including those of other controllers.
    pub ingresses: Store<Ingress>,
    /// The known `IngressClass`es.
    pub classes: Store<IngressClass>,
    /// The known Services.
    pub services: Store<Service>,
    /// The `EndpointSlice`s of all Services.
    pub slices: Store<EndpointSlice>,
    /// The `Endpoints` of all Services.
    pub endpoints: Store<Endpoints>,
    /// The `ConfigMap`s that settings and references name.
    pub configmaps: Store<ConfigMap>,
    /// The Secrets that other objects name.
    pub secrets: Store<Secret>,
    /// The namespaces whose Ingresses are served; none for all namespaces.
    pub namespaces: Option<BTreeSet<String>>,
    /// The objects of the Gateway API, and the Namespaces.
    pub gateway: GatewayStores,
    slices_by_service: HashMap<NsName, Vec<Arc<Sourced<EndpointSlice>>>, FixedState>,
}

impl Index {
    /// Builds an index, and returns a problem for each object that occurs twice.
    pub fn build<'a>(objects: impl IntoIterator<Item = &'a Object>) -> (Self, Vec<Problem>) {
        let mut index = Self::default();
        let problems = objects
            .into_iter()
            .filter_map(|object| index.add(object).err())
            .map(|problem| *problem)
            .collect();
        index.ingresses.objects.shrink_to_fit();
        index.services.objects.shrink_to_fit();
        index.slices.objects.shrink_to_fit();
        (index, problems)
    }

    /// Adds an object. If an object with the same kind, namespace and name exists, the first one stays.
    ///
    /// # Errors
    ///
    /// When an object of that kind, namespace and name exists already. The problem names the place of both.
    pub fn add(&mut self, object: &Object) -> Result<(), Box<Problem>> {
        match object {
            Object::Ingress(object) => self.ingresses.add(object),
            Object::IngressClass(object) => self.classes.add(object),
            Object::Service(object) => self.services.add(object),
            Object::Endpoints(object) => self.endpoints.add(object),
            Object::ConfigMap(object) => self.configmaps.add(object),
            Object::Secret(object) => self.secrets.add(object),
            Object::EndpointSlice(object) => {
                self.slices.add(object)?;
                self.attach(object);
                Ok(())
            }
            other => self.gateway.add(other),
        }
    }

    /// Replaces the object with the same kind, namespace and name, or adds it. Returns whether the object
    /// differs from the old one; the status of an Ingress is not compared.
    pub fn apply(&mut self, object: &Object) -> bool {
        match object {
            Object::Ingress(object) => {
                self.ingresses.apply(object).is_none_or(|old| !old.object.asks_for_the_same(&object.object))
            }
            Object::IngressClass(object) => self.classes.replace(object),
            Object::Service(object) => self.services.replace(object),
            Object::Endpoints(object) => self.endpoints.replace(object),
            Object::ConfigMap(object) => self.configmaps.replace(object),
            Object::Secret(object) => self.secrets.replace(object),
            Object::EndpointSlice(object) => {
                let old = self.slices.shared(&object.key()).cloned();
                if old.as_ref().is_some_and(|old| **old == **object) {
                    return false;
                }
                if let Some(old) = &old {
                    self.detach(old);
                }
                self.slices.apply(object);
                self.attach(object);
                true
            }
            other => self.gateway.replace(other),
        }
    }

    /// Removes an object. Returns whether the object existed.
    pub fn remove(&mut self, kind: &str, key: &NsName) -> bool {
        match kind {
            Ingress::KIND => self.ingresses.remove(key).is_some(),
            IngressClass::KIND => self.classes.remove(key).is_some(),
            Service::KIND => self.services.remove(key).is_some(),
            Endpoints::KIND => self.endpoints.remove(key).is_some(),
            ConfigMap::KIND => self.configmaps.remove(key).is_some(),
            Secret::KIND => self.secrets.remove(key).is_some(),
            EndpointSlice::KIND => {
                let old = self.slices.remove(key);
                if let Some(old) = &old {
                    self.detach(old);
                }
                old.is_some()
            }
            _ => self.gateway.remove(kind, key),
        }
    }

    /// The slices of a Service, sorted by name.
    pub fn slices_of(&self, service: &NsName) -> &[Arc<Sourced<EndpointSlice>>] {
        self.slices_by_service.get(service).map_or(&[], Vec::as_slice)
    }

    /// Every object of every kind.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        let ingresses = self.ingresses.iter().cloned().map(Object::Ingress);
        ingresses
            .chain(self.classes.iter().cloned().map(Object::IngressClass))
            .chain(self.services.iter().cloned().map(Object::Service))
            .chain(self.slices.iter().cloned().map(Object::EndpointSlice))
            .chain(self.endpoints.iter().cloned().map(Object::Endpoints))
            .chain(self.configmaps.iter().cloned().map(Object::ConfigMap))
            .chain(self.secrets.iter().cloned().map(Object::Secret))
            .chain(self.gateway.objects())
    }

    fn attach(&mut self, slice: &Arc<Sourced<EndpointSlice>>) {
        if let Some(service) = slice.service_name() {
            let siblings = self.slices_by_service.entry(NsName::new(slice.namespace(), service)).or_default();
            let place = siblings.partition_point(|sibling| sibling.name() < slice.name());
            siblings.insert(place, Arc::clone(slice));
        }
    }

    fn detach(&mut self, slice: &Sourced<EndpointSlice>) {
        let Some(service) = slice.service_name() else { return };
        let service = NsName::new(slice.namespace(), service);
        if let Some(siblings) = self.slices_by_service.get_mut(&service) {
            siblings.retain(|sibling| sibling.name() != slice.name());
            if siblings.is_empty() {
                self.slices_by_service.remove(&service);
            }
        }
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Store<T: Resource> {
    objects: IndexSet<ByName<T>, FixedState>,
    version: Version,
    /// The places of the last changes in the order of the objects, the oldest change first.
    changed: VecDeque<u32>,
}

/// The number of changes whose places a [`Store`] knows.
const CHANGES_KNOWN: usize = 1024;

/// A state of a [`Store`]: another one after each change. Two stores never have the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    store: Arc<()>,
    /// The number of changes since the store was made.
    changes: u64,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store) && self.changes == other.changes
    }
}

/// An object, hashed and compared by its namespace and name.
#[derive(Debug)]
struct ByName<T>(Arc<Sourced<T>>);

impl<T: Resource> Default for Store<T> {
    fn default() -> Self {
        Self { objects: IndexSet::default(), version: Version::default(), changed: VecDeque::new() }
    }
}

impl<T: Resource> Store<T> {
    /// The object with this name.
    pub fn get(&self, name: &NsName) -> Option<&Sourced<T>> {
        self.shared(name).map(|object| &**object)
    }

    /// The object with this name, as a shared pointer.
    pub fn shared(&self, name: &NsName) -> Option<&Arc<Sourced<T>>> {
        self.objects.get(name).map(|ByName(object)| object)
    }

    /// Whether the store has no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects of the kind, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Sourced<T>>> {
        self.objects.iter().map(|ByName(object)| object)
    }

    /// The place of an object in the order; none for an object that is not in the store.
    pub(crate) fn place(&self, object: &Arc<Sourced<T>>) -> Option<usize> {
        self.objects.get_index_of(&ByName(Arc::clone(object)))
    }

    /// The version of the objects: while it is the same, so are they.
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The object at a place in the order; none beyond the end.
    pub(crate) fn at(&self, place: usize) -> Option<&Arc<Sourced<T>>> {
        self.objects.get_index(place).map(|ByName(object)| object)
    }

    /// The places at which objects may differ from those of an earlier version, in ascending order. None for
    /// a version of another store, and after too many changes.
    pub(crate) fn changed_since(&self, version: &Version) -> Option<Vec<usize>> {
        if !Arc::ptr_eq(&self.version.store, &version.store) {
            return None;
        }
        let count = usize::try_from(self.version.changes.checked_sub(version.changes)?).ok()?;
        let first = self.changed.len().checked_sub(count)?;
        let mut places: Vec<_> = self.changed.range(first..).map(|&place| place as usize).collect();
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    fn note_change(&mut self, place: usize) {
        self.version.changes += 1;
        if self.changed.len() == CHANGES_KNOWN {
            self.changed.pop_front();
        }
        self.changed.push_back(place as u32);
    }

    fn add(&mut self, object: &Arc<Sourced<T>>) -> Result<(), Box<Problem>> {
        let object = ByName(Arc::clone(object));
        if let Some(ByName(first)) = self.objects.get(&object) {
            return Err(Box::new(duplicate(first, &object.0)));
        }
        let (place, _) = self.objects.insert_full(object);
        self.note_change(place);
        Ok(())
    }

    /// Adds an object, or replaces the object with the same name and returns the old one.
    fn apply(&mut self, object: &Arc<Sourced<T>>) -> Option<Arc<Sourced<T>>> {
        let (place, old) = self.objects.replace_full(ByName(Arc::clone(object)));
        self.note_change(place);
        old.map(|ByName(old)| old)
    }

    /// Adds or replaces an object as [`apply`](Self::apply) does, but returns whether it differs from the old
    /// one.
    fn replace(&mut self, object: &Arc<Sourced<T>>) -> bool
    where
        T: PartialEq,
    {
        // The pointer of an unchanged object stays the same: the caches of the translation identify objects
        // by address.
        let is_same = self.shared(&object.key()).is_some_and(|old| **old == **object);
        if !is_same {
            self.apply(object);
        }
        !is_same
    }

    fn remove(&mut self, name: &NsName) -> Option<Arc<Sourced<T>>> {
        // The last object takes the place of the removed one.
        let (place, ByName(object)) = self.objects.swap_remove_full(name)?;
        self.note_change(place);
        Some(object)
    }
}

impl<T: Resource> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.0.namespace(), self.0.name()) == (other.0.namespace(), other.0.name())
    }
}

impl<T: Resource> Eq for ByName<T> {}

impl<T: Resource> Hash for ByName<T> {
    /// The hash has to equal that of its [`NsName`], because objects are looked up by name.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.namespace().hash(state);
        self.0.name().hash(state);
    }
}

impl<T: Resource> Equivalent<ByName<T>> for NsName {
    fn equivalent(&self, object: &ByName<T>) -> bool {
        (object.0.namespace(), object.0.name()) == (&self.namespace, &self.name)
    }
}

fn duplicate<T: Resource>(first: &Sourced<T>, second: &Sourced<T>) -> Problem {
    let place = first.origin.file.as_ref().map_or_else(
        || "elsewhere".to_owned(),
        |file| format!("at {}:{}", file.display(), first.origin.line),
    );
    let message = format!("is defined {place} already; this definition is ignored");
    Problem::of(Severity::Warning, second, message).because(Reason::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Map, Metadata, Origin};

    fn slice(name: &str, service: &str) -> Object {
        let mut labels = Map::default();
        labels.insert("kubernetes.io/service-name", service.to_owned());
        let metadata = Metadata::labelled(name.into(), labels);
        let object = EndpointSlice { metadata, address_type: None, endpoints: Vec::new(), ports: Vec::new() };
        Object::EndpointSlice(Arc::new(Sourced { origin: Origin::default(), object }))
    }

    fn names(index: &Index, service: &str) -> Vec<String> {
        let service = NsName::new("default", service);
        index.slices_of(&service).iter().map(|slice| slice.name().to_owned()).collect()
    }

    #[test]
    fn a_version_differs_in_the_places_of_the_changes_since() {
        let mut index = Index::default();
        for name in ["a", "b", "c", "d"] {
            index.apply(&slice(name, "web"));
        }
        let (first, others) = (index.slices.version().clone(), Index::default());
        assert_eq!(index.slices.changed_since(&first), Some(Vec::new()));
        index.apply(&slice("d", "api"));
        index.remove(EndpointSlice::KIND, &NsName::new("default", "b"));
        index.apply(&slice("e", "web"));
        assert_eq!(index.slices.changed_since(&first), Some(vec![1, 3]));
        assert_eq!(index.slices.at(1).map(|slice| slice.name()), Some("d"), "it has taken the place of b");
        assert_eq!(others.slices.changed_since(&first), None, "a version of another store");
        for round in 0..CHANGES_KNOWN {
            index.apply(&slice("a", &format!("s{round}")));
        }
        assert_eq!(index.slices.changed_since(&first), None, "too many changes");
    }

    #[test]
    fn a_slice_that_changes_its_service_leaves_the_old_one() {
        let mut index = Index::default();
        assert!(index.apply(&slice("a", "web")));
        assert!(index.apply(&slice("b", "web")));
        assert!(!index.apply(&slice("a", "web")), "nothing changed");
        assert_eq!(names(&index, "web"), ["a", "b"]);
        assert!(index.apply(&slice("a", "api")));
        assert_eq!((names(&index, "web"), names(&index, "api")), (vec!["b".into()], vec!["a".into()]));
        assert!(index.remove(EndpointSlice::KIND, &NsName::new("default", "b")));
        assert!(!index.remove(EndpointSlice::KIND, &NsName::new("default", "b")));
        assert_eq!(names(&index, "web"), [""; 0]);
    }
}
