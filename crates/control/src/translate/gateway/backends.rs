//! The clusters of `backendRefs`, with their shares. A reference that leads nowhere keeps its share, which is
//! answered with 500.
//!
//! Never in here: the requests of the backends.

use std::sync::Arc;

use model::{
    Affinity, Backend, BackendTarget, Backends, ClusterId, DirectResponse, Split, Transport, UpstreamTls,
};

use super::conditions::Fault;
use super::grants::{self, Referrer};
use super::kinds::RouteKind;
use super::policies::Policies;
use super::traffic::TrafficPolicies;
use crate::names::{NsName, PortRef};
use crate::objects::gateway_api::{BackendRef, GROUP, ObjectReference};
use crate::objects::{At, Resource, Service};
use crate::translate::certificates;
use crate::translate::clusters::ClusterQueries;
use crate::translate::inputs::Inputs;
use crate::translate::upstream_protocol::{HealthDraft, Protocol, UpstreamDraft};

/// Finds the clusters behind the references of one route.
pub(super) struct BackendFinder<'m, 'c, 'a> {
    pub(super) inputs: &'m Inputs<'a>,
    pub(super) clusters: &'m mut ClusterQueries<'c, 'a>,
    pub(super) policies: &'m Policies,
    pub(super) traffic: &'m TrafficPolicies,
    /// The Secret with the client certificate for backends.
    pub(super) client_certificate: Option<&'m NsName>,
    pub(super) kind: RouteKind,
    /// Requests and bytes of clients are in clear here: TLS ends at the listener, or is not used.
    pub(super) is_in_clear: bool,
    pub(super) namespace: &'m str,
    /// The health check that policies request for the endpoints of the present rule.
    pub(super) health: Option<HealthDraft>,
    /// The effects of policies of Services on the present rule.
    pub(super) by_policies: ByPolicies,
    /// The answers of policies in filters of backends.
    pub(super) answers: &'m [(NsName, Option<DirectResponse>)],
    /// The faults of references; the first is reported.
    pub(super) faults: Vec<Fault>,
    /// The Services that references name.
    pub(super) services: Vec<NsName>,
}

/// Whose requests a cluster gets.
#[derive(Clone, Copy)]
pub(super) enum Asker<'s> {
    /// Requests of clients, with the session persistence of their rule.
    Clients(Option<&'s Arc<Affinity>>),
    /// Questions about requests, and copies of them. Connections and datagrams have no such settings either.
    Forebay,
}

/// The effects of policies of Services on the requests of a rule.
#[derive(Clone, Copy, Default)]
pub(super) struct ByPolicies {
    /// Clients are kept at endpoints.
    pub(super) keep_sessions: bool,
    /// Retries are bound by the requests of the Service.
    pub(super) bound_retries: bool,
}

impl BackendFinder<'_, '_, '_> {
    /// The backends of a rule; none if no backend has a share.
    pub(super) fn backends(
        &mut self,
        references: &[At<BackendRef>],
        asker: Asker<'_>,
        mut filters: impl FnMut(&mut Self, &BackendRef) -> Result<Option<Arc<model::BackendFilters>>, ()>,
    ) -> Option<Backends> {
        let mut backends = Vec::with_capacity(references.len());
        for reference in references.iter().map(|reference| &reference.value) {
            let weight = reference.weight.unwrap_or(1);
            let found = self.cluster(&reference.object(), asker);
            let filters = filters(self, reference);
            backends.push(match (found, filters) {
                (Some(cluster), Ok(filters)) => {
                    Backend { target: BackendTarget::Cluster(cluster), weight, filters }
                }
                _ => Backend::invalid(weight),
            });
        }
        match backends.as_slice() {
            [Backend { target: BackendTarget::Cluster(cluster), weight: 1.., filters: None }] => {
                Some(Backends::One(*cluster))
            }
            [Backend { target: BackendTarget::Invalid, .. }] if !self.is_stream() => None,
            _ => Split::new(backends).ok().map(Backends::Split),
        }
    }

    fn is_stream(&self) -> bool {
        matches!(self.kind, RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp)
    }

    /// The cluster of a reference. Its fault is recorded.
    fn cluster(&mut self, reference: &ObjectReference, asker: Asker<'_>) -> Option<ClusterId> {
        self.record(reference, asker, self.kind == RouteKind::Grpc)
    }

    /// The cluster of a service that decides about requests. Its fault is recorded.
    pub(super) fn decider(&mut self, reference: &ObjectReference, is_grpc: bool) -> Option<ClusterId> {
        self.record(reference, Asker::Forebay, is_grpc)
    }

    fn record(&mut self, reference: &ObjectReference, asker: Asker<'_>, is_grpc: bool) -> Option<ClusterId> {
        match self.find(reference, asker, is_grpc) {
            Ok(cluster) => Some(cluster),
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    /// The cluster of a reference that gets no requests of the rule's clients, and no health checks.
    pub(super) fn unchecked_cluster(&mut self, reference: &ObjectReference) -> Option<ClusterId> {
        let health = self.health.take();
        let cluster = self.cluster(reference, Asker::Forebay);
        self.health = health;
        cluster
    }

    fn find(
        &mut self,
        reference: &ObjectReference,
        asker: Asker<'_>,
        is_grpc: bool,
    ) -> Result<ClusterId, Fault> {
        let kind = reference.kind_or(Service::KIND);
        let namespace = reference.namespace.as_deref().unwrap_or(self.namespace);
        let key = NsName::new(namespace, &*reference.name);
        if !reference.group().is_empty() || kind != Service::KIND {
            return Err(Fault::new("InvalidKind", format!("backend {kind} {key} is no Service")));
        }
        let referrer = Referrer { group: GROUP, kind: self.kind.name(), namespace: self.namespace };
        if !grants::allow(&self.inputs.gateway().grants, referrer, kind, (namespace, &reference.name)) {
            let message = format!("no ReferenceGrant allows to name Service {key}");
            return Err(Fault::new("RefNotPermitted", message));
        }
        self.known(&key, reference.port, asker, is_grpc)
    }

    /// The cluster of a Service that may be named.
    pub(super) fn known(
        &mut self,
        key: &NsName,
        port: Option<u16>,
        asker: Asker<'_>,
        is_grpc: bool,
    ) -> Result<ClusterId, Fault> {
        self.services.push(key.clone());
        let not_found = |message: String| Fault::new("BackendNotFound", message);
        let number = port.ok_or_else(|| not_found(format!("Service {key} is named without a port")))?;
        let port = PortRef::Number(number);
        let transport = if self.kind == RouteKind::Udp { Transport::Udp } else { Transport::Tcp };
        let service = self.inputs.service(key);
        let is_given = self.inputs.options.endpoints.iter().any(|given| given.service == *key);
        let service_port = service.and_then(|service| service.port(&port, transport));
        match service {
            None if !is_given => return Err(not_found(format!("Service {key} is missing"))),
            Some(service) if service_port.is_none() && !service.is_external() => {
                return Err(not_found(format!("Service {key} has no port {number}")));
            }
            _ => {}
        }
        // TLS that is passed through is that of clients and endpoints, whatever a policy says.
        if transport == Transport::Udp || !self.is_in_clear {
            return Ok(self.clusters.for_stream(key, &port, transport).0);
        }
        let Ok(tls) = self.policies.find(key, service_port) else {
            let message = format!("Service {key}: its BackendTLSPolicy cannot be obeyed");
            return Err(not_found(message));
        };
        let tls = tls.map(|tls| self.with_certificate(tls));
        if self.is_stream() {
            return Ok(match tls {
                Some(tls) => self.clusters.for_encrypted_stream(key, &port, Arc::unwrap_or_clone(tls)).0,
                None => self.clusters.for_stream(key, &port, transport).0,
            });
        }
        let speaks_http2 = is_grpc
            || service_port.and_then(|port| port.app_protocol.as_deref()) == Some("kubernetes.io/h2c");
        let protocol = match (&tls, speaks_http2) {
            (Some(_), true) => Protocol::Grpcs,
            (Some(_), false) => Protocol::Https,
            (None, true) => Protocol::Grpc,
            (None, false) => Protocol::Http,
        };
        let mut draft = UpstreamDraft {
            protocol: Some(protocol),
            own_tls: tls,
            unverified: None,
            health: self.health.clone(),
            retry_constraint: None,
        };
        let Asker::Clients(of_rule) = asker else {
            return Ok(self.clusters.for_route(key, &port, &draft, None));
        };
        let traffic = self.traffic.find(key);
        draft.retry_constraint = traffic.and_then(|traffic| traffic.constraint.clone());
        // "Session persistence configuration specified in a route rule SHALL override equivalent
        // configuration" of the policy (GEP-1619).
        let affinity = of_rule.or_else(|| traffic.and_then(|traffic| traffic.session.as_ref()));
        self.by_policies.keep_sessions |= of_rule.is_none() && affinity.is_some();
        self.by_policies.bound_retries |= draft.retry_constraint.is_some();
        Ok(self.clusters.for_route(key, &port, &draft, affinity))
    }

    /// The number of a Service's port with a name.
    pub(super) fn port_number(&self, service: &NsName, port: &PortRef) -> Option<u16> {
        self.inputs.service(service)?.port(port, Transport::Tcp).map(|port| port.port)
    }

    fn with_certificate(&self, tls: Arc<UpstreamTls>) -> Arc<UpstreamTls> {
        let found = self.client_certificate.and_then(|key| certificates::find(self.inputs, key).ok());
        match found {
            None => tls,
            Some((_, pair)) => {
                let certificate = Some(Arc::clone(&pair.certificate));
                Arc::new(UpstreamTls { certificate, ..(*tls).clone() })
            }
        }
    }
}
