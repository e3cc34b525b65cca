//! ingress-nginx's annotations: one entry each, with the scope and the default that ingress-nginx documents.
//!
//! The default is the value that asks for nothing, and so needs no support.

use super::Annotation;
use super::Effect::{AliasOf, Ignored, Restricting, Supported, Unsupported};
use super::Extent;
use super::Scope::{Ingress, Location};
use super::value::{self, positive, set};
use crate::translate::policy::Policy;
use crate::translate::{backend, ciphers, client_auth};

macro_rules! annotations {
    ($($name:literal, $scope:ident, $default:literal, $effect:expr, $doc:literal;)*) => {
        /// All annotations, by name: 136, and 2 former names.
        pub const ANNOTATIONS: &[Annotation] = &[$(Annotation {
            name: $name,
            scope: $scope,
            default: $default,
            doc: $doc,
            effect: $effect,
        },)*];
    };
}

annotations! {
    "affinity", Ingress, "", Unsupported, "Keeps a client at one endpoint, by a cookie.";
    "affinity-canary-behavior", Ingress, "sticky", Unsupported,
        "`sticky` keeps a client at the canary or off it.";
    "affinity-mode", Ingress, "balanced", Unsupported,
        "`balanced` rebalances when endpoints change, `persistent` never moves a client while its endpoint lives.";
    "allowlist-source-range", Location, "", Restricting(Extent::Locations),
        "Networks of clients that are let in; others get 403.";
    "app-root", Location, "", Unsupported, "Redirects `/` to this path.";
    "auth-always-set-cookie", Location, "false", Restricting(Extent::Locations),
        "Passes cookies of the auth service on with every status.";
    "auth-cache-duration", Location, "", Restricting(Extent::Locations),
        "How long answers of the auth service are kept, by status.";
    "auth-cache-key", Location, " = off", Restricting(Extent::Locations),
        "Keeps answers of the auth service, under this key.";
    "auth-keepalive", Location, "0", Restricting(Extent::Locations),
        "Idle connections kept to the auth service.";
    "auth-keepalive-requests", Location, "1000", Restricting(Extent::Locations),
        "Requests on one connection to the auth service.";
    "auth-keepalive-share-vars", Location, "false", Restricting(Extent::Locations),
        "Shares nginx variables with the request to the auth service.";
    "auth-keepalive-timeout", Location, "60", Restricting(Extent::Locations),
        "Idle time of a connection to the auth service.";
    "auth-method", Location, "GET", Restricting(Extent::Locations),
        "Method of the request to the auth service.";
    "auth-proxy-set-headers", Location, "", Restricting(Extent::Locations),
        "ConfigMap with headers for the auth service.";
    "auth-realm", Location, "", Restricting(Extent::Locations),
        "Realm that is named to clients without credentials.";
    "auth-request-redirect", Location, "", Restricting(Extent::Locations),
        "Value of X-Auth-Request-Redirect.";
    "auth-response-headers", Location, "", Restricting(Extent::Locations),
        "Headers of the auth service's answer that the endpoint gets.";
    "auth-secret", Location, "", Restricting(Extent::Locations), "Secret with the users of `auth-type`.";
    "auth-secret-type", Location, "auth-file", Restricting(Extent::Locations),
        "`auth-file`: one htpasswd; `auth-map`: one key for each user.";
    "auth-signin", Location, "", Restricting(Extent::Locations),
        "Where clients go that the auth service refuses with 401.";
    "auth-signin-redirect-param", Location, "rd", Restricting(Extent::Locations),
        "Query parameter in which `auth-signin` finds the way back.";
    "auth-snippet", Location, "", Restricting(Extent::Locations),
        "nginx configuration for the request to the auth service.";
    "auth-tls-error-page", Location, "", Supported(|p, v| set(&mut p.client.error_page, client_auth::error_page(v))),
        "Where clients go whose certificate does not pass.";
    "auth-tls-match-cn", Location, "", Supported(client_subject),
        "Which subjects of client certificates are let in.";
    "auth-tls-pass-certificate-to-upstream", Location, "false", Supported(|p, v| set(&mut p.client.pass_certificate, value::boolean(v))),
        "Sends the client certificate to the endpoint.";
    "auth-tls-secret", Location, "", Supported(|p, v| set(&mut p.client.secret, Ok(value::name(v)))),
        "Secret with the authorities that client certificates must be from.";
    "auth-tls-verify-client", Location, "on", Supported(|p, v| set(&mut p.client.verify, client_auth::verify(v))),
        "Whether clients must have a certificate, with `auth-tls-secret`.";
    "auth-tls-verify-depth", Location, "1", Supported(|p, v| set(&mut p.client.depth, client_auth::depth(v))),
        "Longest chain of a client certificate.";
    "auth-type", Location, "", Restricting(Extent::Locations), "Turns on `basic` or `digest` authentication.";
    "auth-url", Location, "", Restricting(Extent::Locations), "Asks this URL whether a request is let in.";
    "backend-protocol", Location, "", Supported(|p, v| set(&mut p.backend.protocol, backend::protocol(v).map(Some))),
        "What the endpoints speak: HTTP, HTTPS, AUTO_HTTP, GRPC or GRPCS.";
    "canary", Ingress, "false", Supported(|p, v| set(&mut p.is_canary, value::boolean(v))),
        "Makes the Ingress an alternative to one with the same host and path.";
    "canary-by-cookie", Ingress, "", Unsupported, "Cookie that sends a request to the canary, or never.";
    "canary-by-header", Ingress, "", Unsupported, "Header that sends a request to the canary, or never.";
    "canary-by-header-pattern", Ingress, "", Unsupported,
        "Regular expression for the value of `canary-by-header`.";
    "canary-by-header-value", Ingress, "", Unsupported,
        "Value of `canary-by-header` that sends a request to the canary.";
    "canary-weight", Ingress, "0", Unsupported, "Share of requests that go to the canary.";
    "canary-weight-total", Ingress, "100", Unsupported, "What `canary-weight` is a share of.";
    "client-body-buffer-size", Location, "8k", Ignored("bodies are streamed, not buffered"),
        "Request body kept in memory.";
    "configuration-snippet", Location, "", Restricting(Extent::Locations),
        "nginx configuration for the locations.";
    "connection-proxy-header", Location, "", Supported(|p, v| set(&mut p.connection_header, value::connection_header(v).map(Some))),
        "Connection header towards endpoints.";
    "cors-allow-credentials", Ingress, "true", Unsupported, "Access-Control-Allow-Credentials.";
    "cors-allow-headers", Ingress, "", Unsupported, "Access-Control-Allow-Headers.";
    "cors-allow-methods", Ingress, "GET, PUT, POST, DELETE, PATCH, OPTIONS", Unsupported,
        "Access-Control-Allow-Methods.";
    "cors-allow-origin", Ingress, "*", Unsupported, "Origins that are allowed.";
    "cors-expose-headers", Ingress, "", Unsupported, "Access-Control-Expose-Headers.";
    "cors-max-age", Ingress, "1728000", Unsupported, "Access-Control-Max-Age.";
    "custom-headers", Location, "", Unsupported, "ConfigMap with headers for responses.";
    "custom-http-errors", Location, "", Unsupported,
        "Statuses whose responses come from the default backend.";
    "default-backend", Location, "", Unsupported, "Service that answers when the endpoints cannot.";
    "denylist-source-range", Location, "", Restricting(Extent::Locations),
        "Networks of clients that get 403.";
    "disable-proxy-intercept-errors", Location, "false", Unsupported,
        "Leaves error responses as they are in spite of `custom-http-errors`.";
    "enable-access-log", Location, "true", Supported(|p, v| set(&mut p.access_log, value::boolean(v))),
        "Writes requests to the access log.";
    "enable-cors", Ingress, "false", Unsupported, "Answers preflight requests and adds CORS headers.";
    "enable-global-auth", Location, "true", Unsupported,
        "Whether the ConfigMap's `global-auth-url` is asked.";
    "enable-modsecurity", Ingress, "false", Restricting(Extent::Locations),
        "Turns the web application firewall on.";
    "enable-opentelemetry", Location, "false", Unsupported, "Traces requests.";
    "enable-owasp-core-rules", Ingress, "false", Restricting(Extent::Locations),
        "Loads the OWASP core rules.";
    "enable-rewrite-log", Location, "false", Ignored("it is a debugging aid of nginx"), "Logs rewrites.";
    "fastcgi-index", Location, "", Unsupported, "Index file for FastCGI.";
    "fastcgi-params-configmap", Location, "", Unsupported, "ConfigMap with FastCGI parameters.";
    "force-ssl-redirect", Location, "false", Supported(|p, v| set(&mut p.force_ssl_redirect, value::boolean(v))),
        "Redirects to TLS even without a `tls:` section.";
    "from-to-www-redirect", Location, "false", Unsupported, "Redirects between a name and its `www.` form.";
    "http2-push-preload", Location, "false", Ignored("HTTP/2 push is gone from browsers, and from nginx since 1.25"),
        "Pushes preloaded resources.";
    "limit-allowlist", Location, "", Unsupported, "Networks that limits do not hold for.";
    "limit-burst-multiplier", Location, "5", Unsupported, "Burst, as a multiple of the rate.";
    "limit-connections", Location, "0", Unsupported, "Connections of one client at a time.";
    "limit-rate", Location, "0", Unsupported, "Speed of a response in KiB/s.";
    "limit-rate-after", Location, "0", Unsupported, "KiB of a response before `limit-rate` holds.";
    "limit-rpm", Location, "0", Unsupported, "Requests of one client in a minute.";
    "limit-rps", Location, "0", Unsupported, "Requests of one client in a second.";
    "limit-whitelist", Location, "", AliasOf("limit-allowlist"), "Former name of `limit-allowlist`.";
    "load-balance", Location, "round_robin", Supported(|p, v| set(&mut p.balance, value::balance(v))),
        "How endpoints are picked: `round_robin` or `ewma`.";
    "mirror-host", Ingress, "", Unsupported, "Host header of mirrored requests.";
    "mirror-request-body", Ingress, "on", Unsupported, "Mirrors request bodies too.";
    "mirror-target", Ingress, "", Unsupported, "Where copies of requests go.";
    "modsecurity-snippet", Ingress, "", Restricting(Extent::Locations),
        "Rules of the web application firewall.";
    "modsecurity-transaction-id", Ingress, "", Unsupported, "Transaction id of the web application firewall.";
    "opentelemetry-operation-name", Location, "", Unsupported, "Name of a span.";
    "opentelemetry-trust-incoming-span", Location, "true", Unsupported, "Takes the client's span as parent.";
    "permanent-redirect", Location, "", Unsupported, "Redirects to this URL with 301.";
    "permanent-redirect-code", Location, "301", Unsupported, "Status of `permanent-redirect`.";
    "preserve-trailing-slash", Location, "false", Supported(|p, v| set(&mut p.keep_trailing_slash, value::boolean(v))),
        "Keeps a trailing slash when redirecting to TLS.";
    "proxy-body-size", Location, "1m", Supported(|p, v| set(&mut p.body_bytes_max, value::size(v).map(positive))),
        "Longest request body; 0 for no limit.";
    "proxy-buffer-size", Location, "4k", Ignored("response heads have a limit of their own"),
        "Longest response head.";
    "proxy-buffering", Location, "off", Ignored("responses are streamed, with backpressure"),
        "Buffers responses.";
    "proxy-buffers-number", Location, "4", Ignored("responses are streamed, with backpressure"),
        "Buffers for a response.";
    "proxy-busy-buffers-size", Location, "", Ignored("responses are streamed, with backpressure"),
        "Buffers that may be busy sending.";
    "proxy-connect-timeout", Location, "5", Supported(|p, v| set(&mut p.timeouts.connect, value::seconds(v))),
        "Seconds for an endpoint to accept the connection.";
    "proxy-cookie-domain", Location, "off", Unsupported, "Rewrites the Domain of cookies.";
    "proxy-cookie-path", Location, "off", Unsupported, "Rewrites the Path of cookies.";
    "proxy-http-version", Location, "1.1", Unsupported, "HTTP version towards endpoints.";
    "proxy-max-temp-file-size", Location, "1024m", Ignored("nothing is spooled to disk"),
        "Disk space for a response.";
    "proxy-next-upstream", Location, "error timeout", Supported(|p, v| set(&mut p.retry.on, value::retry_on(v))),
        "What counts as a failed try.";
    "proxy-next-upstream-timeout", Location, "0", Supported(|p, v| set(&mut p.retry.timeout, value::seconds(v).map(positive))),
        "Seconds for all tries; 0 for no limit.";
    "proxy-next-upstream-tries", Location, "3", Supported(|p, v| set(&mut p.retry.tries, value::number(v).map(positive))),
        "Tries in all; 0 for as many as there are endpoints.";
    "proxy-read-timeout", Location, "60", Supported(|p, v| set(&mut p.timeouts.read, value::seconds(v))),
        "Seconds between two reads of a response.";
    "proxy-redirect-from", Location, "off", Unsupported, "Prefix of Location to replace.";
    "proxy-redirect-to", Location, "off", Unsupported, "What replaces it.";
    "proxy-request-buffering", Location, "on", Ignored("request bodies are streamed, with backpressure"),
        "Reads request bodies before endpoints are contacted.";
    "proxy-send-timeout", Location, "60", Supported(|p, v| set(&mut p.timeouts.send, value::seconds(v))),
        "Seconds between two writes of a request.";
    "proxy-ssl-ciphers", Ingress, "DEFAULT", Supported(proxy_ssl_ciphers),
        "Cipher suites of TLS 1.2 towards endpoints.";
    "proxy-ssl-name", Ingress, "", Supported(|p, v| set(&mut p.backend.tls.name, Ok(value::name(v)))),
        "Name that an endpoint's certificate must have; without it, `SERVICE.NAMESPACE.svc`.";
    "proxy-ssl-protocols", Ingress, "TLSv1.2 TLSv1.3", Supported(proxy_ssl_protocols),
        "TLS versions towards endpoints.";
    "proxy-ssl-secret", Ingress, "", Supported(|p, v| set(&mut p.backend.tls.secret, Ok(value::name(v)))),
        "Secret with the client certificate for endpoints, and with whom to believe.";
    "proxy-ssl-server-name", Ingress, "off", Supported(|p, v| set(&mut p.backend.tls.send_name, value::on_off(v))),
        "Sends SNI to endpoints.";
    "proxy-ssl-verify", Ingress, "off", Supported(|p, v| set(&mut p.backend.tls.verify, value::on_off(v))),
        "Verifies certificates of endpoints.";
    "proxy-ssl-verify-depth", Ingress, "1", Supported(|p, v| set(&mut p.backend.tls.depth, value::number(v))),
        "Longest chain of an endpoint's certificate.";
    "relative-redirects", Location, "false", Unsupported, "Relative Location in redirects.";
    "rewrite-target", Ingress, "", Unsupported, "Path that the endpoint gets instead.";
    "satisfy", Location, "all", Restricting(Extent::Locations),
        "Whether `any` access check suffices, or `all` are needed.";
    "server-alias", Ingress, "", Unsupported, "Further names of the host.";
    "server-snippet", Ingress, "", Restricting(Extent::Host), "nginx configuration for the host.";
    "service-upstream", Ingress, "false", Supported(|p, v| set(&mut p.service_upstream, value::boolean(v))),
        "Sends requests to the Service's virtual address.";
    "session-cookie-change-on-failure", Ingress, "false", Unsupported, "Moves a client whose endpoint fails.";
    "session-cookie-conditional-samesite-none", Ingress, "false", Unsupported,
        "Leaves SameSite=None out for old browsers.";
    "session-cookie-domain", Ingress, "", Unsupported, "Domain of the affinity cookie.";
    "session-cookie-expires", Ingress, "", Unsupported, "Expires of the affinity cookie, in seconds.";
    "session-cookie-max-age", Ingress, "", Unsupported, "Max-Age of the affinity cookie.";
    "session-cookie-name", Ingress, "INGRESSCOOKIE", Unsupported, "Name of the affinity cookie.";
    "session-cookie-path", Ingress, "", Unsupported, "Path of the affinity cookie.";
    "session-cookie-samesite", Ingress, "", Unsupported, "SameSite of the affinity cookie.";
    "session-cookie-secure", Ingress, "", Unsupported, "Secure of the affinity cookie.";
    "ssl-ciphers", Ingress, "", Supported(ssl_ciphers),
        "Cipher suites of TLS 1.2 of the host.";
    "ssl-passthrough", Ingress, "false", Supported(|p, v| set(&mut p.passthrough, value::boolean(v))),
        "Passes TLS on unopened, with `--enable-ssl-passthrough`.";
    "ssl-prefer-server-ciphers", Ingress, "", Supported(|p, v| set(&mut p.prefer_server_ciphers, value::boolean(v).map(Some))),
        "Prefers our order of cipher suites.";
    "ssl-redirect", Location, "true", Supported(|p, v| set(&mut p.ssl_redirect, value::boolean(v))),
        "Redirects to TLS if the host has a `tls:` section.";
    "stream-snippet", Ingress, "", Restricting(Extent::Locations), "nginx configuration for TCP and UDP.";
    "temporal-redirect", Location, "", Unsupported, "Redirects to this URL with 302.";
    "temporal-redirect-code", Location, "302", Unsupported, "Status of `temporal-redirect`.";
    "upstream-hash-by", Location, "", Unsupported, "Picks endpoints by the hash of this value.";
    "upstream-hash-by-subset", Location, "false", Unsupported, "Picks a group of endpoints by hash.";
    "upstream-hash-by-subset-size", Location, "3", Unsupported, "Endpoints in a group.";
    "upstream-vhost", Location, "", Unsupported, "Host header towards endpoints.";
    "use-port-in-redirects", Location, "false", Supported(|p, v| set(&mut p.port_in_redirects, value::boolean(v))),
        "Names the port in redirects.";
    "use-regex", Location, "false", Unsupported, "Takes paths for regular expressions.";
    "whitelist-source-range", Location, "", AliasOf("allowlist-source-range"),
        "Former name of `allowlist-source-range`.";
    "x-forwarded-prefix", Location, "", Unsupported, "Value of X-Forwarded-Prefix when a path is rewritten.";
}

fn proxy_ssl_ciphers(policy: &mut Policy, text: &str) -> Result<(), String> {
    let tls = &mut policy.backend.tls;
    if text.trim() == "DEFAULT" {
        tls.ciphers = Vec::new();
        return Ok(());
    }
    (tls.ciphers, policy.remark) = ciphers::parse(text)?;
    Ok(())
}

fn proxy_ssl_protocols(policy: &mut Policy, text: &str) -> Result<(), String> {
    (policy.backend.tls.versions, policy.remark) = value::tls_versions(text)?;
    Ok(())
}

/// A value that means nothing closes the host, once a Secret says that there is something to close.
#[expect(clippy::unnecessary_wraps, reason = "what all parsers return")]
fn client_subject(policy: &mut Policy, text: &str) -> Result<(), String> {
    policy.client.match_subject = client_auth::match_subject(text);
    Ok(())
}

fn ssl_ciphers(policy: &mut Policy, text: &str) -> Result<(), String> {
    let (suites, remark) = ciphers::parse(text)?;
    (policy.ciphers, policy.remark) = (Some(suites), remark);
    Ok(())
}
