//! Writes a line of the access log, variable by variable.

use std::net::IpAddr;
use std::time::Duration;

use model::log::{Escape, Format};
use model::template::{Part, Template, Variable};
use model::{Labels, ValueMap};

use super::push::{push_address, push_ip, push_number, push_seconds, push_short};
use super::{TimeForm, Tls, Try, Values, escape};
use crate::limits::TEXT_BYTES_MAX;

/// Appends the line of a request, with its `\n`. Allocates only if `out` has to grow.
pub fn write_line(format: &Format, values: &impl Values, out: &mut Vec<u8>) {
    let missing: &[u8] = if format.escape == Escape::Json { b"" } else { b"-" };
    Line { out, escape: format.escape, missing }.template(&format.template, values);
    out.push(b'\n');
}

/// Appends a text with the unchanged values of a request. A missing value is empty. At most
/// [`TEXT_BYTES_MAX`] are added.
pub fn expand(template: &Template, values: &impl Values, out: &mut Vec<u8>) {
    let end = out.len() + TEXT_BYTES_MAX;
    let mut line = Line { out, escape: Escape::None, missing: b"" };
    for part in template.parts() {
        line.part(part, values);
        if line.out.len() >= end {
            line.out.truncate(end);
            break;
        }
    }
}

/// The document root of ingress-nginx's nginx.
const DOCUMENT_ROOT: &str = "/usr/local/nginx/html";

/// The version of nginx in the last releases of ingress-nginx.
const NGINX_VERSION: &str = "1.27.1";

struct Line<'a> {
    out: &'a mut Vec<u8>,
    escape: Escape,
    /// The text for a missing value.
    missing: &'static [u8],
}

impl Line<'_> {
    fn template(&mut self, template: &Template, values: &impl Values) {
        for part in template.parts() {
            self.part(part, values);
        }
    }

    #[inline]
    fn part(&mut self, part: &Part<Variable>, values: &impl Values) {
        match part {
            Part::Text(text) => push_short(self.out, text.as_bytes()),
            Part::Variable(variable) => self.variable(variable, values),
        }
    }

    #[inline(never)]
    fn variable(&mut self, variable: &Variable, values: &impl Values) {
        match variable {
            Variable::RemoteAddr | Variable::TheRealIp => self.ip(values.remote_addr()),
            Variable::RemotePort => self.number(values.connection().peer.port()),
            Variable::PeerAddr => self.ip(values.connection().peer.ip()),
            Variable::RemoteUser => self.bytes(values.remote_user().as_deref()),
            Variable::TimeLocal => values.write_time(TimeForm::Common, self.out),
            Variable::TimeIso8601 => values.write_time(TimeForm::Iso8601, self.out),
            Variable::Msec => self.seconds(values.unix_time()),
            Variable::Request => self.bytes(values.request_line().as_deref()),
            Variable::RequestMethod => self.bytes(values.method()),
            Variable::RequestUri => self.bytes(values.target()),
            Variable::Uri => self.bytes(values.path()),
            Variable::Args | Variable::QueryString => self.bytes(values.query()),
            Variable::Scheme => self.text(values.connection().scheme),
            Variable::ServerProtocol => self.bytes(values.protocol().map(str::as_bytes)),
            Variable::Host => self.bytes(values.host().as_deref()),
            Variable::Status => self.number(values.status()),
            Variable::BodyBytesSent => self.number(values.body_bytes_sent()),
            Variable::BytesSent => self.number(values.bytes_sent()),
            Variable::RequestLength => self.number(values.request_length()),
            Variable::RequestTime => self.seconds(values.request_time()),
            Variable::Connection => self.number(values.connection().serial),
            Variable::ConnectionRequests => self.number(values.connection().requests),
            Variable::ProxyUpstreamName => self.bytes(values.upstream_name().map(str::as_bytes)),
            Variable::ProxyAlternativeUpstreamName => {
                self.text(values.alternative_upstream_name().unwrap_or(""));
            }
            Variable::UpstreamCacheStatus => self.bytes(values.cache_status().map(str::as_bytes)),
            Variable::ForebayReason => self.bytes(values.reason().map(|reason| reason.name().as_bytes())),
            Variable::ReqId | Variable::RequestId => self.bytes(values.request_id()),
            Variable::OpentelemetryTraceId
            | Variable::OpentelemetrySpanId
            | Variable::OpentelemetryContextTraceparent => self.trace(variable, values.traceparent()),
            Variable::ServerAddr => self.ip(values.connection().server.ip()),
            Variable::ServerPort => self.number(values.connection().server.port()),
            Variable::Hostname => self.text(values.hostname()),
            Variable::Pid => self.number(values.pid()),
            Variable::BestHttpHost => self.bytes(values.forwarded_host()),
            Variable::PassAccessScheme => self.bytes(values.forwarded_scheme()),
            Variable::EscapedRequestUri => self.escaped(values.target()),
            Variable::IsArgs => self.bytes(Some(if values.query().is_some() { b"?" } else { b"" })),
            Variable::RequestHeader(name) => self.bytes(values.request_header(name).as_deref()),
            Variable::ResponseHeader(name) => self.bytes(values.response_header(name)),
            Variable::Cookie(name) => self.bytes(values.cookie(name)),
            Variable::Argument(name) => self.bytes(values.argument(name)),
            Variable::Claim(name) => self.bytes(values.claim(name).as_deref()),
            Variable::Capture(group) => self.bytes(values.capture(*group)),
            Variable::Set(name) => self.bytes(values.set(name)),
            Variable::Mapped(map) => self.mapped(map, values),
            Variable::UpstreamAddr
            | Variable::UpstreamResponseLength
            | Variable::UpstreamResponseTime
            | Variable::UpstreamHeaderTime
            | Variable::UpstreamConnectTime
            | Variable::UpstreamStatus => self.tries(variable, values.tries()),
            Variable::SslProtocol
            | Variable::SslCipher
            | Variable::SslServerName
            | Variable::SslSessionReused => self.tls(variable, values.connection().tls),
            Variable::Namespace
            | Variable::IngressName
            | Variable::RouteRule
            | Variable::ServiceName
            | Variable::ServicePort
            | Variable::LocationPath
            | Variable::ServerName => self.label(variable, values.labels()),
            other => self.made(other, values),
        }
    }

    /// Writes variables that are constant, or computed for this text.
    #[cold]
    #[inline(never)]
    fn made(&mut self, variable: &Variable, values: &impl Values) {
        match (variable, values.remote_addr()) {
            (Variable::DocumentRoot, _) => self.text(DOCUMENT_ROOT),
            (Variable::NginxVersion, _) => self.text(NGINX_VERSION),
            (Variable::BinaryRemoteAddr, IpAddr::V4(ip)) => self.bytes(Some(&ip.octets())),
            (Variable::BinaryRemoteAddr, IpAddr::V6(ip)) => self.bytes(Some(&ip.octets())),
            (Variable::Https, _) => {
                self.bytes((values.connection().scheme == "https").then_some(b"on"));
            }
            (Variable::FastCgiScriptName, _) => {
                self.script_name(values.path(), values.index().unwrap_or_default());
            }
            (Variable::FastCgiPathInfo, _) => self.missing(),
            (Variable::Geo(field), _) => self.bytes(values.geo(*field).as_deref()),
            _ => self.bytes(values.computed(variable).as_deref()),
        }
    }

    #[inline(never)]
    fn mapped(&mut self, map: &ValueMap, values: &impl Values) {
        let (mut text, mut value) = (Vec::new(), Vec::new());
        expand(map.source(), values, &mut text);
        let Some((found, captures)) = values.in_map(map, &text) else { return self.missing() };
        let mut line = Line { out: &mut value, escape: Escape::None, missing: b"" };
        for part in found.parts() {
            match (part, &captures) {
                (Part::Variable(Variable::Capture(group)), Some(captures)) => {
                    line.bytes(captures.get(*group).map(|range| &text[range]));
                }
                _ => line.part(part, values),
            }
        }
        self.bytes(Some(&value));
    }

    fn trace(&mut self, variable: &Variable, traceparent: Option<&[u8; 55]>) {
        self.bytes(traceparent.map(|whole| match variable {
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
            Variable::Namespace => labels.namespace(),
            Variable::IngressName => labels.object(),
            Variable::RouteRule => labels.rule(),
            Variable::ServiceName => labels.service(),
            Variable::ServicePort => labels.service_port(),
            Variable::ServerName => labels.host(),
            _ => labels.path(),
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
                Variable::UpstreamAddr => push_address(self.out, one.address),
                Variable::UpstreamResponseLength => self.number(one.response_bytes),
                Variable::UpstreamResponseTime => self.listed(one.response_time, Self::seconds),
                Variable::UpstreamHeaderTime => self.listed(one.header_time, Self::seconds),
                Variable::UpstreamConnectTime => self.listed(one.connect_time, Self::seconds),
                _ => self.listed(one.status, Self::number),
            }
        }
    }

    /// Writes an item of a list. A missing value is `-` whatever the escaping, because nginx formats the list
    /// as one value.
    fn listed<T>(&mut self, value: Option<T>, push: fn(&mut Self, T)) {
        match value {
            Some(value) => push(self, value),
            None => self.out.push(b'-'),
        }
    }

    /// Writes a value for a query: all but unreserved characters are escaped (RFC 3986 section 2.3), as by
    /// `ngx.escape_uri`.
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

    fn number(&mut self, value: impl Into<u64>) {
        push_number(self.out, value);
    }

    fn seconds(&mut self, time: Duration) {
        push_seconds(self.out, time);
    }

    fn ip(&mut self, ip: IpAddr) {
        push_ip(self.out, ip);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use model::LabelTexts;

    use super::*;
    use crate::access::{Connection, Time};

    /// A request whose values are all different, so that the test detects a mix-up.
    #[derive(Default)]
    struct Request<'a> {
        remote_user: Option<&'a [u8]>,
        tries: &'a [Try],
        labels: Option<&'a Labels>,
    }

    impl Values for Request<'_> {
        fn remote_addr(&self) -> IpAddr {
            "192.0.2.7".parse().unwrap()
        }

        fn connection(&self) -> Connection<'_> {
            Connection {
                peer: "[2001:db8::1]:4711".parse().unwrap(),
                server: "10.0.0.1:80".parse().unwrap(),
                scheme: "https",
                tls: Some(Tls {
                    version: "TLSv1.3",
                    cipher: "TLS_AES_128_GCM_SHA256",
                    server_name: Some("web.test"),
                    is_resumed: true,
                }),
                serial: 9,
                requests: 3,
            }
        }

        fn unix_time(&self) -> Duration {
            Duration::from_millis(1_700_000_000_042)
        }

        fn write_time(&self, form: TimeForm, out: &mut Vec<u8>) {
            let time = Time { local: "LOCAL", iso8601: "ISO", ..Time::default() };
            out.extend_from_slice(time.text(form).as_bytes());
        }

        fn hostname(&self) -> &'static str {
            "pod-1"
        }

        fn pid(&self) -> u32 {
            7
        }

        fn remote_user(&self) -> Option<Cow<'_, [u8]>> {
            self.remote_user.map(Cow::Borrowed)
        }

        fn request_line(&self) -> Option<Cow<'_, [u8]>> {
            Some(b"GET /a?b=c HTTP/1.1".into())
        }

        fn method(&self) -> Option<&[u8]> {
            Some(b"GET")
        }

        fn target(&self) -> Option<&[u8]> {
            Some(b"/a?b=c")
        }

        fn path(&self) -> Option<&[u8]> {
            Some(b"/a")
        }

        fn query(&self) -> Option<&[u8]> {
            Some(b"b=c")
        }

        fn protocol(&self) -> Option<&str> {
            Some("HTTP/1.1")
        }

        fn host(&self) -> Option<Cow<'_, [u8]>> {
            Some(b"a.test".into())
        }

        fn forwarded_host(&self) -> Option<&[u8]> {
            Some(b"A.test:81")
        }

        fn forwarded_scheme(&self) -> Option<&[u8]> {
            Some(b"http")
        }

        fn status(&self) -> u16 {
            200
        }

        fn body_bytes_sent(&self) -> u64 {
            612
        }

        fn bytes_sent(&self) -> u64 {
            800
        }

        fn request_length(&self) -> u64 {
            77
        }

        fn request_time(&self) -> Duration {
            Duration::from_micros(1_012_999)
        }

        fn upstream_name(&self) -> Option<&str> {
            Some("default-web-80")
        }

        fn tries(&self) -> &[Try] {
            self.tries
        }

        fn request_id(&self) -> Option<&[u8]> {
            Some(b"cafe")
        }

        fn traceparent(&self) -> Option<&[u8; 55]> {
            Some(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        }

        fn labels(&self) -> Option<&Labels> {
            self.labels
        }

        fn index(&self) -> Option<&str> {
            Some("index.php")
        }

        fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
            (name == "user-agent").then_some(b"cu\"rl".into())
        }

        fn response_header(&self, name: &str) -> Option<&[u8]> {
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

    fn line(format: &str, escape: Escape, request: &Request<'_>) -> String {
        let mut out = b"before\n".to_vec();
        write_line(&Format::parse(format, escape).unwrap(), request, &mut out);
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix("before\n").and_then(|text| text.strip_suffix('\n')).unwrap().to_owned()
    }

    #[test]
    fn the_default_format_reads_as_in_ingress_nginx() {
        let tries = [one_try("10.0.0.2:8080", None, 5000), one_try("10.0.0.3:8080", Some(200), 7)];
        let request = Request { tries: &tries, ..Request::default() };
        assert_eq!(
            line(model::log::DEFAULT_FORMAT, Escape::Default, &request),
            r#"192.0.2.7 - - [LOCAL] "GET /a?b=c HTTP/1.1" 200 612 "-" "cu\x22rl" 77 1.012 [default-web-80] [] "#
                .to_owned()
                + "10.0.0.2:8080, 10.0.0.3:8080 612, 612 5.000, 0.007 -, 200 cafe"
        );
    }

    #[test]
    fn what_is_missing_is_a_dash_and_in_json_nothing() {
        let format = "<$remote_user|$upstream_addr|$namespace|$http_referer>";
        assert_eq!(line(format, Escape::Default, &Request::default()), "<-|-|-|->");
        assert_eq!(line(format, Escape::None, &Request::default()), "<-|-|-|->");
        assert_eq!(line(format, Escape::Json, &Request::default()), "<|||>");
    }

    #[test]
    fn other_texts_have_the_values_as_they_are() {
        let expanded = |text: &str| {
            let mut out = Vec::new();
            expand(&Template::parse(text).unwrap(), &Request::default(), &mut out);
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
        assert_eq!(
            line(r#"{"a": "$http_user_agent"}"#, Escape::Json, &Request::default()),
            r#"{"a": "cu\"rl"}"#
        );
        assert_eq!(line("$http_user_agent", Escape::None, &Request::default()), "cu\"rl");
    }

    /// Each variable has its own value, so that the test detects a mix-up.
    #[test]
    fn every_variable_has_its_value() {
        let tries = [one_try("[2001:db8::2]:80", Some(502), 3), one_try("10.0.0.3:80", None, 4)];
        let labels = Labels::from(LabelTexts {
            namespace: "ns".into(),
            object: "ing".into(),
            service: "svc".into(),
            service_port: "http".into(),
            path: "/p".into(),
            host: "h".into(),
            rule: "rule".into(),
        });
        let request = Request { tries: &tries, labels: Some(&labels), remote_user: Some(b"me") };
        let lines: Vec<String> = model::template::VARIABLES
            .iter()
            .map(|(name, _)| *name)
            .chain(["http_user_agent", "sent_http_x_a", "cookie_session", "arg_b", "1"])
            .map(|name| format!("{name}: {}", line(&format!("${name}"), Escape::Default, &request)))
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
