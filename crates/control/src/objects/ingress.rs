//! Ingresses: which hosts and paths go to which Services, and where they are served.

use serde::{Deserialize, Serialize};

use super::de::{list, nullable};
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
    #[serde(default, deserialize_with = "list")]
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
    #[serde(default, deserialize_with = "list")]
    pub tls: Vec<At<IngressTls>>,
    /// Hosts and their paths.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<IngressRule>>,
}

/// Hosts that are served with one certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressTls {
    /// Names; none for all hosts of the Ingress.
    #[serde(default, deserialize_with = "list")]
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
    #[serde(default, deserialize_with = "list")]
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

/// A Service's port, as today's group and the legacy groups write it. What names no Service or no port is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "BackendForms", into = "BackendForms")]
pub struct Backend(Option<(String, PortRef)>);

/// The ways to write a [`Backend`].
#[derive(Default, Deserialize, Serialize)]
#[serde(rename = "Backend", rename_all = "camelCase")]
struct BackendForms {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<BackendService>,
    #[serde(default, skip_serializing)]
    service_name: Option<String>,
    #[serde(default, skip_serializing)]
    service_port: Option<PortRef>,
}

#[derive(Deserialize, Serialize)]
struct BackendService {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<BackendPort>,
}

#[derive(Deserialize, Serialize)]
struct BackendPort {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u16>,
}

impl Backend {
    /// Name of the Service, and its port; none where no Service or no port is named.
    pub fn service(&self) -> Option<(&str, PortRef)> {
        self.0.as_ref().map(|(name, port)| (name.as_str(), port.clone()))
    }
}

impl From<BackendForms> for Backend {
    fn from(forms: BackendForms) -> Self {
        Self(match forms.service {
            Some(BackendService { name, port }) => {
                port.and_then(BackendPort::reference).map(|port| (name, port))
            }
            None => forms.service_name.zip(forms.service_port),
        })
    }
}

impl From<Backend> for BackendForms {
    fn from(Backend(named): Backend) -> Self {
        let service = named.map(|(name, port)| {
            let (name_of_port, number) = match port {
                PortRef::Name(name) => (Some(name), None),
                PortRef::Number(number) => (None, Some(number)),
            };
            BackendService { name, port: Some(BackendPort { name: name_of_port, number }) }
        });
        Self { service, ..Self::default() }
    }
}

impl BackendPort {
    fn reference(self) -> Option<PortRef> {
        let name = self.name.filter(|name| !name.is_empty());
        name.map(PortRef::Name).or(self.number.map(PortRef::Number))
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
