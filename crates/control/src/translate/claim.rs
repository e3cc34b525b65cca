//! A claim: what one object says about one host, whatever the kind of the object.
//!
//! Each kind of object has a translator that makes claims; `hosts` merges the claims of a host. A route depends on both its object
//! and its host: a [`DraftRoute`] is what the object asks for, and it becomes a route once the settings of the host are decided.

use std::path::Path;
use std::sync::Arc;

use model::overload::Priority;
use model::template::Template;
use model::{
    Abuse, AddressSet, Alias, BasicAuth, Block, CachePolicy, CanaryRules, Certificate, CertificateInfo,
    CipherSuite, ClientAuth, ClientCertificate, ClientLimits, ConnectionHeader, Cors, ExternalCheck, Files,
    HostName, MirrorCopy, Networks, Overload, PathMatch, RequestFilter, RequestQuota, RetryPolicy, Satisfy,
    SlashRedirect, Timeouts, TlsRedirect, Tracing, Transfer, UpstreamHead, UpstreamTls,
};

use super::snippet::OfHost;
use super::upstream_protocol::UpstreamDraft;
use super::value::Parsed;
use crate::names::{NsName, ObjectRef, PortRef};
use crate::problem::{Place, Problem};

/// What one object says about one host.
pub(super) struct Claim {
    /// The object, and its place.
    pub(super) place: Place,
    /// The names that its kind uses for settings of a whole host.
    pub(super) words: &'static Words,
    /// The object does not name the host: it is a default backend for all hosts.
    pub(super) is_catch_all: bool,
    /// The routes that the object declares, in order; the problem instead of a route that is left out.
    pub(super) routes: Vec<Result<DraftRoute, Box<Problem>>>,
    /// The route for requests that no other route of the host matches.
    pub(super) rest: DraftRoute,
    /// How the host is served over TLS.
    pub(super) tls: TlsClaim,
    /// Further names of the host.
    pub(super) aliases: Vec<Alias>,
    /// Where clients of the host are sent that ask for `/`.
    pub(super) app_root: Option<Template>,
    /// The host's name with `www.`, or without, leads to the host, with this status.
    pub(super) www_redirect: Option<u16>,
    /// Why all routes of the host have to be closed: access restrictions that cannot be enforced.
    pub(super) denials: Vec<String>,
    /// What a snippet says of the host.
    pub(super) script: Option<Arc<OfHost>>,
}

/// The names that a kind of object uses for settings of a whole host, for messages.
pub(super) struct Words {
    pub(super) client_auth: &'static str,
    pub(super) ciphers: &'static str,
    pub(super) passthrough: &'static str,
    pub(super) aliases: &'static str,
    pub(super) app_root: &'static str,
    pub(super) www_redirect: &'static str,
    pub(super) denials: &'static str,
    pub(super) script: &'static str,
}

/// What an object asks of TLS at a host.
#[derive(Default)]
pub(super) struct TlsClaim {
    /// The certificate; none if the object does not ask for TLS.
    pub(super) certificate: Option<CertificateClaim>,
    /// The verification of client certificates, or why the host has to be closed.
    pub(super) client_auth: Option<Parsed<ClientAuthPolicy>>,
    /// TLS 1.2 suites to offer; none for those of the settings.
    pub(super) ciphers: Option<Vec<CipherSuite>>,
    pub(super) prefer_server_ciphers: Option<bool>,
    /// Connections are passed to an endpoint without being decrypted.
    pub(super) passthrough: Option<PassthroughClaim>,
    /// TLS towards endpoints, for routes of the host that do not configure it themselves.
    pub(super) upstream: Option<Arc<UpstreamTls>>,
}

/// The certificate that an object wants a host to show.
#[derive(Default)]
pub(super) struct CertificateClaim {
    /// It is for the host's name with `www.` too, or without.
    pub(super) covers_www: bool,
    /// The names that it is for.
    pub(super) names: Vec<HostName>,
    /// Name of the Secret, as the object writes it; none for the default certificate.
    pub(super) secret: Option<String>,
    /// The certificate in the Secret, whether it can be used or not.
    pub(super) found: Option<Arc<Certificate>>,
    /// The certificate, if it can be used; none for the default certificate.
    pub(super) shown: Option<Arc<Certificate>>,
    /// Its description for metrics.
    pub(super) told: Option<HostCertificate>,
    /// Why it cannot be used, or a remark.
    pub(super) problem: Option<Problem>,
}

/// A certificate of a host. It is listed even if it cannot be used, since those who monitor the expiry of certificates have to see
/// the expired ones too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCertificate {
    /// The host; `_` for the default certificate.
    pub host: String,
    /// The description.
    pub info: CertificateInfo,
}

/// The Service that a host's connections are passed to without being decrypted.
#[derive(Default)]
pub(super) struct PassthroughClaim {
    /// The backends; the first counts.
    pub(super) backends: Vec<(NamedPort, Place)>,
    /// Problems of rules that cannot be passed through.
    pub(super) problems: Vec<Problem>,
}

/// How the clients of a host are verified, and what happens to those without a good certificate.
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

/// A route as its object asks for it, before the settings of its host are decided.
#[derive(Clone, Debug)]
pub(super) struct DraftRoute {
    pub(super) path: PathMatch,
    /// The backend; none for the default backend in the options.
    pub(super) backend: Option<NamedPort>,
    /// The value that names the backend.
    pub(super) place: Place,
    pub(super) timeouts: Timeouts,
    pub(super) retry: RetryPolicy,
    /// Longest request body, in bytes; none for no limit.
    pub(super) body_bytes_max: Option<u64>,
    pub(super) connection_header: Option<ConnectionHeader>,
    pub(super) sets_affinity_cookie: bool,
    pub(super) upstream: UpstreamDraft,
    /// Its path is a regular expression, and so are all paths of its host.
    pub(super) uses_regex: bool,
    pub(super) rewrite: Option<RewriteDraft>,
    /// Headers to endpoints that differ from the default.
    pub(super) head: UpstreamHead,
    /// How requests and responses are passed on; where copies go is known with their cluster.
    pub(super) transfer: Transfer,
    pub(super) cache: Option<Arc<CachePolicy>>,
    pub(super) overload: Option<Arc<Overload>>,
    pub(super) priority: Priority,
    pub(super) mirror: Option<MirrorDraft>,
    /// Files that answer in place of the backend; what is left out of paths is decided with the path.
    pub(super) files: Option<Files>,
    pub(super) slash_redirect: SlashRedirect,
    /// Filters that depend on nothing else of the host.
    pub(super) filters: Vec<RequestFilter>,
    pub(super) tls_redirect: Option<TlsRedirectDraft>,
    /// Requests without TLS are served even if the host requires client certificates.
    pub(super) passes_in_clear: bool,
    /// Why the route has to be closed: access restrictions that cannot be enforced.
    pub(super) denials: Vec<String>,
    /// Who may use the route.
    pub(super) access: AccessDraft,
    pub(super) cors: Option<Arc<Cors>>,
    pub(super) script: ScriptDraft,
    /// Headers of responses.
    pub(super) custom_headers: Option<Arc<[(String, String)]>>,
    pub(super) abuse: Abuse,
    pub(super) access_log: bool,
    pub(super) tracing: Option<Arc<Tracing>>,
    /// What takes a part of its requests.
    pub(super) canary: Option<CanaryDraft>,
    pub(super) errors: ErrorsDraft,
}

/// What an object says about one host that takes only a part of other objects' requests there.
pub(super) struct CanaryClaim {
    /// The object, and its place.
    pub(super) place: Place,
    /// Its object may take requests of other namespaces' objects.
    pub(super) crosses_namespaces: bool,
    /// The paths of which it takes a part; the problem instead of one that is left out.
    pub(super) paths: Vec<Result<(PathMatch, CanaryDraft), Box<Problem>>>,
}

/// What takes a part of a route's requests.
#[derive(Clone, Debug)]
pub(super) struct CanaryDraft {
    pub(super) backend: NamedPort,
    /// The value that names the backend.
    pub(super) place: Place,
    pub(super) rules: CanaryRules,
    /// It keeps clients by the mainline's affinity.
    pub(super) is_sticky: bool,
}

/// What becomes of a route's errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorsDraft {
    /// Statuses whose responses are replaced.
    pub(super) statuses: Vec<u16>,
    /// The object has statuses of its own, which its own default backend answers.
    pub(super) has_own_statuses: bool,
    pub(super) spares_endpoints: bool,
    /// A Service that exists.
    pub(super) default_backend: Option<NsName>,
}

/// What snippets say.
#[derive(Clone, Debug, Default)]
pub(super) struct ScriptDraft {
    /// Of the location.
    pub(super) location: Option<Arc<Block>>,
    /// Of all hosts.
    pub(super) global: Option<Arc<OfHost>>,
}

/// A target in place of the request's path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RewriteDraft {
    /// The target as written. A path that is equal to it is not rewritten.
    pub(super) text: String,
    pub(super) target: Template,
    /// It is an absolute URL, and so a redirect.
    pub(super) redirects: bool,
}

/// Who may use a route, as its object says.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessDraft {
    pub(super) limits: Option<ClientLimits>,
    pub(super) quota: Option<RequestQuota>,
    pub(super) networks: Option<Networks>,
    /// Clients that are refused where nothing else is said of addresses.
    pub(super) blocked: Option<Arc<AddressSet>>,
    pub(super) basic: Option<BasicAuth>,
    pub(super) external: Option<ExternalDraft>,
    /// Beginnings of the paths for which nobody is asked who he is, where the draft is for several paths.
    pub(super) spared: Vec<String>,
    pub(super) satisfy: Satisfy,
}

/// An auth service as an object asks for it.
#[derive(Clone, Debug)]
pub(super) struct ExternalDraft {
    pub(super) place: AuthPlace,
    pub(super) check: Arc<ExternalCheck>,
}

/// Where an auth service is.
#[derive(Clone, Debug)]
pub(super) enum AuthPlace {
    /// Where the URL says.
    Known(AuthService),
    /// The URL leaves it to the host of the route.
    OfHost(AuthOfHost),
}

/// The place of an auth service whose URL has variables in its host.
#[derive(Clone, Debug)]
pub(super) struct AuthOfHost {
    pub(super) host: Template,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    /// The path that is asked for, where no variable is in it.
    pub(super) path: Option<String>,
}

/// Where copies of requests go, and how they are made.
#[derive(Clone, Debug)]
pub(super) struct MirrorDraft {
    pub(super) service: AuthService,
    pub(super) copy: Arc<MirrorCopy>,
}

/// Where a service is that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuthService {
    /// A name in lower case, or an address.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
}

/// A redirect to TLS, whose condition is decided with the host.
#[derive(Clone, Debug)]
pub(super) struct TlsRedirectDraft {
    /// Redirect even if the host has no certificate.
    pub(super) always: bool,
    /// The redirect; [`believes_hops`](TlsRedirect::believes_hops) is decided with the host.
    pub(super) redirect: TlsRedirect,
}

/// The object that declares a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOrigin {
    /// The object.
    pub object: ObjectRef,
    /// The file; none if the object is not from a file.
    pub file: Option<Arc<Path>>,
    /// The line of the value that declares the route, from 1.
    pub line: Option<u32>,
    /// What policies and the rule of a route of the Gateway API say for it; none if they say nothing.
    pub settings: Option<Arc<[RouteSetting]>>,
}

/// A field of a policy, or of a rule of the Gateway API, that holds for a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSetting {
    /// The annotation that the field of a policy stands for, without a prefix; or the field of a rule, which is one of [`FIELDS`](super::FIELDS).
    pub annotation: &'static str,
    /// Its path: `cache.defaultTtl`.
    pub field: String,
    /// The value, as the annotation would have it.
    pub value: String,
    /// The policy or route.
    pub object: ObjectRef,
    /// The file; none if the object is not from a file.
    pub file: Option<Arc<Path>>,
    /// The line of the field, from 1.
    pub line: Option<u32>,
}

impl AuthService {
    /// Whether a text may be the name of a service's host, or its address.
    pub(super) fn is_host(text: &str) -> bool {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !text.is_empty() && !text.contains("..") && text.bytes().all(is_name)
    }

    /// The Service, if the host is the name that the cluster's DNS has for one.
    pub(super) fn service(&self) -> Option<NsName> {
        let name = self.host.trim_end_matches('.');
        let name = name.strip_suffix(".cluster.local").unwrap_or(name).strip_suffix(".svc")?;
        let (service, namespace) = name.split_once('.')?;
        (!namespace.contains('.') && !namespace.is_empty()).then(|| NsName::new(namespace, service))
    }
}

impl DraftRoute {
    /// A route with the default settings.
    pub(super) fn new(path: PathMatch, backend: Option<NamedPort>, place: Place) -> Self {
        Self {
            path,
            backend,
            place,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            body_bytes_max: None,
            connection_header: None,
            sets_affinity_cookie: false,
            upstream: UpstreamDraft::default(),
            uses_regex: false,
            rewrite: None,
            head: UpstreamHead::default(),
            transfer: Transfer::default(),
            cache: None,
            overload: None,
            priority: Priority::default(),
            mirror: None,
            files: None,
            slash_redirect: SlashRedirect::default(),
            filters: Vec::new(),
            tls_redirect: None,
            passes_in_clear: false,
            denials: Vec::new(),
            access: AccessDraft::default(),
            cors: None,
            script: ScriptDraft::default(),
            custom_headers: None,
            abuse: Abuse::default(),
            access_log: true,
            tracing: None,
            canary: None,
            errors: ErrorsDraft::default(),
        }
    }
}

/// The name of a host with `www.`, or without where it begins with that.
pub(super) fn www(host: &HostName) -> Option<String> {
    let HostName::Exact(name) = host else { return None };
    Some(name.strip_prefix("www.").map_or_else(|| format!("www.{name}"), str::to_owned))
}

impl From<Place> for RouteOrigin {
    fn from(Place { object, file, line, .. }: Place) -> Self {
        Self { object, file, line, settings: None }
    }
}
