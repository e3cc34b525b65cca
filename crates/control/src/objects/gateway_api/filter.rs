//! Filters of routes and of their backends.

use serde::{Deserialize, Serialize};

use super::super::de::list;
use super::open::{FilterType, PathModifierType};
use super::references::ObjectReference;

/// What is done with a request or its response. The field with the name of the type says how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// What it does.
    #[serde(rename = "type")]
    pub kind: FilterType,
    /// Changes to the head of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<Box<HeaderModifier>>,
    /// Changes to the head of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<Box<HeaderModifier>>,
    /// A copy of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<Box<RequestMirror>>,
    /// A redirect as the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<Box<RequestRedirect>>,
    /// Another host or path for the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<Box<UrlRewrite>>,
    /// Answers to browsers about other origins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Box<Cors>>,
    /// A service that is asked about the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<Box<ExternalAuth>>,
    /// A filter of the implementation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<Box<ObjectReference>>,
}

/// Changes to a head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HeaderModifier {
    /// Headers that are replaced.
    #[serde(default, deserialize_with = "list")]
    pub set: Vec<Header>,
    /// Headers that are added.
    #[serde(default, deserialize_with = "list")]
    pub add: Vec<Header>,
    /// Headers that are removed.
    #[serde(default, deserialize_with = "list")]
    pub remove: Vec<Box<str>>,
}

/// A header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Header {
    /// Name.
    pub name: Box<str>,
    /// Value.
    pub value: Box<str>,
}

/// Where copies of requests go, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    /// The backend.
    pub backend_ref: ObjectReference,
    /// Share of the requests in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
    /// Share of the requests as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// A share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Fraction {
    /// Numerator.
    pub numerator: u32,
    /// Denominator; none stands for 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denominator: Option<u32>,
}

/// A redirect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// Scheme; none for that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Box<str>>,
    /// Host; none for that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// How the path changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Status; none stands for 302.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
}

/// Another host or path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct UrlRewrite {
    /// Host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// How the path changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
}

/// How a path changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// What is replaced.
    #[serde(rename = "type")]
    pub kind: PathModifierType,
    /// The new path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_full_path: Option<Box<str>>,
    /// The new prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_prefix_match: Option<Box<str>>,
}

/// What browsers are told about other origins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins.
    #[serde(default, deserialize_with = "list")]
    pub allow_origins: Vec<Box<str>>,
    /// Whether credentials may be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_credentials: Option<bool>,
    /// Methods.
    #[serde(default, deserialize_with = "list")]
    pub allow_methods: Vec<Box<str>>,
    /// Headers of requests.
    #[serde(default, deserialize_with = "list")]
    pub allow_headers: Vec<Box<str>>,
    /// Headers of responses.
    #[serde(default, deserialize_with = "list")]
    pub expose_headers: Vec<Box<str>>,
    /// Seconds for which answers hold; none stands for 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<u32>,
}

/// A service that is asked about requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// `HTTP` or `GRPC`.
    pub protocol: Box<str>,
    /// The backend.
    pub backend_ref: ObjectReference,
}
