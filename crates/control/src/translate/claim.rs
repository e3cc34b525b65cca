//! A claim: the statement of one object about one host, whatever the kind of the object.
//!
//! Each kind of object has a translator that makes claims; `hosts` merges the claims of a host. A route
//! depends on both its object and its host: a [`DraftRoute`] has the object's settings, and becomes a route
//! once the settings of the host are decided.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::overload::Priority;
use model::template::Template;
use model::{
    Abuse, AddressSet, Alias, ApiKeys, AppProtocol, AuthzCheck, BasicAuth, Block, CachePolicy, CanaryRules,
    Certificate, CertificateInfo, CipherSuite, ClientAuth, ClientCertificate, ClientLimits, ClientPlaces,
    ConnectionHeader, Cors, DirectResponse, ExternalCheck, Files, Firewall, HostName, Jwt, Maintenance,
    MirrorCopy, Networks, Oidc, Overload, PathMatch, ProcessorPolicy, RequestFilter, RequestQuota,
    RetryPolicy, Rollout, Satisfy, Share, SlashRedirect, Timeouts, TlsRedirect, Tracing, Transfer,
    UpstreamHead, UpstreamTls,
};

use super::snippet::{OfHost, OwnErrors, PassDraft};
use super::upstream_protocol::UpstreamDraft;
use super::value::Parsed;
use crate::acme::Answer;
use crate::names::{NsName, ObjectRef, PortRef};
use crate::problem::{Problem, SourceLocation};

/// The settings and routes of one object for one host.
pub(super) struct Claim {
    /// The object, with its file and line.
    pub(super) place: SourceLocation,
    /// The names of host settings in the object's kind.
    pub(super) words: &'static Words,
    /// The object does not name the host: it declares a default backend for all hosts.
    pub(super) is_catch_all: bool,
    /// The routes that the object declares, in order; a problem in place of a route that is left out.
    pub(super) routes: Vec<Result<DraftRoute, Box<Problem>>>,
    /// The route for requests that no other route of the host matches.
    pub(super) rest: DraftRoute,
    /// The TLS settings of the host.
    pub(super) tls: TlsClaim,
    /// Aliases of the host.
    pub(super) aliases: Vec<Alias>,
    /// The target of the redirect for requests of `/`.
    pub(super) app_root: Option<Template>,
    /// The status of a redirect to the host from its name with `www.`, or without.
    pub(super) www_redirect: Option<u16>,
    /// The reasons for closing all routes of the host: access restrictions that cannot be enforced.
    pub(super) denials: Vec<String>,
    /// The contents of the snippet for the host.
    pub(super) script: Option<Arc<OfHost>>,
}

/// The names of host settings in a kind of object, for messages.
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

/// The TLS settings of an object for a host.
#[derive(Default)]
pub(super) struct TlsClaim {
    /// The certificate; none if the object does not use TLS.
    pub(super) certificate: Option<CertificateClaim>,
    /// The verification of client certificates, or the reason for closing the host.
    pub(super) client_auth: Option<Parsed<ClientAuthPolicy>>,
    /// TLS 1.2 suites to offer; none for those of the settings.
    pub(super) ciphers: Option<Vec<CipherSuite>>,
    pub(super) prefer_server_ciphers: Option<bool>,
    /// Requests are taken before the handshake is complete; none for what the settings say.
    pub(super) early_data: Option<bool>,
    /// Connections are forwarded to an endpoint without being decrypted.
    pub(super) passthrough: Option<PassthroughClaim>,
    /// TLS towards endpoints, for routes of the host that do not configure it themselves.
    pub(super) upstream: Option<Arc<UpstreamTls>>,
}

/// The certificate of an object for a host.
#[derive(Default)]
pub(super) struct CertificateClaim {
    /// The certificate applies also to the host's name with `www.`, or without.
    pub(super) covers_www: bool,
    /// The names in the certificate.
    pub(super) names: Vec<HostName>,
    /// Name of the Secret in the object's form; none for the default certificate.
    pub(super) secret: Option<String>,
    /// The certificate in the Secret, usable or not.
    pub(super) found: Option<Arc<Certificate>>,
    /// The certificate, if it is usable; none for the default certificate.
    pub(super) shown: Option<Arc<Certificate>>,
    /// The description for metrics.
    pub(super) told: Option<HostCertificate>,
    /// The reason why it cannot be used, or a remark.
    pub(super) problem: Option<Problem>,
    /// The certificate is obtained by Forebay; none where it is not.
    pub(super) acme: Option<AcmeClaim>,
}

/// A certificate that Forebay obtains for an object's host.
pub(super) struct AcmeClaim {
    /// The object that asks for the certificate.
    pub(super) place: SourceLocation,
    /// The answer to the challenge of an order in progress.
    pub(super) answer: Option<Answer>,
}

/// A certificate of a host. Unusable certificates are listed too, because users who monitor expiry have to
/// see expired ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCertificate {
    /// The host; `_` for the default certificate.
    pub host: String,
    /// Serial number, issuer, key and end of validity.
    pub info: CertificateInfo,
}

/// The Service that receives a host's connections without their being decrypted.
#[derive(Default)]
pub(super) struct PassthroughClaim {
    /// The backends; the first counts.
    pub(super) backends: Vec<(NamedPort, SourceLocation)>,
    /// Problems of rules that do not allow passthrough.
    pub(super) problems: Vec<Problem>,
}

/// The verification of a host's clients, and the response to clients without a valid certificate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientAuthPolicy {
    pub(super) auth: ClientAuth,
    pub(super) filter: ClientCertificate,
}

/// A port of a Service in the form of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPort {
    pub(super) service: NsName,
    pub(super) port: PortRef,
}

/// A route with its object's settings, before the settings of its host are decided.
#[derive(Clone, Debug)]
pub(super) struct DraftRoute {
    pub(super) path: PathMatch,
    /// The backend; none for the default backend in the options.
    pub(super) backend: Option<NamedPort>,
    /// The value that names the backend.
    pub(super) place: SourceLocation,
    pub(super) timeouts: Timeouts,
    pub(super) retry: RetryPolicy,
    /// Longest request body, in bytes; none for no limit.
    pub(super) body_bytes_max: Option<u64>,
    pub(super) connection_header: Option<ConnectionHeader>,
    pub(super) sets_affinity_cookie: bool,
    pub(super) upstream: UpstreamDraft,
    /// The path is a regular expression, and so are all paths of its host.
    pub(super) uses_regex: bool,
    pub(super) rewrite: Option<RewriteDraft>,
    /// Headers to endpoints that differ from the default.
    pub(super) head: UpstreamHead,
    /// The transfer of requests and responses. The targets of copies are added with their cluster.
    pub(super) transfer: Transfer,
    pub(super) cache: Option<Arc<CachePolicy>>,
    pub(super) overload: Option<Arc<Overload>>,
    pub(super) priority: Priority,
    pub(super) mirror: Option<MirrorDraft>,
    /// Services that serve while the backend is out of use.
    pub(super) fallback: Option<FallbackDraft>,
    /// An answer that replaces the backend.
    pub(super) respond: Option<DirectResponse>,
    pub(super) maintenance: Option<Arc<Maintenance>>,
    /// Files that replace the backend. The prefix to remove from paths is added with the path.
    pub(super) files: Option<Files>,
    pub(super) slash_redirect: SlashRedirect,
    /// Filters that are independent of the host's other settings.
    pub(super) filters: Vec<RequestFilter>,
    pub(super) tls_redirect: Option<TlsRedirectDraft>,
    /// Requests without TLS are served even if the host requires client certificates.
    pub(super) passes_in_clear: bool,
    /// The reasons for closing the route: access restrictions that cannot be enforced.
    pub(super) denials: Vec<String>,
    /// The access rules of the route.
    pub(super) access: AccessDraft,
    pub(super) cors: Option<Arc<Cors>>,
    pub(super) script: ScriptDraft,
    /// Headers to add to responses.
    pub(super) custom_headers: Option<Arc<[(String, String)]>>,
    pub(super) abuse: Abuse,
    pub(super) access_log: bool,
    pub(super) tracing: Option<Arc<Tracing>>,
    /// The canary that receives a share of its requests.
    pub(super) canary: Option<CanaryDraft>,
    pub(super) errors: ErrorsDraft,
}

/// The claim of an object that receives a share of other objects' requests at a host.
pub(super) struct CanaryClaim {
    /// The object, with its file and line.
    pub(super) place: SourceLocation,
    /// The object may receive requests of other namespaces' objects.
    pub(super) crosses_namespaces: bool,
    /// The paths with a share for the canary; a problem in place of a path that is left out.
    pub(super) paths: Vec<Result<(PathMatch, CanaryDraft), Box<Problem>>>,
}

/// A canary of a route.
#[derive(Clone, Debug)]
pub(super) struct CanaryDraft {
    pub(super) backend: NamedPort,
    /// The value that names the backend.
    pub(super) place: SourceLocation,
    pub(super) rules: CanaryRules,
    /// Shares over a time, in place of the weight.
    pub(super) rollout: Option<Arc<Rollout>>,
    /// The mainline's affinity applies to the canary too.
    pub(super) is_sticky: bool,
}

/// Error responses of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorsDraft {
    /// Statuses whose responses are replaced.
    pub(super) statuses: Vec<u16>,
    /// The object has statuses of its own, which its own default backend answers.
    pub(super) has_own_statuses: bool,
    pub(super) spares_endpoints: bool,
    /// An existing Service.
    pub(super) default_backend: Option<NsName>,
    /// Answers of snippets in place of errors.
    pub(super) own: OwnErrors,
}

/// The contents of snippets.
#[derive(Clone, Debug, Default)]
pub(super) struct ScriptDraft {
    /// The contents of the snippet for the location.
    pub(super) location: Option<Arc<Block>>,
    /// The contents of the snippet for all hosts.
    pub(super) global: Option<Arc<OfHost>>,
    /// Where the snippet of the location sends requests.
    pub(super) passes: Vec<PassDraft>,
}

/// A rewrite of the request's path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RewriteDraft {
    /// The unchanged text of the target. A path equal to this text is not rewritten.
    pub(super) text: String,
    pub(super) target: Template,
    /// The target is an absolute URL, so the route redirects.
    pub(super) redirects: bool,
}

/// The access rules of a route in its object's form.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessDraft {
    pub(super) firewall: Option<Arc<Firewall>>,
    pub(super) limits: Option<ClientLimits>,
    pub(super) quota: Option<RequestQuota>,
    pub(super) networks: Option<Networks>,
    /// Clients that are refused if no other rule about addresses exists.
    pub(super) blocked: Option<Arc<AddressSet>>,
    /// Rules by country and autonomous system, beside all rules about addresses.
    pub(super) places: Option<Arc<ClientPlaces>>,
    pub(super) api_keys: Option<ApiKeys>,
    pub(super) jwt: Option<Arc<Jwt>>,
    pub(super) basic: Option<BasicAuth>,
    pub(super) oidc: Option<Arc<Oidc>>,
    pub(super) external: Option<ExternalDraft>,
    pub(super) ext_authz: Option<AuthzDraft>,
    pub(super) processor: Option<ProcessorDraft>,
    /// Path prefixes without authentication, if the draft is for several paths.
    pub(super) spared: Vec<String>,
    pub(super) satisfy: Satisfy,
}

/// An auth service in its object's form.
#[derive(Clone, Debug)]
pub(super) struct ExternalDraft {
    pub(super) place: AuthPlace,
    pub(super) check: Arc<ExternalCheck>,
}

/// An authorization service in its object's form.
#[derive(Clone, Debug)]
pub(super) struct AuthzDraft {
    pub(super) service: AuthService,
    /// The version of HTTP that the service speaks.
    pub(super) version: AppProtocol,
    pub(super) check: Arc<AuthzCheck>,
}

/// An external processor in its object's form.
#[derive(Clone, Debug)]
pub(super) struct ProcessorDraft {
    pub(super) service: AuthService,
    pub(super) policy: Arc<ProcessorPolicy>,
}

/// Why a route with files and an external processor is closed.
pub(super) const FILES_UNPROCESSED: &str =
    "ext-proc-url: files do not go through an external processor: their routes return 503";

/// The place of an auth service.
#[derive(Clone, Debug)]
pub(super) enum AuthPlace {
    /// The URL determines the service.
    Known(AuthService),
    /// The URL depends on the host of the route.
    OfHost(AuthOfHost),
}

/// The place of an auth service whose URL has variables in its host.
#[derive(Clone, Debug)]
pub(super) struct AuthOfHost {
    pub(super) host: Template,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    /// The path of auth requests, if it has no variable.
    pub(super) path: Option<String>,
}

/// The target of mirrored requests, and the form of the copies.
#[derive(Clone, Debug)]
pub(super) struct MirrorDraft {
    pub(super) service: AuthService,
    pub(super) copy: Arc<MirrorCopy>,
    pub(super) share: Share,
}

/// Services that serve while the backend of a route is out of use.
#[derive(Clone, Debug)]
pub(super) struct FallbackDraft {
    /// The Services, the preferred one first.
    pub(super) services: Vec<NamedPort>,
    /// Time for which a Service has to be in use again before it is preferred.
    pub(super) recovery: Duration,
}

/// The service that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuthService {
    /// A name in lower case, or an address.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
}

/// A redirect to TLS, whose condition depends on the host.
#[derive(Clone, Debug)]
pub(super) struct TlsRedirectDraft {
    /// Redirect even if the host has no certificate.
    pub(super) always: bool,
    /// The redirect; [`believes_hops`](TlsRedirect::believes_hops) depends on the host.
    pub(super) redirect: TlsRedirect,
}

/// A field of a policy, or of a rule of the Gateway API, that applies to a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSetting {
    /// The annotation that the policy's field stands for, without a prefix; or the field of a rule, which is
    /// one of [`FIELDS`](super::FIELDS).
    pub annotation: &'static str,
    /// The path of the field: `cache.defaultTtl`.
    pub field: String,
    /// The value in the form of the annotation.
    pub value: String,
    /// The policy or route with the field.
    pub object: ObjectRef,
    /// The file; none if the object is not from a file.
    pub file: Option<Arc<Path>>,
    /// The line of the field, from 1.
    pub line: Option<u32>,
}

impl AuthService {
    /// Whether a text may be the name or the address of a service's host.
    pub(super) fn is_host(text: &str) -> bool {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !text.is_empty() && !text.contains("..") && text.bytes().all(is_name)
    }

    /// The Service, if the host is a Service's name in the cluster's DNS.
    pub(super) fn service(&self) -> Option<NsName> {
        let name = self.host.trim_end_matches('.');
        let name = name.strip_suffix(".cluster.local").unwrap_or(name).strip_suffix(".svc")?;
        let (service, namespace) = name.split_once('.')?;
        (!namespace.contains('.') && !namespace.is_empty()).then(|| NsName::new(namespace, service))
    }
}

impl DraftRoute {
    /// A route with the default settings.
    pub(super) fn new(path: PathMatch, backend: Option<NamedPort>, place: SourceLocation) -> Self {
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
            fallback: None,
            respond: None,
            maintenance: None,
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

/// The name of a host with `www.`, or without it if it begins with `www.`.
pub(super) fn www(host: &HostName) -> Option<String> {
    let HostName::Exact(name) = host else { return None };
    Some(name.strip_prefix("www.").map_or_else(|| format!("www.{name}"), str::to_owned))
}
