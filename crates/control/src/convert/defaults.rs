//! Defaults for all Ingresses: the keys of ingress-nginx's `ConfigMap` that affect routes.
//!
//! Never in here: keys that a running Forebay applies to routes of both kinds.

use crate::index::Index;
use crate::options::Options;
use crate::translate::value;

/// The body size that ingress-nginx has by default.
const BODY_SIZE: &str = "1m";

/// Settings for all Ingresses.
#[derive(Debug)]
pub(super) struct Defaults {
    /// The settings for all Ingresses, by the name of the annotation that sets the same for one Ingress. The
    /// body size is always included.
    pub(super) settings: Vec<(String, String)>,
    pub(super) ssl_redirect: bool,
    pub(super) force_ssl_redirect: bool,
    pub(super) redirect_status: u16,
    /// The proxy trusts the client's address in headers of a proxy in front of it.
    pub(super) believes_hops: bool,
    /// Annotations may name Services of other namespaces.
    pub(super) crosses_namespaces: bool,
    /// The `Strict-Transport-Security` of responses over TLS; none to send none.
    pub(super) hsts: Option<String>,
    /// The path prefixes that are not redirected to TLS.
    except: Vec<String>,
}

impl Defaults {
    pub(super) fn read(index: &Index, options: &Options) -> Self {
        let configmap = options.configmap.as_ref().and_then(|key| index.configmaps.get(key));
        let text = |key: &str| configmap.and_then(|it| it.data.get(key)).map(|text| text.value.trim());
        let boolean =
            |key: &str, default| text(key).and_then(|text| value::boolean(text).ok()).unwrap_or(default);
        let except = text("no-tls-redirect-locations").unwrap_or("/.well-known/acme-challenge");
        let mut settings =
            vec![("proxy-body-size".to_owned(), text("proxy-body-size").unwrap_or(BODY_SIZE).to_owned())];
        let others = configmap.iter().flat_map(|it| &it.data).filter(|(key, _)| *key != "proxy-body-size");
        settings.extend(others.map(|(key, text)| (annotation(key).to_owned(), text.value.trim().to_owned())));
        let age = text("hsts-max-age").unwrap_or("31536000");
        let mut hsts = format!("max-age={age}");
        for (key, default, word) in
            [("hsts-include-subdomains", true, "; includeSubDomains"), ("hsts-preload", false, "; preload")]
        {
            if boolean(key, default) {
                hsts.push_str(word);
            }
        }
        Self {
            hsts: boolean("hsts", true).then_some(hsts),
            settings,
            ssl_redirect: boolean("ssl-redirect", true),
            force_ssl_redirect: boolean("force-ssl-redirect", false),
            redirect_status: text("http-redirect-code").and_then(|text| text.parse().ok()).unwrap_or(308),
            crosses_namespaces: boolean("allow-cross-namespace-resources", false),
            believes_hops: boolean("use-forwarded-headers", false),
            except: value::list(except),
        }
    }

    /// Whether a path is not redirected to TLS.
    pub(super) fn is_exempt(&self, path: &str) -> bool {
        self.except.iter().any(|begin| path.starts_with(begin.as_str()))
    }
}

/// The annotation that sets for one Ingress the setting of a key.
fn annotation(key: &str) -> &str {
    let of_auth = key.strip_prefix("global-").filter(|rest| rest.starts_with("auth-"));
    of_auth.or_else(|| key.strip_prefix("forebay-")).unwrap_or(key)
}
