//! Gateways and their listeners. Must not be in here: what becomes of them.

use serde::{Deserialize, Serialize};

use super::super::de::{list, nullable};
use super::super::{At, Map, Metadata};
use super::open::{AddressType, FromNamespaces, Protocol, TlsMode, ValidationMode};
use super::references::ObjectReference;
use super::selector::LabelSelector;

/// Listeners that routes can be attached to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Gateway {
    /// Metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: GatewaySpec,
}

/// The desired state of a [`Gateway`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Name of the class.
    pub gateway_class_name: At<String>,
    /// Listeners.
    #[serde(default, deserialize_with = "list")]
    pub listeners: Vec<At<Listener>>,
    /// Addresses that it asks for.
    #[serde(default, deserialize_with = "list")]
    pub addresses: Vec<At<GatewayAddress>>,
    /// What is made for the Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Infrastructure>,
    /// Whose `ListenerSet`s may add listeners; none for nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,
    /// TLS towards clients and backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
}

/// A port, and what is spoken there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Name, unique in its Gateway.
    pub name: Box<str>,
    /// Name of the host, or `*.` and a domain; none for every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<At<String>>,
    /// Port.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// TLS of the listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Routes that may be attached; none for those of the same namespace.
    #[serde(default, deserialize_with = "nullable")]
    pub allowed_routes: AllowedRoutes,
}

/// TLS of a [`Listener`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Who ends TLS.
    #[serde(default)]
    pub mode: TlsMode,
    /// Secrets with certificates.
    #[serde(default, deserialize_with = "list")]
    pub certificate_refs: Vec<At<ObjectReference>>,
    /// Options of the implementation.
    #[serde(default, deserialize_with = "nullable")]
    pub options: Map<String>,
}

/// The routes that may be attached to a [`Listener`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AllowedRoutes {
    /// Namespaces of the routes.
    #[serde(default, deserialize_with = "nullable")]
    pub namespaces: AllowedNamespaces,
    /// Kinds of the routes; empty for those that the protocol of the listener has.
    #[serde(default, deserialize_with = "list")]
    pub kinds: Vec<RouteGroupKind>,
}

/// Namespaces of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AllowedNamespaces {
    /// Which namespaces.
    #[serde(default)]
    pub from: FromNamespaces,
    /// Labels of the namespaces; only for `Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The `ListenerSet`s that may add listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AllowedListeners {
    /// Their namespaces; none for no namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<ListenerNamespaces>,
}

/// Namespaces of `ListenerSet`s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerNamespaces {
    /// Which namespaces; none for no namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FromNamespaces>,
    /// Labels of the namespaces; only for `Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A kind of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct RouteGroupKind {
    /// Group; none stands for that of the Gateway API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// Kind.
    pub kind: Box<str>,
}

/// An address that a [`Gateway`] asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GatewayAddress {
    /// How it is written.
    #[serde(default, rename = "type")]
    pub kind: AddressType,
    /// The address; none for any of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What is made for a [`Gateway`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    /// Labels for what is made.
    #[serde(default, deserialize_with = "nullable")]
    pub labels: Map<String>,
    /// Annotations for what is made.
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: Map<String>,
    /// Parameters for the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<At<ObjectReference>>,
}

/// TLS of a whole [`Gateway`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GatewayTls {
    /// Towards backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendTls>,
    /// Towards clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTls>,
}

/// TLS of a [`Gateway`] towards backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// Secret with the certificate that backends are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<At<ObjectReference>>,
}

/// TLS of a [`Gateway`] towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// For ports without an entry of their own.
    #[serde(default, deserialize_with = "nullable")]
    pub default: FrontendTlsConfig,
    /// For single ports.
    #[serde(default, deserialize_with = "list")]
    pub per_port: Vec<PortTls>,
}

/// TLS of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PortTls {
    /// The port.
    pub port: u16,
    /// TLS there.
    #[serde(default, deserialize_with = "nullable")]
    pub tls: FrontendTlsConfig,
}

/// What is asked of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FrontendTlsConfig {
    /// How their certificates are verified; none if they need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<FrontendValidation>,
}

/// How certificates of clients are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendValidation {
    /// `ConfigMap`s or Secrets with authorities.
    #[serde(default, rename = "caCertificateRefs", deserialize_with = "list")]
    pub ca_certificate_refs: Vec<At<ObjectReference>>,
    /// What becomes of a client without a valid certificate.
    #[serde(default)]
    pub mode: ValidationMode,
}
