//! The objects of all sources, by kind and name.
//!
//! Never in here: async, IO, or what objects mean.

use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;
use indexmap::{Equivalent, IndexSet};

use crate::names::NsName;
use crate::objects::{
    ConfigMap, EndpointSlice, Endpoints, Ingress, IngressClass, Object, Resource, Secret, Service, Sourced,
};
use crate::problem::{Problem, Reason, Severity};

/// Objects by kind, namespace and name.
///
/// The order in which objects are added is kept until one goes, and stands for their age where they do not tell it. Objects
/// are shared: building a new index from the same objects costs pointers.
#[derive(Debug, Default)]
pub struct Index {
    /// Ingresses.
    pub ingresses: Store<Ingress>,
    /// Ingress classes.
    pub classes: Store<IngressClass>,
    /// Services.
    pub services: Store<Service>,
    /// Endpoint slices.
    pub slices: Store<EndpointSlice>,
    /// Endpoints.
    pub endpoints: Store<Endpoints>,
    /// Config maps.
    pub configmaps: Store<ConfigMap>,
    /// Secrets.
    pub secrets: Store<Secret>,
    /// The namespaces whose Ingresses are served; none for all.
    pub namespaces: Option<BTreeSet<String>>,
    slices_by_service: HashMap<NsName, Vec<Arc<Sourced<EndpointSlice>>>, FixedState>,
}

impl Index {
    /// An index of the given objects, and what is wrong with them as a whole.
    pub fn build<'a>(objects: impl IntoIterator<Item = &'a Object>) -> (Self, Vec<Problem>) {
        let mut index = Self::default();
        let problems = objects
            .into_iter()
            .filter_map(|object| index.add(object).err())
            .map(|problem| *problem)
            .collect();
        (index, problems)
    }

    /// Adds an object. Of two with the same kind, namespace and name the first stays.
    ///
    /// # Errors
    ///
    /// When there is an object of that kind, namespace and name already. The problem says where.
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
        }
    }

    /// Puts an object in place of the one with the same kind, namespace and name. Tells whether it differs from that one; its
    /// status does not count.
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
        }
    }

    /// Removes an object. Tells whether it was there.
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
            _ => false,
        }
    }

    /// The slices of a Service, by name.
    pub fn slices_of(&self, service: &NsName) -> &[Arc<Sourced<EndpointSlice>>] {
        self.slices_by_service.get(service).map_or(&[], Vec::as_slice)
    }

    /// Every object.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        let ingresses = self.ingresses.iter().cloned().map(Object::Ingress);
        ingresses
            .chain(self.classes.iter().cloned().map(Object::IngressClass))
            .chain(self.services.iter().cloned().map(Object::Service))
            .chain(self.slices.iter().cloned().map(Object::EndpointSlice))
            .chain(self.endpoints.iter().cloned().map(Object::Endpoints))
            .chain(self.configmaps.iter().cloned().map(Object::ConfigMap))
            .chain(self.secrets.iter().cloned().map(Object::Secret))
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
pub struct Store<T: Resource>(IndexSet<ByName<T>, FixedState>);

/// An object, known by its namespace and name.
#[derive(Debug)]
struct ByName<T>(Arc<Sourced<T>>);

impl<T: Resource> Default for Store<T> {
    fn default() -> Self {
        Self(IndexSet::default())
    }
}

impl<T: Resource> Store<T> {
    /// The object of a name.
    pub fn get(&self, name: &NsName) -> Option<&Sourced<T>> {
        self.shared(name).map(|object| &**object)
    }

    /// The same, to be kept.
    pub fn shared(&self, name: &NsName) -> Option<&Arc<Sourced<T>>> {
        self.0.get(name).map(|ByName(object)| object)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Sourced<T>>> {
        self.0.iter().map(|ByName(object)| object)
    }

    fn add(&mut self, object: &Arc<Sourced<T>>) -> Result<(), Box<Problem>> {
        let object = ByName(Arc::clone(object));
        if let Some(ByName(first)) = self.0.get(&object) {
            return Err(Box::new(duplicate(first, &object.0)));
        }
        self.0.insert(object);
        Ok(())
    }

    /// Puts an object in place of another of the same name, which is given back.
    fn apply(&mut self, object: &Arc<Sourced<T>>) -> Option<Arc<Sourced<T>>> {
        self.0.replace(ByName(Arc::clone(object))).map(|ByName(old)| old)
    }

    /// The same; tells whether the two differ.
    fn replace(&mut self, object: &Arc<Sourced<T>>) -> bool
    where
        T: PartialEq,
    {
        // The pointer stays with an object that does not change: what has been made of it is known by it.
        let is_same = self.shared(&object.key()).is_some_and(|old| **old == **object);
        if !is_same {
            self.apply(object);
        }
        !is_same
    }

    fn remove(&mut self, name: &NsName) -> Option<Arc<Sourced<T>>> {
        self.0.swap_take(name).map(|ByName(object)| object)
    }
}

impl<T: Resource> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.0.namespace(), self.0.name()) == (other.0.namespace(), other.0.name())
    }
}

impl<T: Resource> Eq for ByName<T> {}

impl<T: Resource> Hash for ByName<T> {
    /// As that of its [`NsName`].
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
    let message = format!("is defined {place} already; this definition is left out");
    Problem::of(Severity::Warning, second, message).because(Reason::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Metadata, Origin};

    fn slice(name: &str, service: &str) -> Object {
        let mut metadata = Metadata { name: name.to_owned(), ..Metadata::default() };
        metadata.labels.insert("kubernetes.io/service-name", service.to_owned());
        let object = EndpointSlice { metadata, address_type: None, endpoints: Vec::new(), ports: Vec::new() };
        Object::EndpointSlice(Arc::new(Sourced { origin: Origin::default(), object }))
    }

    fn names(index: &Index, service: &str) -> Vec<String> {
        let service = NsName::new("default", service);
        index.slices_of(&service).iter().map(|slice| slice.name().to_owned()).collect()
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
