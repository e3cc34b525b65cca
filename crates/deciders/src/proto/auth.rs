//! `envoy.service.auth.v3`: one question about a request, and its answer.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

use super::{Address, HeaderMap, HeaderValueOption, HttpStatus, QueryParameter, RpcStatus, Time};

/// The path of the call.
pub const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";

/// The question about a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckRequest {
    /// The request, and its way.
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<AttributeContext>,
}

/// A request, and its way.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AttributeContext {
    /// The client, or the proxy in front of this one.
    #[prost(message, optional, tag = "1")]
    pub source: Option<Peer>,
    /// The proxy's end of the connection.
    #[prost(message, optional, tag = "2")]
    pub destination: Option<Peer>,
    /// The request that is to be allowed.
    #[prost(message, optional, tag = "4")]
    pub request: Option<Request>,
    /// Values of the configuration for the service.
    #[prost(btree_map = "string, string", tag = "10")]
    pub context_extensions: BTreeMap<String, String>,
    /// The session of TLS.
    #[prost(message, optional, tag = "12")]
    pub tls_session: Option<TlsSession>,
}

/// One end of a connection.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Peer {
    /// Its address and port.
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
    /// Name in its certificate.
    #[prost(string, tag = "4")]
    pub principal: String,
    /// Its certificate, as PEM in the escapes of URLs.
    #[prost(string, tag = "5")]
    pub certificate: String,
}

/// When a request came, and its content.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Request {
    /// The time of its first byte.
    #[prost(message, optional, tag = "1")]
    pub time: Option<Time>,
    /// The request as HTTP.
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpRequest>,
}

/// A request as HTTP.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HttpRequest {
    /// The request's id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The method of HTTP.
    #[prost(string, tag = "2")]
    pub method: String,
    /// Headers by their names in lower case; several values of a name are joined by commas.
    #[prost(btree_map = "string, string", tag = "3")]
    pub headers: BTreeMap<String, String>,
    /// Path and query, as the client has sent them.
    #[prost(string, tag = "4")]
    pub path: String,
    /// The host that is asked for.
    #[prost(string, tag = "5")]
    pub host: String,
    /// `http` or `https`.
    #[prost(string, tag = "6")]
    pub scheme: String,
    /// Length of the body; -1 if it is unknown.
    #[prost(int64, tag = "9")]
    pub size: i64,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    #[prost(string, tag = "10")]
    pub protocol: String,
    /// The body, if it is text.
    #[prost(string, tag = "11")]
    pub body: String,
    /// The body, if it is no text.
    #[prost(bytes = "vec", tag = "12")]
    pub raw_body: Vec<u8>,
    /// Headers as bytes, for services that ask for them in place of `headers`.
    #[prost(message, optional, tag = "13")]
    pub header_map: Option<HeaderMap>,
}

/// A session of TLS.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TlsSession {
    /// The server name that the client has asked for.
    #[prost(string, tag = "1")]
    pub sni: String,
}

/// The answer about a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckResponse {
    /// Whether the request is allowed: code 0.
    #[prost(message, optional, tag = "1")]
    pub status: Option<RpcStatus>,
    /// The details for either case.
    #[prost(oneof = "HttpResponse", tags = "2, 3, 5")]
    pub http_response: Option<HttpResponse>,
}

/// The treatment of a request that was checked.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum HttpResponse {
    /// The answer to a request that is denied.
    #[prost(message, tag = "2")]
    Denied(DeniedHttpResponse),
    /// The changes of a request that is allowed.
    #[prost(message, tag = "3")]
    Ok(OkHttpResponse),
    /// The answer to a request about which the service could not decide.
    #[prost(message, tag = "5")]
    Error(DeniedHttpResponse),
}

/// The answer to a request that is denied.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeniedHttpResponse {
    /// Its status; 403 if there is none.
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    /// Headers of the answer.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// Text of the answer.
    #[prost(string, tag = "3")]
    pub body: String,
}

/// The changes of a request that is allowed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OkHttpResponse {
    /// Headers for the endpoint.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// Names of headers that the endpoint does not get.
    #[prost(string, repeated, tag = "5")]
    pub headers_to_remove: Vec<String>,
    /// Headers for the client.
    #[prost(message, repeated, tag = "6")]
    pub response_headers_to_add: Vec<HeaderValueOption>,
    /// Query parameters for the endpoint.
    #[prost(message, repeated, tag = "7")]
    pub query_parameters_to_set: Vec<QueryParameter>,
    /// Names of query parameters that the endpoint does not get.
    #[prost(string, repeated, tag = "8")]
    pub query_parameters_to_remove: Vec<String>,
}
