//! Every answer that Forebay makes itself, and the one table from faults to statuses.

use observe::Reason;

use crate::buffer::Buffer;

/// An answer without an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Value of `Location`.
    pub(crate) location: Option<String>,
    /// Plain text.
    pub(crate) body: String,
    /// Status and message of gRPC, which take the place of the body.
    pub(crate) grpc: Option<(u8, String)>,
}

/// Header lines of an answer that depend on the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lines<'a> {
    /// Value of `Connection`.
    pub(crate) connection: Option<&'a str>,
    /// Value of `Strict-Transport-Security`.
    pub(crate) strict_transport_security: Option<&'a str>,
}

/// nginx's status for a client that went away; it is logged, not sent.
pub(crate) const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The status that a client gets for each reason.
pub(crate) fn status(reason: Reason) -> u16 {
    match reason {
        Reason::ClientAborted | Reason::SendTimeout => CLIENT_CLOSED_REQUEST,
        Reason::HeadTimeout | Reason::BodyTimeout => 408,
        Reason::Forbidden | Reason::ClientCertificateSubject => 403,
        Reason::UnknownHost | Reason::UnknownPath => 404,
        Reason::MethodNotAllowed => 405,
        Reason::BodyTooLarge => 413,
        Reason::LineTooLong => 414,
        Reason::UnsupportedExpectation => 417,
        Reason::Misdirected => 421,
        Reason::HeadTooLarge => 431,
        Reason::UnsupportedProtocol => 501,
        Reason::UnsupportedVersion => 505,
        Reason::NoEndpoints
        | Reason::Unavailable
        | Reason::ConnectionLimit
        | Reason::DescriptorsExhausted => 503,
        Reason::ConnectTimeout | Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => 504,
        Reason::ConnectRefused
        | Reason::ConnectFailed
        | Reason::PortsExhausted
        | Reason::UpstreamHandshakeFailed
        | Reason::UpstreamCertificateBad
        | Reason::UpstreamReset
        | Reason::UpstreamStatus
        | Reason::UpstreamBadResponse
        | Reason::UpstreamHeadTooLarge => 502,
        _ => 400,
    }
}

impl Answer {
    /// The answer to a fault.
    pub(crate) fn to(reason: Reason) -> Self {
        let status = status(reason);
        let body = match reason {
            Reason::UnknownHost => "404 Not Found: no Ingress matches this host\n".to_owned(),
            Reason::UnknownPath => "404 Not Found: no Ingress matches this path of the host\n".to_owned(),
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
        Self { status, location: None, body, grpc: None }
    }

    /// The answer to a load balancer's health check.
    pub(crate) fn healthy() -> Self {
        Self { status: 200, location: None, body: String::new(), grpc: None }
    }

    /// A redirect.
    pub(crate) fn redirect(status: u16, location: String) -> Self {
        Self { status, location: Some(location), body: format!("{status} {}\n", phrase(status)), grpc: None }
    }

    /// The same answer for a client that speaks gRPC: a response of trailers only. The codes are those of gRPC's
    /// `http-grpc-status-mapping.md`. Redirects and what is no fault stay as they are.
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
            429 | 502..=504 => UNAVAILABLE,
            _ => UNKNOWN,
        };
        let message = format!("{} {}", self.status, phrase(self.status));
        Some(Self { status: 200, location: None, body: String::new(), grpc: Some((code, message)) })
    }

    /// Writes the answer's head as HTTP/1.
    pub(crate) fn write_head(&self, out: &mut Buffer, date: &str, lines: Lines<'_>) {
        out.extend(
            format!("HTTP/1.1 {} {}\r\nDate: {date}\r\n", self.status, phrase(self.status)).as_bytes(),
        );
        if let Some(location) = &self.location {
            out.extend(format!("Location: {location}\r\n").as_bytes());
        }
        let Lines { connection, strict_transport_security } = lines;
        if let Some(value) = strict_transport_security {
            out.extend(format!("Strict-Transport-Security: {value}\r\n").as_bytes());
        }
        if let Some(connection) = connection {
            out.extend(format!("Connection: {connection}\r\n").as_bytes());
        }
        if let Some((code, message)) = &self.grpc {
            let lines = format!(
                "Content-Type: application/grpc\r\nGrpc-Status: {code}\r\nGrpc-Message: {message}\r\n\r\n"
            );
            return out.extend(lines.as_bytes());
        }
        let len = self.body.len();
        out.extend(
            format!("Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\n\r\n").as_bytes(),
        );
    }
}

/// Reason phrases of RFC 9110 section 15 and RFC 6585, for the statuses that Forebay or its configuration can give.
fn phrase(status: u16) -> &'static str {
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
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
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
