//! `HTTPRoute`s: rules and what they match. Must not be in here: filters, which other routes have too.

use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::super::{At, Metadata};
use super::backend_ref::BackendRef;
use super::filter::Filter;
use super::open::{CookieLifetime, PathMatchType, SessionType, ValueMatchType};
use super::references::ParentReference;

/// Where HTTP requests go.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpRoute {
    /// Metadata.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: HttpRouteSpec,
}

/// The desired state of an [`HttpRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// What it wants to be attached to.
    #[serde(default, deserialize_with = "list")]
    pub parent_refs: Vec<At<ParentReference>>,
    /// Hosts; empty for those of the listeners.
    #[serde(default, deserialize_with = "list")]
    pub hostnames: Vec<At<String>>,
    /// Rules. None at all is no rule: the API server adds one for the path `/`.
    #[serde(default, deserialize_with = "list")]
    pub rules: Vec<At<HttpRouteRule>>,
}

/// Requests, and what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    /// Name, unique in the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Which requests: any of these; empty for all.
    #[serde(default, deserialize_with = "list")]
    pub matches: Vec<At<HttpMatch>>,
    /// Filters.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<At<Filter>>,
    /// Backends.
    #[serde(default, deserialize_with = "list")]
    pub backend_refs: Vec<At<BackendRef>>,
    /// Timeouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Box<Timeouts>>,
    /// When another try is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Retry>>,
    /// Requests that stay at one endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// What a request has to be: all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// Path; none for the prefix `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// Headers.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
    /// Parameters of the query.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub query_params: Vec<ValueMatch>,
    /// Method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Box<str>>,
}

/// A path to compare with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PathMatch {
    /// How it is compared.
    #[serde(default, rename = "type")]
    pub kind: PathMatchType,
    /// The path; none stands for `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<str>>,
}

/// A header or a parameter to compare with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ValueMatch {
    /// How the value is compared.
    #[serde(default, rename = "type")]
    pub kind: ValueMatchType,
    /// Name.
    pub name: Box<str>,
    /// Value.
    pub value: Box<str>,
}

/// Timeouts of a rule, as GEP-2257 writes durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Of a whole request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<str>>,
    /// Of one try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<Box<str>>,
}

/// When another try is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Retry {
    /// Statuses of responses after which one is made.
    #[serde(default, deserialize_with = "list")]
    pub codes: Vec<u16>,
    /// How many are made beside the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Least time between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Box<str>>,
}

/// Requests that stay at one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// Name of the cookie or header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<Box<str>>,
    /// How long a session lasts at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<Box<str>>,
    /// Where it is kept.
    #[serde(default, rename = "type")]
    pub kind: SessionType,
    /// The cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie_config: Option<CookieConfig>,
}

/// The cookie of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieConfig {
    /// How long it lives.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}
