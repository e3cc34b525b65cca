//! Writes a line of the access log, variable by variable.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::log::{Escape, Format};
use model::template::{Part, Template, Variable};
use model::{Labels, ValueMap};

use super::{Record, Tls, Try, escape};
use crate::limits::TEXT_BYTES_MAX;

/// Appends the line of a request, with its `\n`. Allocates only if `out` has to grow.
pub fn write_line(format: &Format, record: &Record<'_>, out: &mut Vec<u8>) {
    let missing: &[u8] = if format.escape == Escape::Json { b"" } else { b"-" };
    Line { out, escape: format.escape, missing }.template(&format.template, record);
    out.push(b'\n');
}

/// Appends a text with the values of a request in it, as they are. What is missing is empty. No more than [`TEXT_BYTES_MAX`] are added.
pub fn expand(template: &Template, record: &Record<'_>, out: &mut Vec<u8>) {
    let end = out.len() + TEXT_BYTES_MAX;
    let mut line = Line { out, escape: Escape::None, missing: b"" };
    for part in template.parts() {
        line.part(part, record);
        if line.out.len() >= end {
            line.out.truncate(end);
            break;
        }
    }
}

/// Where nginx of ingress-nginx would look for files.
const DOCUMENT_ROOT: &str = "/usr/local/nginx/html";

/// The version of nginx in the last releases of ingress-nginx.
const NGINX_VERSION: &str = "1.27.1";

struct Line<'a> {
    out: &'a mut Vec<u8>,
    escape: Escape,
    /// What is written for a value that is missing.
    missing: &'static [u8],
}

impl Line<'_> {
    fn template(&mut self, template: &Template, record: &Record<'_>) {
        for part in template.parts() {
            self.part(part, record);
        }
    }

    #[inline]
    fn part(&mut self, part: &Part<Variable>, record: &Record<'_>) {
        match part {
            Part::Text(text) => self.out.extend_from_slice(text.as_bytes()),
            Part::Variable(variable) => self.variable(variable, record),
        }
    }

    #[inline(never)]
    fn variable(&mut self, variable: &Variable, record: &Record<'_>) {
        match variable {
            Variable::RemoteAddr | Variable::TheRealIp => self.ip(record.remote_addr),
            Variable::RemotePort => self.number(record.peer.port()),
            Variable::PeerAddr => self.ip(record.peer.ip()),
            Variable::RemoteUser => self.bytes(record.remote_user),
            Variable::TimeLocal => self.text(record.time.local),
            Variable::TimeIso8601 => self.text(record.time.iso8601),
            Variable::Msec => self.seconds(record.time.unix),
            Variable::Request => self.bytes(record.request),
            Variable::RequestMethod => self.bytes(record.method),
            Variable::RequestUri => self.bytes(record.target),
            Variable::Uri => self.bytes(record.path),
            Variable::Args | Variable::QueryString => self.bytes(record.query),
            Variable::Scheme => self.text(record.scheme),
            Variable::ServerProtocol => self.bytes(record.protocol.map(str::as_bytes)),
            Variable::Host => self.bytes(record.host),
            Variable::Status => self.number(record.status),
            Variable::BodyBytesSent => self.number(record.body_bytes_sent),
            Variable::BytesSent => self.number(record.bytes_sent),
            Variable::RequestLength => self.number(record.request_length),
            Variable::RequestTime => self.seconds(record.request_time),
            Variable::Connection => self.number(record.connection),
            Variable::ConnectionRequests => self.number(record.connection_requests),
            Variable::ProxyUpstreamName => self.bytes(record.upstream_name.map(str::as_bytes)),
            Variable::ProxyAlternativeUpstreamName => self.text(record.alternative_upstream_name),
            Variable::UpstreamCacheStatus => self.bytes(record.cache_status.map(str::as_bytes)),
            Variable::ForebayReason => self.bytes(record.reason.map(|reason| reason.name().as_bytes())),
            Variable::ReqId | Variable::RequestId => self.bytes(record.request_id),
            Variable::OpentelemetryTraceId
            | Variable::OpentelemetrySpanId
            | Variable::OpentelemetryContextTraceparent => self.trace(variable, record),
            Variable::ServerAddr => self.ip(record.server.ip()),
            Variable::ServerPort => self.number(record.server.port()),
            Variable::Https => self.bytes((record.scheme == "https").then_some(b"on")),
            Variable::FastCgiScriptName => self.script_name(record.path, record.index),
            Variable::FastCgiPathInfo => self.missing(),
            Variable::Hostname => self.text(record.hostname),
            Variable::Pid => self.number(record.pid),
            Variable::BestHttpHost => self.bytes(record.forwarded.map(|(host, _)| host)),
            Variable::PassAccessScheme => self.bytes(record.forwarded.map(|(_, scheme)| scheme)),
            Variable::EscapedRequestUri => self.escaped(record.target),
            Variable::IsArgs => self.bytes(Some(if record.query.is_some() { b"?" } else { b"" })),
            Variable::RequestHeader(name) => self.bytes(record.named.request(name).as_deref()),
            Variable::ResponseHeader(name) => self.bytes(record.named.response(name)),
            Variable::Cookie(name) => self.bytes(record.named.cookie(name)),
            Variable::Argument(name) => self.bytes(record.named.argument(name)),
            Variable::Capture(group) => self.bytes(record.named.capture(*group)),
            Variable::Set(name) => self.bytes(record.named.set(name)),
            Variable::Mapped(map) => self.mapped(map, record),
            Variable::UpstreamAddr
            | Variable::UpstreamResponseLength
            | Variable::UpstreamResponseTime
            | Variable::UpstreamHeaderTime
            | Variable::UpstreamConnectTime
            | Variable::UpstreamStatus => self.tries(variable, record.tries),
            Variable::SslProtocol
            | Variable::SslCipher
            | Variable::SslServerName
            | Variable::SslSessionReused => self.tls(variable, record.tls),
            Variable::Namespace
            | Variable::IngressName
            | Variable::RouteRule
            | Variable::ServiceName
            | Variable::ServicePort
            | Variable::LocationPath
            | Variable::ServerName => self.label(variable, record.labels),
            other => self.made(other, record),
        }
    }

    /// Variables that are constant, or computed for this text.
    #[cold]
    #[inline(never)]
    fn made(&mut self, variable: &Variable, record: &Record<'_>) {
        match (variable, record.remote_addr) {
            (Variable::DocumentRoot, _) => self.text(DOCUMENT_ROOT),
            (Variable::NginxVersion, _) => self.text(NGINX_VERSION),
            (Variable::BinaryRemoteAddr, IpAddr::V4(ip)) => self.bytes(Some(&ip.octets())),
            (Variable::BinaryRemoteAddr, IpAddr::V6(ip)) => self.bytes(Some(&ip.octets())),
            _ => self.bytes(record.named.computed(variable).as_deref()),
        }
    }

    #[inline(never)]
    fn mapped(&mut self, map: &ValueMap, record: &Record<'_>) {
        let (mut text, mut value) = (Vec::new(), Vec::new());
        expand(map.source(), record, &mut text);
        let Some((found, captures)) = record.named.in_map(map, &text) else { return self.missing() };
        let mut line = Line { out: &mut value, escape: Escape::None, missing: b"" };
        for part in found.parts() {
            match (part, &captures) {
                (Part::Variable(Variable::Capture(group)), Some(captures)) => {
                    line.bytes(captures.get(*group).map(|range| &text[range]));
                }
                _ => line.part(part, record),
            }
        }
        self.bytes(Some(&value));
    }

    fn trace(&mut self, variable: &Variable, record: &Record<'_>) {
        self.bytes(record.traceparent.map(|whole| match variable {
            Variable::OpentelemetryTraceId => &whole[3..35],
            Variable::OpentelemetrySpanId => &whole[36..52],
            _ => &whole[..],
        }));
    }

    fn tls(&mut self, variable: &Variable, tls: Option<Tls<'_>>) {
        let text = tls.and_then(|tls| match variable {
            Variable::SslProtocol => Some(tls.version),
            Variable::SslCipher => Some(tls.cipher),
            Variable::SslServerName => tls.server_name,
            _ => Some(if tls.is_resumed { "r" } else { "." }),
        });
        self.bytes(text.map(str::as_bytes));
    }

    fn label(&mut self, variable: &Variable, labels: Option<&Labels>) {
        let Some(labels) = labels else { return self.missing() };
        self.text(match variable {
            Variable::Namespace => &labels.namespace,
            Variable::IngressName => &labels.object,
            Variable::RouteRule => &labels.rule,
            Variable::ServiceName => &labels.service,
            Variable::ServicePort => &labels.service_port,
            Variable::ServerName => &labels.host,
            _ => &labels.path,
        });
    }

    fn script_name(&mut self, path: Option<&[u8]>, index: &str) {
        self.bytes(path);
        if path.is_some_and(|path| path.ends_with(b"/")) {
            self.text(index);
        }
    }

    /// Appends a value for each try, in the form of nginx's lists.
    fn tries(&mut self, variable: &Variable, tries: &[Try]) {
        if tries.is_empty() {
            return self.missing();
        }
        for (index, one) in tries.iter().enumerate() {
            if index > 0 {
                self.out.extend_from_slice(b", ");
            }
            match variable {
                Variable::UpstreamAddr => self.address(one.address),
                Variable::UpstreamResponseLength => self.number(one.response_bytes),
                Variable::UpstreamResponseTime => self.listed(one.response_time, Self::seconds),
                Variable::UpstreamHeaderTime => self.listed(one.header_time, Self::seconds),
                Variable::UpstreamConnectTime => self.listed(one.connect_time, Self::seconds),
                _ => self.listed(one.status, Self::number),
            }
        }
    }

    /// In a list, a missing value is `-` whatever the escaping, since nginx formats the list as one value.
    fn listed<T>(&mut self, value: Option<T>, push: fn(&mut Self, T)) {
        match value {
            Some(value) => push(self, value),
            None => self.out.push(b'-'),
        }
    }

    /// As a value of a query: all but unreserved characters escaped (RFC 3986 section 2.3), as `ngx.escape_uri` does.
    fn escaped(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else { return self.missing() };
        for &byte in value {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.out.push(byte);
            } else {
                self.out.push(b'%');
                self.out.extend_from_slice(&escape::hex(byte));
            }
        }
    }

    fn missing(&mut self) {
        self.out.extend_from_slice(self.missing);
    }

    fn bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => escape::push(self.out, self.escape, value),
            None => self.missing(),
        }
    }

    fn text(&mut self, value: &str) {
        escape::push(self.out, self.escape, value.as_bytes());
    }

    fn number(&mut self, value: impl itoa::Integer) {
        push_number(self.out, value);
    }

    fn seconds(&mut self, time: Duration) {
        push_seconds(self.out, time);
    }

    fn address(&mut self, address: SocketAddr) {
        match address.ip() {
            IpAddr::V4(_) => self.ip(address.ip()),
            IpAddr::V6(ip) => write!(self.out, "[{ip}]").expect("a Vec takes everything"),
        }
        self.out.push(b':');
        self.number(address.port());
    }

    fn ip(&mut self, ip: IpAddr) {
        push_ip(self.out, ip);
    }
}

pub(super) fn push_number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Seconds with three decimals.
pub(super) fn push_seconds(out: &mut Vec<u8>, time: Duration) {
    push_number(out, time.as_secs());
    let millis = time.subsec_millis();
    let digit = |value: u32| b'0' + (value % 10) as u8;
    out.extend_from_slice(&[b'.', digit(millis / 100), digit(millis / 10), digit(millis)]);
}

pub(super) fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            let [first, rest @ ..] = ip.octets();
            push_number(out, first);
            for octet in rest {
                out.push(b'.');
                push_number(out, octet);
            }
        }
        IpAddr::V6(ip) => write!(out, "{ip}").expect("a Vec takes everything"),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::access::{Named, Time};

    struct Agent;

    impl Named for Agent {
        fn request(&self, name: &str) -> Option<Cow<'_, [u8]>> {
            (name == "user-agent").then_some(b"cu\"rl".into())
        }

        fn response(&self, name: &str) -> Option<&[u8]> {
            (name == "x-a").then_some(b"a")
        }

        fn cookie(&self, name: &str) -> Option<&[u8]> {
            (name == "session").then_some(b"s-1")
        }

        fn argument(&self, name: &str) -> Option<&[u8]> {
            (name == "b").then_some(b"c")
        }

        fn capture(&self, group: u8) -> Option<&[u8]> {
            (group == 1).then_some(b"first")
        }

        fn computed(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
            Some(format!("computed {}", variable.name()).into_bytes().into())
        }

        fn set(&self, _: &str) -> Option<&[u8]> {
            None
        }
    }

    const MS: Duration = Duration::from_millis(1);

    fn one_try(address: &str, status: Option<u16>, millis: u32) -> Try {
        let address = address.parse().unwrap();
        let (connect_time, header_time) = (status.map(|_| MS), status.map(|_| 2 * MS));
        Try {
            address,
            status,
            response_bytes: 612,
            connect_time,
            header_time,
            response_time: Some(millis * MS),
        }
    }

    fn record() -> Record<'static> {
        Record {
            time: Time { unix: Duration::from_millis(1_700_000_000_042), local: "LOCAL", iso8601: "ISO" },
            remote_addr: "192.0.2.7".parse().unwrap(),
            peer: "[2001:db8::1]:4711".parse().unwrap(),
            server: "10.0.0.1:80".parse().unwrap(),
            remote_user: None,
            request: Some(b"GET /a?b=c HTTP/1.1"),
            method: Some(b"GET"),
            target: Some(b"/a?b=c"),
            path: Some(b"/a"),
            query: Some(b"b=c"),
            scheme: "https",
            tls: Some(Tls {
                version: "TLSv1.3",
                cipher: "TLS_AES_128_GCM_SHA256",
                server_name: Some("web.test"),
                is_resumed: true,
            }),
            protocol: Some("HTTP/1.1"),
            host: Some(b"a.test"),
            forwarded: Some((b"A.test:81", b"http")),
            status: 200,
            body_bytes_sent: 612,
            bytes_sent: 800,
            request_length: 77,
            request_time: Duration::from_micros(1_012_999),
            connection: 9,
            connection_requests: 3,
            upstream_name: Some("default-web-80"),
            alternative_upstream_name: "",
            cache_status: None,
            reason: None,
            tries: &[],
            request_id: Some(b"cafe"),
            traceparent: Some(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            labels: None,
            index: "index.php",
            hostname: "pod-1",
            pid: 7,
            named: &Agent,
        }
    }

    fn line(format: &str, escape: Escape, record: &Record<'_>) -> String {
        let mut out = b"before\n".to_vec();
        write_line(&Format::parse(format, escape).unwrap(), record, &mut out);
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix("before\n").and_then(|text| text.strip_suffix('\n')).unwrap().to_owned()
    }

    #[test]
    fn the_default_format_reads_as_in_ingress_nginx() {
        let tries = [one_try("10.0.0.2:8080", None, 5000), one_try("10.0.0.3:8080", Some(200), 7)];
        let record = Record { tries: &tries, ..record() };
        assert_eq!(
            line(model::log::DEFAULT_FORMAT, Escape::Default, &record),
            r#"192.0.2.7 - - [LOCAL] "GET /a?b=c HTTP/1.1" 200 612 "-" "cu\x22rl" 77 1.012 [default-web-80] [] "#
                .to_owned()
                + "10.0.0.2:8080, 10.0.0.3:8080 612, 612 5.000, 0.007 -, 200 cafe"
        );
    }

    #[test]
    fn what_is_missing_is_a_dash_and_in_json_nothing() {
        let format = "<$remote_user|$upstream_addr|$namespace|$http_referer>";
        assert_eq!(line(format, Escape::Default, &record()), "<-|-|-|->");
        assert_eq!(line(format, Escape::None, &record()), "<-|-|-|->");
        assert_eq!(line(format, Escape::Json, &record()), "<|||>");
    }

    #[test]
    fn other_texts_have_the_values_as_they_are() {
        let expanded = |text: &str| {
            let mut out = Vec::new();
            expand(&Template::parse(text).unwrap(), &record(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            expanded("https://$host/$remote_user?rd=$escaped_request_uri"),
            "https://a.test/?rd=%2Fa%3Fb%3Dc"
        );
        assert_eq!(expanded("<$http_user_agent|$2|$1>"), "<cu\"rl||first>");
    }

    #[test]
    fn json_escapes_values_and_leaves_the_text_alone() {
        assert_eq!(line(r#"{"a": "$http_user_agent"}"#, Escape::Json, &record()), r#"{"a": "cu\"rl"}"#);
        assert_eq!(line("$http_user_agent", Escape::None, &record()), "cu\"rl");
    }

    /// Each variable has its own value, so that a mix-up is noticed.
    #[test]
    fn every_variable_has_its_value() {
        let tries = [one_try("[2001:db8::2]:80", Some(502), 3), one_try("10.0.0.3:80", None, 4)];
        let labels = Labels {
            namespace: "ns".into(),
            object: "ing".into(),
            service: "svc".into(),
            service_port: "http".into(),
            path: "/p".into(),
            host: "h".into(),
            rule: "rule".into(),
        };
        let record = Record { tries: &tries, labels: Some(&labels), remote_user: Some(b"me"), ..record() };
        let lines: Vec<String> = model::template::VARIABLES
            .iter()
            .map(|(name, _)| *name)
            .chain(["http_user_agent", "sent_http_x_a", "cookie_session", "arg_b", "1"])
            .map(|name| format!("{name}: {}", line(&format!("${name}"), Escape::Default, &record)))
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
