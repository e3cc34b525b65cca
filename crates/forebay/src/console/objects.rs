//! `/console/objects`: the configuration as lists. They have no keys and no contents of Secrets.

use std::collections::BTreeMap;

use control::{HostCertificate, Problem, RouteOrigin, Translation};
use model::{
    Access, Action, AppProtocol, Backends, Balance, CertificateInfo, Cluster, Encryption, EndpointState,
    Forward, Host, Model, Route,
};
use serde::Serialize;

use crate::explain::Objects;

/// The configured objects.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Listing {
    /// Counts the configurations of the process.
    pub(crate) generation: u64,
    /// Hosts of all listeners, in the order of the configuration.
    pub(crate) hosts: Vec<ListedHost>,
    pub(crate) clusters: Vec<ListedCluster>,
    pub(crate) certificates: Vec<ListedCertificate>,
    /// TCP and UDP services.
    pub(crate) services: Vec<ListedService>,
}

/// A host with its routes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedHost {
    /// The name; `*` for any.
    pub(crate) name: String,
    /// It has a certificate of its own.
    pub(crate) has_certificate: bool,
    /// The cluster that connections over TLS are passed to without being decrypted.
    pub(crate) passthrough: Option<String>,
    /// Clients have to present a certificate.
    pub(crate) asks_for_certificates: bool,
    /// The host whose routes are tried where none of this host matches.
    pub(crate) wider: Option<String>,
    pub(crate) routes: Vec<ListedRoute>,
}

/// A route. Host, path, namespace, object, rule, service and service port are the labels that
/// `/console/traffic` knows it by.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedRoute {
    /// The host as its metrics have it, `_` for any.
    pub(crate) host: String,
    pub(crate) path: String,
    /// `Exact`, `Prefix` or `Regex`.
    pub(crate) path_type: &'static str,
    /// Other things that requests have to comply with (methods, headers, query).
    pub(crate) has_conditions: bool,
    pub(crate) namespace: String,
    pub(crate) object: String,
    pub(crate) rule: String,
    pub(crate) service: String,
    pub(crate) service_port: String,
    /// The object that declares it: `Ingress default/web`.
    pub(crate) from: Option<String>,
    /// Where it stands, for objects in files.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// The route's action: `forward`, `files`, `respond`.
    pub(crate) action: &'static str,
    /// Status of the answer, where Forebay answers by itself.
    pub(crate) status: Option<u16>,
    /// Clusters that requests go to.
    pub(crate) backends: Vec<ListedBackend>,
    /// Further features, in short: `basic auth`, `cache`, `rewrite`.
    pub(crate) features: Vec<&'static str>,
}

/// A cluster that a route leads to.
#[derive(Debug, Serialize)]
pub(crate) struct ListedBackend {
    /// Name of the cluster.
    pub(crate) cluster: String,
    /// Its share among several; null for one, and for a canary.
    pub(crate) weight: Option<u32>,
    /// It is the canary.
    pub(crate) canary: bool,
    /// It serves while those before it are out of use.
    pub(crate) fallback: bool,
}

/// A group of endpoints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedCluster {
    pub(crate) name: String,
    /// `HTTP/1.1`, `HTTP/2` or `FastCGI`.
    pub(crate) protocol: &'static str,
    /// `clear`, `TLS` or `as client`.
    pub(crate) encryption: &'static str,
    /// `round robin`, `EWMA`, `cookie` or `hash`.
    pub(crate) balance: &'static str,
    pub(crate) endpoints: Vec<ListedEndpoint>,
}

/// An endpoint of a cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedEndpoint {
    pub(crate) address: String,
    /// It is going away, and gets no new requests.
    pub(crate) is_draining: bool,
}

/// A certificate and its names.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedCertificate {
    pub(crate) namespace: String,
    /// Name of the Secret.
    pub(crate) secret: String,
    /// Hosts that are served with it; `_` for those without one of their own.
    pub(crate) hosts: Vec<String>,
    /// End of its validity, in seconds since 1970.
    pub(crate) not_after_seconds: i64,
    pub(crate) issuer: String,
    /// In decimal digits.
    pub(crate) serial_number: String,
    /// `RSA`, `ECDSA` or `Ed25519`.
    pub(crate) key_algorithm: String,
}

/// A TCP or UDP service.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedService {
    /// `TCP` or `UDP`.
    pub(crate) protocol: &'static str,
    /// The only address that it is listened at, if there is such.
    pub(crate) address: Option<String>,
    pub(crate) port: u16,
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) service_port: String,
    pub(crate) backends: Vec<ListedBackend>,
    pub(crate) accepts_proxy_header: bool,
    pub(crate) sends_proxy_header: bool,
}

/// A problem of the configuration.
#[derive(Debug, Serialize)]
pub(crate) struct ListedProblem {
    /// `error`, `warning` or `notice`.
    pub(crate) severity: &'static str,
    /// As in the reason of an Event.
    pub(crate) reason: &'static str,
    /// The object: `Ingress default/web`.
    pub(crate) object: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) message: String,
}

impl Listing {
    pub(super) fn of(objects: &Objects) -> Self {
        let Translation { model, origins, certificates, .. } = &*objects.translation;
        let hosts = model.hosts().zip(origins.iter());
        let streams = model.listeners.iter().filter_map(|listener| service(listener, model));
        Self {
            generation: objects.snapshot.generation,
            hosts: hosts.map(|(one, origins)| host(one, origins, model)).collect(),
            clusters: model.clusters.iter().map(|(_, one)| cluster(one)).collect(),
            certificates: self::certificates(certificates),
            services: streams.collect(),
        }
    }
}

/// All problems of a translation.
pub(super) fn problems(translation: &Translation) -> Vec<ListedProblem> {
    let listed = |problem: &Problem| ListedProblem {
        severity: problem.severity.as_str(),
        reason: problem.reason.as_str(),
        object: problem.object.as_ref().map(ToString::to_string),
        file: problem.file.as_ref().map(|file| file.display().to_string()),
        line: problem.line,
        message: problem.message.clone(),
    };
    translation.problems.iter().map(listed).collect()
}

fn host(host: &Host, origins: &[RouteOrigin], model: &Model) -> ListedHost {
    let origins = origins.iter().map(Some).chain(std::iter::repeat(None));
    let tls = &host.tls;
    ListedHost {
        name: host.name.to_string(),
        has_certificate: tls.certificate.is_some(),
        passthrough: tls.passthrough.map(|id| model.cluster(id).name.clone()),
        asks_for_certificates: tls.client_auth.is_some(),
        wider: host.wider.as_ref().and_then(|wider| wider.host.as_ref()).map(ToString::to_string),
        routes: host.routes.iter().zip(origins).map(|(one, origin)| route(one, origin, model)).collect(),
    }
}

fn route(route: &Route, origin: Option<&RouteOrigin>, model: &Model) -> ListedRoute {
    let labels = &*route.labels;
    let (action, status, clusters) = match &route.action {
        Action::Forward(forward) => ("forward", None, of_forward(forward, model)),
        Action::Files(_) => ("files", None, Vec::new()),
        Action::Respond(answer) => ("respond", Some(answer.status), Vec::new()),
        Action::NotFound => ("respond", Some(404), Vec::new()),
    };
    ListedRoute {
        host: labels.host().to_owned(),
        path: route.path.path().to_owned(),
        path_type: route.path.kind().as_str(),
        has_conditions: route.conditions.is_some(),
        namespace: labels.namespace().to_owned(),
        object: labels.object().to_owned(),
        rule: labels.rule().to_owned(),
        service: labels.service().to_owned(),
        service_port: labels.service_port().to_owned(),
        from: origin.map(|origin| origin.object().to_string()),
        file: origin.and_then(RouteOrigin::file).map(|file| file.display().to_string()),
        line: origin.and_then(RouteOrigin::line),
        action,
        status,
        backends: clusters,
        features: features(route),
    }
}

/// Features of a route beside its action, by which users search.
fn features(route: &Route) -> Vec<&'static str> {
    let mut features = Vec::new();
    let mut has = |is: bool, name| features.extend(is.then_some(name));
    if let Some(access) = route.access.as_deref() {
        let Access {
            forbidden,
            unavailable,
            limits,
            quota,
            networks,
            basic,
            external,
            client_certificate,
            ..
        } = access;
        has(forbidden.is_some() || unavailable.is_some(), "closed");
        has(client_certificate.is_some(), "client certificate");
        has(limits.is_some() || quota.is_some(), "limits");
        has(networks.is_some(), "addresses");
        has(basic.is_some(), "basic auth");
        has(external.is_some(), "auth service");
    }
    if let Action::Forward(Forward { cache, transfer, .. }) = &route.action {
        has(cache.is_some(), "cache");
        has(transfer.mirrors.is_some(), "mirror");
    }
    has(!route.request_filters.as_slice().is_empty(), "request filters");
    has(!route.response_filters.as_slice().is_empty(), "response filters");
    has(route.script.is_some(), "snippet");
    has(route.error_pages.is_some(), "error pages");
    has(route.tracing.is_some(), "tracing");
    features
}

/// The backends of a route, and then those that it falls back to.
fn of_forward(forward: &Forward, model: &Model) -> Vec<ListedBackend> {
    let mut all = backends(&forward.backends, model);
    if let (Some(_), [only]) = (&forward.fallback, all.as_mut_slice()) {
        only.weight = None;
    }
    all.extend(forward.fallback.iter().flat_map(|fallback| &fallback.clusters).map(|id| ListedBackend {
        cluster: model.cluster(*id).name.clone(),
        weight: None,
        canary: false,
        fallback: true,
    }));
    all
}

fn backends(backends: &Backends, model: &Model) -> Vec<ListedBackend> {
    let listed = |id, weight, canary| ListedBackend {
        cluster: model.cluster(id).name.clone(),
        weight,
        canary,
        fallback: false,
    };
    match backends {
        Backends::One(id) => vec![listed(*id, None, false)],
        Backends::Split(split) => {
            let valid = split.backends().iter().filter_map(|one| Some((one.target.cluster()?, one.weight)));
            valid.map(|(id, weight)| listed(id, Some(weight), false)).collect()
        }
        Backends::Canary(canary) => {
            vec![listed(canary.mainline, None, false), listed(canary.cluster, None, true)]
        }
    }
}

fn cluster(cluster: &Cluster) -> ListedCluster {
    let endpoint = |one: &model::Endpoint| ListedEndpoint {
        address: one.address.to_string(),
        is_draining: one.state == EndpointState::Draining,
    };
    ListedCluster {
        name: cluster.name.clone(),
        protocol: match cluster.version {
            AppProtocol::Http1 => "HTTP/1.1",
            AppProtocol::Http2 => "HTTP/2",
            AppProtocol::FastCgi => "FastCGI",
        },
        encryption: match cluster.encryption {
            Encryption::Never => "clear",
            Encryption::Always(_) => "TLS",
            Encryption::AsClient(_) => "as client",
        },
        balance: match cluster.balance {
            Balance::RoundRobin => "round robin",
            Balance::Ewma => "EWMA",
            Balance::Cookie(_) => "cookie",
            Balance::Hash(_) => "hash",
        },
        endpoints: cluster.endpoints.iter().map(endpoint).collect(),
    }
}

/// Certificates with the hosts that share them, the first to expire first.
fn certificates(all: &[HostCertificate]) -> Vec<ListedCertificate> {
    // By the end first, which is the order.
    let mut by_object = BTreeMap::new();
    for HostCertificate { host, info } in all {
        let key = (info.not_after, &*info.namespace, &*info.object, &*info.serial_number);
        by_object.entry(key).or_insert_with(|| (info, Vec::<String>::new())).1.push(host.clone());
    }
    let listed = |(info, hosts): (&CertificateInfo, Vec<String>)| ListedCertificate {
        namespace: info.namespace.clone(),
        secret: info.object.clone(),
        hosts,
        not_after_seconds: info.not_after,
        issuer: match (info.issuer_common_name.as_str(), info.issuer_organization.as_str()) {
            ("", organization) => organization.to_owned(),
            (name, "") => name.to_owned(),
            (name, organization) => format!("{name} ({organization})"),
        },
        serial_number: info.serial_number.clone(),
        key_algorithm: info.public_key_algorithm.clone(),
    };
    by_object.into_values().map(listed).collect()
}

fn service(listener: &model::Listener, model: &Model) -> Option<ListedService> {
    let (id, stream) = (listener.id(), listener.stream()?);
    Some(ListedService {
        protocol: id.kind.as_str(),
        address: id.address.map(|address| address.to_string()),
        port: id.port,
        namespace: stream.labels.namespace().to_owned(),
        service: stream.labels.service().to_owned(),
        service_port: stream.labels.service_port().to_owned(),
        backends: backends(&stream.backends, model),
        accepts_proxy_header: stream.accepts_proxy_header,
        sends_proxy_header: stream.sends_proxy_header,
    })
}
