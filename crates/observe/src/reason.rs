//! Reasons why a request was not answered by an endpoint: `forebay_faults_total{side, reason}`. One line for
//! each reason.

macro_rules! reasons {
    ($($side:ident { $($name:literal => $variant:ident, $doc:literal;)* })*) => {
        table! {
            /// The reason of a fault.
            Reason { $($($name => $variant, $doc;)*)* }
        }

        impl Reason {
            /// The side that caused the fault.
            pub fn side(self) -> Side {
                match self {
                    $($(Self::$variant => Side::$side,)*)*
                }
            }
        }
    };
}

table! {
    /// The side that caused a fault.
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
        "obsolete_fold" => ObsoleteFold, "A header continues on the next line.";
        "space_before_colon" => SpaceBeforeColon, "Space stands between a header's name and its colon.";
        "missing_host" => MissingHost, "An HTTP/1.1 request has no Host.";
        "duplicate_host" => DuplicateHost, "A request has more than one Host.";
        "bad_host" => BadHost, "Host or authority has a character that none may have.";
        "conflicting_framing" => ConflictingFraming, "The request has both Content-Length and Transfer-Encoding.";
        "bad_content_length" => BadContentLength, "Content-Length is not a number, or has different values.";
        "bad_transfer_encoding" => BadTransferEncoding, "Transfer-Encoding is not just `chunked`.";
        "bad_target" => BadTarget, "The request target has a bad escape, a NUL, or leaves the root.";
        "method_not_allowed" => MethodNotAllowed, "CONNECT, which a reverse proxy does not serve.";
        "bad_chunk" => BadChunk, "A chunk's size or end is malformed.";
        "unsupported_version" => UnsupportedVersion, "The HTTP version is neither 1.0 nor 1.1.";
        "forbidden_header" => ForbiddenHeader, "An HTTP/2 request has a header of an HTTP/1 connection.";
        "unsupported_protocol" => UnsupportedProtocol, "The request asks to upgrade to a protocol in a way that cannot be passed on.";
        "http2_error" => Http2Error, "The client violated HTTP/2 (RFC 9113): the connection was closed with GOAWAY.";
        "http2_stream_error" => Http2StreamError, "An HTTP/2 request is malformed (RFC 9113): its stream was reset.";
        "http3_error" => Http3Error, "The client violated HTTP/3 (RFC 9114) or QPACK (RFC 9204): the connection was closed.";
        "http3_stream_error" => Http3StreamError, "An HTTP/3 request is malformed (RFC 9114): its stream was reset.";
        "http3_flood" => Http3Flood, "Too many HTTP/3 frames or streams without a request: the connection was closed.";
        "http2_flood" => Http2Flood, "Too many HTTP/2 frames without a request: the connection was closed with GOAWAY.";
        "unsupported_expectation" => UnsupportedExpectation, "Expect is not `100-continue`.";
        "head_too_large" => HeadTooLarge, "The request head is too long.";
        "line_too_long" => LineTooLong, "The request line is too long.";
        "body_too_large" => BodyTooLarge, "The request body is too long.";
        "head_rate" => HeadRate, "The request head arrived below the minimum rate.";
        "head_timeout" => HeadTimeout, "The request head took too long.";
        "body_rate" => BodyRate, "The request body arrived below the minimum rate.";
        "body_timeout" => BodyTimeout, "No data of the request body arrived for too long.";
        "send_rate" => SendRate, "The client read the response below the minimum rate.";
        "send_timeout" => SendTimeout, "The client read nothing of the response for too long.";
        "bad_proxy_header" => BadProxyHeader, "A connection does not begin with the required PROXY header.";
        "proxy_header_timeout" => ProxyHeaderTimeout, "The PROXY header took too long.";
        "client_aborted" => ClientAborted, "The client disconnected before the end of the response.";
        "bad_handshake" => BadHandshake, "A TLS handshake was malformed or failed.";
        "handshake_aborted" => HandshakeAborted, "The client disconnected during the TLS handshake.";
        "handshake_timeout" => HandshakeTimeout, "The TLS handshake took too long.";
        "unknown_server_name" => UnknownServerName, "No host has the server name of the TLS handshake.";
        "no_common_tls_parameters" => NoCommonTlsParameters, "The client offered no TLS version, suite or protocol that is allowed.";
        "certificate_refused" => CertificateRefused, "The client rejected the host's certificate.";
        "plain_http" => PlainHttp, "The client sent HTTP in clear to the TLS port.";
        "client_certificate_missing" => ClientCertificateMissing, "The client sent no certificate, and one is required.";
        "client_certificate_bad" => ClientCertificateBad, "The client's certificate is not valid.";
        "client_certificate_subject" => ClientCertificateSubject, "The subject of the client's certificate is not allowed.";
        "misdirected" => Misdirected, "The TLS connection is for another host: one with other client certificates, or of another listener.";
        "too_early" => TooEarly, "The request came before the handshake was complete, and its method or its host does not allow that.";
        "header_denied" => HeaderDenied, "The User-Agent or Referer is blocked for all hosts.";
        "address_denied" => AddressDenied, "The client's address is not allowed by the route or by the whole proxy.";
        "place_denied" => PlaceDenied, "The client's country or autonomous system is not allowed by the route.";
        "firewall_denied" => FirewallDenied, "A rule of the route's web application firewall refused the request or its response.";
        "firewall_exhausted" => FirewallExhausted, "The rules of the route's web application firewall would take too much CPU time for the request or its response.";
        "rate_limit" => RateLimit, "The client exceeds its rate limit.";
        "client_excess" => ClientExcess, "The Service is overloaded, and the client sends far more than others.";
        "client_connection_limit" => ClientConnectionLimit, "The client has reached its limit of concurrent requests.";
        "client_connections" => ClientConnections, "The client has reached its limit of connections, and none of them is idle.";
        "abusive_client" => AbusiveClient, "The client behaves unlike all others, and is refused for a while.";
        "unknown_host" => UnknownHost, "No Ingress or route has the host.";
        "unknown_path" => UnknownPath, "No route of the host matches the path.";
    }
    Upstream {
        "connect_refused" => ConnectRefused, "The endpoint refused the connection.";
        "connect_timeout" => ConnectTimeout, "The connection to the endpoint took too long.";
        "connect_failed" => ConnectFailed, "The connection to the endpoint failed in another way.";
        "connect_paced" => ConnectPaced, "Connections to the endpoints fail, and the next attempt is not due yet.";
        "upstream_handshake_failed" => UpstreamHandshakeFailed, "The TLS handshake with the endpoint failed.";
        "upstream_certificate_bad" => UpstreamCertificateBad, "The endpoint's certificate is not valid.";
        "upstream_reset" => UpstreamReset, "The endpoint closed the connection before the end of its response.";
        "upstream_read_timeout" => UpstreamReadTimeout, "The endpoint sent nothing for too long.";
        "upstream_send_timeout" => UpstreamSendTimeout, "The endpoint read nothing of the request for too long.";
        "upstream_bad_response" => UpstreamBadResponse, "The endpoint's response is malformed.";
        "upstream_bad_coding" => UpstreamBadCoding, "The endpoint's response does not match its Content-Encoding, or grows too large when decoded.";
        "upstream_status" => UpstreamStatus, "The endpoint returned a status that is retried or replaced.";
        "auth_failed" => AuthFailed, "The auth service did not respond, or neither allowed nor refused the request.";
        "processor_failed" => ProcessorFailed, "The external processor is not reachable, broke its stream or the protocol, or asked for an impossible change.";
        "processor_timeout" => ProcessorTimeout, "The external processor took too long for an answer.";
        "processor_answered" => ProcessorAnswered, "The external processor answered in place of the endpoint.";
        "concurrency_limit" => ConcurrencyLimit, "All endpoints are at their concurrency limit, and the route has no queue.";
        "queue_timeout" => QueueTimeout, "The request waited too long for a slot at an endpoint.";
        "queue_full" => QueueFull, "All endpoints are at their concurrency limit, and the queue is full.";
        "retry_budget" => RetryBudget, "The request would be tried again, but a policy bounds the retries of the Service, and no more are allowed now.";
        "upstream_head_too_large" => UpstreamHeadTooLarge, "The endpoint's response head is too long.";
    }
    Forebay {
        "no_endpoints" => NoEndpoints, "The cluster has no endpoint.";
        "backend_invalid" => BackendInvalid, "The route's backend does not exist, or may not be referred to.";
        "unavailable" => Unavailable, "A setting that guards the route cannot be enforced.";
        "token_keys" => TokenKeys, "The keys of the issuer of a token are not known, since they could not be fetched yet.";
        "expression_steps" => ExpressionSteps, "A regular expression with backtracking took too many steps.";
        "forbidden" => Forbidden, "A setting that guards the whole host cannot be enforced.";
        "text_too_long" => TextTooLong, "The target that a rewrite makes of the request's is too long.";
        "ports_exhausted" => PortsExhausted, "No local port is left for a connection to the endpoint.";
        "descriptors_exhausted" => DescriptorsExhausted, "No file descriptor is left for a connection to the endpoint.";
        "handshake_limit" => HandshakeLimit, "The limit of concurrent TLS handshakes is reached.";
        "limit_unknown" => LimitUnknown, "Redis, which counts for a limit, is not reachable, and such limits fail closed.";
        "guard_shed" => GuardShed, "The process itself is overloaded, and requests of higher priority go first.";
        "password_limit" => PasswordLimit, "The limit of passwords that wait to be verified is reached.";
        "body_unheld" => BodyUnheld, "A request body could not be buffered.";
        "file_unreadable" => FileUnreadable, "A file cannot be read, or has become shorter while it was sent.";
        "files_gone" => FilesGone, "The folder of `--files-root` is missing.";
        "connection_limit" => ConnectionLimit, "The limit of client connections is reached.";
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
