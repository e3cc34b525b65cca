//! The protocol towards endpoints: a version of HTTP or `FastCGI`, and TLS.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::{AppProtocol, Encryption, UpstreamTls};

use crate::objects::ServicePort;
use crate::problem::Problem;

/// The protocol towards the endpoints of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UpstreamProtocol {
    pub(super) version: AppProtocol,
    pub(super) encryption: Encryption,
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
        let Some(protocol) = self.protocol else {
            let speaks_http2 =
                port.and_then(|port| port.app_protocol.as_deref()) == Some("kubernetes.io/h2c");
            let version = if speaks_http2 { AppProtocol::Http2 } else { AppProtocol::Http1 };
            return UpstreamProtocol { version, encryption: Encryption::Never };
        };
        if !protocol.encrypts() {
            return UpstreamProtocol { version: protocol.version(), encryption: Encryption::Never };
        }
        let tls = self.own_tls.as_ref().or(of_host).cloned();
        let tls =
            tls.unwrap_or_else(|| Arc::new(UpstreamTls { name: NAME.to_owned(), ..UpstreamTls::default() }));
        let encryption = match protocol {
            Protocol::AutoHttp => Encryption::AsClient(tls),
            _ => Encryption::Always(tls),
        };
        UpstreamProtocol { version: protocol.version(), encryption }
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
