use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::backend_ref::BackendRef;
use super::filter::Filter;
use super::http_route::ValueMatch;
use super::open::ValueMatchType;
use super::references::ParentReference;
use super::session::SessionPersistence;

/// A route for gRPC requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcRoute {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: GrpcRouteSpec,
}

/// The desired state of a [`GrpcRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// The Gateways and `ListenerSet`s to attach to.
    #[serde(default, deserialize_with = "list")]
    pub parent_refs: Vec<At<ParentReference>>,
    /// Host names; empty for those of the listeners.
    #[serde(default, deserialize_with = "list")]
    pub hostnames: Vec<At<String>>,
    /// Rules of the route, in order.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<GrpcRouteRule>>,
}

/// A rule: matches, filters and backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteRule {
    /// Name, unique in the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Matches, of which one has to accept the request; empty to accept all requests.
    #[serde(default, deserialize_with = "list")]
    pub matches: Vec<At<GrpcMatch>>,
    /// Filters for requests and responses of the rule.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<At<Filter>>,
    /// Backends, each with its share.
    #[serde(default, deserialize_with = "list")]
    pub backend_refs: Vec<At<BackendRef>>,
    /// Session persistence, which keeps a client's requests at one endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// Conditions of a request, all of which have to be fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcMatch {
    /// Service and method; none for all methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<GrpcMethodMatch>,
    /// Headers that the request needs.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
}

/// A service and a method to compare with the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrpcMethodMatch {
    /// The comparison of service and method.
    #[serde(default, rename = "type")]
    pub kind: ValueMatchType,
    /// Service name; none for every service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<str>>,
    /// Method name; none for every method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Box<str>>,
}
