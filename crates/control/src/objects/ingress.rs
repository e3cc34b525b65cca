//! Ingresses and their classes. The fields of the legacy API groups are read into the fields of
//! `networking.k8s.io/v1`. Never in here: the meaning of the fields.

use serde::{Deserialize, Serialize, Serializer};

use super::de::{boxed_list, list, nullable};
use super::{At, Metadata};
use crate::names::PortRef;

/// An Ingress: maps hosts and paths to Services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ingress {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: IngressSpec,
    /// The addresses that the controller of the Ingress has written. Translation does not read them.
    #[serde(default, deserialize_with = "nullable", skip_serializing)]
    pub status: IngressStatus,
}

impl Ingress {
    /// Whether two Ingresses have the same metadata and spec; the status is not compared.
    pub fn asks_for_the_same(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.spec == other.spec
    }
}

/// The status of an [`Ingress`], written by its controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressStatus {
    /// None without a status. On the heap, since objects in files have none.
    #[serde(default)]
    load_balancer: Option<Box<LoadBalancer>>,
}

impl IngressStatus {
    /// The addresses at which clients reach the Ingress.
    pub fn points(&self) -> &[IngressPoint] {
        self.load_balancer.as_ref().map_or(&[], |balancer| &balancer.ingress)
    }
}

/// The addresses at which clients reach a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct LoadBalancer {
    #[serde(default, deserialize_with = "boxed_list")]
    ingress: Box<[IngressPoint]>,
}

/// An address of the load balancer in a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct IngressPoint {
    /// IP address of the load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Host name; replaces `ip` where the address is not fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

/// The desired state of an [`Ingress`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressSpec {
    /// Name of the [`IngressClass`] that the Ingress belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class_name: Option<Box<str>>,
    /// The backend for requests that no rule matches (`backend` in the legacy groups).
    #[serde(default, alias = "backend", skip_serializing_if = "Option::is_none")]
    pub default_backend: Option<Box<At<Backend>>>,
    /// Hosts that are served over TLS.
    #[serde(default, deserialize_with = "boxed_list")]
    pub tls: Box<[At<IngressTls>]>,
    /// Hosts and their paths.
    #[serde(default, deserialize_with = "boxed_list")]
    pub rules: Box<[At<IngressRule>]>,
}

/// Hosts that share a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressTls {
    /// Names of the hosts; empty for all hosts of the Ingress.
    #[serde(default, deserialize_with = "list")]
    pub hosts: Vec<String>,
    /// Secret that holds the certificate; none for the default certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<At<String>>,
}

/// A host and its paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IngressRule {
    /// Name of the host; none for every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<At<Box<str>>>,
    /// Paths; none sends all requests for the host to the default backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRule>,
}

/// The paths of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpRule {
    /// The paths of the host.
    #[serde(default, deserialize_with = "boxed_list")]
    pub paths: Box<[At<IngressPath>]>,
}

/// A path and the backend for its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressPath {
    /// The path; none or empty means `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Box<str>>,
    /// How it is compared; the legacy groups may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_type: Option<PathType>,
    /// The backend of the path's requests.
    pub backend: Backend,
}

/// How the path of an Ingress is compared with that of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Box<str>")]
pub enum PathType {
    /// The whole path.
    Exact,
    /// The path itself and the paths below it.
    Prefix,
    /// As the controller of the Ingress decides.
    ImplementationSpecific,
    /// A type that the API does not define.
    Other(Box<str>),
}

impl PathType {
    /// The type as written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Exact => "Exact",
            Self::Prefix => "Prefix",
            Self::ImplementationSpecific => "ImplementationSpecific",
            Self::Other(text) => text,
        }
    }
}

impl From<Box<str>> for PathType {
    fn from(text: Box<str>) -> Self {
        match &*text {
            "Exact" => Self::Exact,
            "Prefix" => Self::Prefix,
            "ImplementationSpecific" => Self::ImplementationSpecific,
            _ => Self::Other(text),
        }
    }
}

impl Serialize for PathType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A port of a Service, in the form of today's API group or of the legacy groups. None if no Service or no
/// port is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "BackendForms", into = "BackendForms")]
pub struct Backend(Option<(Box<str>, PortRef)>);

/// The forms in which a [`Backend`] is written.
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
    /// Name of the Service and its port; none if either is not named.
    pub fn service(&self) -> Option<(&str, PortRef)> {
        self.0.as_ref().map(|(name, port)| (&**name, port.clone()))
    }
}

impl From<BackendForms> for Backend {
    fn from(forms: BackendForms) -> Self {
        Self(match forms.service {
            Some(BackendService { name, port }) => {
                port.and_then(BackendPort::reference).map(|port| (name.into(), port))
            }
            None => forms.service_name.map(String::into_boxed_str).zip(forms.service_port),
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
            BackendService { name: name.into(), port: Some(BackendPort { name: name_of_port, number }) }
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

/// A class of Ingresses, and the controller that serves it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct IngressClass {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state of the class.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: IngressClassSpec,
}

/// The desired state of an [`IngressClass`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IngressClassSpec {
    /// Name of the controller, such as `k8s.io/ingress-nginx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
}
