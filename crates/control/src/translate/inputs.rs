//! The inputs of translation. A query that reads an input depends on it, even if the object does not exist.
//!
//! Never in here: the use of an input.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::memo::{Node, Numbers, Revisions};
use crate::acme::HostState;
use crate::index::{GatewayStores, Index};
use crate::names::NsName;
use crate::objects::{ConfigMap, EndpointSlice, Endpoints, Ingress, IngressClass, Secret, Service, Sourced};
use crate::options::Options;
use crate::resolve::Resolved;

/// An input of translation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Class(String),
    ConfigMap(NsName),
    /// The set of all `ConfigMap`s.
    ConfigMaps,
    Secret(NsName),
    /// A Service, its `EndpointSlice`s and `Endpoints`.
    Service(NsName),
    /// The addresses of an external name.
    Name(String),
    /// The certificate that is obtained for a host.
    Acme(String),
}

/// The inputs on which queries depend, stored from one translation to the next.
#[derive(Debug, Default)]
pub(super) struct KnownInputs {
    numbers: Numbers<Input>,
    /// The external names among the inputs.
    names: BTreeSet<String>,
}

/// The inputs of one translation.
pub(super) struct Inputs<'a> {
    index: &'a Index,
    pub(super) options: &'a Options,
    resolved: &'a Resolved,
    /// Seconds since 1970.
    pub(super) now: i64,
    /// Names outside the cluster are treated as if they had no IPv6 addresses.
    leaves_out_ipv6: Cell<bool>,
    known: RefCell<&'a mut KnownInputs>,
    revisions: &'a Revisions,
}

impl KnownInputs {
    /// Records that an input differs from the previous revision.
    pub(super) fn note_change(&self, input: &Input, revisions: &Revisions) {
        if let Some(number) = self.numbers.find(input) {
            revisions.note_change(self.numbers.node(number));
        }
    }

    /// The node of an input; none if nothing depends on the input.
    pub(super) fn node(&self, input: &Input) -> Option<Node> {
        self.numbers.find(input).map(|number| self.numbers.node(number))
    }

    /// Removes the inputs on which nothing depends.
    pub(super) fn sweep(&mut self, revisions: &Revisions) {
        let Self { numbers, names } = self;
        numbers.sweep(revisions, |_, input| {
            if let Input::Name(name) = input {
                names.remove(&name);
            }
        });
    }

    /// The external names on whose addresses a query depends.
    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }
}

impl<'a> Inputs<'a> {
    pub(super) fn new(
        index: &'a Index,
        options: &'a Options,
        resolved: &'a Resolved,
        now: i64,
        known: &'a mut KnownInputs,
        revisions: &'a Revisions,
    ) -> Self {
        let leaves_out_ipv6 = Cell::new(false);
        Self { index, options, resolved, now, leaves_out_ipv6, known: RefCell::new(known), revisions }
    }

    /// Applies the settings about names, once they have been read. If they change, all values are made again.
    pub(super) fn leave_out_ipv6(&self, leaves_out: bool) {
        self.leaves_out_ipv6.set(leaves_out);
    }

    /// All Ingresses. They are not an input: each Ingress is the key of its own query.
    pub(super) fn ingresses(&self) -> impl Iterator<Item = &'a Arc<Sourced<Ingress>>> {
        self.index.ingresses.iter()
    }

    /// The objects of the Gateway API. They are not an input: their reader compares them itself.
    pub(super) fn gateway(&self) -> &'a GatewayStores {
        &self.index.gateway
    }

    /// Whether the Ingresses of a namespace are served.
    pub(super) fn serves(&self, namespace: &str) -> bool {
        self.index.namespaces.as_ref().is_none_or(|selected| selected.contains(namespace))
            && self.options.watch_namespace.as_ref().is_none_or(|only| only == namespace)
    }

    pub(super) fn class(&self, name: &str) -> Option<&'a Sourced<IngressClass>> {
        self.read(Input::Class(name.to_owned()));
        self.index.classes.get(&NsName::new("", name))
    }

    pub(super) fn configmap(&self, name: &NsName) -> Option<&'a Sourced<ConfigMap>> {
        self.read(Input::ConfigMap(name.clone()));
        self.index.configmaps.get(name)
    }

    pub(super) fn configmaps(&self) -> impl Iterator<Item = &'a Sourced<ConfigMap>> {
        self.read(Input::ConfigMaps);
        self.index.configmaps.iter().map(|configmap| &**configmap)
    }

    pub(super) fn secret(&self, name: &NsName) -> Option<&'a Sourced<Secret>> {
        self.read(Input::Secret(name.clone()));
        self.index.secrets.get(name)
    }

    pub(super) fn service(&self, name: &NsName) -> Option<&'a Sourced<Service>> {
        self.read(Input::Service(name.clone()));
        self.index.services.get(name)
    }

    pub(super) fn slices(&self, service: &NsName) -> &'a [Arc<Sourced<EndpointSlice>>] {
        self.read(Input::Service(service.clone()));
        self.index.slices_of(service)
    }

    pub(super) fn endpoints(&self, service: &NsName) -> Option<&'a Sourced<Endpoints>> {
        self.read(Input::Service(service.clone()));
        self.index.endpoints.get(service)
    }

    /// The addresses of an external name; none while it is being resolved.
    pub(super) fn addresses(&self, name: &str) -> Option<Result<Vec<IpAddr>, &'a str>> {
        self.read(Input::Name(name.to_owned()));
        let is_used = |address: &IpAddr| address.is_ipv4() || !self.leaves_out_ipv6.get();
        let resolved = self.resolved.get(name)?.as_ref();
        Some(resolved.map(|all| all.iter().copied().filter(is_used).collect()).map_err(String::as_str))
    }

    /// The state of the certificate that is obtained for a host; none before there is anything.
    pub(super) fn acme(&self, host: &str) -> Option<Arc<HostState>> {
        self.read(Input::Acme(host.to_owned()));
        self.options.acme.held().get(host).cloned()
    }

    /// Records that the current query has another value from this second since 1970 on, if the second is in
    /// the future.
    pub(super) fn note_turn(&self, second: i64) {
        self.revisions.note_turn(second);
    }

    fn read(&self, input: Input) {
        let KnownInputs { numbers, names } = &mut **self.known.borrow_mut();
        if let Input::Name(name) = &input
            && !names.contains(name)
        {
            names.insert(name.clone());
        }
        let number = numbers.number(input, self.revisions);
        self.revisions.read(numbers.node(number));
    }
}
