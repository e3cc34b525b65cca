//! `BackendTLSPolicy`: the Services that use TLS, and the verification of their certificates.
//!
//! Never in here: routes.

use std::collections::HashMap;
use std::sync::Arc;

use model::{AlternativeName, Authorities, UpstreamTls};

use super::conditions::{Fault, age};
use super::grants::Referrer;
use super::listener_tls::authorities;
use crate::certificate;
use crate::names::NsName;
use crate::objects::gateway_api::{BackendTlsPolicy, GROUP, SubjectAltName, SubjectAltNameType};
use crate::objects::{At, Resource, Service, ServicePort, Sourced};
use crate::translate::inputs::Inputs;

/// The policies of each Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Policies(HashMap<NsName, Vec<Policy>>);

/// The settings of a policy for a Service.
#[derive(Clone, Debug, PartialEq)]
struct Policy {
    /// Name of the port; none for all ports.
    port: Option<Box<str>>,
    /// The TLS settings; none if they cannot be applied.
    tls: Option<Arc<UpstreamTls>>,
}

/// A policy with the results for its status.
pub(super) struct Judged<'a> {
    pub(super) object: &'a Sourced<BackendTlsPolicy>,
    pub(super) services: Vec<NsName>,
    pub(super) accepted: Option<Fault>,
    pub(super) resolved: Option<Fault>,
}

impl Policies {
    /// The TLS settings for endpoints of a Service's port: none without a policy, and an error if the policy
    /// cannot be applied. A policy for one port takes precedence over a policy for all ports.
    pub(super) fn find(
        &self,
        service: &NsName,
        port: Option<&ServicePort>,
    ) -> Result<Option<Arc<UpstreamTls>>, ()> {
        let Some(policies) = self.0.get(service) else { return Ok(None) };
        let name = port.and_then(|port| port.name.as_deref());
        let of_port = policies.iter().find(|policy| policy.port.is_some() && policy.port.as_deref() == name);
        let policy = of_port.or_else(|| policies.iter().find(|policy| policy.port.is_none()));
        policy.map_or(Ok(None), |policy| policy.tls.clone().map(Some).ok_or(()))
    }
}

/// Reads all policies. If two apply to the same port, the older one counts.
pub(super) fn read<'a>(inputs: &Inputs<'a>) -> (Policies, Vec<Judged<'a>>) {
    let mut objects: Vec<_> = inputs.gateway().backend_tls_policies.iter().map(|it| &**it).collect();
    objects.sort_by_cached_key(|it| age(*it));
    let (mut policies, mut judged) = (Policies::default(), Vec::new());
    for object in objects {
        judged.push(policies.add(object, inputs));
    }
    (policies, judged)
}

impl Policies {
    fn add<'a>(&mut self, object: &'a Sourced<BackendTlsPolicy>, inputs: &Inputs<'_>) -> Judged<'a> {
        let (tls, accepted, resolved) = match tls(object, inputs) {
            Ok((tls, resolved)) => (Some(Arc::new(tls)), None, resolved),
            Err((accepted, resolved)) => (None, Some(accepted), resolved),
        };
        let mut judged = Judged { object, services: Vec::new(), accepted, resolved };
        let (mut added, mut conflict) = (false, None);
        for target in object.spec.target_refs.iter().map(|target| &target.value) {
            if !target.group.is_empty() || *target.kind != *Service::KIND {
                continue;
            }
            let service = NsName::new(object.namespace(), &*target.name);
            let known = self.0.entry(service.clone()).or_default();
            judged.services.push(service);
            if known.iter().any(|policy| policy.port == target.section_name) {
                let message = format!("an older BackendTLSPolicy is about Service {} already", target.name);
                conflict = Some(Fault::new("Conflicted", message));
            } else {
                known.push(Policy { port: target.section_name.clone(), tls: tls.clone() });
                added = true;
            }
        }
        judged.accepted = judged.accepted.or(conflict.filter(|_| !added));
        judged
    }
}

/// The value with the fault of its references, or the reason for not accepting the policy with this fault.
type Read<T> = Result<(T, Option<Fault>), (Fault, Option<Fault>)>;

/// The TLS settings of a policy, or the reason why it cannot be applied, each with the fault of its
/// references.
fn tls(object: &Sourced<BackendTlsPolicy>, inputs: &Inputs<'_>) -> Read<UpstreamTls> {
    let validation = &object.spec.validation;
    let alternative_names = validation.subject_alt_names.iter().map(alternative_name);
    let alternative_names: Vec<_> = alternative_names.collect::<Result<_, _>>().map_err(|why| (why, None))?;
    let (authorities, fault) = believed(object, inputs)?;
    let tls = UpstreamTls {
        authorities,
        verify: true,
        depth: 10,
        name: validation.hostname.to_string(),
        send_name: true,
        alternative_names,
        ..UpstreamTls::default()
    };
    Ok((tls, fault))
}

/// The authorities that a policy names, or those of the system if the policy says so.
fn believed(object: &Sourced<BackendTlsPolicy>, inputs: &Inputs<'_>) -> Read<Arc<Authorities>> {
    let validation = &object.spec.validation;
    let none = |message: &str| (Fault::new("NoValidCACertificate", message), None);
    match validation.well_known_ca_certificates.as_deref() {
        Some(_) if !validation.ca_certificate_refs.is_empty() => {
            let message = "of caCertificateRefs and wellKnownCACertificates there may be only one";
            return Err((Fault::new("Invalid", message), None));
        }
        Some("System") => {
            let authorities = certificate::authorities_of_system();
            let none = none("the system has no certificates of authorities, where Forebay runs");
            return if authorities.certificates.is_empty() { Err(none) } else { Ok((authorities, None)) };
        }
        Some(other) => {
            let message = format!("wellKnownCACertificates {other} is not supported; System is");
            return Err((Fault::new("Invalid", message), None));
        }
        None => {}
    }
    let referrer = Referrer { group: GROUP, kind: BackendTlsPolicy::KIND, namespace: object.namespace() };
    let reasons = ("InvalidCACertificateRef", "InvalidKind");
    let found = authorities(&validation.ca_certificate_refs, referrer, inputs, reasons);
    let (authorities, fault) =
        found.map_err(|fault| (none("no certificate of an authority can be used").0, Some(fault)))?;
    if authorities.certificates.is_empty() {
        return Err(none("caCertificateRefs names no ConfigMap with authorities"));
    }
    Ok((authorities, fault))
}

fn alternative_name(name: &At<SubjectAltName>) -> Result<AlternativeName, Fault> {
    let SubjectAltName { kind, hostname, uri } = &name.value;
    match (kind, hostname, uri) {
        (SubjectAltNameType::Hostname, Some(name), None) => Ok(AlternativeName::Dns(name.to_string())),
        (SubjectAltNameType::Uri, None, Some(uri)) => Ok(AlternativeName::Uri(uri.to_string())),
        (SubjectAltNameType::Other(other), ..) => {
            Err(Fault::new("Invalid", format!("subjectAltNames of type {other} are not supported")))
        }
        _ => Err(Fault::new("Invalid", "each of subjectAltNames has the field of its type, and no other")),
    }
}
