//! Every answer that Forebay makes itself, and the one table from faults to statuses.

use std::borrow::Cow;

use deciders::grpc::{self, Status};
use deciders::processing::Immediate;
use observe::Reason;

use crate::io::buffer::Buffer;
use crate::replicas;
use crate::request::head::{HeadEdits, HeadWriter, SERVER};

/// An answer without an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Fields beside those that every answer has, in their order.
    fields: Vec<(Cow<'static, str>, Vec<u8>)>,
    /// The content; none where the head is all, without a length even: gRPC's trailers-only response.
    body: Option<Vec<u8>>,
    pub(crate) scope: Scope,
}

/// The block of the configuration whose headers an answer has: in nginx, the block that it is made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A location: those of its route, and `Strict-Transport-Security`.
    Location,
    /// A location that is closed: `Strict-Transport-Security`, and none of its route.
    Closed,
    /// The location that sends clients to where they sign in: those of CORS.
    Signin,
    /// The host, before a location is found or after it was left: those that all answers have.
    Host,
}

/// nginx's status for a client that went away; it is logged, not sent.
pub(crate) const CLIENT_CLOSED_REQUEST: u16 = 499;

/// nginx's status for a connection that is closed without an answer.
pub(crate) const NO_RESPONSE: u16 = 444;

/// The status that a client gets for each reason.
pub(crate) fn status(reason: Reason) -> u16 {
    match reason {
        Reason::ClientAborted | Reason::SendTimeout | Reason::SendRate => CLIENT_CLOSED_REQUEST,
        Reason::HeadTimeout | Reason::HeadRate | Reason::BodyTimeout | Reason::BodyRate => 408,
        Reason::AbusiveClient | Reason::ClientConnections | Reason::ClientExcess => 429,
        Reason::Forbidden
        | Reason::ClientCertificateSubject
        | Reason::AddressDenied
        | Reason::PlaceDenied
        | Reason::FirewallDenied
        | Reason::FirewallExhausted
        | Reason::HeaderDenied => 403,
        Reason::UnknownHost | Reason::UnknownPath => 404,
        Reason::MethodNotAllowed => 405,
        Reason::BodyTooLarge => 413,
        Reason::LineTooLong => 414,
        Reason::AuthFailed
        | Reason::ProcessorFailed
        | Reason::ProcessorAnswered
        | Reason::BodyUnheld
        | Reason::FileUnreadable
        | Reason::BackendInvalid
        | Reason::TextTooLong
        | Reason::ExpressionSteps => 500,
        Reason::UnsupportedExpectation => 417,
        Reason::Misdirected => 421,
        Reason::TooEarly => 425,
        Reason::UnsupportedProtocol => 501,
        Reason::UnsupportedVersion => 505,
        Reason::NoEndpoints
        | Reason::ConnectPaced
        | Reason::Unavailable
        | Reason::TokenKeys
        | Reason::FilesGone
        | Reason::ConnectionLimit
        | Reason::PasswordLimit
        | Reason::GuardShed
        | Reason::LimitUnknown
        | Reason::RateLimit
        | Reason::ClientConnectionLimit
        | Reason::DescriptorsExhausted
        | Reason::ConcurrencyLimit
        | Reason::QueueTimeout
        | Reason::QueueFull
        | Reason::RetryBudget => 503,
        Reason::ConnectTimeout
        | Reason::UpstreamReadTimeout
        | Reason::UpstreamSendTimeout
        | Reason::ProcessorTimeout => 504,
        Reason::ConnectRefused
        | Reason::ConnectFailed
        | Reason::PortsExhausted
        | Reason::UpstreamHandshakeFailed
        | Reason::UpstreamCertificateBad
        | Reason::UpstreamReset
        | Reason::UpstreamStatus
        | Reason::UpstreamBadResponse
        | Reason::UpstreamBadCoding
        | Reason::UpstreamHeadTooLarge => 502,
        _ => 400,
    }
}

/// Whether it is overload that a request is refused for: another time it may be served.
pub(crate) fn is_overload(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ConnectPaced
            | Reason::ConcurrencyLimit
            | Reason::QueueTimeout
            | Reason::QueueFull
            | Reason::ClientExcess
    )
}

impl Answer {
    /// The answer to a fault.
    pub(crate) fn to(reason: Reason) -> Self {
        let status = status(reason);
        let body = match reason {
            Reason::UnknownHost => "404 Not Found: no Ingress or route matches this host\n".to_owned(),
            Reason::UnknownPath => {
                "404 Not Found: no Ingress or route matches this path of the host\n".to_owned()
            }
            Reason::PlainHttp => {
                "400 Bad Request: the plain HTTP request was sent to the HTTPS port\n".to_owned()
            }
            Reason::ClientCertificateMissing => {
                "400 Bad Request: no required SSL certificate was sent\n".to_owned()
            }
            Reason::ClientCertificateBad => "400 Bad Request: the SSL certificate error\n".to_owned(),
            Reason::ClientCertificateSubject => "403 Forbidden: client certificate unauthorized\n".to_owned(),
            _ => format!("{status} {}\n", phrase(status)),
        };
        let scope = match reason {
            Reason::ClientCertificateMissing
            | Reason::ClientCertificateBad
            | Reason::ClientCertificateSubject
            | Reason::Misdirected
            | Reason::Forbidden
            | Reason::HeaderDenied
            | Reason::MethodNotAllowed => Scope::Host,
            Reason::Unavailable => Scope::Closed,
            _ => Scope::Location,
        };
        Self::new(status, body).of(scope)
    }

    /// The answer to another replica that has had something forgotten.
    pub(crate) fn forgotten() -> Self {
        Self::text(204, "", String::new()).with(replicas::NAME, "forgotten".to_owned()).of(Scope::Host)
    }

    /// The answer to another replica that has asked for something about sessions.
    pub(crate) fn for_replica(text: String) -> Self {
        Self::text(200, "text/plain", text).with(replicas::NAME, "answered".to_owned()).of(Scope::Host)
    }

    /// The answer to a request that is content with what is kept, where nothing is (RFC 9111 section
    /// 5.2.1.7).
    pub(crate) fn not_cached() -> Self {
        Self::with_status(504)
    }

    /// The answer of the default backend that is built in.
    pub(crate) fn not_found() -> Self {
        Self::with_status(404)
    }

    /// The answer to a load balancer's health check.
    pub(crate) fn healthy() -> Self {
        Self::text(200, "text/html", String::new()).of(Scope::Host)
    }

    /// The answer to a client that is not let in, with the challenges that it has to meet.
    pub(crate) fn refusal(status: u16, challenges: &[Vec<u8>]) -> Self {
        let mut answer = Self::with_status(status);
        for challenge in challenges {
            answer.fields.push(("WWW-Authenticate".into(), challenge.clone()));
        }
        answer
    }

    /// The answer of an authorization service, whose headers have been checked.
    pub(crate) fn of_service(status: u16, headers: &[(String, Vec<u8>)], body: &[u8]) -> Self {
        let fields = headers.iter().map(|(name, value)| (Cow::Owned(name.clone()), value.clone())).collect();
        let body = Some(body.to_vec()).filter(|_| !matches!(status, 204 | 304));
        Self { fields, body, ..Self::new(status, String::new()) }
    }

    /// The same answer, with the time after which the client may ask again (RFC 9110 section 10.2.3).
    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        self.with("Retry-After", seconds.to_string())
    }

    /// The answer to a preflight of CORS, as ingress-nginx gives it.
    pub(crate) fn preflight() -> Self {
        let answer = Self { body: None, ..Self::new(204, String::new()) };
        answer
            .with("Content-Type", "text/plain charset=UTF-8".to_owned())
            .with("Content-Length", "0".to_owned())
    }

    /// The answer of a route that answers by itself.
    pub(crate) fn direct(response: &model::DirectResponse) -> Self {
        let headers = response.headers.iter();
        let fields = headers.map(|(name, value)| (Cow::Owned(name.clone()), value.clone().into_bytes()));
        let has_content = !matches!(response.status, 204 | 304);
        let body = has_content.then(|| response.body.clone().into_bytes());
        Self { fields: fields.collect(), body, ..Self::new(response.status, String::new()) }
    }

    /// An answer with a status and its phrase.
    pub(crate) fn with_status(status: u16) -> Self {
        Self::new(status, format!("{status} {}\n", phrase(status)))
    }

    /// The answer to a method that is not served, with those that are.
    pub(crate) fn method_not_allowed(allowed: &str) -> Self {
        Self::with_status(405).with("Allow", allowed.to_owned())
    }

    /// No answer: the connection is closed.
    pub(crate) fn none() -> Self {
        Self::new(NO_RESPONSE, String::new())
    }

    /// A text of a media type. Statuses without content have none (RFC 9110 sections 15.3.5 and 15.4.5).
    pub(crate) fn text(status: u16, media_type: &str, text: String) -> Self {
        if matches!(status, 204 | 304) {
            return Self { body: None, ..Self::new(status, String::new()) };
        }
        Self::new(status, text).with("Content-Type", media_type.to_owned())
    }

    /// An answer that sends the client to `location`.
    pub(crate) fn redirect(status: u16, location: String) -> Self {
        Self::with_status(status).with("Location", location)
    }

    /// The same answer, which no cache may keep, with cookies for the client.
    pub(crate) fn setting_cookies(self, cookies: impl IntoIterator<Item = String>) -> Self {
        let answer = self.with("Cache-Control", "no-store".to_owned());
        cookies.into_iter().fold(answer, |answer, cookie| answer.with("Set-Cookie", cookie))
    }

    /// The response that an external processor gives in place of the endpoint's. A client that speaks gRPC
    /// gets it as a response of trailers only, as with Envoy.
    pub(crate) fn immediate(immediate: Immediate, is_grpc: bool) -> Self {
        let Immediate { status, fields, body, grpc_status, .. } = immediate;
        let is_own = |(name, _): &(String, Vec<u8>)| !name.eq_ignore_ascii_case("date");
        let fields = fields.into_iter().filter(is_own).map(|(name, value)| (Cow::Owned(name), value));
        if !is_grpc {
            let body = (!matches!(status, 204 | 304)).then_some(body);
            return Self { status, fields: fields.collect(), body, scope: Scope::Location };
        }
        let code = grpc_status.unwrap_or_else(|| Status::of_http(status));
        let answer = Self { body: None, ..Self::new(200, String::new()) };
        let mut answer = answer
            .with("Content-Type", grpc::CONTENT_TYPE.to_owned())
            .with("Grpc-Status", code.to_string())
            .with("Grpc-Message", grpc::encode_message(&body));
        answer.fields.extend(fields.filter(|(name, _)| !name.eq_ignore_ascii_case("Content-Type")));
        answer
    }

    /// The same answer, made in another block.
    pub(crate) fn of(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same answer for a client that speaks gRPC: a response of trailers only. The codes are those of
    /// gRPC's `http-grpc-status-mapping.md`, but for 500, which is said where a route leads nowhere: the
    /// Gateway API asks for `UNAVAILABLE` then (`GRPCRouteRule.backendRefs`). Redirects and what is no
    /// fault stay as they are.
    pub(crate) fn in_grpc(&self) -> Option<Self> {
        const INTERNAL: u8 = 13;
        const UNAUTHENTICATED: u8 = 16;
        const PERMISSION_DENIED: u8 = 7;
        const UNIMPLEMENTED: u8 = 12;
        const UNAVAILABLE: u8 = 14;
        const UNKNOWN: u8 = 2;
        let code = match self.status {
            ..400 => return None,
            400 => INTERNAL,
            401 => UNAUTHENTICATED,
            403 => PERMISSION_DENIED,
            404 => UNIMPLEMENTED,
            429 | 500 | 502..=504 => UNAVAILABLE,
            _ => UNKNOWN,
        };
        let message = format!("{} {}", self.status, phrase(self.status));
        let answer = Self { body: None, scope: self.scope, ..Self::new(200, String::new()) };
        Some(
            answer
                .with("Content-Type", "application/grpc".to_owned())
                .with("Grpc-Status", code.to_string())
                .with("Grpc-Message", message),
        )
    }

    /// Writes the answer's head as HTTP/1. `connection` is the value of `Connection`, where there is one.
    pub(crate) fn write_head(
        &self,
        out: &mut Buffer,
        date: &str,
        connection: Option<&str>,
        edits: &HeadEdits<'_>,
    ) {
        let mut writer = HeadWriter::new(out, 0);
        writer.status_line(self.status, phrase(self.status).as_bytes());
        if !edits.sets("Date") {
            writer.field("Date", date.as_bytes());
        }
        for (name, value) in self.fields.iter().filter(|(name, _)| !edits.replaces(name.as_bytes())) {
            writer.field(name, value);
        }
        if edits.passes_server {
            writer.field("Server", SERVER.as_bytes());
        }
        writer.edits(edits);
        writer.connection(connection);
        if let Some(body) = &self.body {
            let is_typed = self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Content-Type"));
            if !is_typed && !edits.replaces(b"Content-Type") {
                writer.field("Content-Type", b"text/plain; charset=utf-8");
            }
            writer.field("Content-Length", itoa::Buffer::new().format(body.len()).as_bytes());
        }
        writer.end();
    }

    /// The challenges that the client has to meet to be let in.
    pub(crate) fn challenges(&self) -> Vec<Vec<u8>> {
        let named = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("WWW-Authenticate"));
        named.map(|(_, value)| value.clone()).collect()
    }

    /// The content of the answer; empty if it has none.
    pub(crate) fn body(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }

    fn new(status: u16, body: String) -> Self {
        Self { status, fields: Vec::new(), body: Some(body.into_bytes()), scope: Scope::Location }
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.fields.push((name.into(), value.into_bytes()));
        self
    }

    /// The same answer with another status.
    pub(crate) fn with_other_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// The same answer with a further field, which the configuration names.
    pub(crate) fn with_field(mut self, name: &str, value: &[u8]) -> Self {
        self.fields.push((Cow::Owned(name.to_owned()), value.to_vec()));
        self
    }

    #[cfg(test)]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| *known == name).and_then(|(_, value)| str::from_utf8(value).ok())
    }
}

/// Reason phrases of RFC 9110 section 15 and RFC 6585, for the statuses that Forebay or its configuration
/// can give.
pub(crate) fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        425 => "Too Early",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

/// The name under which a refused head is counted.
pub(crate) fn malformed(fault: wire::h1::Malformed) -> Reason {
    use wire::h1::Malformed;
    match fault {
        Malformed::StartLine => Reason::BadRequestLine,
        Malformed::Target => Reason::BadTarget,
        Malformed::Version => Reason::UnsupportedVersion,
        Malformed::FieldName => Reason::BadHeaderName,
        Malformed::FieldValue => Reason::BadHeaderValue,
        Malformed::BareLineFeed => Reason::BareLineFeed,
        Malformed::ObsoleteFold => Reason::ObsoleteFold,
        Malformed::SpaceBeforeColon => Reason::SpaceBeforeColon,
        Malformed::TooManyFields | Malformed::HeadTooLarge => Reason::HeadTooLarge,
        Malformed::LineTooLong => Reason::LineTooLong,
        Malformed::MissingHost => Reason::MissingHost,
        Malformed::DuplicateHost => Reason::DuplicateHost,
        Malformed::Host => Reason::BadHost,
        Malformed::ConflictingFraming => Reason::ConflictingFraming,
        Malformed::ContentLength => Reason::BadContentLength,
        Malformed::TransferEncoding => Reason::BadTransferEncoding,
        Malformed::ForbiddenField => Reason::ForbiddenHeader,
        Malformed::Upgrade => Reason::UnsupportedProtocol,
        Malformed::Expect => Reason::UnsupportedExpectation,
    }
}
