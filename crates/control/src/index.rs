//! The objects of all sources, by kind and name, in the order in which they appear.
//!
//! Never in here: async, IO, or what objects mean.

use std::collections::HashMap;
use std::sync::Arc;

use crate::objects::{
    ConfigMap, EndpointSlice, Endpoints, Ingress, IngressClass, Object, Resource, Secret, Service, Sourced,
};
use crate::options::NsName;
use crate::problem::{Problem, Severity};

/// Objects by kind, namespace and name.
///
/// The order in which objects are added is kept, and stands for their age where they do not tell it. Objects are shared:
/// building a new index from the same objects costs pointers.
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
    slices_by_service: HashMap<NsName, Vec<Arc<Sourced<EndpointSlice>>>>,
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
                if let Some(service) = object.service_name() {
                    let service = NsName::new(object.namespace(), service);
                    self.slices_by_service.entry(service).or_default().push(Arc::clone(object));
                }
                Ok(())
            }
        }
    }

    /// The slices of a Service.
    pub fn slices_of(&self, service: &NsName) -> &[Arc<Sourced<EndpointSlice>>] {
        self.slices_by_service.get(service).map_or(&[], Vec::as_slice)
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Store<T> {
    objects: Vec<Arc<Sourced<T>>>,
    by_name: HashMap<NsName, usize>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { objects: Vec::new(), by_name: HashMap::new() }
    }
}

impl<T: Resource> Store<T> {
    /// The object of a name.
    pub fn get(&self, name: &NsName) -> Option<&Sourced<T>> {
        self.by_name.get(name).map(|&at| &*self.objects[at])
    }

    /// All objects, in order of appearance.
    pub fn iter(&self) -> impl Iterator<Item = &Sourced<T>> {
        self.objects.iter().map(|object| &**object)
    }

    fn add(&mut self, object: &Arc<Sourced<T>>) -> Result<(), Box<Problem>> {
        let key = object.key();
        if let Some(first) = self.get(&key) {
            return Err(Box::new(duplicate(first, object)));
        }
        self.by_name.insert(key, self.objects.len());
        self.objects.push(Arc::clone(object));
        Ok(())
    }
}

fn duplicate<T: Resource>(first: &Sourced<T>, second: &Sourced<T>) -> Problem {
    let place = first.origin.file.as_ref().map_or_else(
        || "elsewhere".to_owned(),
        |file| format!("at {}:{}", file.display(), first.origin.line),
    );
    let message = format!("is defined {place} already; this definition is left out");
    Problem::of(Severity::Warning, second, message)
}
