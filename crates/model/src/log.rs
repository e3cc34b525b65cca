//! The access logs: where they go, and the formats of their lines, read from nginx's notation
//! (`log-format-upstream`, `log-format-stream`).

use std::fmt;

use serde::Serialize;

use crate::template::{InvalidTemplate, Part, Template, parse_parts};

/// The template of a log line, and how values are escaped. A missing value is written as `-`.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Format {
    /// Text and variables.
    pub template: Template,
    /// How unusual characters in a variable's value are escaped.
    pub escape: Escape,
}

/// How unusual characters in a value are escaped (nginx: `log_format ... escape=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Escape {
    /// `"`, `\` and bytes outside 32..=126 become `\xXX`.
    #[default]
    Default,
    /// As inside a JSON string; a missing value is empty instead of `-`.
    Json,
    /// Values are not escaped.
    None,
}

impl Format {
    /// Reads nginx's notation: text with `$name` or `${name}`.
    ///
    /// # Errors
    ///
    /// When a `$` is not followed by the name of a variable.
    pub fn parse(text: &str, escape: Escape) -> Result<Self, InvalidTemplate> {
        Ok(Self { template: Template::parse(text)?, escape })
    }
}

/// The parts of the template stand for it.
impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template, escape } = self;
        f.debug_struct("Format").field("parts", &template.parts()).field("escape", escape).finish()
    }
}

/// The default is ingress-nginx's `upstreaminfo`.
impl Default for Format {
    fn default() -> Self {
        Self::parse(DEFAULT_FORMAT, Escape::Default).expect("names only variables of the table above")
    }
}

/// ingress-nginx's default of `log-format-upstream`.
pub const DEFAULT_FORMAT: &str = concat!(
    r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "#,
    r#""$http_user_agent" $request_length $request_time [$proxy_upstream_name] "#,
    r"[$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time ",
    r"$upstream_status $req_id"
);

/// Where the lines of a log go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum Output {
    /// To standard output.
    #[default]
    Stdout,
    /// To standard error.
    Stderr,
    /// Appends to a file, which is created if it does not exist.
    File(String),
    /// To a syslog server, each line in a UDP datagram (RFC 3164).
    Syslog {
        /// Name or address.
        host: String,
        /// Port of the syslog server.
        port: u16,
    },
}

/// The template of a line about a TCP connection or a UDP session (`log-format-stream`).
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct StreamFormat(Vec<Part<StreamVariable>>);

/// Names and their meanings: one entry per variable.
macro_rules! stream_variables {
    ($($name:literal => $variant:ident, $doc:literal;)*) => {
        /// A value of a TCP connection or a UDP session.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum StreamVariable {
            $(#[doc = $doc] $variant,)*
        }

        /// Names and meanings of the variables, for the documentation.
        pub const STREAM_VARIABLES: &[(&str, &str)] = &[$(($name, $doc),)*];

        impl StreamVariable {
            fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

stream_variables! {
    "remote_addr" => RemoteAddr, "Address of the client.";
    "time_local" => TimeLocal, "Time in Common Log Format.";
    "time_iso8601" => TimeIso8601, "Time in ISO 8601.";
    "msec" => Msec, "Time in seconds since the epoch, with milliseconds.";
    "protocol" => Protocol, "`TCP` or `UDP`.";
    "status" => Status, "200 where it was passed on, 400 for a bad PROXY header, 502 where no endpoint could be reached.";
    "bytes_sent" => BytesSent, "Bytes sent to the client.";
    "bytes_received" => BytesReceived, "Bytes received from the client.";
    "session_time" => SessionTime, "Seconds from the beginning to the end.";
    "server_port" => ServerPort, "Port that the client connected to.";
    "upstream_addr" => UpstreamAddr, "Address of the endpoint.";
    "upstream_bytes_sent" => UpstreamBytesSent, "Bytes sent to the endpoint.";
    "upstream_bytes_received" => UpstreamBytesReceived, "Bytes received from the endpoint.";
    "proxy_upstream_name" => ProxyUpstreamName, "`tcp-namespace-service-port` of the service, or `udp-` and so on.";
    "hostname" => Hostname, "Name of the machine.";
    "pid" => Pid, "Process id.";
}

impl StreamFormat {
    /// Reads nginx's notation: text with `$name` or `${name}`.
    ///
    /// # Errors
    ///
    /// When a `$` is not followed by the name of a variable.
    pub fn parse(text: &str) -> Result<Self, InvalidTemplate> {
        parse_parts(text, StreamVariable::named).map(Self)
    }

    /// Text and variables in order.
    pub fn parts(&self) -> &[Part<StreamVariable>] {
        &self.0
    }
}

/// The parts stand for it.
impl fmt::Debug for StreamFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamFormat").field(&self.0).finish()
    }
}

/// The default is ingress-nginx's `log_stream`.
impl Default for StreamFormat {
    fn default() -> Self {
        Self::parse(DEFAULT_STREAM_FORMAT).expect("names only variables of the table above")
    }
}

/// ingress-nginx's default of `log-format-stream`.
pub const DEFAULT_STREAM_FORMAT: &str =
    "[$remote_addr] [$time_local] $protocol $status $bytes_sent $bytes_received $session_time";
