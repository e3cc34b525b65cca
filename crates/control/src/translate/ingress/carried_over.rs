//! Names of annotations that people still carry in manifests and that ingress-nginx ignores: those of older
//! versions, of other controllers, and keys of the `ConfigMap` in the wrong place. Each has its replacement.
//!
//! Never in here: annotations with an effect, which are in the tables of their concerns.

/// Names without our prefix, in order, and what to use in place of each.
const CARRIED_OVER: &[(&str, &str)] = &[
    ("add-base-url", "ingress-nginx has removed it: use a snippet with sub_filter"),
    ("add-hosts", "name the hosts in spec.rules"),
    ("base-url-scheme", "ingress-nginx has removed it: use a snippet with sub_filter"),
    ("client-header-buffer-size", "it is a key of the ConfigMap"),
    ("client-max-body-size", "use proxy-body-size"),
    ("enable-influxdb", "ingress-nginx has removed it: metrics are at /metrics of the admin server"),
    ("enable-lua-resty-waf", "ingress-nginx has removed it: use enable-modsecurity"),
    ("enable-opentracing", "ingress-nginx has removed it: use enable-opentelemetry"),
    ("enable-proxy-protocol", "it is the key use-proxy-protocol of the ConfigMap"),
    ("enable-vts-status", "ingress-nginx has removed it: metrics are at /metrics of the admin server"),
    ("enable-websockets", "WebSocket needs no annotation"),
    ("force-ssl", "use force-ssl-redirect"),
    (
        "global-rate-limit",
        "ingress-nginx has removed it: use limit-rps or limit-rpm with forebay.io/limit-shared",
    ),
    ("global-rate-limit-header-hash-key", "ingress-nginx has removed it: use forebay.io/limit-key"),
    ("global-rate-limit-ignored-cidrs", "ingress-nginx has removed it: use limit-allowlist"),
    ("global-rate-limit-key", "ingress-nginx has removed it: use forebay.io/limit-key"),
    ("global-rate-limit-window", "ingress-nginx has removed it: use limit-rps or limit-rpm"),
    ("grpc-backend", "ingress-nginx has removed it: use backend-protocol: GRPC"),
    ("gzip", "it is the key use-gzip of the ConfigMap, or gzip in a snippet"),
    ("hsts", "it is a key of the ConfigMap"),
    ("hsts-include-subdomains", "it is a key of the ConfigMap"),
    ("hsts-max-age", "it is a key of the ConfigMap"),
    ("http-snippet", "it is a key of the ConfigMap"),
    ("influxdb-host", "ingress-nginx has removed it: metrics are at /metrics of the admin server"),
    ("influxdb-measurement", "ingress-nginx has removed it: metrics are at /metrics of the admin server"),
    ("influxdb-port", "ingress-nginx has removed it: metrics are at /metrics of the admin server"),
    ("influxdb-server-name", "ingress-nginx has removed it: metrics are at /metrics of the admin server"),
    ("ingress-class", "use spec.ingressClassName"),
    ("keep-alive", "it is a key of the ConfigMap"),
    ("keepalive-timeout", "it is the key keep-alive of the ConfigMap"),
    ("large-client-header-buffers", "it is a key of the ConfigMap"),
    ("limit-req-status-code", "it is a key of the ConfigMap"),
    ("location-snippet", "use configuration-snippet"),
    ("lua-resty-waf", "ingress-nginx has removed it: use enable-modsecurity"),
    ("lua-resty-waf-allow-unknown-content-types", "ingress-nginx has removed it: use modsecurity-snippet"),
    ("lua-resty-waf-debug", "ingress-nginx has removed it: use modsecurity-snippet"),
    ("lua-resty-waf-extra-rules", "ingress-nginx has removed it: use modsecurity-snippet"),
    ("lua-resty-waf-ignore-rulesets", "ingress-nginx has removed it: use modsecurity-snippet"),
    ("lua-resty-waf-process-multipart-body", "ingress-nginx has removed it: use modsecurity-snippet"),
    ("lua-resty-waf-score-threshold", "ingress-nginx has removed it: use modsecurity-snippet"),
    ("mirror-uri", "ingress-nginx has removed it: use mirror-target"),
    ("opentracing-operation-name", "ingress-nginx has removed it: use opentelemetry-operation-name"),
    (
        "opentracing-trust-incoming-span",
        "ingress-nginx has removed it: use opentelemetry-trust-incoming-span",
    ),
    ("proxy-cache", "use forebay.io/cache"),
    ("proxy-cache-key", "use forebay.io/cache, whose key is forebay.io/cache-key-query"),
    ("proxy-cache-valid", "use forebay.io/cache-default-ttl"),
    ("proxy-max-body-size", "use proxy-body-size"),
    ("proxy-pass-headers", "headers of clients and endpoints are passed on"),
    ("proxy-protocol", "it is the key use-proxy-protocol of the ConfigMap"),
    ("proxy-set-headers", "it is a key of the ConfigMap"),
    ("rate-limit", "use limit-rps"),
    ("rate-limit-rps", "use limit-rps"),
    ("rate-limit-window", "use limit-rpm"),
    ("secure-backends", "ingress-nginx has removed it: use backend-protocol: HTTPS"),
    ("secure-verify-ca-secret", "ingress-nginx has removed it: use proxy-ssl-secret with proxy-ssl-verify"),
    ("server-snippets", "use server-snippet"),
    ("server-tokens", "it is a key of the ConfigMap"),
    (
        "service-match",
        "it is of Alibaba Cloud's controller: use canary with canary-by-header or canary-by-cookie",
    ),
    ("service-weight", "it is of Alibaba Cloud's controller: use canary with canary-weight"),
    ("session-cookie-hash", "ingress-nginx has removed it: cookies hold no hash"),
    ("ssl-protocols", "it is a key of the ConfigMap"),
    ("ssl-verify", "use proxy-ssl-verify"),
    ("upstream-fail-timeout", "ingress-nginx has removed it: use forebay.io/ejection"),
    ("upstream-keepalive-connections", "it is a key of the ConfigMap"),
    ("upstream-max-fails", "ingress-nginx has removed it: use forebay.io/ejection"),
    ("use-forwarded-headers", "it is a key of the ConfigMap"),
    ("use-gzip", "it is a key of the ConfigMap"),
    ("use-http2", "it is a key of the ConfigMap"),
    ("use-proxy-protocol", "it is a key of the ConfigMap"),
    ("vts-filter-key", "ingress-nginx has removed it: metrics are at /metrics of the admin server"),
    ("websocket-services", "WebSocket needs no annotation"),
];

/// Prefixes of other controllers' annotations, which ingress-nginx ignores too.
const FOREIGN_PREFIXES: &[(&str, &str)] = &[
    ("alb.ingress.kubernetes.io", "the controller of AWS load balancers"),
    ("appgw.ingress.kubernetes.io", "Azure's Application Gateway"),
    ("haproxy-ingress.github.io", "HAProxy Ingress"),
    ("haproxy.org", "HAProxy's controller"),
    ("higress.io", "Higress"),
    ("ingress.kubernetes.io", "the prefix that ingress-nginx gave up in version 0.9"),
    ("konghq.com", "Kong"),
    ("mse.ingress.kubernetes.io", "Alibaba Cloud's gateway"),
    ("nginx.com", "F5's controller"),
    ("nginx.org", "F5's controller"),
    ("traefik.ingress.kubernetes.io", "Traefik"),
];

/// Annotations of F5's controller, and what does the same here.
const OF_F5: &[(&str, &str)] = &[
    ("basic-auth-secret", "auth-type: basic and auth-secret"),
    ("client-max-body-size", "proxy-body-size"),
    ("fail-timeout", "forebay.io/ejection"),
    ("grpc-services", "backend-protocol: GRPC"),
    ("hsts", "the key hsts of the ConfigMap"),
    ("keepalive", "the key upstream-keepalive-connections of the ConfigMap"),
    ("lb-method", "load-balance or upstream-hash-by"),
    ("limit-req-rate", "limit-rps or limit-rpm"),
    ("location-snippets", "configuration-snippet"),
    ("max-fails", "forebay.io/ejection"),
    ("mergeable-ingress-type", "several Ingresses with the same host, which need no annotation"),
    ("path-regex", "use-regex"),
    ("proxy-buffer-size", "proxy-buffer-size"),
    ("proxy-buffering", "proxy-buffering"),
    ("proxy-buffers", "proxy-buffers-number"),
    ("proxy-connect-timeout", "proxy-connect-timeout"),
    ("proxy-hide-headers", "proxy_hide_header in configuration-snippet"),
    ("proxy-read-timeout", "proxy-read-timeout"),
    ("proxy-send-timeout", "proxy-send-timeout"),
    ("proxy-set-headers", "proxy_set_header in configuration-snippet"),
    ("redirect-to-https", "force-ssl-redirect"),
    ("rewrites", "rewrite-target"),
    ("server-snippets", "server-snippet"),
    ("ssl-services", "backend-protocol: HTTPS"),
    ("sticky-cookie-services", "affinity: cookie"),
    ("websocket-services", "nothing: WebSocket needs no annotation"),
];

/// Annotations of Higress's own, and what does the same here.
const OF_HIGRESS: &[(&str, &str)] = &[
    ("destination", "an HTTPRoute whose backendRefs have weights"),
    ("ignore-path-case", "use-regex, whose expressions ignore letter case"),
    ("match-method", "matches of an HTTPRoute"),
    ("mirror-percentage", "forebay.io/mirror-share"),
    ("mirror-target-fqdn", "mirror-target"),
    ("mirror-target-fqdn-port", "mirror-target"),
    ("mirror-target-service", "mirror-target"),
    ("request-header-control-add", "proxy_set_header in configuration-snippet"),
    ("request-header-control-remove", "proxy_set_header in configuration-snippet"),
    ("request-header-control-update", "proxy_set_header in configuration-snippet"),
    ("response-header-control-add", "add_header in configuration-snippet, or custom-headers"),
    ("response-header-control-remove", "proxy_hide_header in configuration-snippet"),
    ("response-header-control-update", "custom-headers"),
    ("rewrite-path", "rewrite-target"),
    ("route-limit-burst-multiplier", "limit-burst-multiplier"),
    ("route-limit-rpm", "forebay.io/limit-requests with forebay.io/limit-key: $host"),
    ("route-limit-rps", "forebay.io/limit-requests with forebay.io/limit-key: $host"),
    ("timeout", "proxy-read-timeout"),
];

/// The replacement for an annotation with our prefix that ingress-nginx has ignored since some version.
pub(super) fn replacement(name: &str) -> Option<&'static str> {
    found(CARRIED_OVER, name)
}

/// The counterpart of an annotation of Higress's own. Names of conditions end in the header or parameter that
/// they are about.
fn of_higress(name: &str) -> Option<&'static str> {
    let is_condition = name.contains("-match-header-") || name.contains("-match-query-");
    if is_condition { Some("matches of an HTTPRoute") } else { found(OF_HIGRESS, name) }
}

/// The message about an annotation with another controller's prefix; none for a prefix that is no
/// controller's. `is_ours` says whether an annotation of this name exists here.
pub(super) fn foreign(prefix: &str, name: &str, is_ours: impl Fn(&str) -> bool) -> Option<String> {
    let whose = found(FOREIGN_PREFIXES, prefix)?;
    let here = match prefix {
        "nginx.org" | "nginx.com" => found(OF_F5, name).map(|here| format!("; what does the same is {here}")),
        "higress.io" | "ingress.kubernetes.io" | "mse.ingress.kubernetes.io" => {
            let same = is_ours(name).then(|| format!("; nginx.ingress.kubernetes.io/{name} is obeyed"));
            same.or_else(|| of_higress(name).map(|here| format!("; what does the same is {here}")))
        }
        _ => None,
    };
    Some(format!(
        "annotation {prefix}/{name} is of {whose}: ignored, as ingress-nginx does{}",
        here.unwrap_or_default()
    ))
}

fn found(table: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    table.binary_search_by_key(&name, |(known, _)| known).ok().map(|at| table[at].1)
}

#[cfg(test)]
mod tests {
    use super::super::annotations::named;
    use super::super::own;
    use super::*;

    #[test]
    fn tables_are_sorted_and_name_no_annotation_with_an_effect() {
        for table in [CARRIED_OVER, FOREIGN_PREFIXES, OF_F5, OF_HIGRESS] {
            assert!(table.is_sorted_by_key(|(name, _)| name));
        }
        let known: Vec<_> = CARRIED_OVER.iter().filter(|(name, _)| named(name).is_some()).collect();
        assert!(known.is_empty(), "{known:?}");
    }

    #[test]
    fn what_replaces_a_name_exists() {
        for (name, advice) in CARRIED_OVER {
            let own = advice.split("forebay.io/").nth(1).map(|rest| rest.split([' ', ',']).next().unwrap());
            assert!(own.is_none_or(|own| own::named(own).is_some()), "{name}: {advice}");
        }
    }

    #[test]
    fn names_of_other_controllers_have_a_counterpart() {
        let is_ours = |name: &str| named(name).is_some();
        let said = |prefix: &str, name: &str| foreign(prefix, name, is_ours);
        let higress = said("higress.io", "canary-weight").unwrap();
        assert!(higress.ends_with("nginx.ingress.kubernetes.io/canary-weight is obeyed"), "{higress}");
        for (name, here) in [
            ("mirror-percentage", "forebay.io/mirror-share"),
            ("exact-match-header-x-stage", "matches of an HTTPRoute"),
        ] {
            let said = said("higress.io", name).unwrap();
            assert!(said.contains("Higress") && said.ends_with(here), "{said}");
        }
        let f5 = said("nginx.org", "rewrites").unwrap();
        assert!(f5.contains("F5's controller") && f5.ends_with("rewrite-target"), "{f5}");
        let traefik = said("traefik.ingress.kubernetes.io", "router.middlewares").unwrap();
        assert!(traefik.ends_with("as ingress-nginx does"), "{traefik}");
        assert_eq!(said("cert-manager.io", "cluster-issuer"), None);
    }
}
