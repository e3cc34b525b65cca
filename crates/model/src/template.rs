//! Text with variables of a request, in nginx's notation: `$name` or `${name}`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use geo::Field;
use ipnet::IpNet;
use serde::Serialize;

use crate::limits::TEMPLATE_PARTS_MAX;
use crate::{Captures, Expression, StepBudget, TooManySteps};

/// Text with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Template {
    parts: Vec<Part>,
}

/// A piece of a [`Template`], or of another text with variables of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Part<V = Variable> {
    /// Text that is written as it stands.
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
    /// More variables than a text may have.
    #[error("more than {TEMPLATE_PARTS_MAX} variables and texts between them")]
    TooLong,
}

/// Names and their meanings: one entry per variable.
macro_rules! variables {
    ($($name:literal => $variant:ident, $doc:literal;)*) => {
        /// A value of a request.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Variable {
            $(#[doc = $doc] $variant,)*
            /// A request header: `$http_NAME`, with dashes as underscores. Holds the header's name in lower
            /// case.
            RequestHeader(String),
            /// A response header: `$sent_http_NAME`. Holds the header's name in lower case.
            ResponseHeader(String),
            /// A cookie of the request: `$cookie_NAME`. Holds the cookie's name.
            Cookie(String),
            /// A parameter of the query, as sent: `$arg_NAME`. Holds the parameter's name.
            Argument(String),
            /// A claim of the client's token or session, or a label of its API key: `$claim_NAME`. Holds the
            /// name.
            Claim(String),
            /// A value that a database has for the client's address: `$geoip2_NAME`.
            Geo(Field),
            /// A group of the route's regular expression: `$1` to `$9`.
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

            /// The name in nginx's notation. The name of a table is not kept; it is shown as `map`.
            pub fn name(&self) -> Cow<'_, str> {
                match self {
                    $(Self::$variant => $name.into(),)*
                    Self::RequestHeader(name) => format!("http_{}", name.replace('-', "_")).into(),
                    Self::ResponseHeader(name) => format!("sent_http_{}", name.replace('-', "_")).into(),
                    Self::Cookie(name) => format!("cookie_{name}").into(),
                    Self::Argument(name) => format!("arg_{name}").into(),
                    Self::Claim(name) => format!("claim_{name}").into(),
                    Self::Geo(field) => field.name().into(),
                    Self::Capture(number) => number.to_string().into(),
                    Self::Set(name) => Cow::Borrowed(name),
                    Self::Mapped(_) => "map".into(),
                }
            }
        }
    };
}

variables! {
    "remote_addr" => RemoteAddr, "Address of the client, as settled by the forwarded-headers settings.";
    "remote_port" => RemotePort, "Port of the peer.";
    "realip_remote_addr" => PeerAddr, "Address of the peer, whoever it speaks for.";
    "remote_user" => RemoteUser, "Name of the client: of its API key or token, or the user of Basic authentication.";
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
    "binary_remote_addr" => BinaryRemoteAddr, "Address of the client as 4 or 16 bytes.";
    "proxy_add_x_forwarded_for" => ProxyAddXForwardedFor, "`X-Forwarded-For` as the client sent it, and behind it the address of the client.";
    "full_x_forwarded_for" => FullXForwardedFor, "`X-Forwarded-For` as the client sent it, and behind it the address of the peer.";
    "connection_upgrade" => ConnectionUpgrade, "`upgrade` where the client asks for another protocol.";
    "redirect_to_https" => RedirectToHttps, "`1` where `$pass_access_scheme` is `http`, otherwise `0`.";
    "pass_server_port" => PassServerPort, "Port that the client connected to, or the one that a trusted hop says it did.";
    "pass_port" => PassPort, "Port that endpoints are told: as `$pass_server_port`, and 443 over TLS.";
    "proxy_protocol_addr" => ProxyProtocolAddr, "Address of the client in a PROXY header that is believed.";
    "proxy_protocol_port" => ProxyProtocolPort, "Port of the client in a PROXY header that is believed.";
    "proxy_host" => ProxyHost, "`upstream_balancer`, as in ingress-nginx, once an endpoint has been chosen.";
    "proxy_port" => ProxyPort, "`80`, or `443` towards endpoints over TLS, once an endpoint has been chosen.";
    "request_body" => RequestBody, "Body of the request, in the access log alone and where it was read whole into memory.";
    "nginx_version" => NginxVersion, "`1.27.1`, the version in ingress-nginx.";
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
    "forebay_reason" => ForebayReason, "Why Forebay responded itself or broke the response off, as in `forebay_faults_total`.";
    "forebay_waf_verdict" => ForebayWafVerdict, "The firewall's verdict: `passed`, `matched` where rules matched and the request went on, `blocked`; in logs alone.";
    "forebay_waf_rule" => ForebayWafRule, "Id of the rule that blocked the request, or would have if the rules did more than report; in logs alone.";
    "forebay_waf_score" => ForebayWafScore, "The inbound anomaly score of the core rules; in logs alone.";
    "modsecurity_intervention" => ModsecurityIntervention, "`1` where the firewall blocked the request, otherwise `0`; in logs alone.";
    "modsecurity_triggered_rules" => ModsecurityTriggeredRules, "Ids of the rules that matched, with commas; in logs alone.";
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
    "ssl_client_verify" => SslClientVerify, "`SUCCESS`, `NONE` or `FAILED:` and the reason: the verdict on the client's certificate.";
    "ssl_client_s_dn" => SslClientSubject, "Subject of the client's certificate, by RFC 2253.";
    "ssl_client_i_dn" => SslClientIssuer, "Issuer of the client's certificate, by RFC 2253.";
    "ssl_client_s_dn_legacy" => SslClientSubjectLegacy, "Subject of the client's certificate in OpenSSL's old form, `/C=DE/CN=a`.";
    "ssl_client_i_dn_legacy" => SslClientIssuerLegacy, "Issuer of the client's certificate in OpenSSL's old form.";
    "ssl_client_serial" => SslClientSerial, "Serial number of the client's certificate, in hexadecimal.";
    "ssl_client_fingerprint" => SslClientFingerprint, "SHA-1 of the client's certificate, in hexadecimal.";
    "ssl_client_cert" => SslClientCert, "The client's certificate in PEM, each line but the first behind a tab.";
    "ssl_client_escaped_cert" => SslClientEscapedCert, "The client's certificate in PEM, escaped as a part of a URL.";
    "ssl_client_raw_cert" => SslClientRawCert, "The client's certificate in PEM.";
    "ssl_client_v_start" => SslClientStart, "Time from which the client's certificate is valid.";
    "ssl_client_v_end" => SslClientEnd, "Time until which the client's certificate is valid.";
    "ssl_client_v_remain" => SslClientRemain, "Days until the client's certificate expires.";
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
        if let Some(suffix) = name.strip_prefix("claim_") {
            return Some(Self::Claim(suffix.to_owned()));
        }
        if name.starts_with("geoip2_") {
            return Field::named(name).map(Self::Geo);
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

    /// Reads nginx's notation, with further variables that take precedence over those of every request.
    ///
    /// # Errors
    ///
    /// A `$` is not followed by the name of a variable.
    pub fn parse_with(
        text: &str,
        others: &dyn Fn(&str) -> Option<Variable>,
    ) -> Result<Self, InvalidTemplate> {
        let named = |name: &str| others(name).or_else(|| Variable::named(name));
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

/// In nginx's notation.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_ended = !matches!(parts.peek(), Some(Part::Text(text)) if text.starts_with(goes_on));
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Variable(variable) if is_ended => write!(f, "${}", variable.name())?,
                Part::Variable(variable) => write!(f, "${{{}}}", variable.name())?,
            }
        }
        Ok(())
    }
}

/// A variable whose value follows from a text by a table (nginx's `map`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ValueMap {
    source: Template,
    /// Texts in lower case, in order, and their values.
    exact: Box<[(String, Template)]>,
    patterns: Vec<(Expression, Template)>,
    /// Networks for a text that is an address, the smallest first (nginx's `geo`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    networks: Vec<(IpNet, Template)>,
    /// Values by a hash of the text, each up to and including a bound (nginx's `split_clients`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shares: Vec<(u32, Template)>,
    default: Template,
}

impl ValueMap {
    /// A table. Texts are in lower case and compared without regard to case; if no text is equal, expressions
    /// are tried in their order; all other values get the default.
    pub fn new(
        source: Template,
        exact: BTreeMap<String, Template>,
        patterns: Vec<(Expression, Template)>,
        default: Template,
    ) -> Self {
        let exact = exact.into_iter().collect();
        Self { source, exact, patterns, networks: Vec::new(), shares: Vec::new(), default }
    }

    /// A table of networks: an address has the value of the smallest network with it.
    pub fn of_networks(source: Template, mut networks: Vec<(IpNet, Template)>, default: Template) -> Self {
        networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        Self { networks, ..Self::new(source, BTreeMap::new(), Vec::new(), default) }
    }

    /// A table of shares: a text has the first value whose bound its hash does not exceed.
    pub fn of_shares(source: Template, shares: Vec<(u32, Template)>, default: Template) -> Self {
        Self { shares, ..Self::new(source, BTreeMap::new(), Vec::new(), default) }
    }

    /// The template whose text is looked up.
    pub fn source(&self) -> &Template {
        &self.source
    }

    /// The value for a text, with the groups of the matching expression if the value uses any.
    ///
    /// # Errors
    ///
    /// An expression exceeds its budget of steps.
    pub fn find(
        &self,
        text: &[u8],
        budget: &StepBudget,
    ) -> Result<(&Template, Option<Captures>), TooManySteps> {
        let lower = text.to_ascii_lowercase();
        if let Ok(at) = self.exact.binary_search_by(|(known, _)| known.as_bytes().cmp(&lower)) {
            return Ok((&self.exact[at].1, None));
        }
        for (pattern, value) in &self.patterns {
            if !value.has_captures() {
                if pattern.try_match(text, budget)? {
                    return Ok((value, None));
                }
            } else if let Some(captures) = pattern.captures(text, budget)? {
                return Ok((value, Some(captures)));
            }
        }
        if !self.networks.is_empty()
            && let Some(address) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<IpAddr>().ok())
        {
            let address = address.to_canonical();
            let network = self.networks.iter().find(|(network, _)| network.contains(&address));
            return Ok((network.map_or(&self.default, |(_, value)| value), None));
        }
        if !self.shares.is_empty() {
            let hash = murmur2(text);
            let share = self.shares.iter().find(|(bound, _)| hash <= *bound);
            return Ok((share.map_or(&self.default, |(_, value)| value), None));
        }
        Ok((&self.default, None))
    }

    /// All templates in it.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let of_exact = self.exact.iter().map(|(_, value)| value);
        let of_patterns = self.patterns.iter().map(|(_, value)| value);
        let others = self.networks.iter().map(|(_, value)| value);
        let others = others.chain(self.shares.iter().map(|(_, value)| value));
        of_exact.chain(of_patterns).chain(others).chain([&self.source, &self.default])
    }
}

/// The hash `MurmurHash2` of 32 bits with the seed 0, by which nginx's `split_clients` divides its clients.
fn murmur2(text: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut words = text.chunks_exact(4);
    for word in &mut words {
        let mut key = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        key = (key ^ (key >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ key;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0_u32, |last, byte| (last << 8) | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

impl Template {
    /// Whether the value uses groups of an expression.
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
///
/// # Errors
///
/// When a `$` is not followed by the name of a variable.
pub fn parse_parts<V>(
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
        if parts.len() > TEMPLATE_PARTS_MAX {
            return Err(InvalidTemplate::TooLong);
        }
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
        // The number of a group is one digit; further digits are text, as in nginx.
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
    fn a_text_has_so_many_variables_and_no_more() {
        assert!(Template::parse(&"$1".repeat(TEMPLATE_PARTS_MAX)).is_ok());
        assert_eq!(Template::parse(&"$1".repeat(20_000)), Err(InvalidTemplate::TooLong));
    }

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
    fn what_is_written_is_read_again() {
        for text in
            ["", "a $status${host}b", "${status}0 $http_x_a-$sent_http_a $cookie_A$arg_b$claim_sub$1 x"]
        {
            let template = Template::parse(text).unwrap();
            assert_eq!(template.to_string(), text);
        }
        for (name, _) in VARIABLES {
            assert_eq!(Template::parse(&format!("${name}.")).unwrap().to_string(), format!("${name}."));
        }
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
        let budget = StepBudget::default();
        let find = |text: &str| map.find(text.as_bytes(), &budget).unwrap().0.clone();
        assert_eq!([find("A.test"), find("ab"), find("b")], [parse("1"), parse("2"), parse("3")]);
        let (value, captures) = map.find(b"xcd", &budget).unwrap();
        assert!((value, captures.is_none()) == (&parse("3"), true));
        let (value, captures) = map.find(b"cd", &budget).unwrap();
        assert_eq!((value, captures.and_then(|found| found.get(1))), (&parse("$1"), Some(1..2)));
    }

    #[test]
    fn addresses_are_found_by_their_smallest_network() {
        let parse = |text| Template::parse(text).unwrap();
        let networks = [("10.0.0.0/8", "1"), ("10.1.0.0/16", "2"), ("fd00::/8", "3")];
        let networks = networks.map(|(network, value)| (network.parse().unwrap(), parse(value)));
        let map = ValueMap::of_networks(parse("$remote_addr"), networks.into(), parse("0"));
        let budget = StepBudget::default();
        let find = |text: &str| map.find(text.as_bytes(), &budget).unwrap().0.to_string();
        let found =
            ["10.2.0.1", "10.1.0.1", "fd00::1", "::ffff:10.1.0.1", "11.0.0.1", "no address"].map(find);
        assert_eq!(found, ["1", "2", "3", "2", "0", "0"]);
    }

    /// The values of the hash's author, for the seed 0.
    #[test]
    fn shares_are_found_by_murmur_hash_2() {
        assert_eq!((murmur2(b""), murmur2(b"a"), murmur2(b"abc")), (0, 0x9268_5f5e, 0x1357_7c9b));
        let parse = |text| Template::parse(text).unwrap();
        let shares = vec![(u32::MAX / 2, parse("a"))];
        let map = ValueMap::of_shares(parse("$remote_addr"), shares, parse("b"));
        let budget = StepBudget::default();
        assert_eq!(map.find(b"a", &budget).unwrap().0, &parse("b"));
        assert_eq!(map.find(b"abc", &budget).unwrap().0, &parse("a"));
    }
}
