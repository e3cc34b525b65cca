use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::backend_ref::BackendRef;
use super::filter::Filter;
use super::http_route::{SessionPersistence, ValueMatch};
use super::open::ValueMatchType;
use super::references::ParentReference;

/// Where gRPC requests go.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcRoute {
    /// Metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: GrpcRouteSpec,
}

/// The desired state of a [`GrpcRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// What it wants to be attached to.
    #[serde(default, deserialize_with = "list")]
    pub parent_refs: Vec<At<ParentReference>>,
    /// Hosts; empty for those of the listeners.
    #[serde(default, deserialize_with = "list")]
    pub hostnames: Vec<At<String>>,
    /// Rules.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<GrpcRouteRule>>,
}

/// Requests, and what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteRule {
    /// Name, unique in the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Which requests: any of these; empty for all.
    #[serde(default, deserialize_with = "list")]
    pub matches: Vec<At<GrpcMatch>>,
    /// Filters.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<At<Filter>>,
    /// Backends.
    #[serde(default, deserialize_with = "list")]
    pub backend_refs: Vec<At<BackendRef>>,
    /// Requests that stay at one endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// What a request has to be: all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcMatch {
    /// Service and method; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<GrpcMethodMatch>,
    /// Headers.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
}

/// A service and a method to compare with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcMethodMatch {
    /// How both are compared.
    #[serde(default, rename = "type")]
    pub kind: ValueMatchType,
    /// Service; none for every service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<str>>,
    /// Method; none for every method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Box<str>>,
}
