//! Reasons why a request was not answered by an endpoint: `forebay_faults_total{side, reason}`. One line for each reason.

macro_rules! reasons {
    ($($side:ident { $($name:literal => $variant:ident, $doc:literal;)* })*) => {
        table! {
            /// The reason of a fault.
            Reason { $($($name => $variant, $doc;)*)* }
        }

        impl Reason {
            /// The side whose fault it is.
            pub fn side(self) -> Side {
                match self {
                    $($(Self::$variant => Side::$side,)*)*
                }
            }
        }
    };
}

table! {
    /// The side whose fault something is.
    Side {
        "client" => Client, "The client's.";
        "upstream" => Upstream, "The endpoint's.";
        "forebay" => Forebay, "The proxy's own, or its configuration's.";
    }
}

reasons! {
    Client {
        "bad_request_line" => BadRequestLine, "The request line is malformed.";
        "bad_header_name" => BadHeaderName, "A header's name is empty or has a character that no name may have.";
        "bad_header_value" => BadHeaderValue, "A header's value has a control character.";
        "bare_line_feed" => BareLineFeed, "A line ends in LF without CR, or has a CR without LF.";
        "obsolete_fold" => ObsoleteFold, "A header goes on in the next line.";
        "space_before_colon" => SpaceBeforeColon, "Space stands between a header's name and its colon.";
        "missing_host" => MissingHost, "An HTTP/1.1 request has no Host.";
        "duplicate_host" => DuplicateHost, "A request has more than one Host.";
        "bad_host" => BadHost, "Host or authority has a character that none may have.";
        "conflicting_framing" => ConflictingFraming, "Both Content-Length and Transfer-Encoding are there.";
        "bad_content_length" => BadContentLength, "Content-Length is no number, or there are different ones.";
        "bad_transfer_encoding" => BadTransferEncoding, "Transfer-Encoding is not just `chunked`.";
        "bad_target" => BadTarget, "The request target has a bad escape, a NUL, or leaves the root.";
        "method_not_allowed" => MethodNotAllowed, "CONNECT, which a reverse proxy does not serve.";
        "bad_chunk" => BadChunk, "A chunk's size or end is malformed.";
        "unsupported_version" => UnsupportedVersion, "The HTTP version is neither 1.0 nor 1.1.";
        "forbidden_header" => ForbiddenHeader, "An HTTP/2 request has a header that speaks of an HTTP/1 connection.";
        "unsupported_protocol" => UnsupportedProtocol, "Another protocol is asked for in a way that cannot be passed on.";
        "http2_error" => Http2Error, "What came is no HTTP/2 (RFC 9113): the connection was closed with GOAWAY.";
        "http2_stream_error" => Http2StreamError, "An HTTP/2 request is malformed (RFC 9113): its stream was reset.";
        "http2_flood" => Http2Flood, "Too many HTTP/2 frames that serve no request: the connection was closed with GOAWAY.";
        "unsupported_expectation" => UnsupportedExpectation, "Expect is not `100-continue`.";
        "head_too_large" => HeadTooLarge, "The request head is too long.";
        "line_too_long" => LineTooLong, "The request line is too long.";
        "body_too_large" => BodyTooLarge, "The request body is too long.";
        "head_rate" => HeadRate, "The request head came more slowly than clients may be.";
        "head_timeout" => HeadTimeout, "The request head took too long.";
        "body_rate" => BodyRate, "The request body came more slowly than clients may be.";
        "body_timeout" => BodyTimeout, "The request body stood still for too long.";
        "send_rate" => SendRate, "The client took the response more slowly than clients may be.";
        "send_timeout" => SendTimeout, "The client took nothing of the response for too long.";
        "bad_proxy_header" => BadProxyHeader, "A connection does not begin with the PROXY header that it has to begin with.";
        "proxy_header_timeout" => ProxyHeaderTimeout, "The PROXY header took too long.";
        "client_aborted" => ClientAborted, "The client went away before the end of the response.";
        "bad_handshake" => BadHandshake, "A TLS handshake was malformed or failed.";
        "handshake_aborted" => HandshakeAborted, "The client went away during the TLS handshake.";
        "handshake_timeout" => HandshakeTimeout, "The TLS handshake took too long.";
        "unknown_server_name" => UnknownServerName, "Nothing is served for the name in the TLS handshake.";
        "no_common_tls_parameters" => NoCommonTlsParameters, "The client offered no TLS version, suite or protocol that is allowed.";
        "certificate_refused" => CertificateRefused, "The client did not like the certificate that it was shown.";
        "plain_http" => PlainHttp, "The client spoke HTTP in clear on the TLS port.";
        "client_certificate_missing" => ClientCertificateMissing, "The client has shown no certificate where one is required.";
        "client_certificate_bad" => ClientCertificateBad, "The client has shown a certificate that is not good.";
        "client_certificate_subject" => ClientCertificateSubject, "The certificate of the client is for somebody else.";
        "misdirected" => Misdirected, "The TLS connection was made for another host: one that asks for other client certificates, or one of another listener.";
        "header_denied" => HeaderDenied, "The client says that it is a user agent, or comes from a page, that is let in nowhere.";
        "address_denied" => AddressDenied, "The client has an address that the route, or the whole proxy, does not let in.";
        "rate_limit" => RateLimit, "The client asks more often than it may.";
        "client_excess" => ClientExcess, "There is more to do than can be done, and the client asks for far more than others.";
        "client_connection_limit" => ClientConnectionLimit, "The client has as many requests at work as it may.";
        "client_connections" => ClientConnections, "The client has as many connections open as it may, and none of them is idle.";
        "abusive_client" => AbusiveClient, "The client's behaviour is far off the others', and it is refused for a while.";
        "unknown_host" => UnknownHost, "Nothing is served for the host.";
        "unknown_path" => UnknownPath, "No route of the host takes the path.";
    }
    Upstream {
        "connect_refused" => ConnectRefused, "The endpoint refused the connection.";
        "connect_timeout" => ConnectTimeout, "The connection to the endpoint took too long.";
        "connect_failed" => ConnectFailed, "The connection to the endpoint failed in another way.";
        "connect_paced" => ConnectPaced, "Connections to the endpoints fail, and it was not time for another attempt.";
        "upstream_handshake_failed" => UpstreamHandshakeFailed, "The TLS handshake with the endpoint failed.";
        "upstream_certificate_bad" => UpstreamCertificateBad, "The endpoint's certificate is not good.";
        "upstream_reset" => UpstreamReset, "The endpoint closed the connection before the end of its response.";
        "upstream_read_timeout" => UpstreamReadTimeout, "The endpoint sent nothing for too long.";
        "upstream_send_timeout" => UpstreamSendTimeout, "The endpoint took nothing of the request for too long.";
        "upstream_bad_response" => UpstreamBadResponse, "The endpoint's response is malformed.";
        "upstream_bad_coding" => UpstreamBadCoding, "The endpoint's response is not what its Content-Encoding says, or grows beyond measure when that is taken away.";
        "upstream_status" => UpstreamStatus, "The endpoint answered with a status that asks for another try.";
        "auth_failed" => AuthFailed, "The auth service gave no answer that lets a request in or refuses it.";
        "concurrency_limit" => ConcurrencyLimit, "All endpoints have as many requests as they may, and the route has none wait.";
        "queue_timeout" => QueueTimeout, "The request has waited for too long for a place at an endpoint.";
        "queue_full" => QueueFull, "All endpoints have as many requests as they may, and as many wait.";
        "upstream_head_too_large" => UpstreamHeadTooLarge, "The endpoint's response head is too long.";
    }
    Forebay {
        "no_endpoints" => NoEndpoints, "The cluster has no endpoint.";
        "backend_invalid" => BackendInvalid, "The backend of the route does not exist, or may not be referred to.";
        "unavailable" => Unavailable, "Something that guards the route cannot be enforced.";
        "forbidden" => Forbidden, "Something that guards the whole host cannot be enforced.";
        "ports_exhausted" => PortsExhausted, "No local port is left for a connection to the endpoint.";
        "descriptors_exhausted" => DescriptorsExhausted, "No file descriptor is left for a connection to the endpoint.";
        "handshake_limit" => HandshakeLimit, "There are as many TLS handshakes in progress as there may be.";
        "limit_unknown" => LimitUnknown, "Redis, which counts for a limit, is not there, and such limits fail closed.";
        "guard_shed" => GuardShed, "The process is short of something of its own, and requests of more importance go first.";
        "password_limit" => PasswordLimit, "There are as many passwords to verify as there may be.";
        "body_unheld" => BodyUnheld, "A body that has to be read whole before it is sent could not be kept.";
        "file_unreadable" => FileUnreadable, "A file cannot be read, or has become shorter while it was sent.";
        "files_gone" => FilesGone, "The folder of `--files-root` is not there.";
        "connection_limit" => ConnectionLimit, "There are as many client connections as there may be.";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fit_for_a_label() {
        let names: HashSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'))
        );
    }

    #[test]
    fn discriminants_are_indices() {
        assert!(Reason::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
        assert_eq!(Reason::UnknownHost.side(), Side::Client);
    }
}
