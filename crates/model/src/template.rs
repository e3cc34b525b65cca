//! Text with variables of a request, in nginx's notation: `$name` or `${name}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Captures, Expression};

/// Text with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// A piece of a [`Template`], or of another text with variables of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<V = Variable> {
    /// Is written as it is.
    Text(String),
    /// Is replaced by the request's value.
    Variable(V),
}

/// A notation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// No such variable.
    #[error("unknown variable ${0}")]
    UnknownVariable(String),
    /// A `$` that no name follows.
    #[error("a '$' without a name")]
    EmptyName,
    /// `${` without `}`.
    #[error("a '${{' without '}}'")]
    Unclosed,
}

/// Names and their meanings: one entry per variable.
macro_rules! variables {
    ($($name:literal => $variant:ident, $doc:literal;)*) => {
        /// A value of a request.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Variable {
            $(#[doc = $doc] $variant,)*
            /// A request header: `$http_NAME`, with dashes as underscores. Holds the header's name in lower case.
            RequestHeader(String),
            /// A response header: `$sent_http_NAME`. Holds the header's name in lower case.
            ResponseHeader(String),
            /// A cookie of the request: `$cookie_NAME`. Holds the cookie's name.
            Cookie(String),
            /// A parameter of the query, as sent: `$arg_NAME`. Holds the parameter's name.
            Argument(String),
            /// What a group of the route's regular expression has found: `$1` to `$9`.
            Capture(u8),
            /// The value that a step of a [`Script`](crate::Script) has given to this name.
            Set(Arc<str>),
            /// The value that a table has for the request.
            Mapped(Arc<ValueMap>),
        }

        /// Names and meanings of the variables, for the documentation.
        pub const VARIABLES: &[(&str, &str)] = &[$(($name, $doc),)*];

        impl Variable {
            fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => Self::with_name(name),
                }
            }
        }
    };
}

variables! {
    "remote_addr" => RemoteAddr, "Address of the client, as settled by the forwarded-headers settings.";
    "remote_port" => RemotePort, "Port of the peer.";
    "realip_remote_addr" => PeerAddr, "Address of the peer, whoever it speaks for.";
    "remote_user" => RemoteUser, "User of Basic authentication.";
    "time_local" => TimeLocal, "Time in Common Log Format.";
    "time_iso8601" => TimeIso8601, "Time in ISO 8601.";
    "msec" => Msec, "Time in seconds since the epoch, with milliseconds.";
    "request" => Request, "The request line.";
    "request_method" => RequestMethod, "Method.";
    "request_uri" => RequestUri, "Target with its query, as sent.";
    "uri" => Uri, "Normalised path.";
    "args" => Args, "Query.";
    "query_string" => QueryString, "Query.";
    "scheme" => Scheme, "`http` or `https`.";
    "server_protocol" => ServerProtocol, "`HTTP/1.1` and the like.";
    "host" => Host, "Host asked for, in lower case, without a port.";
    "best_http_host" => BestHttpHost, "Host asked for, or the one that a trusted hop says was.";
    "pass_access_scheme" => PassAccessScheme, "Scheme, or the one that a trusted hop says was used.";
    "escaped_request_uri" => EscapedRequestUri, "Target with its query, escaped as a value of a query.";
    "the_real_ip" => TheRealIp, "Address of the client, as settled by the forwarded-headers settings.";
    "is_args" => IsArgs, "`?` where there is a query.";
    "status" => Status, "Status sent to the client.";
    "body_bytes_sent" => BodyBytesSent, "Bytes of body sent to the client.";
    "bytes_sent" => BytesSent, "Bytes sent to the client, head included.";
    "request_length" => RequestLength, "Bytes received for the request: line, headers and body.";
    "request_time" => RequestTime, "Seconds from the first byte of the request to the last of the response.";
    "connection" => Connection, "Serial number of the client connection.";
    "connection_requests" => ConnectionRequests, "Requests made on the connection so far, this one included.";
    "proxy_upstream_name" => ProxyUpstreamName, "`namespace-service-port` of the upstream.";
    "proxy_alternative_upstream_name" => ProxyAlternativeUpstreamName, "The upstream's canary, if one served.";
    "upstream_addr" => UpstreamAddr, "Addresses of the endpoints tried.";
    "upstream_response_length" => UpstreamResponseLength, "Bytes of body received, for each try.";
    "upstream_response_time" => UpstreamResponseTime, "Seconds until the response ended, for each try.";
    "upstream_header_time" => UpstreamHeaderTime, "Seconds until the response's head, for each try.";
    "upstream_connect_time" => UpstreamConnectTime, "Seconds until the connection stood, for each try.";
    "upstream_status" => UpstreamStatus, "Status of the response, for each try.";
    "upstream_cache_status" => UpstreamCacheStatus, "What the cache did: HIT, MISS, EXPIRED, STALE, REVALIDATED, BYPASS.";
    "req_id" => ReqId, "The request's id, as in X-Request-ID.";
    "request_id" => RequestId, "The request's id, as in X-Request-ID.";
    "namespace" => Namespace, "Namespace of the Ingress or route.";
    "ingress_name" => IngressName, "Name of the Ingress or route.";
    "route_rule" => RouteRule, "Name of the route's rule, where the route (Gateway API) names its rules.";
    "service_name" => ServiceName, "Name of the Service.";
    "service_port" => ServicePort, "Port of the Service.";
    "location_path" => LocationPath, "Path of the rule.";
    "server_addr" => ServerAddr, "Address that the client connected to.";
    "server_port" => ServerPort, "Port that the client connected to.";
    "server_name" => ServerName, "The rule's host; `_` where it has none.";
    "https" => Https, "`on` where the client's connection is encrypted.";
    "document_root" => DocumentRoot, "`/usr/local/nginx/html`, as ingress-nginx has it.";
    "fastcgi_script_name" => FastCgiScriptName, "Normalised path, and the name of `fastcgi-index` where it ends in a slash.";
    "fastcgi_path_info" => FastCgiPathInfo, "Nothing: what splits it off the path cannot be set.";
    "hostname" => Hostname, "Name of the machine.";
    "pid" => Pid, "Process id.";
    "opentelemetry_trace_id" => OpentelemetryTraceId, "Id of the trace, where the request is traced.";
    "opentelemetry_span_id" => OpentelemetrySpanId, "Id of the request's span, where it is traced.";
    "opentelemetry_context_traceparent" => OpentelemetryContextTraceparent, "`traceparent` as endpoints are told, where the request is traced.";
    "ssl_protocol" => SslProtocol, "Version of TLS that the client speaks.";
    "ssl_cipher" => SslCipher, "Cipher suite.";
    "ssl_server_name" => SslServerName, "Name that the client asked for in the handshake.";
    "ssl_session_reused" => SslSessionReused, "`r` where an earlier session was resumed, `.` where not.";
}

impl Variable {
    fn with_name(name: &str) -> Option<Self> {
        let dashed = |suffix: &str| suffix.replace('_', "-").to_ascii_lowercase();
        if let [digit @ b'1'..=b'9'] = name.as_bytes() {
            return Some(Self::Capture(digit - b'0'));
        }
        if let Some(suffix) = name.strip_prefix("sent_http_") {
            return Some(Self::ResponseHeader(dashed(suffix)));
        }
        if let Some(suffix) = name.strip_prefix("cookie_") {
            return Some(Self::Cookie(suffix.to_owned()));
        }
        if let Some(suffix) = name.strip_prefix("arg_") {
            return Some(Self::Argument(suffix.to_owned()));
        }
        match name {
            "content_type" => return Some(Self::RequestHeader("content-type".to_owned())),
            "content_length" => return Some(Self::RequestHeader("content-length".to_owned())),
            "document_uri" => return Some(Self::Uri),
            _ => {}
        }
        name.strip_prefix("http_").map(|suffix| Self::RequestHeader(dashed(suffix)))
    }
}

impl Template {
    /// Reads nginx's notation.
    ///
    /// # Errors
    ///
    /// When a `$` is not followed by the name of a variable.
    pub fn parse(text: &str) -> Result<Self, InvalidTemplate> {
        Self::parse_with(text, &|_| None)
    }

    /// Reads nginx's notation, with further variables.
    ///
    /// # Errors
    ///
    /// When a `$` is not followed by the name of a variable.
    pub fn parse_with(
        text: &str,
        others: &dyn Fn(&str) -> Option<Variable>,
    ) -> Result<Self, InvalidTemplate> {
        let named = |name: &str| Variable::named(name).or_else(|| others(name));
        Ok(Self { parts: parse_parts(text, named)? })
    }

    /// Text and variables in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text, if it has no variables.
    pub fn as_text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The variables in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Variable(variable) => Some(variable),
        })
    }
}

/// A variable whose value follows from a text by a table (nginx's `map`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueMap {
    source: Template,
    /// Texts in lower case, in order, and their values.
    exact: Box<[(String, Template)]>,
    patterns: Vec<(Expression, Template)>,
    default: Template,
}

impl ValueMap {
    /// A table. Texts are in lower case, and compared without regard to letter case; expressions are asked in their order where no text
    /// is equal; everything else has the default.
    pub fn new(
        source: Template,
        exact: BTreeMap<String, Template>,
        patterns: Vec<(Expression, Template)>,
        default: Template,
    ) -> Self {
        Self { source, exact: exact.into_iter().collect(), patterns, default }
    }

    /// What is looked up.
    pub fn source(&self) -> &Template {
        &self.source
    }

    /// The value for a text; with it what the groups of its expression have found, where the value has any of them.
    pub fn find(&self, text: &[u8]) -> (&Template, Option<Captures>) {
        let lower = text.to_ascii_lowercase();
        if let Ok(at) = self.exact.binary_search_by(|(known, _)| known.as_bytes().cmp(&lower)) {
            return (&self.exact[at].1, None);
        }
        let found = self.patterns.iter().find_map(|(pattern, value)| {
            if value.has_captures() {
                pattern.captures(text).map(|captures| (value, Some(captures)))
            } else {
                pattern.is_match(text).then_some((value, None))
            }
        });
        found.unwrap_or((&self.default, None))
    }

    /// All templates in it.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let of_exact = self.exact.iter().map(|(_, value)| value);
        let of_patterns = self.patterns.iter().map(|(_, value)| value);
        of_exact.chain(of_patterns).chain([&self.source, &self.default])
    }
}

impl Template {
    /// Whether it holds what the group of an expression has found.
    pub fn has_captures(&self) -> bool {
        self.variables().any(|variable| matches!(variable, Variable::Capture(_)))
    }
}

impl From<Variable> for Template {
    fn from(variable: Variable) -> Self {
        Self { parts: vec![Part::Variable(variable)] }
    }
}

/// Reads nginx's notation with the variables that `named` knows.
pub(crate) fn parse_parts<V>(
    text: &str,
    named: impl Fn(&str) -> Option<V>,
) -> Result<Vec<Part<V>>, InvalidTemplate> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        push_text(&mut parts, &rest[..dollar]);
        let (name, after) = split_name(&rest[dollar + 1..])?;
        let variable = named(name).ok_or_else(|| InvalidTemplate::UnknownVariable(name.to_owned()))?;
        parts.push(Part::Variable(variable));
        rest = after;
    }
    push_text(&mut parts, rest);
    Ok(parts)
}

fn push_text<V>(parts: &mut Vec<Part<V>>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

/// Splits `name rest` or `{name}rest`.
fn split_name(text: &str) -> Result<(&str, &str), InvalidTemplate> {
    let (name, rest) = if let Some(braced) = text.strip_prefix('{') {
        braced.split_once('}').ok_or(InvalidTemplate::Unclosed)?
    } else if text.starts_with(|c| matches!(c, '1'..='9')) {
        // What a group has found; further digits are text, as in nginx.
        text.split_at(1)
    } else {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        text.split_at(end)
    };
    if name.is_empty() { Err(InvalidTemplate::EmptyName) } else { Ok((name, rest)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_variables_alternate() {
        let template = Template::parse("a $status${host}b").unwrap();
        assert_eq!(
            template.parts,
            [
                Part::Text("a ".into()),
                Part::Variable(Variable::Status),
                Part::Variable(Variable::Host),
                Part::Text("b".into()),
            ]
        );
    }

    #[test]
    fn headers_are_variables() {
        let template = Template::parse("$http_user_agent$sent_http_x_a").unwrap();
        assert_eq!(
            template.parts,
            [
                Part::Variable(Variable::RequestHeader("user-agent".into())),
                Part::Variable(Variable::ResponseHeader("x-a".into())),
            ]
        );
    }

    #[test]
    fn groups_have_one_digit() {
        let template = Template::parse("/$12b$2").unwrap();
        let text = |text: &str| Part::Text(text.to_owned());
        let group = |group| Part::Variable(Variable::Capture(group));
        assert_eq!(template.parts, [text("/"), group(1), text("2b"), group(2)]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let parse = |text| Template::parse(text).unwrap_err();
        assert_eq!(parse("$nonsense"), InvalidTemplate::UnknownVariable("nonsense".into()));
        assert_eq!(parse("a $ b"), InvalidTemplate::EmptyName);
        assert_eq!(parse("${host"), InvalidTemplate::Unclosed);
    }

    #[test]
    fn texts_come_before_expressions_in_maps() {
        let parse = |text| Template::parse(text).unwrap();
        let exact = [("a.test".to_owned(), parse("1"))].into();
        let expression = |text, value| (Expression::anywhere(text).unwrap(), parse(value));
        let patterns = vec![expression("^a", "2"), expression("^c(.)", "$1")];
        let map = ValueMap::new(parse("$host"), exact, patterns, parse("3"));
        let find = |text: &str| map.find(text.as_bytes()).0.clone();
        assert_eq!([find("A.test"), find("ab"), find("b")], [parse("1"), parse("2"), parse("3")]);
        let (value, captures) = map.find(b"xcd");
        assert!((value, captures.is_none()) == (&parse("3"), true));
        let (value, captures) = map.find(b"cd");
        assert_eq!((value, captures.and_then(|found| found.get(1))), (&parse("$1"), Some(1..2)));
    }
}
