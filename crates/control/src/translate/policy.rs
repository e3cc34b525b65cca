//! How requests to a location are treated, as `ConfigMap` and annotations have it.

use super::backend::Backend;
use model::{Balance, ConnectionHeader, Filter, Forward, RetryPolicy, Timeouts, TlsRedirect};

/// The defaults are ingress-nginx's. The `ConfigMap` changes them, an Ingress' annotations change its copy.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an annotation that is true or false")]
pub(super) struct Policy {
    pub(super) timeouts: Timeouts,
    pub(super) retry: RetryPolicy,
    pub(super) body_bytes_max: Option<u64>,
    pub(super) connection_header: Option<ConnectionHeader>,
    pub(super) access_log: bool,
    pub(super) balance: Balance,
    /// Send requests to the Service's virtual address.
    pub(super) service_upstream: bool,
    /// Redirect to TLS where the host has a certificate.
    pub(super) ssl_redirect: bool,
    /// Redirect to TLS in any case.
    pub(super) force_ssl_redirect: bool,
    pub(super) redirect_status: u16,
    /// Path prefixes that are not redirected to TLS.
    pub(super) redirect_except: Vec<String>,
    pub(super) keep_trailing_slash: bool,
    pub(super) port_in_redirects: bool,
    /// Is an alternative to another Ingress.
    pub(super) is_canary: bool,
    /// Why requests must not be let through: guards that cannot be enforced.
    pub(super) denials: Vec<String>,
    /// The same, for all locations of the hosts that the Ingress names.
    pub(super) host_denials: Vec<String>,
    /// What is spoken with endpoints.
    pub(super) backend: Backend,
    /// Annotations may name Secrets of other namespaces.
    pub(super) crosses_namespaces: bool,
    /// What there is to say about a value that was taken in part, until it is said.
    pub(super) remark: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            body_bytes_max: Some(1 << 20),
            connection_header: None,
            access_log: true,
            balance: Balance::RoundRobin,
            service_upstream: false,
            ssl_redirect: true,
            force_ssl_redirect: false,
            redirect_status: 308,
            redirect_except: vec!["/.well-known/acme-challenge".to_owned()],
            keep_trailing_slash: false,
            port_in_redirects: false,
            is_canary: false,
            denials: Vec::new(),
            host_denials: Vec::new(),
            backend: Backend::default(),
            crosses_namespaces: false,
            remark: None,
        }
    }
}

impl Policy {
    /// How requests are passed on to a cluster.
    pub(super) fn forward(&self, cluster: model::ClusterId) -> Forward {
        Forward {
            cluster,
            timeouts: self.timeouts,
            retry: self.retry.clone(),
            body_bytes_max: self.body_bytes_max,
            connection_header: self.connection_header,
        }
    }

    /// The steps before that, at a host with or without a certificate and with its own denials.
    pub(super) fn filters(
        &self,
        host_has_tls: bool,
        host_denials: &[String],
        https_port: u16,
    ) -> Vec<Filter> {
        let redirects = self.force_ssl_redirect || (self.ssl_redirect && host_has_tls);
        let redirect = redirects.then(|| {
            Filter::TlsRedirect(TlsRedirect {
                status: self.redirect_status,
                force: self.force_ssl_redirect,
                except: self.redirect_except.clone(),
                keep_trailing_slash: self.keep_trailing_slash,
                port: self.port_in_redirects.then_some(https_port),
            })
        });
        redirect.into_iter().chain(unavailable(self.denials.iter().chain(host_denials))).collect()
    }
}

fn unavailable<'a>(denials: impl Iterator<Item = &'a String>) -> Option<Filter> {
    let mut reasons: Vec<&str> = Vec::new();
    for denial in denials {
        if !reasons.contains(&denial.as_str()) {
            reasons.push(denial);
        }
    }
    (!reasons.is_empty()).then(|| Filter::Unavailable { reason: reasons.join("; ") })
}
