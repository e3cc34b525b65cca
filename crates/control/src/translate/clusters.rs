//! The clusters behind backends: one for each Service port, purpose and protocol.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::{Affinity, AppProtocol, Cluster, ClusterId, Encryption, SessionKey, Transport, UpstreamTls};

use super::backend_settings::{BackendConsensus, BackendSettings};
use super::claim::AuthService;
use super::endpoints::{Found, Purpose, Reach};
use super::inputs::Inputs;
use super::memo::{Memo, Node, Revisions};
use super::parts::Parts;
use super::upstream_protocol::{UpstreamDraft, UpstreamProtocol};
use crate::names::{NsName, PortRef};
use crate::problem::Problem;

/// The clusters, stored from one translation to the next. A cluster's id is its number.
#[derive(Default)]
pub(super) struct Clusters {
    made: Memo<Key, Made>,
    model: model::Clusters,
    /// The facts that routes to clusters have in common.
    parts: Parts,
    /// The clusters that depend on an input, by input; none if it has to be made again.
    dependents: Option<Vec<(Node, u32)>>,
    /// The clusters of which neither a Service nor endpoints exist.
    missing: BTreeSet<u32>,
}

/// The identity of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    service: NsName,
    port: PortRef,
    purpose: Purpose,
    protocol: UpstreamProtocol,
    stickiness: Stickiness,
    reach: Reach,
}

/// The source of the affinity of a cluster's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stickiness {
    /// The affinity that the objects request which name the Service's port.
    Own,
    /// The affinity of the canary's mainline, or of the only route that uses the cluster.
    Mainline(Option<Arc<Affinity>>),
}

impl Hash for Stickiness {
    /// The hash covers the variant only, because few clusters differ in nothing else.
    fn hash<H: Hasher>(&self, state: &mut H) {
        matches!(self, Self::Own).hash(state);
    }
}

/// The messages about a cluster; the cluster itself is in the model.
#[derive(Clone, PartialEq)]
struct Made {
    settings: BackendSettings,
    /// The fault of references to the cluster, such as a missing Service.
    fault: Option<String>,
    /// Neither a Service nor endpoints of this name exist.
    is_missing: bool,
    /// The Service has ready endpoints beside those of the cluster, which are farther away.
    has_far: bool,
    /// A problem of the Service itself, whatever refers to it.
    problem: Option<Box<Problem>>,
}

/// Finds the clusters that a translation requests, and makes the new ones.
pub(super) struct ClusterQueries<'c, 'a> {
    clusters: &'c mut Clusters,
    inputs: &'c Inputs<'a>,
    revisions: &'c Revisions,
    consensus: &'c BackendConsensus,
    /// The problems of the clusters that the current query has requested.
    problems: Vec<Problem>,
    /// The clusters that have been made.
    remade: Vec<u32>,
}

impl Clusters {
    /// Removes clusters on which nothing depends.
    pub(super) fn sweep(&mut self, revisions: &Revisions) {
        let Self { made, model, parts: _, dependents: _, missing } = self;
        made.sweep(revisions, |number| {
            model.remove(ClusterId(number));
            missing.remove(&number);
        });
    }

    /// Makes the clusters again that depend on these inputs, of which only endpoints differ. Returns whether
    /// no cluster differs in anything that routes depend on.
    pub(super) fn follow_endpoints(
        &mut self,
        nodes: &[Node],
        inputs: &Inputs<'_>,
        revisions: &Revisions,
    ) -> bool {
        let Self { made, model, dependents, missing, .. } = self;
        let dependents = dependents.get_or_insert_with(|| made.dependents());
        let mut numbers = BTreeSet::new();
        for node in nodes {
            let begin = dependents.partition_point(|(other, _)| other < node);
            let of_node = dependents[begin..].iter().take_while(|(other, _)| other == node);
            numbers.extend(of_node.map(|&(_, number)| number));
        }
        let mut is_same = true;
        for number in numbers {
            let before = made.peek(number).cloned();
            let Some(before) = before else { continue };
            let settings = before.settings.clone();
            made.refresh(
                number,
                revisions,
                |_| true,
                |key, _| {
                    let (made, cluster) = make(key, settings, inputs);
                    if **model.get(ClusterId(number)) != cluster {
                        model.insert(ClusterId(number), Arc::new(cluster));
                    }
                    made
                },
            );
            note_missing(missing, number, made);
            is_same &= made.peek(number) == Some(&before);
        }
        is_same
    }

    pub(super) fn model(&self) -> &model::Clusters {
        &self.model
    }

    /// The clusters among these nodes on which nothing depends any more.
    pub(super) fn unused<'n>(
        &self,
        nodes: impl Iterator<Item = &'n Node>,
        revisions: &Revisions,
    ) -> BTreeSet<u32> {
        let unused = nodes.filter(|&&node| !revisions.has_dependents(node));
        unused.filter_map(|&node| self.made.number_of(node, revisions)).collect()
    }

    /// Removes unused clusters, and records the inputs of those that were made.
    pub(super) fn change(&mut self, remade: &[u32], unused: &BTreeSet<u32>, revisions: &Revisions) {
        let Self { made, model, dependents, missing, .. } = self;
        if let Some(dependents) = dependents.as_mut().filter(|_| !remade.is_empty() || !unused.is_empty()) {
            let changed: BTreeSet<_> = remade.iter().chain(unused).copied().collect();
            dependents.retain(|(_, number)| !changed.contains(number));
            for &number in remade {
                for &node in made.dependencies(number) {
                    let at = dependents.partition_point(|known| *known < (node, number));
                    dependents.insert(at, (node, number));
                }
            }
        }
        for &number in unused {
            model.remove(ClusterId(number));
            made.remove(number, revisions);
            missing.remove(&number);
        }
    }

    /// The missing Services that backends name.
    pub(super) fn missing(&self) -> BTreeSet<NsName> {
        self.missing.iter().map(|&number| self.made.key(number).service.clone()).collect()
    }
}

impl<'c, 'a> ClusterQueries<'c, 'a> {
    /// Queries of clusters that are valid but for those that depend on changed inputs.
    pub(super) fn new(
        clusters: &'c mut Clusters,
        inputs: &'c Inputs<'a>,
        revisions: &'c Revisions,
        consensus: &'c BackendConsensus,
    ) -> Self {
        Self { clusters, inputs, revisions, consensus, problems: Vec::new(), remade: Vec::new() }
    }

    /// The clusters that have been made by these queries.
    pub(super) fn take_remade(self) -> Vec<u32> {
        self.remade
    }

    /// Updates the clusters whose inputs differ from the previous translation.
    pub(super) fn refresh(
        clusters: &'c mut Clusters,
        inputs: &'c Inputs<'a>,
        revisions: &'c Revisions,
        consensus: &'c BackendConsensus,
    ) -> Self {
        clusters.dependents = None;
        let mut queries = Self::new(clusters, inputs, revisions, consensus);
        for number in 0..queries.clusters.made.end() as u32 {
            if queries.clusters.made.has(number) {
                queries.refresh_one(number);
            }
        }
        queries
    }

    /// The cluster of a Service's port for requests, and the fault of the reference. A cluster is always
    /// returned: without endpoints, it answers 503. `tls_of_host` is the TLS towards endpoints that another
    /// object of the host configures.
    ///
    /// "Upstreams are keyed `namespace-service-port`." Routes can use different protocols: their clusters
    /// have the same name but share no connections.
    pub(super) fn for_requests(
        &mut self,
        name: &NsName,
        port: &PortRef,
        draft: &UpstreamDraft,
        tls_of_host: Option<&Arc<UpstreamTls>>,
    ) -> (ClusterId, Option<String>) {
        let protocol = self.protocol(name, port, draft, tls_of_host);
        self.get(name, port, Purpose::Http, protocol)
    }

    /// The cluster of a Service's port for a route with its own affinity; without one, the affinity of the
    /// port applies.
    pub(super) fn for_route(
        &mut self,
        name: &NsName,
        port: &PortRef,
        draft: &UpstreamDraft,
        affinity: Option<&Arc<Affinity>>,
    ) -> ClusterId {
        let protocol = self.protocol(name, port, draft, None);
        let stickiness = match affinity {
            None => Stickiness::Own,
            Some(affinity) => {
                // The uid stays the same for the life of the Service and for all replicas, and only users
                // with read access to the Service know it.
                let uid = self.inputs.service(name).and_then(|service| service.metadata.uid());
                let secret = self.inputs.options.session_secret.as_ref().map_or(&[][..], SessionKey::bytes);
                let key = SessionKey::new(&[secret, uid.unwrap_or_default().as_bytes()]);
                Stickiness::Mainline(Some(Arc::new(Affinity { key: Some(key), ..Affinity::clone(affinity) })))
            }
        };
        let (service, port) = (name.clone(), port.clone());
        let reach = Reach::Near;
        self.find(Key { service, port, purpose: Purpose::Http, protocol, stickiness, reach }).0
    }

    /// The cluster of a Service's port for auth requests; none where it does not support them. Auth requests
    /// use HTTP/1, and TLS or not, independently of the client.
    pub(super) fn for_questions(
        &mut self,
        (name, port): (&NsName, &PortRef),
        draft: &UpstreamDraft,
        tls_of_host: Option<&Arc<UpstreamTls>>,
    ) -> Option<(ClusterId, Option<String>)> {
        let protocol = self.protocol(name, port, draft, tls_of_host);
        let is_for_all = !matches!(protocol.encryption, Encryption::AsClient(_));
        let is_fit = protocol.version == AppProtocol::Http1 && is_for_all;
        is_fit.then(|| self.get(name, port, Purpose::Http, protocol))
    }

    fn protocol(
        &mut self,
        name: &NsName,
        port: &PortRef,
        draft: &UpstreamDraft,
        tls_of_host: Option<&Arc<UpstreamTls>>,
    ) -> UpstreamProtocol {
        let service = self.inputs.service(name);
        let port_of_service = service.and_then(|service| service.backend_port(port));
        let protocol = draft.resolve(port_of_service, tls_of_host);
        if protocol.is_unverified() {
            self.problems.extend(draft.unverified.clone());
        }
        self.problems.extend(draft.health_problem(&protocol));
        protocol
    }

    /// The cluster of a canary, with the protocol of the mainline. If `is_sticky`, the mainline's affinity
    /// applies: "`sticky` gives the canary the same cookie".
    pub(super) fn for_canary(
        &mut self,
        (name, port): (&NsName, &PortRef),
        mainline: (&NsName, &PortRef),
        is_sticky: bool,
        draft: &UpstreamDraft,
        tls_of_host: Option<&Arc<UpstreamTls>>,
    ) -> (ClusterId, Option<String>) {
        let protocol = self.protocol(name, port, draft, tls_of_host);
        let affinity = |(name, port)| self.consensus.settings(name, port).affinity;
        let wanted = affinity(mainline);
        let stickiness = if is_sticky && affinity((name, port)) != wanted {
            Stickiness::Mainline(wanted)
        } else {
            Stickiness::Own
        };
        self.find(Key {
            service: name.clone(),
            port: port.clone(),
            purpose: Purpose::Http,
            protocol,
            stickiness,
            reach: Reach::Near,
        })
    }

    /// The cluster of a Service's port for connections that are not decrypted. Its endpoint is the Service's
    /// virtual address, as in ingress-nginx, or its Pods if the Service has none.
    pub(super) fn for_passthrough(&mut self, name: &NsName, port: &PortRef) -> (ClusterId, Option<String>) {
        self.get(name, port, Purpose::Passthrough, UpstreamProtocol::default())
    }

    /// The cluster of a Service's port for a TCP or UDP service.
    pub(super) fn for_stream(
        &mut self,
        name: &NsName,
        port: &PortRef,
        transport: Transport,
    ) -> (ClusterId, Option<String>) {
        self.get(name, port, Purpose::Stream(transport), UpstreamProtocol::default())
    }

    /// The same for bytes that are encrypted towards the endpoints with these settings.
    pub(super) fn for_encrypted_stream(
        &mut self,
        name: &NsName,
        port: &PortRef,
        tls: UpstreamTls,
    ) -> (ClusterId, Option<String>) {
        let encryption = Encryption::Always(Arc::new(UpstreamTls { is_for_bytes: true, ..tls }));
        let protocol = UpstreamProtocol { encryption, ..UpstreamProtocol::default() };
        self.get(name, port, Purpose::Stream(Transport::Tcp), protocol)
    }

    /// The cluster of a service that a URL names: an auth service, or the target of mirrored requests. A
    /// known Service of the cluster is used directly, without the DNS; any other host is resolved as an
    /// external name.
    pub(super) fn for_url(&mut self, auth: &AuthService) -> (ClusterId, Option<String>) {
        self.for_url_speaking(auth, AppProtocol::Http1)
    }

    /// The same for a service that speaks this version of HTTP.
    pub(super) fn for_url_speaking(
        &mut self,
        auth: &AuthService,
        version: AppProtocol,
    ) -> (ClusterId, Option<String>) {
        let tls = || UpstreamTls { name: auth.host.clone(), send_name: true, ..UpstreamTls::default() };
        let encryption =
            if auth.is_encrypted { Encryption::Always(Arc::new(tls())) } else { Encryption::Never };
        let protocol = UpstreamProtocol { version, encryption, ..UpstreamProtocol::default() };
        let overrides = &self.inputs.options.endpoints;
        let is_known = |name: &NsName| {
            self.inputs.service(name).is_some() || overrides.iter().any(|given| given.service == *name)
        };
        let port = PortRef::Number(auth.port);
        match auth.service().filter(is_known) {
            Some(name) => self.get(&name, &port, Purpose::Http, protocol),
            None => self.get(&NsName::new("", auth.host.as_str()), &port, Purpose::Auth, protocol),
        }
    }

    /// The facts that routes to clusters have in common.
    pub(super) fn parts(&self) -> &Parts {
        &self.clusters.parts
    }

    /// Whether a URL leads to this machine, which only files may configure.
    pub(super) fn is_on_this_machine(&self, service: &AuthService) -> bool {
        self.inputs.is_allowed_on_this_machine(&service.host, service.port)
    }

    /// The first port of a Service, in the form of a backend.
    pub(super) fn first_port(&self, name: &NsName) -> Option<PortRef> {
        let service = self.inputs.service(name)?;
        service.spec.ports.first().map(|port| PortRef::Number(port.port))
    }

    /// The problems of the clusters that have been requested since the last call.
    pub(super) fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    fn get(
        &mut self,
        service: &NsName,
        port: &PortRef,
        purpose: Purpose,
        protocol: UpstreamProtocol,
    ) -> (ClusterId, Option<String>) {
        let stickiness = Stickiness::Own;
        let reach = Reach::Near;
        self.find(Key { service: service.clone(), port: port.clone(), purpose, protocol, stickiness, reach })
    }

    /// The cluster with the endpoints of a Service wherever they are, if a cluster has only those near this
    /// process.
    pub(super) fn everywhere(&mut self, cluster: ClusterId) -> Option<ClusterId> {
        let made = &self.clusters.made;
        if !made.read(cluster.0, self.revisions).has_far {
            return None;
        }
        let key = Key { reach: Reach::Everywhere, ..made.key(cluster.0).clone() };
        Some(self.find(key).0)
    }

    fn find(&mut self, key: Key) -> (ClusterId, Option<String>) {
        let number = self.clusters.made.number(key, self.revisions);
        self.refresh_one(number);
        let made = self.clusters.made.read(number, self.revisions);
        self.problems.extend(made.problem.as_deref().cloned());
        (ClusterId(number), made.fault.clone())
    }

    fn refresh_one(&mut self, number: u32) {
        let Self { clusters, inputs, revisions, consensus, .. } = self;
        let Clusters { made, model, missing, .. } = &mut **clusters;
        let key = made.key(number);
        let settings = match key.purpose {
            Purpose::Http => {
                let settings = consensus.settings(&key.service, &key.port);
                match &key.stickiness {
                    Stickiness::Own => settings,
                    Stickiness::Mainline(affinity) => {
                        BackendSettings { affinity: affinity.clone(), ..settings }
                    }
                }
            }
            Purpose::Passthrough => {
                BackendSettings { by_virtual_address: true, ..BackendSettings::default() }
            }
            Purpose::Stream(_) | Purpose::Auth => BackendSettings::default(),
        };
        let is_old = made.has(number);
        let is_new = made.refresh(
            number,
            revisions,
            |made| made.settings == settings,
            |key, _| {
                let (made, cluster) = make(key, settings.clone(), inputs);
                if !is_old || **model.get(ClusterId(number)) != cluster {
                    model.insert(ClusterId(number), Arc::new(cluster));
                }
                made
            },
        );
        if is_new {
            note_missing(missing, number, made);
            self.remade.push(number);
        }
    }
}

/// Records whether neither a Service nor endpoints of a cluster exist.
fn note_missing(missing: &mut BTreeSet<u32>, number: u32, made: &Memo<Key, Made>) {
    if made.peek(number).is_some_and(|made| made.is_missing) {
        missing.insert(number);
    } else {
        missing.remove(&number);
    }
}

/// The key of a Service's port. No part can contain the separator.
fn identity(purpose: Purpose, reach: Reach, service: &NsName, port: &PortRef) -> String {
    let reach = if reach == Reach::Everywhere { "/everywhere" } else { "" };
    format!("{}{}/{}:{port}{reach}", purpose.prefix(), service.namespace, service.name)
}

fn make(key: &Key, settings: BackendSettings, inputs: &Inputs<'_>) -> (Made, Cluster) {
    let Key { service, port, purpose, protocol, reach, .. } = key;
    let (mut endpoints, mut fault, mut problem) = (Vec::new(), None, None);
    let found = match (purpose, port) {
        (Purpose::Auth, PortRef::Number(number)) => {
            (endpoints, fault) = inputs.find_host(&service.name, *number);
            None
        }
        _ => Some(inputs.find(service, port, *purpose, *reach, settings.by_virtual_address)),
    };
    match found {
        None => {}
        Some(Found::Endpoints(found)) => endpoints = found,
        Some(Found::Nothing(why)) => fault = Some(why),
        Some(Found::Faulty(severity, reason, message)) => {
            let service = inputs.service(service);
            problem = service.map(|service| Problem::of(severity, service, message).because(reason));
        }
        Some(Found::Some(found, said)) => (endpoints, problem) = (found, Some(said)),
    }
    let namespace =
        if service.namespace.is_empty() { String::new() } else { format!("{}-", service.namespace) };
    let name = format!("{}{}{namespace}{}-{port}", reach.prefix(), purpose.prefix(), service.name);
    let identity = identity(*purpose, *reach, service, port);
    let UpstreamProtocol { version, encryption, health_check, retry_constraint } = protocol.clone();
    endpoints.shrink_to_fit();
    let balance = settings.picks();
    let cluster =
        Cluster { name, identity, balance, version, encryption, endpoints, health_check, retry_constraint };
    let is_of_service = !matches!(purpose, Purpose::Auth);
    let is_missing = is_of_service && cluster.endpoints.is_empty() && inputs.service(service).is_none();
    let has_far = *purpose == Purpose::Http
        && *reach == Reach::Near
        && !settings.by_virtual_address
        && inputs.has_far_pods(service, port);
    (Made { settings, fault, is_missing, has_far, problem: problem.map(Box::new) }, cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_two_identities() {
        let of = |namespace: &str, name: &str| {
            identity(Purpose::Http, Reach::Near, &NsName::new(namespace, name), &PortRef::Number(80))
        };
        assert_eq!(of("shop", "web-api"), "shop/web-api:80");
        assert_ne!(of("shop", "web-api"), of("shop-web", "api"));
    }
}
