//! The protocol towards endpoints: a version of HTTP or `FastCGI`, and TLS.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::{AppProtocol, Encryption, HealthCheck, HealthProbe, RetryConstraint, UpstreamTls};

use crate::objects::ServicePort;
use crate::problem::{Problem, Reason, Severity, SourceLocation};

/// The protocol towards the endpoints of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UpstreamProtocol {
    pub(super) version: AppProtocol,
    pub(super) encryption: Encryption,
    /// The active health check of the endpoints.
    pub(super) health_check: Option<Arc<HealthCheck>>,
    /// The bound of the Service's retries.
    pub(super) retry_constraint: Option<Arc<RetryConstraint>>,
}

/// The values of `backend-protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Https,
    /// The protocol of the client: HTTP or HTTPS.
    AutoHttp,
    Grpc,
    Grpcs,
    Fcgi,
}

/// The name of endpoints without a `proxy-ssl-name`: nginx uses it for all upstreams of ingress-nginx.
pub(super) const NAME: &str = "upstream_balancer";

/// The settings of a route for connections to its endpoints, before its Service is known.
#[derive(Clone, Debug, Default)]
pub(super) struct UpstreamDraft {
    /// The protocol; none to use the `appProtocol` of the Service's port.
    pub(super) protocol: Option<Protocol>,
    /// TLS settings from the Secret that the route's object names.
    pub(super) own_tls: Option<Arc<UpstreamTls>>,
    /// A notice that endpoints are not verified, for a route that uses TLS.
    pub(super) unverified: Option<Problem>,
    /// The active health check of the endpoints.
    pub(super) health: Option<HealthDraft>,
    /// The bound of the Service's retries.
    pub(super) retry_constraint: Option<Arc<RetryConstraint>>,
}

/// The health check that a route requests for its endpoints.
#[derive(Clone, Debug)]
pub(super) struct HealthDraft {
    pub(super) check: Arc<HealthCheck>,
    /// The route, for problems.
    pub(super) place: SourceLocation,
}

impl Protocol {
    /// Whether the protocol uses TLS, at least for some clients.
    pub(super) fn encrypts(self) -> bool {
        matches!(self, Self::Https | Self::AutoHttp | Self::Grpcs)
    }

    fn version(self) -> AppProtocol {
        match self {
            Self::Http | Self::Https | Self::AutoHttp => AppProtocol::Http1,
            Self::Grpc | Self::Grpcs => AppProtocol::Http2,
            Self::Fcgi => AppProtocol::FastCgi,
        }
    }
}

impl UpstreamDraft {
    /// The protocol towards a Service's port. `of_host` are the TLS settings for routes of the host without
    /// settings of their own.
    pub(super) fn resolve(
        &self,
        port: Option<&ServicePort>,
        of_host: Option<&Arc<UpstreamTls>>,
    ) -> UpstreamProtocol {
        let (version, encryption) = self.version_and_encryption(port, of_host);
        let health_check = self.health.as_ref().filter(|health| health.is_fit(version));
        UpstreamProtocol {
            version,
            encryption,
            health_check: health_check.map(|it| Arc::clone(&it.check)),
            retry_constraint: self.retry_constraint.clone(),
        }
    }

    /// The problem of a health check that endpoints with this protocol cannot answer.
    pub(super) fn health_problem(&self, protocol: &UpstreamProtocol) -> Option<Problem> {
        let health = self.health.as_ref().filter(|health| !health.is_fit(protocol.version))?;
        let message = "health-check: grpc needs endpoints that speak HTTP/2 (backend-protocol GRPC or GRPCS, or \
                       appProtocol kubernetes.io/h2c); they are not checked";
        let problem = Problem::in_place(Severity::Error, &health.place, message.to_owned());
        Some(problem.because(Reason::Invalid))
    }

    fn version_and_encryption(
        &self,
        port: Option<&ServicePort>,
        of_host: Option<&Arc<UpstreamTls>>,
    ) -> (AppProtocol, Encryption) {
        let Some(protocol) = self.protocol else {
            let speaks_http2 =
                port.and_then(|port| port.app_protocol.as_deref()) == Some("kubernetes.io/h2c");
            let version = if speaks_http2 { AppProtocol::Http2 } else { AppProtocol::Http1 };
            return (version, Encryption::Never);
        };
        if !protocol.encrypts() {
            return (protocol.version(), Encryption::Never);
        }
        let tls = self.own_tls.as_ref().or(of_host).cloned();
        let tls =
            tls.unwrap_or_else(|| Arc::new(UpstreamTls { name: NAME.to_owned(), ..UpstreamTls::default() }));
        let encryption = match protocol {
            Protocol::AutoHttp => Encryption::AsClient(tls),
            _ => Encryption::Always(tls),
        };
        (protocol.version(), encryption)
    }
}

impl HealthDraft {
    fn is_fit(&self, version: AppProtocol) -> bool {
        version == AppProtocol::Http2 || !matches!(self.check.probe, HealthProbe::Grpc { .. })
    }
}

impl UpstreamProtocol {
    /// Whether endpoints may present any certificate.
    pub(super) fn is_unverified(&self) -> bool {
        match &self.encryption {
            Encryption::Never => false,
            Encryption::Always(tls) | Encryption::AsClient(tls) => !tls.verify,
        }
    }
}

impl Hash for UpstreamProtocol {
    /// The hash covers the name only, because TLS settings with the same name seldom differ.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let name = match &self.encryption {
            Encryption::Never => None,
            Encryption::Always(tls) | Encryption::AsClient(tls) => Some(&tls.name),
        };
        (self.version, name).hash(state);
    }
}
