//! A service that is asked whether a request may pass.

use super::{Case, Directives, Feature, Manifests};

const SERVICE: &str = "auth";
const URL: &str = "http://auth.default.svc.cluster.local/0";
/// Clients whose answers are kept.
const CLIENTS: usize = 100;

/// Every request is asked about, on connections that stay.
pub(crate) fn auth_kept_alive() -> Case {
    Case {
        feature: feature("", "", Vec::new()),
        services: &[SERVICE],
        asked_besides: 1.0..=1.001,
        ..Case::default()
    }
}

/// The same with answers that are kept for each Authorization.
pub(crate) fn auth_cached() -> Case {
    let http = "  proxy_cache_path auth-cache levels=1:2 keys_zone=auth:10m max_size=128m inactive=30m use_temp_path=off;\n";
    let location = "      proxy_buffering on; proxy_cache auth; proxy_cache_valid 200 202 401 5m;\n      \
                    proxy_cache_key \"$host$http_authorization\";\n";
    Case {
        feature: feature(http, location, vec![("auth-cache-key", "$http_authorization".into())]),
        services: &[SERVICE],
        headers: vec![("Authorization", "Bearer {}".into())],
        variants: |_| Ok((0..CLIENTS).map(|number| format!("{number:032x}")).collect()),
        // Each kept answer was asked for before.
        asked_besides: 0.0..=0.001,
        ..Case::default()
    }
}

fn feature(http: &str, cache: &str, annotations: Vec<(&'static str, String)>) -> Feature {
    let server = format!(
        "    location = /_auth {{\n      internal;\n      proxy_pass http://auth/0; proxy_pass_request_body off;\n      \
         proxy_set_header Connection \"\"; proxy_set_header Content-Length \"\"; proxy_set_header Host auth;\n      \
         proxy_set_header X-Original-URL $scheme://$http_host$request_uri;\n      \
         proxy_set_header X-Original-Method $request_method;\n      \
         proxy_set_header X-Auth-Request-Redirect $request_uri;\n      \
         proxy_set_header X-Sent-From nginx-ingress-controller;\n      \
         proxy_set_header X-Request-ID $request_id;\n      \
         proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $remote_addr;\n{cache}    }}\n"
    );
    Feature {
        directives: Directives {
            http: http.into(),
            server,
            location: "      auth_request /_auth;\n".into(),
            ..Directives::default()
        },
        manifests: Manifests {
            annotations: [vec![("auth-url", URL.into())], annotations].concat(),
            ..Manifests::default()
        },
        ..Feature::default()
    }
}
