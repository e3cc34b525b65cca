//! The clusters behind backends: which addresses a Service's port stands for.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use model::{Cluster, ClusterId, Endpoint, EndpointState};

use super::policy::Policy;
use crate::index::Index;
use crate::objects::{
    Conditions, EndpointPort, EndpointSlice, EndpointSubset, PortRef, Service, ServicePort, Sourced,
};
use crate::options::{NsName, Options};
use crate::problem::{Problem, Severity};
use crate::resolve::{Resolved, is_forbidden};

/// Makes clusters as they are asked for.
pub(super) struct Clusters<'a> {
    sources: Sources<'a>,
    known: HashMap<(NsName, PortRef), (ClusterId, Option<String>)>,
    built: Built,
}

/// What was made.
#[derive(Default)]
pub(super) struct Built {
    pub(super) clusters: Vec<Cluster>,
    /// Names whose addresses are needed.
    pub(super) names: BTreeSet<String>,
    /// What is wrong with Services, whoever asks for them.
    pub(super) problems: Vec<Problem>,
}

/// What tells where a Service's Pods are.
struct Sources<'a> {
    index: &'a Index,
    options: &'a Options,
    resolved: &'a Resolved,
}

/// Endpoints, or why there are none.
enum Found {
    Endpoints(Vec<Endpoint>),
    /// The asker is at fault: what it names is not there.
    Nothing(String),
    /// The Service is at fault.
    Faulty(Severity, String),
    /// An outside name, whose addresses are still being looked up or not to be had.
    Name(String, Option<Problem>, Vec<Endpoint>),
}

impl<'a> Clusters<'a> {
    pub(super) fn new(index: &'a Index, options: &'a Options, resolved: &'a Resolved) -> Self {
        Self { sources: Sources { index, options, resolved }, known: HashMap::new(), built: Built::default() }
    }

    /// The cluster of a Service's port, and what is wrong with asking for it. There is a cluster in any case: without
    /// endpoints, it answers 503.
    ///
    /// "Upstreams are keyed `namespace-service-port`. Upstream-level settings come from the FIRST Ingress that references
    /// that Service port."
    pub(super) fn get(
        &mut self,
        name: &NsName,
        port: &PortRef,
        policy: &Policy,
    ) -> (ClusterId, Option<String>) {
        let key = (name.clone(), port.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let id = ClusterId(self.built.clusters.len() as u32);
        let found = self.sources.find(name, port, policy.service_upstream);
        let (endpoints, fault) = self.note(name, found);
        self.built.clusters.push(Cluster {
            name: format!("{}-{}-{port}", name.namespace, name.name),
            balance: policy.balance,
            endpoints,
            ..Cluster::default()
        });
        self.known.insert(key, (id, fault.clone()));
        (id, fault)
    }

    /// The first port of a Service, as a backend would name it.
    pub(super) fn first_port(&self, name: &NsName) -> Option<PortRef> {
        let service = self.sources.index.services.get(name)?;
        service.spec.ports.first().map(|port| PortRef::Number(port.port))
    }

    pub(super) fn finish(self) -> Built {
        self.built
    }

    fn note(&mut self, name: &NsName, found: Found) -> (Vec<Endpoint>, Option<String>) {
        match found {
            Found::Endpoints(endpoints) => (endpoints, None),
            Found::Nothing(fault) => (Vec::new(), Some(fault)),
            Found::Faulty(severity, message) => {
                let service = self.sources.index.services.get(name);
                self.built.problems.extend(service.map(|service| Problem::of(severity, service, message)));
                (Vec::new(), None)
            }
            Found::Name(name, problem, endpoints) => {
                self.built.names.insert(name);
                self.built.problems.extend(problem);
                (endpoints, None)
            }
        }
    }
}

// === impl Sources ===

impl Sources<'_> {
    fn find(&self, name: &NsName, wanted: &PortRef, by_virtual_address: bool) -> Found {
        let Some(service) = self.index.services.get(name) else {
            // Who tells where the Pods are need not write a Service for it.
            return self.overridden(name, wanted, None).map_or_else(
                || Found::Nothing(format!("Service {name} is missing: requests are answered 503")),
                Found::Endpoints,
            );
        };
        if service.is_external() {
            return self.outside(service, wanted);
        }
        let Some(port) = service.port(wanted) else {
            return Found::Nothing(format!(
                "Service {name} has no port {wanted} (it has {}): requests are answered 503",
                ports(service)
            ));
        };
        if by_virtual_address && let Some(address) = virtual_address(service, port) {
            return Found::Endpoints(vec![ready(address)]);
        }
        match self.pods(name, port).or_else(|| self.overridden(name, wanted, Some(service))) {
            Some(endpoints) if endpoints.is_empty() => Found::Faulty(
                Severity::Warning,
                format!("has no ready endpoints at port {wanted}: requests are answered 503"),
            ),
            Some(endpoints) => Found::Endpoints(endpoints),
            None => Found::Faulty(
                Severity::Notice,
                format!(
                    "nothing says where its Pods are; give an EndpointSlice, or --endpoints {name}=HOST:PORT"
                ),
            ),
        }
    }

    /// What `EndpointSlice`s say, or else `Endpoints`; nothing if there are none of either.
    fn pods(&self, name: &NsName, port: &ServicePort) -> Option<Vec<Endpoint>> {
        let slices = self.index.slices_of(name);
        if !slices.is_empty() {
            return Some(distinct(slices.iter().flat_map(|slice| of_slice(slice, port)).collect()));
        }
        let subsets = &self.index.endpoints.get(name)?.subsets;
        Some(distinct(subsets.iter().flat_map(|subset| of_subset(subset, port)).collect()))
    }

    /// What `--endpoints` says.
    fn overridden(
        &self,
        name: &NsName,
        wanted: &PortRef,
        service: Option<&Service>,
    ) -> Option<Vec<Endpoint>> {
        let is_same = |given: &PortRef| {
            given == wanted
                || service.is_some_and(|service| {
                    let (given, wanted) = (service.port(given), service.port(wanted));
                    given.is_some() && given == wanted
                })
        };
        let applies = self
            .options
            .endpoints
            .iter()
            .filter(|entry| entry.service == *name && entry.port.as_ref().is_none_or(is_same));
        let endpoints: Vec<_> = applies.flat_map(|entry| &entry.addresses).copied().map(ready).collect();
        (!endpoints.is_empty()).then(|| distinct(endpoints))
    }

    /// "`ExternalName` resolved by DNS; `localhost`/IP-like names in `ExternalName` refused."
    fn outside(&self, service: &Sourced<Service>, wanted: &PortRef) -> Found {
        let Some(name) = &service.spec.external_name else {
            return Found::Faulty(
                Severity::Error,
                "is of type ExternalName and has no externalName".to_owned(),
            );
        };
        let Some(number) = outside_port(service, wanted) else {
            return Found::Nothing(format!("Service {} has no port {wanted} with a number", service.key()));
        };
        let host = name.value.trim_end_matches('.').to_ascii_lowercase();
        if is_forbidden(&host) {
            let message = format!("externalName {host:?} is refused: it is no name outside the cluster");
            return Found::Faulty(Severity::Error, message);
        }
        match self.resolved.get(&host) {
            None => Found::Name(host, None, Vec::new()),
            Some(Ok(addresses)) => {
                let endpoints = addresses.iter().map(|&ip| ready(SocketAddr::new(ip, number))).collect();
                Found::Name(host, None, distinct(endpoints))
            }
            Some(Err(why)) => {
                let message = format!("externalName {host:?} has no address: {why}");
                let problem = Problem::at(Severity::Warning, service, name, message);
                Found::Name(host, Some(problem), Vec::new())
            }
        }
    }
}

fn of_slice(slice: &EndpointSlice, port: &ServicePort) -> Vec<Endpoint> {
    let state = |conditions: Conditions| match conditions {
        _ if conditions.is_ready() => Some(EndpointState::Ready),
        _ if conditions.is_draining() => Some(EndpointState::Draining),
        _ => None,
    };
    let mut endpoints = Vec::new();
    for number in numbers(&slice.ports, port) {
        endpoints.extend(slice.endpoints.iter().filter_map(|endpoint| {
            let state = state(endpoint.conditions)?;
            // "Consumers should only use the first"; one that is a name (addressType FQDN) is nothing to connect to.
            let ip = endpoint.addresses.first()?.parse::<IpAddr>().ok()?;
            Some(Endpoint { address: SocketAddr::new(ip, number), state })
        }));
    }
    endpoints
}

fn of_subset(subset: &EndpointSubset, port: &ServicePort) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for number in numbers(&subset.ports, port) {
        let addresses = subset.addresses.iter().filter_map(|address| address.ip.parse::<IpAddr>().ok());
        endpoints.extend(addresses.map(|ip| ready(SocketAddr::new(ip, number))));
    }
    endpoints
}

/// An outside Service need not list its ports: the number that a backend names is the port there.
fn outside_port(service: &Service, wanted: &PortRef) -> Option<u16> {
    let port = service.port(wanted);
    match (port.and_then(|port| port.target_port.as_ref()), port, wanted) {
        (Some(PortRef::Number(number)), ..) => Some(*number),
        (None, Some(port), _) => Some(port.port),
        (None, None, PortRef::Number(number)) if service.spec.ports.is_empty() => Some(*number),
        (Some(PortRef::Name(_)), ..) | (None, None, _) => None,
    }
}

/// The address that kube-proxy balances; a headless Service has none.
fn virtual_address(service: &Service, port: &ServicePort) -> Option<SocketAddr> {
    let ip = service.spec.cluster_ip.as_deref()?.parse().ok()?;
    Some(SocketAddr::new(ip, port.port))
}

/// Numbers that a Service's port has at the Pods. Slices and `Endpoints` carry the Service port's name; without one,
/// there is one port only.
fn numbers(ports: &[EndpointPort], wanted: &ServicePort) -> Vec<u16> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let is_tcp = |port: &&EndpointPort| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let fits = |port: &&EndpointPort| {
        name(&port.name) == name(&wanted.name)
            || wanted.name.is_none()
                && (ports.len() == 1 || port.port.map(PortRef::Number) == wanted.target_port)
    };
    ports.iter().filter(is_tcp).filter(fits).filter_map(|port| port.port).collect()
}

fn ready(address: SocketAddr) -> Endpoint {
    Endpoint { address, state: EndpointState::Ready }
}

/// Each address once; where sources differ, it is ready.
fn distinct(endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    let mut distinct: Vec<Endpoint> = Vec::with_capacity(endpoints.len());
    let mut places = HashMap::new();
    for endpoint in endpoints {
        let place = *places.entry(endpoint.address).or_insert(distinct.len());
        match distinct.get_mut(place) {
            Some(known) if endpoint.state == EndpointState::Ready => known.state = EndpointState::Ready,
            Some(_) => {}
            None => distinct.push(endpoint),
        }
    }
    distinct
}

fn ports(service: &Service) -> String {
    let describe = |port: &ServicePort| match &port.name {
        Some(name) => format!("{} ({name})", port.port),
        None => port.port.to_string(),
    };
    match service.spec.ports.as_slice() {
        [] => "none".to_owned(),
        ports => ports.iter().map(describe).collect::<Vec<_>>().join(", "),
    }
}
