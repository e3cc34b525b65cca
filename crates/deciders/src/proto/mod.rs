//! Messages of Envoy's protocols, with the fields that are used. Fields that are not here are skipped when a
//! message is read.

pub mod auth;
pub mod processing;

use prost::Message;

/// A header: `envoy.config.core.v3.HeaderValue`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValue {
    /// Name of the header.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value as text; empty if `raw_value` has it.
    #[prost(string, tag = "2")]
    pub value: String,
    /// The value as bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}

impl HeaderValue {
    /// The value, wherever it is.
    pub fn bytes(&self) -> &[u8] {
        if self.raw_value.is_empty() { self.value.as_bytes() } else { &self.raw_value }
    }
}

/// Headers in their order: `envoy.config.core.v3.HeaderMap`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderMap {
    /// The headers in their order.
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<HeaderValue>,
}

/// A header that is set: `envoy.config.core.v3.HeaderValueOption`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValueOption {
    /// The header with its value.
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    /// Whether the value is added to others; absent in services that use `append_action`.
    #[prost(message, optional, tag = "2")]
    pub append: Option<bool>,
    /// The fate of values that exist; a number of [`AppendAction`].
    #[prost(enumeration = "AppendAction", tag = "3")]
    pub append_action: i32,
    /// Whether a header with an empty value is set too.
    #[prost(bool, tag = "4")]
    pub keep_empty_value: bool,
}

/// The fate of other values of a header: `HeaderValueOption.HeaderAppendAction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AppendAction {
    /// Adds the value to those that exist.
    AppendIfExistsOrAdd = 0,
    /// Sets the header unless it exists.
    AddIfAbsent = 1,
    /// Replaces all values that exist.
    OverwriteIfExistsOrAdd = 2,
    /// Replaces the values if there are any.
    OverwriteIfExists = 3,
}

/// A query parameter: `envoy.config.core.v3.QueryParameter`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct QueryParameter {
    /// Name of the parameter.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value of the parameter.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A status of a response: `envoy.type.v3.HttpStatus`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HttpStatus {
    /// A status of HTTP.
    #[prost(int32, tag = "1")]
    pub code: i32,
}

/// The outcome of a question: `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RpcStatus {
    /// A code of gRPC; 0 stands for success.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Text for developers.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `google.protobuf.Timestamp`, and `google.protobuf.Duration` where the same fields mean a length of time.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Time {
    /// Whole seconds, since 1970 in a timestamp.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds beyond the seconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A place in a network: `envoy.config.core.v3.Address`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Address {
    /// Address and port.
    #[prost(message, optional, tag = "1")]
    pub socket_address: Option<SocketAddress>,
}

/// `envoy.config.core.v3.SocketAddress` of TCP.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SocketAddress {
    /// 0 stands for TCP.
    #[prost(int32, tag = "1")]
    pub protocol: i32,
    /// The IP address as text.
    #[prost(string, tag = "2")]
    pub address: String,
    /// The number of the port.
    #[prost(uint32, tag = "3")]
    pub port_value: u32,
}
