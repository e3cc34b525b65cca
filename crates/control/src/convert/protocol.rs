//! The protocol of backends.
//!
//! Never in here: routes.

use super::annotations::Annotations;
use super::backends::Service;
use super::document::{Document, all};
use crate::index::Index;
use crate::names::NsName;
use crate::objects::gateway_api::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendValidation, ObjectReference, PolicyTarget,
};
use crate::objects::{self, ConfigMap, Resource};
use crate::problem::Severity;

/// Annotations about TLS towards backends that the Gateway API cannot express.
const LOST: &[&str] = &["proxy-ssl-ciphers", "proxy-ssl-protocols", "proxy-ssl-verify-depth"];

/// The protocol of an Ingress's backends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Protocol {
    /// The routes become `GRPCRoute`s, if the paths are those of gRPC methods.
    pub(super) is_grpc_route: bool,
    is_http2: bool,
    is_tls: bool,
    /// Certificates of backends are verified, unlike before.
    verifies: bool,
    /// The Secret with the authorities.
    authorities: Option<String>,
    name: Option<String>,
    pub(super) remarks: Vec<String>,
    /// Forebay does not know the protocol.
    pub(super) is_unknown: bool,
}

impl Protocol {
    pub(super) fn read(annotations: &Annotations<'_>) -> Self {
        let mut protocol = Self::default();
        let word = annotations.text("backend-protocol").unwrap_or("HTTP").to_ascii_uppercase();
        protocol.is_http2 = matches!(word.as_str(), "GRPC" | "GRPCS");
        protocol.is_tls = matches!(word.as_str(), "HTTPS" | "GRPCS");
        protocol.is_grpc_route = protocol.is_http2;
        let lose = |name: &str, message: &str| annotations.lose(Severity::Warning, name, message);
        if matches!(word.as_str(), "AUTO_HTTP" | "FCGI") {
            protocol.is_unknown = true;
            let message = format!("routes cannot speak {word} to backends; requests are answered 500");
            protocol.remarks.push(lose("backend-protocol", &message));
        }
        let secret = annotations.text("proxy-ssl-secret");
        protocol.verifies = annotations.text("proxy-ssl-verify") == Some("on") && secret.is_some();
        protocol.name = annotations.text("proxy-ssl-name").map(str::to_owned);
        annotations.pass_over(&["proxy-ssl-server-name"]);
        for name in LOST {
            if annotations.text(name).is_some() && protocol.is_tls {
                protocol.remarks.push(lose(name, "BackendTLSPolicy cannot say it"));
            }
        }
        if let Some(secret) = secret.filter(|_| protocol.is_tls) {
            let message = "its certificate, if it has one, has to be named by tls.backend.clientCertificateRef of the Gateway";
            protocol.remarks.push(lose("proxy-ssl-secret", &format!("Secret {secret}: {message}")));
            protocol.authorities = Some(secret.to_owned());
        }
        protocol
    }

    /// The manual changes that Services need; none if no change is needed.
    pub(super) fn of_services(
        &self,
        annotations: &Annotations<'_>,
        services: &[Service],
        index: &Index,
        is_grpc: bool,
    ) -> Option<String> {
        if !self.is_http2 || is_grpc {
            return None;
        }
        let namespace = annotations.ingress.namespace();
        let speaks = |service: &&Service| {
            let key = NsName::new(namespace, &*service.name);
            let found = index.services.get(&key);
            let port = found.and_then(|found| found.spec.ports.iter().find(|port| port.port == service.port));
            port.and_then(|port| port.app_protocol.as_deref()) == Some("kubernetes.io/h2c")
        };
        let silent: Vec<_> =
            services.iter().filter(|service| !speaks(service)).map(|service| service.name.as_str()).collect();
        let message = format!("a port of Service {} needs appProtocol: kubernetes.io/h2c", silent.join(", "));
        (!silent.is_empty()).then(|| annotations.lose(Severity::Warning, "backend-protocol", &message))
    }

    /// A policy for a Service with TLS; none for a Service without TLS.
    pub(super) fn policy(
        &self,
        annotations: &Annotations<'_>,
        service: &Service,
        index: &Index,
    ) -> Vec<Document> {
        if !self.is_tls {
            return Vec::new();
        }
        let namespace = annotations.ingress.namespace();
        let name = format!("{}-ca", service.name);
        let hostname = self.name.clone().unwrap_or_else(|| format!("{}.{namespace}.svc", service.name));
        let reference = |name: &str| ObjectReference {
            group: Some("".into()),
            kind: Some(ConfigMap::KIND.into()),
            name: name.into(),
            ..ObjectReference::default()
        };
        let target = PolicyTarget {
            group: "".into(),
            kind: objects::Service::KIND.into(),
            name: service.name.as_str().into(),
            section_name: None,
        };
        let spec = BackendTlsPolicySpec {
            target_refs: all([target]),
            validation: BackendValidation {
                ca_certificate_refs: all([reference(&name)]),
                hostname: hostname.as_str().into(),
                ..BackendValidation::default()
            },
        };
        let mut policy =
            Document::of_gateway_api(BackendTlsPolicy::KIND, Some(namespace), &service.name, &spec);
        let is_there = index.configmaps.get(&NsName::new(namespace, &*name)).is_some();
        if !self.verifies {
            let message = "certificates of backends are not verified now, and the Gateway API has no way to leave that out";
            policy.remark("", annotations.lose(Severity::Warning, "backend-protocol", message));
        }
        if !is_there {
            let from = self
                .authorities
                .as_deref()
                .map_or("the authority of the backends".to_owned(), |it| format!("ca.crt of Secret {it}"));
            let message = format!(
                "needs a ConfigMap {namespace}/{name} whose key ca.crt holds {from}; until it is there, requests are answered 500"
            );
            policy.remark(
                "/spec/validation/caCertificateRefs",
                annotations.lose(Severity::Warning, "backend-protocol", &message),
            );
        }
        vec![policy]
    }
}
