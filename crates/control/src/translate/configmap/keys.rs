//! The `ConfigMap` keys of ingress-nginx, and those of F5's controller in wide use: one entry each.
//!
//! The default is the value without an effect: it needs no support.

use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use model::PoolCap;

use super::Effect::{Ignored, Instead, Snippet, Supported};
use super::addresses::bind_addresses;
use super::listed::listed_values;
use super::logs::{log_format, no_access_log, no_stream_access_log, output, stream_log_format};
use super::reasons::{CURVES, DEAD, NO_DH, NO_STATUS, OTEL, OWN_LOG, TUNING, TYPED, WORKERS};
use super::upgrades::upgrade_protocols;
use super::value::{self, Applied, positive, set};
use super::{Global, Key, acme, geoip, tracing};
use crate::names::NsName;
use crate::translate::ciphers;
use crate::translate::header::{self, Side};
use crate::translate::ingress::access::address_set;
use crate::translate::ingress::annotation::Risk;
use crate::translate::ingress::auth::external;
use crate::translate::ingress::{
    abuse, bodies, cache, compression, errors, firewall, firewall_tuning, limits, overload, places, quota,
    redirect, responses,
};

macro_rules! keys {
    ($($name:literal, $default:literal, $effect:expr, $doc:literal;)*) => {
        /// All keys, by name.
        pub const KEYS: &[Key] = &[$(Key { name: $name, default: $default, doc: $doc, effect: $effect },)*];
    };
}

keys! {
    "access-log-off", "false", Supported(no_access_log_at_all), "F5: `disable-access-log`.";
    "access-log-params", "", Ignored("lines are collected and written ten times a second"), "Parameters of nginx's access log.";
    "access-log-path", "/var/log/nginx/access.log", Supported(|g, v| set(&mut g.log.path, output(v))),
        "Where the access logs go: a file, `/dev/stdout` (which nginx's default path stands for too) or `/dev/stderr`.";
    "add-headers", "", Supported(name_of_configmap), "ConfigMap with headers for all responses, `namespace/name`. Values may hold variables.";
    "allow-backend-server-header", "false", Supported(|g, v| set(&mut g.server.of_endpoints, value::boolean(v))),
        "Passes the endpoints' Server header on, with `server-tokens`.";
    "allow-cross-namespace-resources", "false", Supported(|g, v| set(&mut g.defaults.crosses_namespaces, value::boolean(v))),
        "Lets annotations name objects of other namespaces.";
    "allow-snippet-annotations", "false", Supported(|g, v| set(&mut g.defaults.screening.allows_snippets, value::boolean(v))),
        "Obeys annotations that hold nginx configuration.";
    "annotation-value-word-blocklist", "", Supported(|g, v| set(&mut g.defaults.screening.blocked_words, Ok(value::list(v)))),
        "Words that no annotation may hold: its Ingress is ignored.";
    "annotations-risk-level", "High", Supported(|g, v| Ok(risk_level(g, v))),
        "Highest risk of annotations: Ingresses with others are ignored.";
    "app-root", "", Supported(|g, v| set(&mut g.defaults.redirect.app_root, redirect::app_root(v).map(Some))),
        "Redirects `/` to this path.";
    "bind-address", "", Supported(|g, v| { let (listen, remark) = bind_addresses(v)?; (g.settings.listen.v4, g.settings.listen.v6) = listen; Ok(remark) }),
        "Addresses that ports are listened at; of a family of which there is none, all.";
    "block-cidrs", "", Supported(|g, v| set(&mut g.defaults.access.blocked, address_set(v))),
        "Networks of clients that get 403.";
    "block-referers", "", Supported(|g, v| set(&mut g.blocked_headers.referers, listed_values(v))),
        "Referers that get 403.";
    "block-user-agents", "", Supported(|g, v| set(&mut g.blocked_headers.user_agents, listed_values(v))),
        "User agents that get 403.";
    "brotli-level", "4", Supported(|g, v| set(&mut g.defaults.compression.brotli.level, compression::level(v, compression::BROTLI_LEVELS))),
        "Level of brotli, 0 to 11.";
    "brotli-min-length", "20", Supported(|g, v| set(&mut g.defaults.compression.brotli.bytes_min, value::number(v))),
        "Bytes of the shortest body to compress by brotli, where the length is announced.";
    "brotli-types", "application/xml+rss application/atom+xml application/javascript application/x-javascript application/json application/rss+xml application/vnd.ms-fontobject application/x-font-ttf application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype image/svg+xml image/x-icon text/css text/javascript text/plain text/x-component",
        Supported(|g, v| set(&mut g.defaults.compression.brotli.media_types, compression::media_types(v))),
        "Media types to compress by brotli, beside text/html; `*` for all.";
    "client-body-buffer-size", "8k", Supported(|g, v| set(&mut g.defaults.bodies.buffer_bytes, value::size(v))),
        "Request body kept in memory; a longer one goes to a file, where `--body-buffer-dir` names a folder.";
    "client-body-timeout", "60", Supported(|g, v| set(&mut g.settings.client.body_timeout, value::seconds(v))),
        "Seconds between two reads of a request body.";
    "client-header-buffer-size", "1k", Ignored(TUNING), "First buffer of a request head.";
    "client-header-timeout", "60", Supported(|g, v| set(&mut g.settings.client.header_timeout, value::seconds(v))),
        "Seconds for a client to send a request head.";
    "compute-full-forwarded-for", "false", Supported(|g, v| set(&mut g.settings.forwarded.compute_full, value::boolean(v))),
        "Appends to X-Forwarded-For instead of replacing it.";
    "custom-http-errors", "", Supported(|g, v| { let (statuses, remark) = errors::global_statuses(v); g.defaults.errors.global_statuses = statuses; Ok(remark) }),
        "Statuses whose responses come from the default backend.";
    "debug-connections", "", Ignored(TUNING), "Logs these clients in detail.";
    "default-type", "text/html", Ignored("endpoints' responses keep their type"),
        "Media type where there is none.";
    "denylist-source-range", "", Supported(|g, v| set(&mut g.defaults.access.denied, address_set(v))),
        "Networks of clients that get 403.";
    "disable-access-log", "false", Supported(no_access_log_at_all), "Turns the access log off.";
    "disable-http-access-log", "false", Supported(|g, v| no_access_log(&mut g.settings, v)), "Turns the access log of HTTP off.";
    "disable-ipv6", "false", Supported(|g, v| set(&mut g.settings.listen.without_v6, value::boolean(v))),
        "Does not listen on IPv6.";
    "disable-ipv6-dns", "false", Supported(|g, v| set(&mut g.leaves_out_ipv6, value::boolean(v))),
        "Uses no IPv6 addresses of names outside the cluster.";
    "disable-proxy-intercept-errors", "false", Supported(|g, v| set(&mut g.defaults.errors.global_spares_endpoints, value::boolean(v))),
        "Passes endpoints' error responses on in spite of `custom-http-errors`.";
    "disable-stream-access-log", "false", Supported(|g, v| no_stream_access_log(&mut g.settings, v)), "Turns the access log of TCP and UDP off.";
    "enable-access-log-for-default-backend", "false", Supported(|g, v| { g.settings.access_log.unknown_hosts = value::boolean(v)?; g.defaults.logging.of_default_backend = value::boolean(v)?; Ok(None) }),
        "Logs requests to the default backend, the built-in one included.";
    "enable-aio-write", "true", Ignored(TUNING), "Writes files asynchronously.";
    "enable-auth-access-log", "false", Supported(|g, v| set(&mut g.settings.access_log.auth, value::boolean(v))),
        "Logs requests to the auth service.";
    "enable-brotli", "false", Supported(|g, v| set(&mut g.defaults.compression.brotli.is_on, value::boolean(v))),
        "Compresses responses by brotli, for clients that accept it.";
    "enable-modsecurity", "false", Supported(|g, v| set(&mut g.defaults.firewall.global.is_on, value::boolean(v))),
        "Turns the web application firewall on.";
    "enable-multi-accept", "true", Ignored(TUNING), "Accepts several connections at once.";
    "enable-ocsp", "false", Ignored("nothing is fetched for certificates; clients ask the authority themselves"),
        "Staples OCSP answers.";
    "enable-opentelemetry", "false", Supported(|g, v| set(&mut g.defaults.tracing.everywhere, value::boolean(v))),
        "Traces requests.";
    "enable-owasp-modsecurity-crs", "false", Supported(|g, v| set(&mut g.defaults.firewall.global.core_rules, value::boolean(v))),
        "Loads the OWASP core rules, where `enable-modsecurity` is on.";
    "enable-real-ip", "false", Supported(|g, v| set(&mut g.settings.forwarded.real_ip, value::boolean(v))),
        "Takes the client's address from `forwarded-for-header`.";
    "enable-serial-reloads", "false", Ignored(TUNING), "Reloads one after the other.";
    "enable-syslog", "false", Supported(|g, v| set(&mut g.log.uses_syslog, value::boolean(v))),
        "Sends the access log of HTTP to a syslog server (RFC 3164 over UDP).";
    "enable-underscores-in-headers", "false", Supported(|g, v| set(&mut g.underscores_in_headers, value::boolean(v))),
        "Passes header names with underscores on.";
    "error-log-level", "notice", Ignored(OWN_LOG), "Level of the error log.";
    "error-log-path", "/var/log/nginx/error.log", Ignored(OWN_LOG), "File of the error log.";
    "force-ssl-redirect", "false", Supported(|g, v| set(&mut g.defaults.redirect.always, value::boolean(v))),
        "Redirects to TLS everywhere.";
    "forebay-abuse", "watch", Supported(|g, v| { let mode = overload::mode(v)?; (g.defaults.abuse.mode, g.settings.abuse.general.mode) = (mode, mode); Ok(None) }),
        "`forebay.io/abuse` for all, and for connections.";
    "forebay-abuse-allow", "", Supported(|g, v| set(&mut g.settings.abuse.allowed, address_set(v))),
        "Networks of clients that are never far off the others, such as gateways with many users.";
    "forebay-abuse-key", "$remote_addr", Supported(|g, v| { let key = abuse::key(v)?; g.settings.abuse.general.key.clone_from(&key); g.defaults.abuse.key = abuse::Key::OfAll(key); Ok(None) }),
        "`forebay.io/abuse-key` for all, and for requests that no route takes.";
    "forebay-acme", "false", Supported(|g, v| set(&mut g.defaults.acme.is_on, value::boolean(v))), "Obtains certificates for all Ingresses with `tls` entries without `secretName`.";
    "forebay-acme-challenges", "http-01,tls-alpn-01", Supported(|g, v| set(&mut g.acme.challenges, acme::challenges(v))), "Kinds of challenges that are answered; after a failure the next kind is tried.";
    "forebay-acme-directories", "", Supported(|g, v| set(&mut g.acme.directories, acme::directories(v))), "URLs of the directories of authorities that speak ACME, in the order in which they are asked; also `letsencrypt`, `letsencrypt-staging`, `zerossl` and `google`. With this key you agree to their terms.";
    "forebay-acme-email", "", Supported(|g, v| set(&mut g.acme.email, acme::email(v))), "Address that the authorities may write to.";
    "forebay-acme-orders-per-hour", "60", Supported(|g, v| set(&mut g.acme.orders_per_hour, value::number(v))), "Most orders per hour at each authority.";
    "forebay-acme-profile", "", Supported(|g, v| set(&mut g.acme.profile, Ok(value::name(v)))), "Profile of the certificates, as the authority names it.";
    "forebay-acme-secrets", "", Supported(|g, v| set(&mut g.acme.secrets, acme::secrets(v))), "Secrets of the authorities, `[DIRECTORY=]namespace/name`: `eab-kid` and `eab-hmac-key` bind the account, `ca.crt` verifies the directory's own certificate.";
    "forebay-allow-asn", "", Supported(|g, v| set(&mut g.defaults.access.places.rules.allowed_systems, places::systems(v))),
        "Autonomous systems of clients that are allowed; others get 403, addresses of unknown systems too.";
    "forebay-allow-countries", "", Supported(|g, v| set(&mut g.defaults.access.places.rules.allowed_countries, places::countries(v))),
        "Countries of clients that are allowed, by their codes of ISO 3166-1; others get 403, addresses of unknown countries too.";
    "forebay-cache", "false", Supported(|g, v| set(&mut g.defaults.cache.is_on, value::boolean(v))),
        "`forebay.io/cache` for all. It needs `--cache-memory`.";
    "forebay-cache-bypass", "", Supported(|g, v| set(&mut g.defaults.cache.policy.bypass, cache::bypass(v))),
        "`forebay.io/cache-bypass` for all.";
    "forebay-cache-default-ttl", "0", Supported(|g, v| set(&mut g.defaults.cache.policy.default_ttl, cache::default_ttl(v))),
        "`forebay.io/cache-default-ttl` for all.";
    "forebay-cache-harmless-headers", "", Supported(|g, v| set(&mut g.defaults.cache.policy.harmless_headers, cache::harmless_headers(v))),
        "`forebay.io/cache-harmless-headers` for all.";
    "forebay-cache-key-query", "all", Supported(|g, v| set(&mut g.defaults.cache.policy.query, cache::query(v))),
        "`forebay.io/cache-key-query` for all.";
    "forebay-cache-object-max", "8m", Supported(|g, v| set(&mut g.defaults.cache.policy.object_bytes_max, cache::object_max(v))),
        "`forebay.io/cache-object-max` for all.";
    "forebay-cache-shared", "false", Supported(|g, v| set(&mut g.defaults.cache.policy.is_shared, value::boolean(v))),
        "`forebay.io/cache-shared` for all.";
    "forebay-cache-stale-if-error", "0", Supported(|g, v| set(&mut g.defaults.cache.policy.stale_if_error, value::duration(v))),
        "`forebay.io/cache-stale-if-error` for all.";
    "forebay-cache-stale-while-revalidate", "0", Supported(|g, v| set(&mut g.defaults.cache.policy.stale_while_revalidate, value::duration(v))),
        "`forebay.io/cache-stale-while-revalidate` for all.";
    "forebay-client-country-metrics", "false", Supported(|g, v| set(&mut g.settings.counts_countries, value::boolean(v))),
        "Counts requests by the client's country, in `forebay_client_countries_requests_total` and in the console.";
    "forebay-client-min-rate", "0", Supported(|g, v| set(&mut g.settings.client.bounds.send_rate_min, abuse::rate(v))),
        "Minimum bytes/s of a request, after a grace period of 10 s or as in `240:5s`; 0 for no bound.";
    "forebay-client-min-read-rate", "0", Supported(|g, v| set(&mut g.settings.client.bounds.read_rate_min, abuse::rate(v))),
        "The same for what a client has to take of a response.";
    "forebay-compression", "", Supported(|g, v| set(&mut g.defaults.compression.own, compression::own(v).map(Some))),
        "`forebay.io/compression` for all.";
    "forebay-compression-adaptive", "true", Supported(|g, v| set(&mut g.settings.keeps_compression_levels, value::boolean(v).map(|adapts| !adapts))),
        "Lowers levels of compression while a worker is short of CPU.";
    "forebay-compression-min-length", "256", Supported(|g, v| set(&mut g.defaults.compression.own_bytes_min, value::number(v))),
        "Bytes of the shortest body that `forebay.io/compression` compresses, where the length is announced.";
    "forebay-compression-types", "application/atom+xml application/javascript application/x-javascript application/json application/rss+xml application/vnd.ms-fontobject application/x-font-ttf application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype image/svg+xml image/x-icon text/css text/javascript text/plain text/x-component",
        Supported(|g, v| set(&mut g.defaults.compression.own_types, compression::media_types(v))),
        "Media types that `forebay.io/compression` compresses, beside text/html; `*` for all.";
    "forebay-concurrency", "auto", Supported(|g, v| g.defaults.overload.set(|all| set(&mut all.concurrency, overload::concurrency(v)))),
        "`forebay.io/concurrency` for all.";
    "forebay-connections", "0", Supported(|g, v| set(&mut g.settings.client.bounds.connections, abuse::bound(v))),
        "Client connections in all; 0 for what the descriptors allow.";
    "forebay-connections-per-client", "0", Supported(|g, v| set(&mut g.settings.client.bounds.connections_per_client, abuse::bound(v))),
        "Connections of one client; 0 for no such bound.";
    "forebay-decompression", "false", Supported(|g, v| set(&mut g.defaults.compression.decodes, value::boolean(v))),
        "`forebay.io/decompression` for all.";
    "forebay-deny-asn", "", Supported(|g, v| set(&mut g.defaults.access.places.rules.denied_systems, places::systems(v))),
        "Autonomous systems of clients that get 403.";
    "forebay-deny-countries", "", Supported(|g, v| set(&mut g.defaults.access.places.rules.denied_countries, places::countries(v))),
        "Countries of clients that get 403.";
    "forebay-early-data", "off", Supported(|g, v| set(&mut g.settings.tls.early_data, value::on_off(v))),
        "`forebay.io/early-data` for all hosts, those of Gateways too.";
    "forebay-ejection", "on", Supported(|g, v| g.defaults.overload.set(|all| set(&mut all.ejection, value::on_off(v)))),
        "`forebay.io/ejection` for all.";
    "forebay-geoip-secret", "", Supported(|g, v| set(&mut g.geoip.secret, geoip::secret(v))),
        "Secret with databases for `use-geoip2`, `namespace/name`: each key is the file of an edition, such as `GeoLite2-Country.mmdb`.";
    "forebay-guard", "watch", Supported(|g, v| set(&mut g.settings.guard, overload::mode(v))),
        "Protection of Forebay itself when CPU time, memory, descriptors or ports run short: `watch` reports, `enforce` reduces work and refuses requests by priority, `off`.";
    "forebay-http3", "off", Supported(|g, v| set(&mut g.settings.tls.http3, value::http3(v))),
        "Serves HTTP/3 on the UDP port beside each TCP port with TLS, and says so in `Alt-Svc`: `on` to all clients, `auto` to those of hosts that others have reached over HTTP/3 and to one connection in 16 of others; not with `use-proxy-protocol`.";
    "forebay-limit-key", "$remote_addr", Supported(|g, v| set(&mut g.defaults.quota.key, limits::key(v))),
        "`forebay.io/limit-key` for all.";
    "forebay-limit-redis-fail", "open", Supported(|g, v| set(&mut g.settings.limits_fail_closed, quota::fails_closed(v))),
        "Requests with `forebay.io/limit-shared` and an unknown counter while Redis is away: `open` counts them locally, `closed` returns 503.";
    "forebay-limit-requests", "", Supported(|g, v| set(&mut g.defaults.quota.windows, quota::windows(v))),
        "`forebay.io/limit-requests` for all; each Ingress is counted for itself.";
    "forebay-limit-shared", "false", Supported(|g, v| set(&mut g.defaults.quota.is_shared, value::boolean(v))),
        "`forebay.io/limit-shared` for all.";
    "forebay-overload", "watch", Supported(|g, v| g.defaults.overload.set(|all| set(&mut all.mode, overload::mode(v)))),
        "`forebay.io/overload` for all.";
    "forebay-priority", "normal", Supported(|g, v| set(&mut g.defaults.overload.priority, overload::priority(v))),
        "`forebay.io/priority` for all.";
    "forebay-priority-header", "", Supported(|g, v| set(&mut g.settings.forwarded.priority_header, overload::priority_header(v))),
        "Header in which peers of `proxy-real-ip-cidr` state the priority; ignored while that covers everybody.";
    "forebay-queue-timeout", "1s", Supported(|g, v| g.defaults.overload.set(|all| set(&mut all.queue_timeout, value::duration(v)))),
        "`forebay.io/queue-timeout` for all.";
    "forebay-reason-header", "", Supported(|g, v| set(&mut g.settings.reason_header, address_set(v))),
        "Networks of clients that get `X-Forebay-Reason` in responses of Forebay's own: the reason, as in `forebay_faults_total`. Empty for nobody.";
    "forebay-retry-budget", "20%", Supported(|g, v| g.defaults.overload.set(|all| set(&mut all.retry_budget, overload::retry_budget(v)))),
        "`forebay.io/retry-budget` for all.";
    "forebay-slow-start", "0", Supported(|g, v| g.defaults.overload.set(|all| set(&mut all.slow_start, value::duration(v)))),
        "`forebay.io/slow-start` for all.";
    "forebay-upgrade-protocols", "websocket", Supported(|g, v| { let (taken, remark) = upgrade_protocols(v); g.settings.client.upgrade_protocols = taken; Ok(remark) }),
        "Protocols that clients may upgrade to; empty for none. h2c and TLS are never allowed.";
    "forebay-waf-detection-paranoia-level", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.detection_paranoia_level, firewall_tuning::paranoia_level(v))),
        "`forebay.io/waf-detection-paranoia-level` for all.";
    "forebay-waf-exclusions", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.exclusions, firewall_tuning::exclusions(v))),
        "`forebay.io/waf-exclusions` for all.";
    "forebay-waf-inbound-anomaly-threshold", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.inbound_threshold, firewall_tuning::threshold(v))),
        "`forebay.io/waf-inbound-anomaly-threshold` for all.";
    "forebay-waf-mode", "", Supported(|g, v| { let mode = firewall_tuning::mode(v)?; (g.defaults.firewall.tuning.mode, g.defaults.firewall.global.mode) = (mode, mode); Ok(None) }),
        "`forebay.io/waf-mode` for all.";
    "forebay-waf-outbound-anomaly-threshold", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.outbound_threshold, firewall_tuning::threshold(v))),
        "`forebay.io/waf-outbound-anomaly-threshold` for all.";
    "forebay-waf-paranoia-level", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.paranoia_level, firewall_tuning::paranoia_level(v))),
        "`forebay.io/waf-paranoia-level` for all.";
    "forebay-waf-request-body-limit", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.request_body_bytes_max, firewall_tuning::size(v))),
        "`forebay.io/waf-request-body-limit` for all.";
    "forebay-waf-request-body-no-files-limit", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.request_body_no_files_bytes_max, firewall_tuning::size(v))),
        "`forebay.io/waf-request-body-no-files-limit` for all.";
    "forebay-waf-response-body-limit", "", Supported(|g, v| set(&mut g.defaults.firewall.tuning.response_body_bytes_max, firewall_tuning::size(v))),
        "`forebay.io/waf-response-body-limit` for all.";
    "forwarded-for-header", "X-Forwarded-For", Supported(|g, v| set(&mut g.settings.forwarded.header, Ok(v.trim().to_owned()))),
        "Header that holds the client's address.";
    "forwarded-for-proxy-protocol-header", "X-Forwarded-For-Proxy-Protocol",
        Ignored("the address in a PROXY header needs no header on its way through the process"),
        "Header for the address of the PROXY protocol.";
    "forwarded-host-header", "X-Forwarded-Host", Supported(|g, v| set(&mut g.forwarded_host_header, header::name(v.trim(), Side::Response))),
        "Header that holds the host asked for.";
    "generate-request-id", "true", Supported(|g, v| set(&mut g.settings.forwarded.request_id, value::boolean(v))),
        "Makes up an X-Request-ID where there is none.";
    "geoip2-autoreload-in-minutes", "0", Supported(|g, v| set(&mut g.geoip.reload_minutes, value::number(v))),
        "Minutes between two looks at the files of databases; 0 to read them once.";
    "global-allowed-response-headers", "", Supported(|g, v| set(&mut g.defaults.headers.allowed, Ok(value::list(v).into()))),
        "Headers that `custom-headers` may set.";
    "global-auth-always-set-cookie", "false", Supported(|g, v| set(&mut g.defaults.auth.global.always_set_cookie, value::boolean(v))),
        "Passes its cookies on with every status.";
    "global-auth-cache-duration", "200 202 401 5m", Supported(|g, v| set(&mut g.defaults.auth.global.cache_duration, Ok(v.to_owned()))),
        "How long its answers are kept.";
    "global-auth-cache-key", "", Supported(|g, v| set(&mut g.defaults.auth.global.cache_key, external::cache_key(v))),
        "Keeps its answers, under this key.";
    "global-auth-method", "", Supported(|g, v| set(&mut g.defaults.auth.global.method, Ok(value::name(v)))),
        "Method of the request to the auth service.";
    "global-auth-request-redirect", "", Supported(|g, v| set(&mut g.defaults.auth.global.request_redirect, external::optional_template(v))),
        "Value of X-Auth-Request-Redirect.";
    "global-auth-response-headers", "", Supported(|g, v| set(&mut g.defaults.auth.global.response_headers, Ok(v.to_owned()))),
        "Headers of its answer that the endpoint gets.";
    "global-auth-signin", "", Supported(|g, v| set(&mut g.defaults.auth.global.signin, external::signin(v))),
        "Where clients go that it refuses.";
    "global-auth-signin-redirect-param", "rd", Supported(|g, v| set(&mut g.defaults.auth.global.signin_param, external::parameter(v))),
        "Query parameter with the way back.";
    "global-auth-snippet", "", Snippet, "nginx configuration for the request to it.";
    "global-auth-url", "", Supported(|g, v| set(&mut g.defaults.auth.global.url, external::global_url(v))),
        "URL of the auth service that allows or refuses each request.";
    "grpc-buffer-size-kb", "0", Ignored(TUNING), "Buffer for gRPC.";
    "gzip-disable", "", Supported(|g, v| set(&mut g.defaults.compression.gzip_disabled, compression::gzip_disabled(v))),
        "Regular expression of user agents that get nothing by gzip, or `msie6`.";
    "gzip-level", "1", Supported(|g, v| set(&mut g.defaults.compression.gzip.level, compression::level(v, compression::GZIP_LEVELS))),
        "Level of gzip, 1 to 9.";
    "gzip-min-length", "256", Supported(|g, v| set(&mut g.defaults.compression.gzip.bytes_min, value::number(v))),
        "Bytes of the shortest body to compress by gzip, where the length is announced.";
    "gzip-types", "application/atom+xml application/javascript application/x-javascript application/json application/rss+xml application/vnd.ms-fontobject application/x-font-ttf application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype image/svg+xml image/x-icon text/css text/javascript text/plain text/x-component",
        Supported(|g, v| set(&mut g.defaults.compression.gzip.media_types, compression::media_types(v))),
        "Media types to compress by gzip, beside text/html; `*` for all.";
    "hide-headers", "", Supported(|g, v| set(&mut g.hidden_headers, Ok(value::list(v)))),
        "Headers of endpoints that clients do not get.";
    "hsts", "true", Supported(|g, v| set(&mut g.hsts.sent, value::boolean(v))),
        "Sends Strict-Transport-Security over TLS.";
    "hsts-include-subdomains", "true", Supported(|g, v| set(&mut g.hsts.include_subdomains, value::boolean(v))),
        "Names subdomains in it.";
    "hsts-max-age", "31536000", Supported(|g, v| set(&mut g.hsts.max_age_s, value::number(v))),
        "Seconds that browsers remember it.";
    "hsts-preload", "false", Supported(|g, v| set(&mut g.hsts.preload, value::boolean(v))),
        "Names preload in it.";
    "http-access-log-path", "", Supported(|g, v| set(&mut g.log.http_path, output(v).map(Some))),
        "As `access-log-path`, for HTTP.";
    "http-redirect-code", "308", Supported(|g, v| set(&mut g.defaults.redirect.status, redirect_status(v))),
        "Status of redirects to TLS: 301, 302, 307 or 308.";
    "http-snippet", "", Snippet, "nginx configuration for HTTP: tables of variables (map).";
    "http-snippets", "", Instead("use the keys for what it sets, such as keep-alive or proxy-read-timeout"),
        "F5: nginx configuration for HTTP; ingress-nginx ignores it too.";
    "http2-max-concurrent-streams", "128", Supported(|g, v| set(&mut g.settings.client.http2_streams_max, streams_max(v))),
        "Streams of an HTTP/2 connection.";
    "http2-max-field-size", "", Ignored(TUNING), "Longest header field of HTTP/2.";
    "http2-max-header-size", "", Ignored(TUNING), "Longest head of HTTP/2.";
    "http2-max-requests", "0", Ignored(TUNING), "Requests on one HTTP/2 connection.";
    "ignore-invalid-headers", "true", Supported(|g, v| set(&mut g.ignores_invalid_headers, value::boolean(v))),
        "Leaves headers out whose names hold anything but letters, digits and dashes.";
    "jaeger-baggage-header", "jaeger-baggage", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-collector-host", "", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-collector-port", "6831", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-debug-header", "uber-debug-id", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-endpoint", "", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-propagation-format", "jaeger", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-sampler-host", "http://127.0.0.1", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-sampler-param", "1", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-sampler-port", "5778", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-sampler-type", "const", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-service-name", "nginx", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-trace-baggage-header-prefix", "uberctx-", Ignored(DEAD), "Was for Jaeger.";
    "jaeger-trace-context-header-name", "uber-trace-id", Ignored(DEAD), "Was for Jaeger.";
    "keep-alive", "75", Supported(|g, v| set(&mut g.settings.client.keep_alive_timeout, value::seconds(v))),
        "Seconds between two requests of a client connection; 0 closes after each.";
    "keep-alive-requests", "1000", Supported(|g, v| set(&mut g.settings.client.keep_alive_requests, value::number(v))),
        "Requests on one client connection.";
    "keepalive", "", Supported(|g, v| set(&mut g.settings.upstream.cap, pool_cap(v))),
        "F5: `upstream-keepalive-connections`.";
    "keepalive-requests", "", Supported(|g, v| set(&mut g.settings.client.keep_alive_requests, value::number(v))),
        "F5: `keep-alive-requests`.";
    "keepalive-timeout", "", Supported(|g, v| set(&mut g.settings.client.keep_alive_timeout, value::duration(v))),
        "F5: `keep-alive`.";
    "large-client-header-buffers", "4 8k", Supported(header_buffers),
        "Number and size of the buffers that a request head must fit in.";
    "limit-conn-status-code", "503", Supported(|g, v| set(&mut g.defaults.limits.connections_status, limits::status(v))),
        "Status of connections over the limit.";
    "limit-conn-zone-variable", "$binary_remote_addr", Supported(|g, v| set(&mut g.defaults.limits.key, limits::key(v))),
        "Key of `limit-rps`, `limit-rpm` and `limit-connections`; if empty, no limit.";
    "limit-rate", "0", Supported(|g, v| set(&mut g.defaults.responses.rate_kib, value::number(v))),
        "Speed of a response in KiB/s, with `proxy-buffering` on; 0 for no limit.";
    "limit-rate-after", "0", Supported(|g, v| set(&mut g.defaults.responses.rate_after_kib, value::number(v))),
        "KiB of a response before it holds.";
    "limit-req-status-code", "503", Supported(|g, v| set(&mut g.defaults.limits.rate_status, limits::status(v))),
        "Status of requests over the rate.";
    "load-balance", "round_robin", Supported(|g, v| set(&mut g.defaults.balancing.balance, value::balance(v))),
        "How endpoints are picked: `round_robin` or `ewma`.";
    "location-snippet", "", Snippet, "nginx configuration for all locations.";
    "log-format-escape-json", "false", Supported(|g, v| set(&mut g.escape_json, value::boolean(v))),
        "Escapes logged values as in JSON.";
    "log-format-escape-none", "false", Supported(|g, v| set(&mut g.escape_none, value::boolean(v))),
        "Leaves logged values as they are.";
    "log-format-stream", "", Supported(|g, v| stream_log_format(&mut g.settings, v)), "Of what a line of the TCP and UDP access log consists.";
    "log-format-upstream", "", Supported(|g, v| log_format(&mut g.settings, v)), "Of what a line of the access log consists.";
    "lua-shared-dicts", "", Ignored(TUNING), "Sizes of Lua's dictionaries.";
    "main-snippet", "", Instead("what it could set are flags of Forebay, such as --workers; take the key away"), "nginx configuration, outermost.";
    "main-template", "", Instead("there is no template; use the keys for what it changes"),
        "F5: the template of nginx.conf; ingress-nginx ignores it too.";
    "map-hash-bucket-size", "64", Ignored(TUNING), "Size of a hash table.";
    "max-worker-connections", "16384", Ignored(TUNING), "Connections of a worker.";
    "max-worker-open-files", "0", Ignored(TUNING), "Open files of a worker.";
    "modsecurity-snippet", "", Supported(|g, v| set(&mut g.defaults.firewall.global.rules, Ok(firewall::rules(v)))),
        "Rules of the web application firewall, where `enable-modsecurity` is on.";
    "nginx-status-ipv4-whitelist", "127.0.0.1", Ignored(NO_STATUS), "Addresses that may see nginx's status.";
    "nginx-status-ipv6-whitelist", "::1", Ignored(NO_STATUS), "Addresses that may see nginx's status.";
    "no-auth-locations", "/.well-known/acme-challenge", Supported(|g, v| set(&mut g.defaults.auth.except, Ok(value::list(v)))),
        "Paths for which it is not asked.";
    "no-tls-redirect-locations", "/.well-known/acme-challenge", Supported(|g, v| set(&mut g.defaults.redirect.except, Ok(value::list(v)))),
        "Path prefixes that are not redirected to TLS.";
    "opentelemetry-config", "/etc/ingress-controller/telemetry/opentelemetry.toml", Ignored(OTEL),
        "Configuration file of tracing.";
    "opentelemetry-operation-name", "", Supported(tracing::operation_name),
        "Name of a span; without it, the path of the rule.";
    "opentelemetry-trust-incoming-span", "true", Supported(tracing::trust),
        "Takes the client's span as parent.";
    "otel-max-export-batch-size", "512", Supported(|g, v| set(&mut g.tracing.export.batch_max, tracing::spans(v))),
        "Spans that are sent at once.";
    "otel-max-queuesize", "2048", Supported(|g, v| set(&mut g.tracing.export.queue_max, tracing::spans(v))),
        "Spans that may wait to be sent; further ones are dropped.";
    "otel-sampler", "AlwaysOn", Supported(|g, v| set(&mut g.tracing.sampling, tracing::sampling(v))),
        "Which spans are sent: `AlwaysOn`, `AlwaysOff` or `TraceIdRatioBased`.";
    "otel-sampler-parent-based", "true", Supported(|g, v| set(&mut g.tracing.follows_parent, value::boolean(v))),
        "What became of the client's span decides, where there is one.";
    "otel-sampler-ratio", "0.01", Supported(|g, v| set(&mut g.tracing.share, tracing::ratio(v))),
        "Share of the traces that `TraceIdRatioBased` sends.";
    "otel-schedule-delay-millis", "5000", Supported(|g, v| set(&mut g.tracing.export.delay, tracing::milliseconds(v))),
        "Longest time that a span waits before it is sent.";
    "otel-service-name", "nginx", Supported(|g, v| set(&mut g.tracing.export.service, Ok(v.trim().to_owned()))),
        "Name of the service in spans.";
    "otlp-collector-host", "", Supported(|g, v| set(&mut g.tracing.export.host, tracing::host(v))),
        "Host of the collector that spans are sent to (OTLP over gRPC, in clear).";
    "otlp-collector-port", "4317", Supported(|g, v| set(&mut g.tracing.export.port, tracing::port(v))),
        "Port of the collector.";
    "preserve-trailing-slash", "false", Supported(|g, v| set(&mut g.defaults.redirect.keep_trailing_slash, value::boolean(v))),
        "Keeps a trailing slash when redirecting to TLS.";
    "proxy-add-original-uri-header", "false", Supported(|g, v| set(&mut g.settings.forwarded.original_uri, value::boolean(v))),
        "Sends X-Original-URI.";
    "proxy-body-size", "1m", Supported(|g, v| set(&mut g.defaults.bodies.bytes_max, value::size(v).map(positive))),
        "Longest request body; 0 for no limit.";
    "proxy-buffer-size", "4k", Supported(|g, v| set(&mut g.defaults.responses.head_bytes_max, responses::head_bytes(v))),
        "Longest response head; a longer one becomes 502.";
    "proxy-buffering", "off", Supported(|g, v| set(&mut g.defaults.responses.reads_ahead, value::on_off(v))),
        "Reads responses ahead of clients that are slow.";
    "proxy-buffers-number", "4", Supported(|g, v| set(&mut g.defaults.responses.buffers, value::number(v))),
        "How much is read ahead, in units of `proxy-buffer-size`.";
    "proxy-busy-buffers-size", "", Ignored(responses::ALL_MAY_BE_BUSY), "Buffers that may be busy sending.";
    "proxy-connect-timeout", "5", Supported(|g, v| set(&mut g.defaults.timeouts.connect, value::seconds(v))),
        "Seconds for an endpoint to accept the connection.";
    "proxy-cookie-domain", "off", Supported(|g, v| set(&mut g.defaults.responses.cookie_domain, responses::cookie_domain(v))),
        "Rewrites the Domain of cookies: `FROM TO`.";
    "proxy-cookie-path", "off", Supported(|g, v| set(&mut g.defaults.responses.cookie_path, responses::cookie_path(v))),
        "Rewrites the beginning of the Path of cookies: `FROM TO`.";
    "proxy-headers-hash-bucket-size", "64", Ignored(TUNING), "Size of a hash table.";
    "proxy-headers-hash-max-size", "512", Ignored(TUNING), "Size of a hash table.";
    "proxy-http-version", "1.1", Supported(|g, v| set(&mut g.defaults.bodies.uses_http_1_0, bodies::is_http_1_0(v))),
        "HTTP version towards endpoints: 1.1 or 1.0.";
    "proxy-max-temp-file-size", "1024m", Ignored(responses::IN_MEMORY), "Disk space for a response.";
    "proxy-next-upstream", "error timeout", Supported(|g, v| set(&mut g.defaults.retries.on, value::retry_on(v))),
        "Failures after which a request is retried.";
    "proxy-next-upstream-timeout", "0", Supported(|g, v| set(&mut g.defaults.retries.timeout, value::seconds(v).map(positive))),
        "Seconds for all tries; 0 for no limit.";
    "proxy-next-upstream-tries", "3", Supported(|g, v| set(&mut g.defaults.retries.tries, value::number(v).map(positive))),
        "Tries in all; 0 for as many as there are endpoints.";
    "proxy-protocol-header-timeout", "5s", Supported(|g, v| set(&mut g.proxy_protocol.header_timeout, value::duration(v))),
        "Time for the header of the PROXY protocol.";
    "proxy-read-timeout", "60", Supported(|g, v| set(&mut g.defaults.timeouts.read, value::seconds(v))),
        "Seconds between two reads of a response.";
    "proxy-real-ip-cidr", "0.0.0.0/0", Supported(|g, v| set(&mut g.settings.forwarded.trusted, value::networks(v).map(everybody))),
        "Networks of the peers that are trusted; 0.0.0.0/0 stands for everybody, by IPv6 too.";
    "proxy-redirect-from", "off", Supported(|g, v| set(&mut g.defaults.responses.redirect_from, responses::redirect_part(v))),
        "Beginning of Location, and of the URL in Refresh, that is replaced.";
    "proxy-redirect-to", "off", Supported(|g, v| set(&mut g.defaults.responses.redirect_to, responses::redirect_part(v))),
        "What replaces it.";
    "proxy-request-buffering", "on", Supported(|g, v| set(&mut g.defaults.bodies.are_buffered, value::on_off(v))),
        "Reads request bodies before endpoints are contacted.";
    "proxy-send-timeout", "60", Supported(|g, v| set(&mut g.defaults.timeouts.send, value::seconds(v))),
        "Seconds between two writes of a request.";
    "proxy-set-headers", "", Supported(name_of_configmap), "ConfigMap with headers for endpoints, `namespace/name`. Values may hold variables.";
    "proxy-ssl-location-only", "false", Supported(|g, v| set(&mut g.defaults.upstream_tls.is_for_locations_only, value::boolean(v))),
        "Whether `proxy-ssl-*` apply to their Ingress only, not to the whole host.";
    "proxy-stream-next-upstream", "true", Supported(|g, v| set(&mut g.settings.stream.next_upstream, value::boolean(v))),
        "Tries another endpoint where a TCP connection fails.";
    "proxy-stream-next-upstream-timeout", "600s", Supported(|g, v| set(&mut g.settings.stream.connect_timeout, value::duration(v).map(or_forever))),
        "Time for all tries; 0 for no limit.";
    "proxy-stream-next-upstream-tries", "3", Supported(|g, v| set(&mut g.settings.stream.tries, value::number(v).map(positive))),
        "Tries in all; 0 for as many as there are endpoints.";
    "proxy-stream-responses", "1", Supported(|g, v| set(&mut g.settings.stream.responses, value::number(v).map(Some))),
        "Datagrams that answer one; the session ends with the last.";
    "proxy-stream-timeout", "600s", Supported(|g, v| set(&mut g.settings.stream.idle_timeout, value::duration(v).map(or_forever))),
        "Idle time of TCP and UDP.";
    "relative-redirects", "false", Supported(|g, v| set(&mut g.defaults.redirect.relative, value::boolean(v))),
        "Relative Location in redirects.";
    "retry-non-idempotent", "false", Supported(|g, v| set(&mut g.retry_non_idempotent, value::boolean(v))),
        "Tries POST, LOCK and PATCH again too.";
    "reuse-port", "true", Ignored(TUNING), "A listening socket for each worker.";
    "server-name-hash-bucket-size", "", Ignored(TUNING), "Size of a hash table.";
    "server-name-hash-max-size", "1024", Ignored(TUNING), "Size of a hash table.";
    "server-snippet", "", Snippet, "nginx configuration for all hosts.";
    "server-tokens", "false", Supported(|g, v| set(&mut g.server.is_named, value::boolean(v))),
        "Sends a Server header.";
    "service-upstream", "false", Supported(|g, v| set(&mut g.defaults.balancing.by_virtual_address, value::boolean(v))),
        "Sends requests to Services' virtual addresses.";
    "skip-access-log-urls", "", Supported(|g, v| set(&mut g.settings.access_log.skip, listed_values(v))),
        "URLs, with their query, that are not logged; after `~` or `~*` regular expressions.";
    "ssl-buffer-size", "4k", Ignored(TUNING), "Longest TLS record.";
    "ssl-ciphers", "", Supported(ssl_ciphers),
        "Cipher suites of TLS 1.2, as OpenSSL lists them.";
    "ssl-dh-param", "", Ignored(NO_DH),
        "Secret with Diffie-Hellman parameters.";
    "ssl-early-data", "false", Ignored("early data can be replayed (RFC 8446 section 8), and clients do without it"),
        "Accepts TLS early data.";
    "ssl-ecdh-curve", "auto", Ignored(CURVES),
        "Curves.";
    "ssl-protocols", "TLSv1.2 TLSv1.3", Supported(ssl_protocols),
        "TLS versions.";
    "ssl-redirect", "true", Supported(|g, v| set(&mut g.defaults.redirect.with_certificate, value::boolean(v))),
        "Redirects to TLS where a host has a `tls:` section.";
    "ssl-reject-handshake", "false", Supported(|g, v| set(&mut g.settings.tls.reject_unknown_names, value::boolean(v))),
        "Refuses handshakes for unknown names.";
    "ssl-session-cache", "true", Supported(|g, v| set(&mut g.settings.tls.session_cache, value::boolean(v))),
        "Resumes TLS sessions that are kept here.";
    "ssl-session-cache-size", "10m", Ignored(TUNING), "Size of the cache.";
    "ssl-session-ticket-key", "", Ignored("each replica makes and changes its own keys"),
        "Key of the tickets.";
    "ssl-session-tickets", "false", Supported(|g, v| set(&mut g.settings.tls.session_tickets, value::boolean(v))),
        "Resumes TLS sessions by tickets.";
    "ssl-session-timeout", "10m", Supported(|g, v| set(&mut g.settings.tls.session_timeout, value::duration(v))),
        "How long a session can be resumed.";
    "stream-access-log-path", "", Supported(|g, v| set(&mut g.log.stream_path, output(v).map(Some))),
        "As `access-log-path`, for TCP and UDP.";
    "stream-snippet", "", Instead("TCP and UDP services are those of tcp-services and udp-services"), "nginx configuration for TCP and UDP.";
    "strict-validate-path-type", "true", Ignored(TYPED), "Refuses unusual paths.";
    "syslog-host", "", Supported(|g, v| set(&mut g.log.syslog_host, value::characters(v, "-._:"))), "Host of syslog.";
    "syslog-port", "514", Supported(|g, v| set(&mut g.log.syslog_port, value::number(v))), "Port of syslog.";
    "upstream-hash-by", "", Ignored(DEAD), "Picks endpoints by the hash of this value.";
    "upstream-hash-by-subset", "false", Ignored(DEAD), "Picks a group of endpoints by hash.";
    "upstream-hash-by-subset-size", "3", Ignored(DEAD), "Endpoints in a group.";
    "upstream-keepalive-connections", "auto", Supported(|g, v| set(&mut g.settings.upstream.cap, pool_cap(v))),
        "Idle connections that a worker keeps to an endpoint; `auto` to go by use, which is our default.";
    "upstream-keepalive-requests", "10000", Supported(|g, v| set(&mut g.settings.upstream.requests, value::number(v))),
        "Requests on one connection to an endpoint.";
    "upstream-keepalive-time", "1h", Supported(|g, v| set(&mut g.settings.upstream.lifetime, value::duration(v))),
        "Age after which a connection to an endpoint is not used again.";
    "upstream-keepalive-timeout", "60", Supported(|g, v| set(&mut g.settings.upstream.idle_timeout, value::seconds(v))),
        "Seconds that a connection to an endpoint may be idle.";
    "use-forwarded-headers", "false", Supported(|g, v| set(&mut g.settings.forwarded.use_incoming, value::boolean(v))),
        "Believes the X-Forwarded headers of trusted peers.";
    "use-geoip", "true", Ignored(DEAD), "Finds out countries of clients.";
    "use-geoip2", "false", Supported(|g, v| set(&mut g.geoip.wanted.is_on, value::boolean(v))),
        "Loads databases of addresses, for variables `$geoip2_*` and rules by country.";
    "use-gzip", "false", Supported(|g, v| set(&mut g.defaults.compression.gzip.is_on, value::boolean(v))),
        "Compresses responses by gzip, for clients that accept it.";
    "use-http2", "true", Supported(|g, v| set(&mut g.settings.tls.http2, value::boolean(v))),
        "Offers HTTP/2 over TLS.";
    "use-port-in-redirects", "false", Supported(|g, v| set(&mut g.defaults.redirect.names_port, value::boolean(v))),
        "Names the port in redirects.";
    "use-proxy-protocol", "false", Supported(|g, v| set(&mut g.proxy_protocol.used, value::boolean(v))),
        "Reads the PROXY protocol from clients.";
    "variables-hash-bucket-size", "256", Ignored(TUNING), "Size of a hash table.";
    "variables-hash-max-size", "2048", Ignored(TUNING), "Size of a hash table.";
    "whitelist-source-range", "", Supported(|g, v| set(&mut g.defaults.access.allowed, address_set(v))),
        "Networks of clients that are allowed; others get 403.";
    "worker-connections", "", Ignored(TUNING), "F5: connections of a worker.";
    "worker-cpu-affinity", "", Ignored(WORKERS), "CPUs of the workers.";
    "worker-processes", "", Ignored(WORKERS), "Number of workers.";
    "worker-rlimit-nofile", "", Ignored(TUNING), "F5: open files of a worker.";
    "worker-shutdown-timeout", "240s", Supported(|g, v| set(&mut g.settings.client.shutdown_timeout, value::duration(v))),
        "Time that a stopping worker gives to requests in flight.";
}

/// Converts nginx's time: 0 means no limit.
fn or_forever(time: Duration) -> Duration {
    if time.is_zero() { FOREVER } else { time }
}

/// A time that is longer than any process lives, and short enough to be added to a time.
const FOREVER: Duration = Duration::from_hours(24 * 365 * 10);

/// Sets the risk level; an unknown text means the lowest, as in ingress-nginx. Returns a remark on that.
fn risk_level(global: &mut Global, text: &str) -> Option<String> {
    let risk = match text.trim().to_ascii_lowercase().as_str() {
        "critical" => Some(Risk::Critical),
        "high" => Some(Risk::High),
        "medium" => Some(Risk::Medium),
        "low" => Some(Risk::Low),
        _ => None,
    };
    global.defaults.screening.risk_max = risk.unwrap_or(Risk::Low);
    risk.is_none().then(|| format!("{text:?} is none of Critical, High, Medium and Low, and counts as Low"))
}

/// Adds all of IPv6 to networks with all of IPv4, which cover all peers in nginx. Our listeners accept IPv6
/// too.
fn everybody(mut networks: Vec<IpNet>) -> Vec<IpNet> {
    let [v4, v6] = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    if networks.contains(&v4) && !networks.contains(&v6) {
        networks.push(v6);
    }
    networks
}

/// Checks the syntax of the name. Whether the object exists is reported after all keys have been read.
fn name_of_configmap(_: &mut Global, text: &str) -> Applied {
    text.trim().parse::<NsName>().map(|_| None).map_err(|error| error.to_string())
}

fn streams_max(text: &str) -> value::Parsed<u32> {
    let number = value::number(text).ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("{text:?} is not a whole number above 0"))
}

fn ssl_ciphers(global: &mut Global, text: &str) -> Applied {
    let (suites, remark) = ciphers::parse(text)?;
    global.settings.tls.ciphers = suites;
    Ok(remark)
}

fn ssl_protocols(global: &mut Global, text: &str) -> Applied {
    let (versions, remark) = value::tls_versions(text)?;
    global.settings.tls.versions = versions;
    Ok(remark)
}

fn pool_cap(text: &str) -> value::Parsed<PoolCap> {
    if text.trim() == "auto" { Ok(PoolCap::Auto) } else { value::number(text).map(PoolCap::Fixed) }
}

fn redirect_status(text: &str) -> value::Parsed<u16> {
    let status = value::number(text).ok().filter(|status| matches!(status, 301 | 302 | 307 | 308));
    status.ok_or_else(|| format!("{text:?} is none of 301, 302, 307 and 308"))
}

fn header_buffers(global: &mut Global, text: &str) -> Applied {
    let client = &mut global.settings.client;
    (client.line_bytes_max, client.head_bytes_max) = value::header_buffers(text)?;
    Ok(None)
}

fn no_access_log_at_all(global: &mut Global, text: &str) -> Applied {
    no_access_log(&mut global.settings, text)?;
    no_stream_access_log(&mut global.settings, text)
}
