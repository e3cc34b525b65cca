//! `HTTPRoute`s: rules and what they match. Must not be in here: filters, which other routes have too.

use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::backend_ref::BackendRef;
use super::filter::Filter;
use super::open::{PathMatchType, ValueMatchType};
use super::references::ParentReference;
use super::session::SessionPersistence;

/// A route for HTTP requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpRoute {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: HttpRouteSpec,
}

/// The desired state of an [`HttpRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// The Gateways and `ListenerSet`s to attach to.
    #[serde(default, deserialize_with = "list")]
    pub parent_refs: Vec<At<ParentReference>>,
    /// Host names; empty for those of the listeners.
    #[serde(default, deserialize_with = "list")]
    pub hostnames: Vec<At<String>>,
    /// Rules. An empty list means no rule: the API server adds a rule for the path `/` where the field is
    /// missing.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<HttpRouteRule>>,
}

/// A rule: matches, filters and backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    /// Name, unique in the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Matches, of which one has to accept the request; empty to accept all requests.
    #[serde(default, deserialize_with = "list")]
    pub matches: Vec<At<HttpMatch>>,
    /// Filters for requests and responses of the rule.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<At<Filter>>,
    /// Backends, each with its share.
    #[serde(default, deserialize_with = "list")]
    pub backend_refs: Vec<At<BackendRef>>,
    /// Timeouts of the rule's requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Box<Timeouts>>,
    /// The policy for further tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Retry>>,
    /// Session persistence, which keeps a client's requests at one endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// Conditions of a request, all of which have to be fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// The path; none for the prefix `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// Headers that the request needs.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
    /// Query parameters that the request needs.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub query_params: Vec<ValueMatch>,
    /// Method that the request needs; none for every method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Box<str>>,
}

/// A path to compare with the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PathMatch {
    /// The comparison of the path.
    #[serde(default, rename = "type")]
    pub kind: PathMatchType,
    /// The path; none stands for `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<str>>,
}

/// A header or a query parameter to compare with the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ValueMatch {
    /// The comparison of the value.
    #[serde(default, rename = "type")]
    pub kind: ValueMatchType,
    /// Name of the header or parameter.
    pub name: Box<str>,
    /// Value to compare with.
    pub value: Box<str>,
}

/// Timeouts of a rule, as GEP-2257 writes durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Timeout of a whole request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<str>>,
    /// Timeout of one try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<Box<str>>,
}

/// The policy for further tries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Retry {
    /// Statuses of responses after which another try is made.
    #[serde(default, deserialize_with = "list")]
    pub codes: Vec<u16>,
    /// The most tries after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Least time between two tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Box<str>>,
}
