//! The endpoints behind a Service's port.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{Endpoint, EndpointState, Transport};

use super::inputs::Inputs;
use super::judged::Judged;
use crate::names::{NsName, PortRef};
use crate::objects::{
    Conditions, EndpointHints, EndpointPort, EndpointSlice, EndpointSubset, Place, Service, ServicePort,
    Sourced, is_of,
};
use crate::problem::{Problem, Reason, Severity};
use crate::resolve::is_forbidden;

/// The purpose of a cluster. It is part of the cluster's name, as in ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// HTTP requests of clients.
    Http,
    /// Connections that are not decrypted.
    Passthrough,
    /// The traffic of a TCP or UDP service.
    Stream(Transport),
    /// Auth requests to a service outside of the cluster. The name of the Service is that of the host.
    Auth,
}

/// The endpoints of a Service that are meant, if their hints tell some from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Reach {
    /// The endpoints near this process.
    #[default]
    Near,
    /// The endpoints of all nodes and zones.
    Everywhere,
}

/// The endpoints, or the reason why none exist.
pub(super) enum Found {
    Endpoints(Vec<Endpoint>),
    /// The reference is wrong: it names something that does not exist.
    Nothing(String),
    /// The Service itself is wrong.
    Faulty(Severity, Reason, String),
    /// The usable endpoints, and a problem about the others.
    Some(Vec<Endpoint>, Problem),
}

impl Found {
    fn judged(judged: Judged, service: &Sourced<Service>, source: &str, outcome: &str) -> Self {
        match judged.problem(service, source, outcome) {
            Some(problem) => Self::Some(judged.endpoints, problem),
            None => Self::Endpoints(judged.endpoints),
        }
    }
}

impl Reach {
    /// The prefix of the clusters' names.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Near => "",
            Self::Everywhere => "everywhere-",
        }
    }
}

impl Purpose {
    /// The prefix of the clusters' names.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Http => "",
            Self::Passthrough => "tls-",
            Self::Stream(Transport::Tcp) => "tcp-",
            Self::Stream(Transport::Udp) => "udp-",
            Self::Auth => "auth-",
        }
    }

    fn transport(self) -> Transport {
        match self {
            Self::Http | Self::Passthrough | Self::Auth => Transport::Tcp,
            Self::Stream(transport) => transport,
        }
    }

    /// The effect of missing endpoints on clients, for messages.
    fn outcome(self) -> &'static str {
        match self {
            Self::Http => "requests are answered 503",
            Self::Auth => "requests are answered 500",
            Self::Passthrough | Self::Stream(Transport::Tcp) => "connections are closed",
            Self::Stream(Transport::Udp) => "datagrams are dropped",
        }
    }
}

impl Inputs<'_> {
    /// Finds the endpoints of a host outside of the cluster, which an object other than a Service names.
    pub(super) fn find_host(&self, host: &str, port: u16) -> (Vec<Endpoint>, Option<String>) {
        let host = host.trim_end_matches('.');
        let addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) if is_forbidden(host) => {
                return (
                    Vec::new(),
                    Some(format!("host {host:?} is refused: it is no name outside the cluster")),
                );
            }
            Err(_) => match self.addresses(host) {
                // The name is still being resolved.
                None => return (Vec::new(), None),
                Some(Ok(addresses)) => addresses,
                Some(Err(why)) => return (Vec::new(), Some(format!("host {host:?} has no address: {why}"))),
            },
        };
        let endpoints: Vec<_> = addresses.into_iter().map(|ip| ready(SocketAddr::new(ip, port))).collect();
        if self.is_allowed_on_this_machine(host, port) {
            return (endpoints, None);
        }
        let judged = self.judge_outside(distinct(endpoints));
        let fault = judged.refusal().map(|why| format!("host {host:?}: {why}"));
        (judged.endpoints, fault)
    }

    /// Finds the endpoints of a Service's port.
    pub(super) fn find(
        &self,
        name: &NsName,
        wanted: &PortRef,
        purpose: Purpose,
        reach: Reach,
        by_virtual_address: bool,
    ) -> Found {
        let (transport, outcome) = (purpose.transport(), purpose.outcome());
        let Some(service) = self.service(name) else {
            // The Service need not exist if `--endpoints` names it.
            return self.overridden(name, wanted, None, transport).map_or_else(
                || Found::Nothing(format!("Service {name} is missing: {outcome}")),
                Found::Endpoints,
            );
        };
        if service.is_external() {
            return self.outside(service, wanted, purpose);
        }
        let port = match purpose {
            Purpose::Http => service.backend_port(wanted),
            Purpose::Passthrough | Purpose::Stream(_) | Purpose::Auth => service.port(wanted, transport),
        };
        let Some(port) = port else {
            return Found::Nothing(format!(
                "Service {name} has no {}port {wanted} (it has {}): {outcome}",
                if transport == Transport::Udp { "UDP " } else { "" },
                ports(service)
            ));
        };
        if by_virtual_address && let Some(address) = virtual_address(service, port) {
            return Found::judged(self.judge_inside(vec![ready(address)]), service, "clusterIP ", outcome);
        }
        let endpoints = match self.pods(name, port, transport, reach).map(|found| self.judge_inside(found)) {
            Some(judged) if judged.is_refused() => {
                return Found::judged(judged, service, "endpoint ", outcome);
            }
            Some(judged) => Some(judged.endpoints),
            None => self.overridden(name, wanted, Some(service), transport),
        };
        match endpoints {
            Some(endpoints) if endpoints.is_empty() => Found::Faulty(
                Severity::Warning,
                Reason::Missing,
                format!("has no ready endpoints at port {wanted}{}: {outcome}", self.names_in_slices(name)),
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

    /// A remark about slices that hold names, for messages.
    fn names_in_slices(&self, name: &NsName) -> &'static str {
        let has_names = self.slices(name).iter().any(|slice| slice.address_type.as_deref() == Some("FQDN"));
        if has_names {
            " (an EndpointSlice of addressType FQDN is skipped, as kube-proxy does; a Service of type ExternalName has names)"
        } else {
            ""
        }
    }

    /// The endpoints in `EndpointSlice`s or else in `Endpoints`; none if neither exist.
    fn pods(
        &self,
        name: &NsName,
        port: &ServicePort,
        transport: Transport,
        reach: Reach,
    ) -> Option<Vec<Endpoint>> {
        let slices = self.slices(name);
        if !slices.is_empty() {
            let mut all = of_slices(slices, port, transport);
            if reach == Reach::Near
                && let Some(place) = self.place(&all)
            {
                all.retain(|hinted| place.takes(hinted));
            }
            return Some(distinct(all.into_iter().map(|(endpoint, _)| endpoint).collect()));
        }
        let subsets = &Inputs::endpoints(self, name)?.subsets;
        Some(distinct(subsets.iter().flat_map(|subset| of_subset(subset, port, transport)).collect()))
    }

    /// The addresses of Pods that are listed in `EndpointSlice`s and get no requests, in order.
    pub(super) fn unready(&self, name: &NsName) -> Vec<IpAddr> {
        let endpoints = self.slices(name).iter().flat_map(|slice| &slice.endpoints);
        let unready = endpoints.filter(|endpoint| state(endpoint.conditions).is_none());
        let addresses = unready.filter_map(|endpoint| endpoint.addresses.first()?.parse().ok());
        addresses.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a Service's port has ready endpoints besides those near this process.
    pub(super) fn has_far_pods(&self, name: &NsName, wanted: &PortRef) -> bool {
        if self.options.zone.is_none() && self.options.node.is_none() {
            return false;
        }
        let port = self.service(name).and_then(|service| service.backend_port(wanted));
        let Some(port) = port else { return false };
        let all = of_slices(self.slices(name), port, Transport::Tcp);
        self.place(&all).is_some_and(|place| !all.iter().all(|hinted| place.takes(hinted)))
    }

    /// This node or else its zone, if the hints of endpoints tell those for it from others. "If any ready
    /// endpoint is without a hint, or none has a hint for the place, the hints are ignored": the safeguards
    /// of kube-proxy (KEP-2433, KEP-4444).
    fn place(&self, endpoints: &[Hinted<'_>]) -> Option<Nearness<'_>> {
        let node = self.options.node.as_deref().map(Nearness::Node);
        let zone = self.options.zone.as_deref().map(Nearness::Zone);
        let ready = || endpoints.iter().filter(|(endpoint, _)| is_ready(endpoint)).map(|(_, hints)| *hints);
        let is_usable = |place: &Nearness<'_>| {
            ready().all(|hints| hints.is_some_and(|hints| !place.listed(hints).is_empty()))
                && ready().flatten().any(|hints| place.is_in(hints))
        };
        node.into_iter().chain(zone).find(is_usable)
    }

    /// The endpoints that `--endpoints` gives.
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

    /// The endpoints of a Service outside of the cluster. "`ExternalName` resolved by DNS;
    /// `localhost`/IP-like names in `ExternalName` refused."
    fn outside(&self, service: &Sourced<Service>, wanted: &PortRef, purpose: Purpose) -> Found {
        let (transport, outcome) = (purpose.transport(), purpose.outcome());
        if self.options.disable_external_names {
            let message =
                format!("is of type ExternalName, which --disable-svc-external-name refuses: {outcome}");
            return Found::Faulty(Severity::Error, Reason::Forbidden, message);
        }
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
        match self.addresses(&host) {
            // The name is still being resolved.
            None => Found::Endpoints(Vec::new()),
            Some(Ok(addresses)) => {
                let endpoints = addresses.into_iter().map(|ip| ready(SocketAddr::new(ip, number))).collect();
                let source = format!("externalName {host:?}: ");
                Found::judged(self.judge_outside(distinct(endpoints)), service, &source, outcome)
            }
            Some(Err(why)) => {
                let message = format!("externalName {host:?} has no address: {why}");
                let problem = Problem::at(Severity::Warning, service, name, message).because(Reason::Missing);
                Found::Some(Vec::new(), problem)
            }
        }
    }
}

/// The endpoints of slices, with their hints. If a slice has no ports, or no port with the name of the
/// Service's port, the number in the Service is used, as in ingress-nginx: slices that are written by hand
/// often lack ports.
fn of_slices<'a>(
    slices: &'a [Arc<Sourced<EndpointSlice>>],
    port: &ServicePort,
    transport: Transport,
) -> Vec<Hinted<'a>> {
    let is_listed = slices.iter().any(|slice| !numbers(&slice.ports, port, transport).is_empty());
    let number = match port.target_port {
        Some(PortRef::Number(number)) => Some(number),
        Some(PortRef::Name(_)) | None => None,
    };
    let mut endpoints = Vec::new();
    for slice in slices {
        let is_about_others =
            !slice.ports.is_empty() && (is_listed || !slice.ports.iter().any(|port| port.is_of(transport)));
        let said = number.filter(|_| !is_about_others);
        let mut listed = numbers(&slice.ports, port, transport);
        listed.extend(said.filter(|_| listed.is_empty()));
        endpoints.extend(listed.into_iter().flat_map(|number| of_slice(slice, number)));
    }
    endpoints
}

/// The state of an endpoint under these conditions; none where it gets no requests.
fn state(conditions: Conditions) -> Option<EndpointState> {
    match conditions {
        _ if conditions.is_ready() => Some(EndpointState::Ready),
        _ if conditions.is_draining() => Some(EndpointState::Draining),
        _ => None,
    }
}

/// The endpoints of a slice at a port.
fn of_slice(slice: &EndpointSlice, number: u16) -> impl Iterator<Item = Hinted<'_>> {
    slice.endpoints.iter().filter_map(move |endpoint| {
        let state = state(endpoint.conditions)?;
        // "Consumers should only use the first". A name (`addressType: FQDN`) is skipped, because it is not
        // an address.
        let ip = endpoint.addresses.first()?.parse::<IpAddr>().ok()?;
        Some((Endpoint { address: SocketAddr::new(ip, number), state }, endpoint.hints.as_deref()))
    })
}

/// An endpoint, and the clients that should use it.
type Hinted<'a> = (Endpoint, Option<&'a EndpointHints>);

/// The place of this process, for which endpoints have hints.
#[derive(Clone, Copy)]
enum Nearness<'o> {
    Node(&'o str),
    Zone(&'o str),
}

impl Nearness<'_> {
    /// The places of this kind that hints name.
    fn listed<'h>(&self, hints: &'h EndpointHints) -> &'h [Place] {
        match self {
            Self::Node(_) => &hints.for_nodes,
            Self::Zone(_) => &hints.for_zones,
        }
    }

    /// Whether hints name this place.
    fn is_in(&self, hints: &EndpointHints) -> bool {
        let (Self::Node(own) | Self::Zone(own)) = self;
        self.listed(hints).iter().any(|place| place.name == *own)
    }

    /// Whether an endpoint is used here. Terminating endpoints always are, because they get requests only if
    /// none is ready.
    fn takes(&self, hinted: &Hinted<'_>) -> bool {
        let (endpoint, hints) = hinted;
        !is_ready(endpoint) || hints.is_some_and(|hints| self.is_in(hints))
    }
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.state == EndpointState::Ready
}

fn of_subset(subset: &EndpointSubset, port: &ServicePort, transport: Transport) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for number in numbers(&subset.ports, port, transport) {
        let addresses = subset.addresses.iter().filter_map(|address| address.ip.parse::<IpAddr>().ok());
        endpoints.extend(addresses.map(|ip| ready(SocketAddr::new(ip, number))));
    }
    endpoints
}

/// The port of an `ExternalName` Service. If the Service does not list its ports, the number of the backend
/// is used.
fn outside_port(service: &Service, wanted: &PortRef, transport: Transport) -> Option<u16> {
    let port = service.port(wanted, transport);
    match (port.and_then(|port| port.target_port.as_ref()), port, wanted) {
        (Some(PortRef::Number(number)), ..) => Some(*number),
        (None, Some(port), _) => Some(port.port),
        (None, None, PortRef::Number(number)) if service.spec.ports.is_empty() => Some(*number),
        (Some(PortRef::Name(_)), ..) | (None, None, _) => None,
    }
}

/// The Service's cluster IP, which kube-proxy balances; none for a headless Service.
fn virtual_address(service: &Service, port: &ServicePort) -> Option<SocketAddr> {
    let ip = service.spec.cluster_ip.as_deref()?.parse().ok()?;
    Some(SocketAddr::new(ip, port.port))
}

/// The port numbers of the Pods for a Service's port. In slices and `Endpoints` a port has the name of the
/// Service's port; a port without a name is the only one.
fn numbers(ports: &[EndpointPort], wanted: &ServicePort, transport: Transport) -> Vec<u16> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let fits = |port: &&EndpointPort| {
        name(&port.name) == name(&wanted.name)
            || wanted.name.is_none()
                && (ports.len() == 1 || port.port.map(PortRef::Number) == wanted.target_port)
    };
    ports.iter().filter(|port| port.is_of(transport)).filter(fits).filter_map(|port| port.port).collect()
}

impl EndpointPort {
    fn is_of(&self, transport: Transport) -> bool {
        is_of(transport, self.protocol.as_deref())
    }
}

fn ready(address: SocketAddr) -> Endpoint {
    Endpoint { address, state: EndpointState::Ready }
}

/// Removes duplicate addresses. An address with conflicting states counts as ready.
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
