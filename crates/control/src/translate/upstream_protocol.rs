//! What is spoken with endpoints: the version of HTTP, and whether over TLS.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::{Encryption, HttpVersion, UpstreamTls};

use crate::objects::ServicePort;
use crate::problem::Problem;

/// What is spoken with the endpoints of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UpstreamProtocol {
    pub(super) version: HttpVersion,
    pub(super) encryption: Encryption,
}

/// The protocols that an object can ask for, as `backend-protocol` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Https,
    /// As the client speaks.
    AutoHttp,
    Grpc,
    Grpcs,
}

/// What a route asks of the connections to its endpoints, before it is known which Service those belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct UpstreamDraft {
    /// None to go by what the Service says of its port.
    pub(super) protocol: Option<Protocol>,
    /// How TLS is spoken if nobody says more. An empty name stands for that of the Service.
    pub(super) usual_tls: UpstreamTls,
    /// The same by a Secret that the route's object names.
    pub(super) own_tls: Option<Arc<UpstreamTls>>,
    /// What there is to say of endpoints whose certificates are not verified.
    pub(super) unverified: Option<Problem>,
}

impl Protocol {
    /// Whether it is spoken over TLS, at least now and then.
    pub(super) fn encrypts(self) -> bool {
        matches!(self, Self::Https | Self::AutoHttp | Self::Grpcs)
    }

    fn version(self) -> HttpVersion {
        match self {
            Self::Http | Self::Https | Self::AutoHttp => HttpVersion::Http1,
            Self::Grpc | Self::Grpcs => HttpVersion::Http2,
        }
    }
}

impl UpstreamDraft {
    /// What is spoken with the endpoints of a Service's port. `own_name` is the name that their certificates have if nobody says
    /// another, `of_host` how TLS is spoken by the routes of the host that say nothing of it themselves.
    pub(super) fn resolve(
        &self,
        port: Option<&ServicePort>,
        own_name: impl FnOnce() -> String,
        of_host: Option<&Arc<UpstreamTls>>,
    ) -> UpstreamProtocol {
        let Some(protocol) = self.protocol else {
            let speaks_http2 =
                port.and_then(|port| port.app_protocol.as_deref()) == Some("kubernetes.io/h2c");
            let version = if speaks_http2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
            return UpstreamProtocol { version, encryption: Encryption::Never };
        };
        if !protocol.encrypts() {
            return UpstreamProtocol { version: protocol.version(), encryption: Encryption::Never };
        }
        let mut tls = match self.own_tls.as_ref().or(of_host) {
            Some(tls) => UpstreamTls::clone(tls),
            None => self.usual_tls.clone(),
        };
        if tls.name.is_empty() {
            tls.name = own_name();
        }
        let tls = Arc::new(tls);
        let encryption = match protocol {
            Protocol::AutoHttp => Encryption::AsClient(tls),
            _ => Encryption::Always(tls),
        };
        UpstreamProtocol { version: protocol.version(), encryption }
    }
}

impl UpstreamProtocol {
    /// Whether endpoints may show any certificate.
    pub(super) fn is_unverified(&self) -> bool {
        match &self.encryption {
            Encryption::Never => false,
            Encryption::Always(tls) | Encryption::AsClient(tls) => !tls.verify,
        }
    }
}

impl Hash for UpstreamProtocol {
    /// What else there is of TLS seldom differs where the name does not.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let name = match &self.encryption {
            Encryption::Never => None,
            Encryption::Always(tls) | Encryption::AsClient(tls) => Some(&tls.name),
        };
        (self.version, name).hash(state);
    }
}
