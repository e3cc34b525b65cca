//! Request headers that are known to change no response unless its `Vary` names them.
//!
//! Frameworks read headers of their own: for the path below which they run, for the host, for the user, for a
//! key. A list of them could not be complete. So this list has the other headers: those that standards
//! define, and that browsers, proxies and tracing send with any request. Endpoints that read one of these are
//! known to name it in `Vary`, or use it to distinguish clients' addresses, which no cache can support.

use crate::{Field, Known};

/// The names in lower case, by length.
const HARMLESS: [&[&[u8]]; 28] = [
    &[],
    &[],
    &[b"b3"],
    &[b"age", b"dnt", b"dpr", b"ect", b"rtt", b"via"],
    &[b"from"],
    &[b"range", b"width", b"x-moz"],
    &[b"accept", b"cf-ray", b"cookie", b"origin", b"pragma"],
    &[b"baggage", b"purpose", b"referer", b"warning"],
    &[b"cdn-loop", b"downlink", b"if-match", b"if-range", b"newrelic", b"priority"],
    &[b"save-data", b"x-purpose"],
    &[b"early-data", b"request-id", b"tracestate", b"user-agent", b"x-b3-flags"],
    &[b"traceparent", b"x-amz-cf-id", b"x-azure-ref", b"x-b3-spanid", b"x-client-ip"],
    &[b"cache-status", b"max-forwards", b"sentry-trace", b"x-b3-sampled", b"x-b3-traceid"],
    &[
        b"authorization",
        b"cache-control",
        b"device-memory",
        b"if-none-match",
        b"uber-trace-id",
        b"x-newrelic-id",
        b"x-queue-start",
    ],
    &[b"accept-charset", b"http2-settings", b"true-client-ip", b"viewport-width", b"x-datadog-tags"],
    &[b"accept-encoding", b"accept-language", b"x-amzn-trace-id", b"x-request-start"],
    &[
        b"cf-connecting-ip",
        b"fastly-client-ip",
        b"x-azure-clientip",
        b"x-azure-socketip",
        b"x-correlation-id",
        b"x-datadog-origin",
    ],
    &[b"if-modified-since", b"x-b3-parentspanid"],
    &[b"cf-connecting-ipv6", b"x-datadog-trace-id"],
    &[b"if-unmodified-since", b"proxy-authorization", b"x-cluster-client-ip", b"x-datadog-parent-id"],
    &[],
    &[b"x-cloud-trace-context"],
    &[b"x-newrelic-transaction"],
    &[b"elastic-apm-traceparent"],
    &[b"x-envoy-external-address"],
    &[b"upgrade-insecure-requests"],
    &[],
    &[b"x-datadog-sampling-priority"],
];

/// The beginning of headers that browsers reserve for themselves (Fetch section 2.2.2): no page can set one.
const RESERVED: &[u8] = b"sec-";

/// Whether a field of a request is known to be harmless. The proxy replaces or drops the fields that it
/// knows, or includes them in the key. The exceptions are fields of its own that endpoints behind a proxy
/// trust.
pub fn is_harmless(field: &Field, head: &[u8]) -> bool {
    match field.known {
        Known::Other => is_listed(field.name(head)),
        Known::SslClientVerify
        | Known::SslClientSubjectDn
        | Known::SslClientIssuerDn
        | Known::SslClientCert
        | Known::XOriginalUri => false,
        _ => true,
    }
}

fn is_listed(name: &[u8]) -> bool {
    let listed = HARMLESS.get(name.len()).is_some_and(|names| {
        // Nearly all names of one length differ in the first byte.
        let is_it = |known: &&&[u8]| known[0] == name[0] | 0x20 && name.eq_ignore_ascii_case(known);
        names.iter().any(|known| is_it(&known))
    });
    listed || name.get(..RESERVED.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(RESERVED))
}

#[cfg(test)]
mod tests {
    use super::super::head::sample;
    use super::*;

    #[test]
    fn lists_are_by_length() {
        for (len, names) in HARMLESS.iter().enumerate() {
            for name in *names {
                assert_eq!((name.len(), name.to_ascii_lowercase().as_slice()), (len, *name));
            }
        }
    }

    #[test]
    fn what_frameworks_look_at_is_not_harmless() {
        let unknown = |line: &str| {
            let (bytes, request) = sample::request(line);
            let names = super::super::Head::of_request(&bytes, &request).unknown_names();
            names.count() == 1
        };
        for line in [
            "User-Agent: x",
            "ACCEPT: */*",
            "Sec-Fetch-Mode: cors",
            "X-Forwarded-For: 1.2.3.4",
            "X-B3-TraceId: 1",
            "DNT: 1",
            "Connection: close",
        ] {
            assert!(!unknown(line), "{line}");
        }
        for line in [
            "X-Script-Name: /evil",
            "X-Forwarded-Protocol: http",
            "X-Original-Path: /b",
            "X-Sendfile-Type: X-Accel-Redirect",
            "X-Api-Key: 1",
            "X-Requested-With: XMLHttpRequest",
            "X: 1",
            "ssl-client-verify: SUCCESS",
            "X-Original-URI: /b",
        ] {
            assert!(unknown(line), "{line}");
        }
    }
}
