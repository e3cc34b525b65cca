//! Filters of routes and of their backends.

use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::open::{FilterType, PathModifierType};
use super::references::ObjectReference;

/// A change of a request or its response. The field named after the type holds its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// The type of the filter.
    #[serde(rename = "type")]
    pub kind: FilterType,
    /// The changes of the request's head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<Box<HeaderModifier>>,
    /// The changes of the response's head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<Box<HeaderModifier>>,
    /// The target of copies of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<Box<RequestMirror>>,
    /// The redirect that answers the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<Box<RequestRedirect>>,
    /// The host or path that the backend gets instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<Box<UrlRewrite>>,
    /// The responses to cross-origin requests of browsers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Box<Cors>>,
    /// A service that authorizes the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<Box<ExternalAuth>>,
    /// The answer in place of a backend's (GEP-2826).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_response: Option<Box<DirectResponse>>,
    /// A filter that the implementation defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<Box<ObjectReference>>,
}

/// An answer in place of a backend's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponse {
    /// Status of the answer.
    pub status_code: u16,
    /// Content of the answer; none for an answer without content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<DirectResponseBody>,
}

/// The content of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct DirectResponseBody {
    /// The content as text.
    pub string: Box<str>,
}

/// Changes to the headers of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HeaderModifier {
    /// Headers that replace all others of their name.
    #[serde(default, deserialize_with = "list")]
    pub set: Vec<Header>,
    /// Headers that are added.
    #[serde(default, deserialize_with = "list")]
    pub add: Vec<Header>,
    /// Headers that are removed.
    #[serde(default, deserialize_with = "list")]
    pub remove: Vec<Box<str>>,
}

/// A header of a request or response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Header {
    /// The header's name.
    pub name: Box<str>,
    /// The header's value.
    pub value: Box<str>,
}

/// The target and the share of copied requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    /// The backend that receives the copies.
    pub backend_ref: ObjectReference,
    /// Share of the requests in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
    /// Share of the requests as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// A share of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Fraction {
    /// Numerator of the share.
    pub numerator: u32,
    /// Denominator of the share; none stands for 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denominator: Option<u32>,
}

/// A redirect as the response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// Scheme; none for the scheme of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Box<str>>,
    /// Host; none for the host of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// The change of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
    /// Port; none for the port that belongs to the scheme, or that of the listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Status of the response; none stands for 302.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
}

/// Another host or path for the backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct UrlRewrite {
    /// Host for the backend; none for that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// The change of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
}

/// A change of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// The part that is replaced: the whole path, or the prefix of the match.
    #[serde(rename = "type")]
    pub kind: PathModifierType,
    /// The new path, for `ReplaceFullPath`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_full_path: Option<Box<str>>,
    /// The new prefix, for `ReplacePrefixMatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_prefix_match: Option<Box<str>>,
}

/// The CORS policy that browsers get (Fetch Standard, "CORS protocol").
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins that may read responses.
    #[serde(default, deserialize_with = "list")]
    pub allow_origins: Vec<Box<str>>,
    /// Whether requests with credentials are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_credentials: Option<bool>,
    /// Methods that are allowed.
    #[serde(default, deserialize_with = "list")]
    pub allow_methods: Vec<Box<str>>,
    /// Request headers that are allowed.
    #[serde(default, deserialize_with = "list")]
    pub allow_headers: Vec<Box<str>>,
    /// Response headers that scripts may read.
    #[serde(default, deserialize_with = "list")]
    pub expose_headers: Vec<Box<str>>,
    /// Seconds for which a browser may cache a preflight response; none stands for 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<u32>,
}

/// A service that authorizes requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// `HTTP` or `GRPC`.
    pub protocol: Box<str>,
    /// The service that is asked.
    pub backend_ref: ObjectReference,
    /// Settings of services that speak Envoy's `ext_authz` over gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Box<GrpcAuth>>,
    /// Settings of services that speak HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Box<HttpAuth>>,
    /// The part of the body that the service sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_body: Option<ForwardBody>,
}

/// Settings of authorization services that speak gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcAuth {
    /// Headers that the service sees; an empty list stands for all.
    #[serde(default, deserialize_with = "list")]
    pub allowed_headers: Vec<Box<str>>,
}

/// Settings of authorization services that speak HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuth {
    /// The text before the paths of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Box<str>>,
    /// Headers that the service sees beside `Host`, `Content-Length` and `Authorization`.
    #[serde(default, deserialize_with = "list")]
    pub allowed_headers: Vec<Box<str>>,
    /// Headers of the answer that the backend gets; an empty list stands for all.
    #[serde(default, deserialize_with = "list")]
    pub allowed_response_headers: Vec<Box<str>>,
}

/// The part of a request's body that an authorization service sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardBody {
    /// Bytes that the service sees at most; 0 for no body.
    #[serde(default)]
    pub max_size: u32,
}
