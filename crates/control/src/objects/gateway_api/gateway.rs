//! Gateways and their listeners. Never in here: the effect of the fields.

use serde::{Deserialize, Serialize};

use super::super::de::{list, nullable};
use super::super::{At, Map, Metadata};
use super::open::{AddressType, FilterType, FromNamespaces, Protocol, TlsMode, ValidationMode};
use super::references::ObjectReference;
use super::selector::LabelSelector;

/// Listeners that routes can be attached to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Gateway {
    /// Name, namespace, labels and annotations.
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
    /// Listeners of the Gateway.
    #[serde(default, deserialize_with = "list")]
    pub listeners: Vec<At<Listener>>,
    /// Addresses that the Gateway requests.
    #[serde(default, deserialize_with = "list")]
    pub addresses: Vec<At<GatewayAddress>>,
    /// Metadata and parameters for the infrastructure of the Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Infrastructure>,
    /// `ListenerSet`s that may add listeners; none to allow no set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,
    /// TLS towards clients and backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
}

/// A port with its protocol and host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Name, unique in its Gateway.
    pub name: Box<str>,
    /// Name of the host, or `*.` and a domain; none for every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<At<String>>,
    /// Port number of the listener.
    pub port: u16,
    /// Protocol of the listener.
    pub protocol: Protocol,
    /// TLS of the listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Routes that may be attached; none for routes of the same namespace.
    #[serde(default, deserialize_with = "nullable")]
    pub allowed_routes: AllowedRoutes,
    /// Filters of requests before a route is chosen, since version 1.7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<ListenerFilters>,
}

/// Filters of a [`Listener`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerFilters {
    /// Filters of requests, in order.
    #[serde(default, deserialize_with = "list")]
    pub requests: Vec<ListenerFilter>,
}

/// A filter of a [`Listener`], as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerFilter {
    /// The type of the filter.
    #[serde(rename = "type")]
    pub kind: FilterType,
}

/// TLS of a [`Listener`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// The place where TLS ends.
    #[serde(default)]
    pub mode: TlsMode,
    /// Secrets with the certificates.
    #[serde(default, deserialize_with = "list")]
    pub certificate_refs: Vec<At<ObjectReference>>,
    /// Options of the implementation.
    #[serde(default, deserialize_with = "nullable")]
    pub options: Map<String>,
}

/// The routes that may be attached to a [`Listener`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AllowedRoutes {
    /// Namespaces whose routes may be attached.
    #[serde(default, deserialize_with = "nullable")]
    pub namespaces: AllowedNamespaces,
    /// Kinds of the routes; empty for the kinds that fit the listener's protocol.
    #[serde(default, deserialize_with = "list")]
    pub kinds: Vec<RouteGroupKind>,
}

/// Namespaces whose routes may be attached to a [`Listener`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AllowedNamespaces {
    /// The way in which the namespaces are selected.
    #[serde(default)]
    pub from: FromNamespaces,
    /// Labels of the namespaces; only for `Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The `ListenerSet`s that may add listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AllowedListeners {
    /// Namespaces of the sets; none to allow no namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<ListenerNamespaces>,
}

/// Namespaces whose `ListenerSet`s may add listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerNamespaces {
    /// The way in which the namespaces are selected; none to allow no namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FromNamespaces>,
    /// Labels of the namespaces; only for `Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A kind of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct RouteGroupKind {
    /// Group; none stands for the group of the Gateway API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// Name of the kind.
    pub kind: Box<str>,
}

/// An address that a [`Gateway`] requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GatewayAddress {
    /// The form of the address.
    #[serde(default, rename = "type")]
    pub kind: AddressType,
    /// The address; none for any address of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whence the address can be reached, since version 1.7; none or empty for the usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routability: Option<Box<str>>,
}

/// Metadata and parameters for the infrastructure of a [`Gateway`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    /// Labels for created objects.
    #[serde(default, deserialize_with = "nullable")]
    pub labels: Map<String>,
    /// Annotations for created objects.
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: Map<String>,
    /// Parameters for the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<At<ObjectReference>>,
}

/// TLS of a whole [`Gateway`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GatewayTls {
    /// TLS towards the backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendTls>,
    /// TLS towards the clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTls>,
}

/// TLS of a [`Gateway`] towards backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// Secret with the client certificate for backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<At<ObjectReference>>,
}

/// TLS of a [`Gateway`] towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// Settings for ports without an entry of their own.
    #[serde(default, deserialize_with = "nullable")]
    pub default: FrontendTlsConfig,
    /// Settings for single ports.
    #[serde(default, deserialize_with = "list")]
    pub per_port: Vec<PortTls>,
}

/// TLS of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PortTls {
    /// Port number of the listeners.
    pub port: u16,
    /// TLS towards the clients of the port.
    #[serde(default, deserialize_with = "nullable")]
    pub tls: FrontendTlsConfig,
}

/// Requirements for the certificates of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FrontendTlsConfig {
    /// Verification of client certificates; none if clients need no certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<FrontendValidation>,
}

/// Verification of client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendValidation {
    /// `ConfigMap`s or Secrets with authorities.
    #[serde(default, rename = "caCertificateRefs", deserialize_with = "list")]
    pub ca_certificate_refs: Vec<At<ObjectReference>>,
    /// The handling of a client without a valid certificate.
    #[serde(default)]
    pub mode: ValidationMode,
}
