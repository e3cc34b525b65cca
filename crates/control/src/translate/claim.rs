//! What one object says about one host, whatever its kind.
//!
//! Each kind of object has a translator that makes claims; `hosts` merges the claims of a host. What a route is depends on both: a
//! [`DraftRoute`] is what its object asks for, and becomes a route once it is known what holds for the host as a whole.

use std::path::Path;
use std::sync::Arc;

use model::{
    Certificate, CertificateInfo, CipherSuite, ClientAuth, ClientCertificate, ConnectionHeader, PathMatch,
    RetryPolicy, Timeouts, TlsRedirect, UpstreamTls,
};

use super::upstream_protocol::UpstreamDraft;
use super::value::Parsed;
use crate::names::{NsName, ObjectRef, PortRef};
use crate::problem::{Place, Problem};

/// What one object says about one host.
pub(super) struct Claim {
    /// The object.
    pub(super) place: Place,
    /// What its kind calls the things that hold for a host as a whole.
    pub(super) words: &'static Words,
    /// The object does not name the host: it is the default backend of all hosts.
    pub(super) is_catch_all: bool,
    /// The routes that it declares, in order, or why one is left out.
    pub(super) routes: Vec<Result<DraftRoute, Box<Problem>>>,
    /// The route for requests that no route of the host takes.
    pub(super) rest: DraftRoute,
    /// How the host is served over TLS.
    pub(super) tls: TlsClaim,
    /// Why all routes of the host have to be closed: guards that cannot be enforced.
    pub(super) denials: Vec<String>,
}

/// What a kind of object calls the things that hold for a host as a whole. Problems name them.
pub(super) struct Words {
    pub(super) client_auth: &'static str,
    pub(super) ciphers: &'static str,
    pub(super) passthrough: &'static str,
    pub(super) denials: &'static str,
}

/// How an object wants a host to be served over TLS.
#[derive(Default)]
pub(super) struct TlsClaim {
    /// What is shown; none where the object does not say that the host is served over TLS.
    pub(super) certificate: Option<CertificateClaim>,
    /// What is asked of clients, or why nobody may come in.
    pub(super) client_auth: Option<Parsed<ClientAuthPolicy>>,
    /// TLS 1.2 suites that are offered.
    pub(super) ciphers: Option<Vec<CipherSuite>>,
    pub(super) prefer_server_ciphers: Option<bool>,
    /// Connections are passed on unopened.
    pub(super) passthrough: Option<PassthroughClaim>,
    /// How TLS is spoken with endpoints by routes of the host that say nothing of it themselves.
    pub(super) upstream: Option<Arc<UpstreamTls>>,
}

/// The certificate that an object wants a host to show.
pub(super) struct CertificateClaim {
    /// Name of the Secret, as the object has it; none for the default certificate.
    pub(super) secret: Option<String>,
    /// The certificate in it, be it of use or not.
    pub(super) found: Option<Arc<Certificate>>,
    /// The same where it can be shown; none for the default certificate.
    pub(super) shown: Option<Arc<Certificate>>,
    /// What is told of it in metrics.
    pub(super) told: Option<HostCertificate>,
    /// What is wrong with showing it.
    pub(super) problem: Option<Problem>,
}

/// A certificate that a host shows, or would show if it could be used: who watches for certificates that end wants to know
/// of those that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCertificate {
    /// The host; `_` for those without a certificate of their own.
    pub host: String,
    /// What there is to tell.
    pub info: CertificateInfo,
}

/// Where connections of a host are passed on to.
#[derive(Default)]
pub(super) struct PassthroughClaim {
    /// Of several, the first counts.
    pub(super) backends: Vec<(NamedPort, Place)>,
    /// Why there is none for some rule.
    pub(super) problems: Vec<Problem>,
}

/// What is asked of the clients of a host, and what becomes of those that do not comply.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientAuthPolicy {
    pub(super) auth: ClientAuth,
    pub(super) filter: ClientCertificate,
}

/// A port of a Service, as a backend names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPort {
    pub(super) service: NsName,
    pub(super) port: PortRef,
}

/// A route as its object asks for it, before it is known what holds for its host.
#[derive(Clone, Debug)]
pub(super) struct DraftRoute {
    pub(super) path: PathMatch,
    /// Where requests go; none for the default backend that the options name.
    pub(super) backend: Option<NamedPort>,
    /// The value that says so.
    pub(super) place: Place,
    pub(super) timeouts: Timeouts,
    pub(super) retry: RetryPolicy,
    /// Longest request body; none for no limit.
    pub(super) body_bytes_max: Option<u64>,
    pub(super) connection_header: Option<ConnectionHeader>,
    pub(super) upstream: UpstreamDraft,
    pub(super) tls_redirect: Option<TlsRedirectDraft>,
    /// Requests in clear are meant to be served although the host asks clients for certificates.
    pub(super) passes_in_clear: bool,
    /// Why requests must not be let through: guards that cannot be enforced.
    pub(super) denials: Vec<String>,
    pub(super) access_log: bool,
}

/// A redirect to TLS, if its condition holds.
#[derive(Clone, Debug)]
pub(super) struct TlsRedirectDraft {
    /// Also where the host has no certificate.
    pub(super) always: bool,
    /// [`force`](TlsRedirect::force) is still to be decided.
    pub(super) redirect: TlsRedirect,
}

/// Who asked for a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOrigin {
    /// The object.
    pub object: ObjectRef,
    /// The file that it is in.
    pub file: Option<Arc<Path>>,
    /// The line that says so.
    pub line: Option<u32>,
}

impl DraftRoute {
    /// A route that asks for nothing but the defaults of all routes.
    pub(super) fn new(path: PathMatch, backend: Option<NamedPort>, place: Place) -> Self {
        Self {
            path,
            backend,
            place,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            body_bytes_max: None,
            connection_header: None,
            upstream: UpstreamDraft::default(),
            tls_redirect: None,
            passes_in_clear: false,
            denials: Vec::new(),
            access_log: true,
        }
    }
}

impl From<Place> for RouteOrigin {
    fn from(Place { object, file, line, .. }: Place) -> Self {
        Self { object, file, line }
    }
}
