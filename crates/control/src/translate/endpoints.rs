//! The clusters behind backends: which addresses a Service's port stands for.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{Balance, Cluster, ClusterId, Endpoint, EndpointState, Transport, UpstreamTls};

use super::backend::Speech;
use super::policy::Policy;
use crate::index::Index;
use crate::objects::{
    Conditions, EndpointPort, EndpointSlice, EndpointSubset, PortRef, Service, ServicePort, Sourced, is_of,
};
use crate::options::{NsName, Options};
use crate::problem::{Problem, Reason, Severity};
use crate::resolve::{Resolved, is_forbidden};

/// Makes clusters as they are asked for.
pub(super) struct Clusters<'a> {
    sources: Sources<'a>,
    known: HashMap<(NsName, PortRef), Vec<Known>>,
    built: Built,
}

/// A cluster that was asked for before.
struct Known {
    purpose: Purpose,
    speech: Speech,
    id: ClusterId,
    fault: Option<String>,
}

/// What a cluster is for. It is part of the cluster's name, as in ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Requests.
    Http,
    /// Connections that are not decrypted.
    Passthrough,
    /// What comes to a port of its own.
    Stream(Transport),
}

/// What a cluster is to be like. Of [`Purpose::Http`], the first to ask decides.
struct Like {
    purpose: Purpose,
    speech: Speech,
    balance: Balance,
    by_virtual_address: bool,
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
    Faulty(Severity, Reason, String),
    /// An outside name, whose addresses are still being looked up or not to be had.
    Name(String, Option<Problem>, Vec<Endpoint>),
}

impl<'a> Clusters<'a> {
    pub(super) fn new(index: &'a Index, options: &'a Options, resolved: &'a Resolved) -> Self {
        Self { sources: Sources { index, options, resolved }, known: HashMap::new(), built: Built::default() }
    }

    /// The cluster of a Service's port for requests, and what is wrong with asking for it. There is a cluster in any case:
    /// without endpoints, it answers 503. `tls_of_host` is what another Ingress of the host says of TLS with endpoints.
    ///
    /// "Upstreams are keyed `namespace-service-port`. Upstream-level settings come from the FIRST Ingress that references
    /// that Service port." What is spoken with them is up to each location: they share a name, but no connections.
    pub(super) fn for_requests(
        &mut self,
        name: &NsName,
        port: &PortRef,
        policy: &Policy,
        tls_of_host: Option<&Arc<UpstreamTls>>,
    ) -> (ClusterId, Option<String>) {
        let service = self.sources.index.services.get(name);
        let speech = policy.backend.speech(
            service.and_then(|service| service.port(port, Transport::Tcp)),
            || {
                let outside =
                    service.filter(|it| it.is_external()).and_then(|it| it.spec.external_name.as_ref());
                outside.map_or_else(
                    || format!("{}.{}.svc", name.name, name.namespace),
                    |outside| outside.value.trim_end_matches('.').to_owned(),
                )
            },
            tls_of_host,
        );
        if speech.is_unverified() {
            self.built.problems.extend(policy.backend.unverified.clone());
        }
        let (balance, by_virtual_address) = (policy.balance, policy.service_upstream);
        self.get(name, port, Like { purpose: Purpose::Http, speech, balance, by_virtual_address })
    }

    /// The cluster of a Service's port for connections that are not decrypted: the Service's virtual address, as in
    /// ingress-nginx, or else its Pods.
    pub(super) fn for_passthrough(&mut self, name: &NsName, port: &PortRef) -> (ClusterId, Option<String>) {
        let (purpose, speech, balance) = (Purpose::Passthrough, Speech::default(), Balance::default());
        self.get(name, port, Like { purpose, speech, balance, by_virtual_address: true })
    }

    /// The cluster of a Service's port for what comes to a port of its own.
    pub(super) fn for_stream(
        &mut self,
        name: &NsName,
        port: &PortRef,
        transport: Transport,
    ) -> (ClusterId, Option<String>) {
        let (purpose, speech, balance) = (Purpose::Stream(transport), Speech::default(), Balance::default());
        self.get(name, port, Like { purpose, speech, balance, by_virtual_address: false })
    }

    fn get(&mut self, name: &NsName, port: &PortRef, like: Like) -> (ClusterId, Option<String>) {
        let Like { purpose, speech, balance, by_virtual_address } = like;
        let key = (name.clone(), port.clone());
        let siblings = self.known.get(&key).map_or(&[][..], Vec::as_slice);
        let mut siblings = siblings.iter().filter(|known| known.purpose == purpose);
        if let Some(known) = siblings.clone().find(|known| known.speech == speech) {
            return (known.id, known.fault.clone());
        }
        let id = ClusterId(self.built.clusters.len() as u32);
        let Speech { version, encryption } = speech.clone();
        let (cluster, fault) = if let Some(sibling) = siblings.next() {
            let cluster = self.built.clusters[sibling.id.0 as usize].clone();
            (Cluster { version, encryption, ..cluster }, sibling.fault.clone())
        } else {
            let found = self.sources.find(name, port, purpose, by_virtual_address);
            let (endpoints, fault) = self.note(name, found);
            let name = format!("{}{}-{}-{port}", purpose.prefix(), name.namespace, name.name);
            (Cluster { name, balance, version, encryption, endpoints }, fault)
        };
        self.built.clusters.push(cluster);
        self.known.entry(key).or_default().push(Known { purpose, speech, id, fault: fault.clone() });
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
            Found::Faulty(severity, reason, message) => {
                let service = self.sources.index.services.get(name);
                self.built
                    .problems
                    .extend(service.map(|service| Problem::of(severity, service, message).because(reason)));
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

impl Purpose {
    fn prefix(self) -> &'static str {
        match self {
            Self::Http => "",
            Self::Passthrough => "tls-",
            Self::Stream(Transport::Tcp) => "tcp-",
            Self::Stream(Transport::Udp) => "udp-",
        }
    }

    fn transport(self) -> Transport {
        match self {
            Self::Http | Self::Passthrough => Transport::Tcp,
            Self::Stream(transport) => transport,
        }
    }

    /// What becomes of those who come where there is nobody.
    fn outcome(self) -> &'static str {
        match self {
            Self::Http => "requests are answered 503",
            Self::Passthrough | Self::Stream(Transport::Tcp) => "connections are closed",
            Self::Stream(Transport::Udp) => "datagrams are dropped",
        }
    }
}

// === impl Sources ===

impl Sources<'_> {
    fn find(&self, name: &NsName, wanted: &PortRef, purpose: Purpose, by_virtual_address: bool) -> Found {
        let (transport, outcome) = (purpose.transport(), purpose.outcome());
        let Some(service) = self.index.services.get(name) else {
            // Who tells where the Pods are need not write a Service for it.
            return self.overridden(name, wanted, None, transport).map_or_else(
                || Found::Nothing(format!("Service {name} is missing: {outcome}")),
                Found::Endpoints,
            );
        };
        if service.is_external() {
            return self.outside(service, wanted, transport);
        }
        let Some(port) = service.port(wanted, transport) else {
            return Found::Nothing(format!(
                "Service {name} has no {}port {wanted} (it has {}): {outcome}",
                if transport == Transport::Udp { "UDP " } else { "" },
                ports(service)
            ));
        };
        if by_virtual_address && let Some(address) = virtual_address(service, port) {
            return Found::Endpoints(vec![ready(address)]);
        }
        let endpoints = self
            .pods(name, port, transport)
            .or_else(|| self.overridden(name, wanted, Some(service), transport));
        match endpoints {
            Some(endpoints) if endpoints.is_empty() => Found::Faulty(
                Severity::Warning,
                Reason::Missing,
                format!("has no ready endpoints at port {wanted}: {outcome}"),
            ),
            Some(endpoints) => Found::Endpoints(endpoints),
            None => Found::Faulty(
                Severity::Notice,
                Reason::Missing,
                format!(
                    "nothing says where its Pods are; give an EndpointSlice, or --endpoints {name}=HOST:PORT"
                ),
            ),
        }
    }

    /// What `EndpointSlice`s say, or else `Endpoints`; nothing if there are none of either.
    fn pods(&self, name: &NsName, port: &ServicePort, transport: Transport) -> Option<Vec<Endpoint>> {
        let slices = self.index.slices_of(name);
        if !slices.is_empty() {
            return Some(distinct(
                slices.iter().flat_map(|slice| of_slice(slice, port, transport)).collect(),
            ));
        }
        let subsets = &self.index.endpoints.get(name)?.subsets;
        Some(distinct(subsets.iter().flat_map(|subset| of_subset(subset, port, transport)).collect()))
    }

    /// What `--endpoints` says.
    fn overridden(
        &self,
        name: &NsName,
        wanted: &PortRef,
        service: Option<&Service>,
        transport: Transport,
    ) -> Option<Vec<Endpoint>> {
        let is_same = |given: &PortRef| {
            given == wanted
                || service.is_some_and(|service| {
                    let (given, wanted) = (service.port(given, transport), service.port(wanted, transport));
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
    fn outside(&self, service: &Sourced<Service>, wanted: &PortRef, transport: Transport) -> Found {
        let Some(name) = &service.spec.external_name else {
            return Found::Faulty(
                Severity::Error,
                Reason::Invalid,
                "is of type ExternalName and has no externalName".to_owned(),
            );
        };
        let Some(number) = outside_port(service, wanted, transport) else {
            return Found::Nothing(format!("Service {} has no port {wanted} with a number", service.key()));
        };
        let host = name.value.trim_end_matches('.').to_ascii_lowercase();
        if is_forbidden(&host) {
            let message = format!("externalName {host:?} is refused: it is no name outside the cluster");
            return Found::Faulty(Severity::Error, Reason::Invalid, message);
        }
        match self.resolved.get(&host) {
            None => Found::Name(host, None, Vec::new()),
            Some(Ok(addresses)) => {
                let endpoints = addresses.iter().map(|&ip| ready(SocketAddr::new(ip, number))).collect();
                Found::Name(host, None, distinct(endpoints))
            }
            Some(Err(why)) => {
                let message = format!("externalName {host:?} has no address: {why}");
                let problem = Problem::at(Severity::Warning, service, name, message).because(Reason::Missing);
                Found::Name(host, Some(problem), Vec::new())
            }
        }
    }
}

fn of_slice(slice: &EndpointSlice, port: &ServicePort, transport: Transport) -> Vec<Endpoint> {
    let state = |conditions: Conditions| match conditions {
        _ if conditions.is_ready() => Some(EndpointState::Ready),
        _ if conditions.is_draining() => Some(EndpointState::Draining),
        _ => None,
    };
    let mut endpoints = Vec::new();
    for number in numbers(&slice.ports, port, transport) {
        endpoints.extend(slice.endpoints.iter().filter_map(|endpoint| {
            let state = state(endpoint.conditions)?;
            // "Consumers should only use the first"; one that is a name (addressType FQDN) is nothing to connect to.
            let ip = endpoint.addresses.first()?.parse::<IpAddr>().ok()?;
            Some(Endpoint { address: SocketAddr::new(ip, number), state })
        }));
    }
    endpoints
}

fn of_subset(subset: &EndpointSubset, port: &ServicePort, transport: Transport) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for number in numbers(&subset.ports, port, transport) {
        let addresses = subset.addresses.iter().filter_map(|address| address.ip.parse::<IpAddr>().ok());
        endpoints.extend(addresses.map(|ip| ready(SocketAddr::new(ip, number))));
    }
    endpoints
}

/// An outside Service need not list its ports: the number that a backend names is the port there.
fn outside_port(service: &Service, wanted: &PortRef, transport: Transport) -> Option<u16> {
    let port = service.port(wanted, transport);
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
fn numbers(ports: &[EndpointPort], wanted: &ServicePort, transport: Transport) -> Vec<u16> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let is_of_transport = |port: &&EndpointPort| is_of(transport, port.protocol.as_deref());
    let fits = |port: &&EndpointPort| {
        name(&port.name) == name(&wanted.name)
            || wanted.name.is_none()
                && (ports.len() == 1 || port.port.map(PortRef::Number) == wanted.target_port)
    };
    ports.iter().filter(is_of_transport).filter(fits).filter_map(|port| port.port).collect()
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
