//! The nouns of a configuration: hosts, routes, filters, clusters, endpoints and the settings of the proxy.
//!
//! Every source of configuration is translated to a [`Model`], and everything that serves requests is
//! compiled from one. A value is checked when it is made, so that no later stage has to doubt it. Invariants
//! across several values, such as that names are unique, are documented with the values, and whoever combines
//! them has to keep them.
//!
//! Never in here: IO, async, Kubernetes types, protocol bytes.

mod abuse;
mod access;
mod address_set;
mod affinity;
mod api_keys;
mod backend;
mod basic_auth;
mod blocked;
mod cache;
mod canary;
mod canary_weight;
mod client_limits;
mod client_places;
mod cluster;
mod compression;
mod condition;
mod cors;
mod cross_origin;
mod direct_response;
mod error_pages;
mod expression;
mod ext_authz;
mod external_auth;
mod fast_cgi;
mod files;
mod filter;
mod firewall;
mod head_text;
mod header_changes;
mod health_check;
mod host;
mod host_name;
mod host_tls;
mod json;
mod jwt;
mod labels;
pub mod limits;
mod list;
mod listener;
pub mod log;
mod networks;
mod oidc;
pub mod overload;
mod path_change;
mod pattern;
mod processor;
mod rare;
mod replacements;
mod replicas;
mod request_quota;
mod retry_constraint;
mod rollout;
mod route;
mod script;
mod settings;
mod shared;
mod stream;
pub mod template;
mod tls;
mod tracing;
mod transfer;
mod unit;

use std::sync::Arc;

pub use abuse::{Abuse, AbuseKey, AbuseSettings, ClientBounds, MinRate};
pub use access::{Access, ClientCertificate, Satisfy};
pub use address_set::AddressSet;
pub use affinity::{Affinity, AffinityCookie, AffinityMode, HashBy, SessionKey};
pub use api_keys::{ApiKeys, KeyHolder, KeyHolders};
pub use backend::{
    Backend, BackendAnswer, BackendFilters, BackendTarget, Backends, Fallback, NoWeight, Split,
};
pub use basic_auth::{BasicAuth, PasswordScheme, Users};
pub use blocked::{BlockedHeaders, ListedValue};
pub use cache::{CacheBypass, CacheKeyQuery, CachePolicy};
pub use canary::{Canary, CanaryHeader, CanaryHeaderRule, CanaryRules};
pub use canary_weight::CanaryWeight;
pub use client_limits::{ClientLimits, Rate};
pub use client_places::ClientPlaces;
pub use cluster::{
    AppProtocol, Balance, Cluster, ClusterId, ClusterPart, Clusters, Encryption, Endpoint, EndpointState,
};
pub use compression::{CodingOffer, Compression, ContentCoding};
pub use condition::{Condition, Conditions, Precedence, ValueMatch};
pub use cors::{Cors, Origin, Origins};
pub use cross_origin::{Allowed, CrossOrigin, InvalidOrigin, OriginPattern};
pub use direct_response::{DirectResponse, Maintenance};
pub use error_pages::{ErrorPageContent, ErrorPageStatus, ErrorPages, OwnErrorPage};
pub use expression::{Captures, Expression, StepBudget, TooManySteps};
pub use ext_authz::{ALWAYS_SEEN, AuthzBody, AuthzCheck, AuthzProtocol, ExtAuthz};
pub use external_auth::{AuthScript, ExternalAuth, ExternalAuthCache, ExternalCheck};
pub use fast_cgi::FastCgi;
pub use files::Files;
pub use filter::{
    DuplicateFilter, Filters, Redirect, RedirectTarget, RequestFilter, RequestFilters, ResponseFilter,
    ResponseFilters, Rewrite, TlsRedirect,
};
pub use firewall::{Firewall, RuleSet};
pub use head_text::{CookieText, HeadText, HeaderName, InvalidHeadText};
pub use header_changes::{HeaderChanges, InvalidChange};
pub use health_check::{HealthCheck, HealthProbe};
pub use host::{Host, Wider};
pub use host_name::{Alias, HostName, InvalidHostName};
pub use host_tls::{ClientAuth, HostTls, VerifyClient};
pub use json::to_json;
pub use jwt::{Jwt, JwtIssuer, TokenPlace};
pub use labels::{LabelTexts, Labels};
pub use list::{Items, List};
pub use listener::{HostList, Listener, ListenerId, ListenerKind, Protocol};
pub use networks::{AddressRule, Networks};
pub use oidc::{Oidc, OidcClient};
pub use overload::Overload;
pub use path_change::{PathChange, RequestRedirect, Scheme, UrlRewrite};
pub use pattern::{InvalidPattern, Pattern};
pub use processor::{ProcessedBody, ProcessedParts, Processor, ProcessorPolicy};
pub use rare::Rare;
pub use replacements::{Replacement, Replacements};
pub use replicas::Replicas;
pub use request_quota::{QuotaWindow, RequestQuota};
pub use retry_constraint::RetryConstraint;
pub use rollout::{Rollout, RolloutShare, RolloutStep, RolloutStop};
pub use route::{
    Action, BodyLimit, ConnectionHeader, Forward, InvalidPath, PathKind, PathMatch, RetryOn, RetryPolicy,
    Route, SlashRedirect, Timeouts, UpstreamHead,
};
pub use script::{
    AddedHeader, AfterRewrite, Block, Check, Expires, Headers, HostScript, Pass, PassRoute, PassTarget,
    Reach, RequestEdit, ResponseEdit, Return, ReturnContent, RoutePath, Script, ScriptPath, ScriptPlace,
    ScriptRewrite, Step, Test,
};
pub use settings::{
    AccessLog, ClientSettings, ForwardedHeaders, ForwardedSettings, HeadSettings, HeaderNames,
    ListenAddresses, PoolCap, ServerHeader, Settings, UpstreamConnections,
};
pub use shared::Shared;
pub use stream::{Stream, StreamSettings, TlsStream, Transport};
pub use template::ValueMap;
pub use tls::{
    AlternativeName, Authorities, Certificate, CertificateInfo, CipherSuite, Http3, KeyEncoding, PrivateKey,
    TlsSettings, TlsVersions, UpstreamTls,
};
pub use tracing::{Sampler, SpanExport, TraceShare, Tracing};
pub use transfer::{Mirror, MirrorCopy, Pace, ResponsePolicy, Share, Substitution, Transfer};
pub use unit::{InvalidUnit, parse_duration, parse_seconds, parse_size};

/// A whole configuration, made from one source or several together. Models share their common parts: equal
/// pointers mean equal values without a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Ports that clients connect to. By convention a port occurs at most once for each transport.
    pub listeners: Vec<Listener>,
    /// Groups of endpoints, referred to by [`ClusterId`].
    pub clusters: Clusters,
    /// Settings of the proxy as a whole.
    pub settings: Settings,
}

impl Model {
    /// The hosts of all listeners; a list that several listeners share is visited once.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<Host>> {
        let is_told = |list: &HostList, before: usize| {
            self.listeners[..before].iter().filter_map(Listener::hosts).any(|told| Arc::ptr_eq(told, list))
        };
        let lists =
            self.listeners.iter().enumerate().filter_map(|(at, listener)| Some((at, listener.hosts()?)));
        lists.filter(move |(at, list)| !is_told(list, *at)).flat_map(|(_, list)| list.iter())
    }

    /// The cluster that an id of this model stands for.
    pub fn cluster(&self, id: ClusterId) -> &Cluster {
        self.clusters.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_listeners_share_are_told_once() {
        let list = |name: &str| -> HostList {
            let name = HostName::parse(name).unwrap();
            let host =
                Host { name, aliases: Rare::default(), tls: Arc::default(), routes: Vec::new(), wider: None };
            Arc::new(vec![Arc::new(host)].into())
        };
        let (shared, own) = (list("a.test"), list("b.test"));
        let protocols = [Protocol::Http(Arc::clone(&shared)), Protocol::Http(own), Protocol::Https(shared)];
        let listeners = protocols.map(|protocol| Listener { address: None, port: 0, protocol });
        let model = Model { listeners: listeners.into(), ..Model::default() };
        let names: Vec<_> = model.hosts().map(|host| host.name.to_string()).collect();
        assert_eq!(names, ["a.test", "b.test"]);
    }
}
