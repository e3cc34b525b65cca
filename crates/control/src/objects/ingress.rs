use serde::{Deserialize, Serialize};

use super::de::nullable;
use super::{At, Metadata};
use crate::names::PortRef;

/// Which hosts and paths go to which Services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ingress {
    /// Metadata.
    pub metadata: Metadata,
    /// What is asked for.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: IngressSpec,
    /// Where its controller says that it is served. Nothing that is served depends on it.
    #[serde(default, deserialize_with = "nullable", skip_serializing)]
    pub status: IngressStatus,
}

impl Ingress {
    /// Whether the same is asked for: a status is an answer.
    pub fn asks_for_the_same(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.spec == other.spec
    }
}

/// What the controller of an [`Ingress`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressStatus {
    /// Where clients reach it.
    #[serde(default, deserialize_with = "nullable")]
    pub load_balancer: LoadBalancer,
}

/// Where clients reach a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LoadBalancer {
    /// Its addresses.
    #[serde(default, deserialize_with = "nullable")]
    pub ingress: Vec<IngressPoint>,
}

/// An address of a [`LoadBalancer`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct IngressPoint {
    /// IP address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Name, where it has no fixed address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

/// What an [`Ingress`] asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressSpec {
    /// Name of the [`IngressClass`] that is to serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class_name: Option<String>,
    /// Where requests go that no rule takes (`backend` in the legacy groups).
    #[serde(default, alias = "backend", skip_serializing_if = "Option::is_none")]
    pub default_backend: Option<At<Backend>>,
    /// Hosts that are served by TLS.
    #[serde(default, deserialize_with = "nullable")]
    pub tls: Vec<At<IngressTls>>,
    /// Hosts and their paths.
    #[serde(default, deserialize_with = "nullable")]
    pub rules: Vec<At<IngressRule>>,
}

/// Hosts that are served with one certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressTls {
    /// Names; none for all hosts of the Ingress.
    #[serde(default, deserialize_with = "nullable")]
    pub hosts: Vec<String>,
    /// Secret with the certificate; none for the default certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<At<String>>,
}

/// A host and its paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IngressRule {
    /// Name; none for every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<At<String>>,
    /// Paths; none to send the whole host to the default backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRule>,
}

/// The paths of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpRule {
    /// Paths.
    #[serde(default, deserialize_with = "nullable")]
    pub paths: Vec<At<IngressPath>>,
}

/// A path and where its requests go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressPath {
    /// The path; none or empty for `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `Exact`, `Prefix` or `ImplementationSpecific`; the legacy groups may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_type: Option<String>,
    /// Where to.
    pub backend: Backend,
}

/// A Service's port, as today's group and the legacy groups write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<BackendService>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_port: Option<PortRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct BackendService {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<BackendPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct BackendPort {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u16>,
}

impl Backend {
    /// Name of the Service, and its port; none where no Service or no port is named.
    pub fn service(&self) -> Option<(&str, PortRef)> {
        match &self.service {
            Some(service) => Some((&service.name, service.port.as_ref()?.reference()?)),
            None => Some((self.service_name.as_deref()?, self.service_port.clone()?)),
        }
    }
}

impl BackendPort {
    fn reference(&self) -> Option<PortRef> {
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        name.map(|name| PortRef::Name(name.to_owned())).or(self.number.map(PortRef::Number))
    }
}

/// Which controller serves the Ingresses of a class.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct IngressClass {
    /// Metadata.
    pub metadata: Metadata,
    /// The class.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: IngressClassSpec,
}

/// What an [`IngressClass`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IngressClassSpec {
    /// Name of the controller, such as `k8s.io/ingress-nginx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
}
