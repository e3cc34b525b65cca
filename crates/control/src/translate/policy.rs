//! How requests to a location are treated, as `ConfigMap` and annotations have it.

use std::sync::Arc;

use model::{
    Balance, CipherSuite, ClientCertificate, ConnectionHeader, Filter, Forward, RetryPolicy, Timeouts,
    TlsRedirect, UpstreamTls, VerifyClient,
};

use super::backend::Backend;
use super::client_auth::{ClientPolicy, Demand};
use super::value::Parsed;

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
    /// What is asked of clients.
    pub(super) client: ClientPolicy,
    /// TLS 1.2 suites that hosts offer.
    pub(super) ciphers: Option<Vec<CipherSuite>>,
    pub(super) prefer_server_ciphers: Option<bool>,
    /// Pass TLS on unopened.
    pub(super) passthrough: bool,
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
            client: ClientPolicy::default(),
            ciphers: None,
            prefer_server_ciphers: None,
            passthrough: false,
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

    /// The steps before that, for a path of an Ingress at a host.
    pub(super) fn filters(
        &self,
        host: &HostPolicy,
        standing: &Standing,
        path: &str,
        https_port: u16,
    ) -> Vec<Filter> {
        let has_tls = host.has_tls || standing.has_tls;
        let redirects = self.force_ssl_redirect || (self.ssl_redirect && has_tls);
        let redirect = redirects.then(|| {
            Filter::TlsRedirect(TlsRedirect {
                status: self.redirect_status,
                // Only a handshake with us shows us a certificate, whatever a hop before us says of its own.
                force: self.force_ssl_redirect && !host.requires_certificate(),
                except: self.redirect_except.clone(),
                keep_trailing_slash: self.keep_trailing_slash,
                port: self.port_in_redirects.then_some(https_port),
            })
        });
        let client = match (&standing.closed, &host.demand) {
            (Some(why), _) | (None, Some(Err(why))) => Some(Filter::Forbidden { reason: why.clone() }),
            (None, Some(Ok(demand))) => {
                let passes_in_clear = !standing.demands && self.passes_in_clear(path);
                let filter = ClientCertificate { passes_in_clear, ..demand.filter.clone() };
                Some(Filter::ClientCertificate(filter))
            }
            (None, None) => None,
        };
        let unavailable = unavailable(self.denials.iter().chain(&host.denials).chain(&self.host_denials));
        redirect.into_iter().chain(client).chain(unavailable).collect()
    }

    /// Whether a rule's path is all within the locations that are not redirected to TLS: certificate authorities look at their
    /// challenges in clear, and have no certificate to show. That everything is in clear is not meant so.
    fn passes_in_clear(&self, path: &str) -> bool {
        self.redirect_except.iter().any(|prefix| prefix != "/" && path.starts_with(prefix.as_str()))
    }
}

/// What holds for all locations of a host.
#[derive(Debug, Default)]
pub(super) struct HostPolicy {
    /// Some `tls:` entry is for it, be its certificate good or bad.
    pub(super) has_tls: bool,
    /// What closes all its locations.
    pub(super) denials: Vec<String>,
    /// What is asked of clients, or why nobody may come in.
    pub(super) demand: Option<Parsed<Demand>>,
    /// How TLS is spoken with endpoints by locations that do not say so themselves.
    pub(super) upstream_tls: Option<Arc<UpstreamTls>>,
}

/// How an Ingress stands at a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// Its locations redirect to TLS, although no `tls:` entry of the host's owner does.
    pub(super) has_tls: bool,
    /// Why its locations are closed: it is not the owner, and what it asks of clients cannot be enforced.
    pub(super) closed: Option<String>,
    /// It asks something of clients itself.
    pub(super) demands: bool,
}

impl HostPolicy {
    /// Whether clients come in only with a certificate.
    fn requires_certificate(&self) -> bool {
        self.demand
            .as_ref()
            .is_some_and(|demand| demand.as_ref().is_ok_and(|demand| demand.auth.verify == VerifyClient::On))
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
