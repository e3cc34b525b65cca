//! A host with its paths, gathered over its Ingresses.
//!
//! First it is known what holds for the host as a whole (a certificate, a default backend, what closes it), then each path
//! becomes a route. Of what is asked for twice the first stays. Only the namespace of the oldest Ingress has a say in what holds
//! for the host as a whole; the others are `guests`.

mod guests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use model::{Action, Host, HostName, HostTls, Labels, PathMatch, Route};

use super::certificates::{Certificates, HostCertificate, Shown};
use super::configmap::Global;
use super::endpoints::Clusters;
use super::lookup::Lookup;
use super::policy::{HostPolicy, Policy, Standing};
use super::{Annotated, RouteOrigin};
use crate::names::{NsName, ObjectRef, PortRef};
use crate::objects::{At, Backend, Ingress, IngressPath, IngressRule, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};

/// A host, and what there is to say about it.
pub(super) struct Built {
    pub(super) host: Host,
    /// Who asked for each of its routes.
    pub(super) origins: Vec<RouteOrigin>,
    pub(super) certificates: Vec<HostCertificate>,
    pub(super) problems: Vec<Problem>,
}

/// The hosts that an Ingress is about.
pub(crate) fn hosts_of(ingress: &Ingress) -> impl Iterator<Item = HostName> {
    let of_rules = ingress.spec.rules.iter().filter_map(|rule| host_name(&rule.value).ok());
    let backend = ingress.spec.default_backend.as_ref().filter(|_| ingress.spec.rules.is_empty());
    let is_catch_all = backend.is_some_and(|backend| backend.value.service().is_some());
    of_rules.chain(is_catch_all.then_some(HostName::Any))
}

/// Says what of an Ingress is about no host.
pub(super) fn check(ingress: &Sourced<Ingress>, problems: &mut Vec<Problem>) {
    for rule in &ingress.spec.rules {
        if let Err((host, why)) = host_name(&rule.value) {
            let message = format!("{why}; the rule is left out");
            problems.push(Problem::at(Severity::Error, ingress, host, message).because(Reason::Invalid));
        }
    }
    let backend = ingress.spec.default_backend.as_ref();
    if let Some(backend) = backend.filter(|backend| backend.value.service().is_none()) {
        let message = "the default backend names no Service with a port; it is left out";
        let problem = Problem::at(Severity::Error, ingress, backend, message);
        problems.push(problem.because(Reason::Unsupported));
    }
}

/// Builds a host of the Ingresses that have something to say about it, the oldest first.
pub(super) fn build<'c, 'l>(
    name: &HostName,
    ingresses: &[&Annotated<'_>],
    global: &Global,
    lookup: &'c Lookup<'l>,
    clusters: &mut Clusters<'c, 'l>,
) -> Built {
    let mut builder = Builder {
        name,
        global,
        options: lookup.options,
        clusters,
        certificates: Certificates::new(lookup),
        problems: Vec::new(),
        tls: HostTls::default(),
        policy: HostPolicy::default(),
        owner: ingresses.first().copied(),
        standings: HashMap::default(),
        catch_all: None,
        demanded_by: None,
        routes: Vec::new(),
        origins: Vec::new(),
        declared: HashMap::default(),
    };
    for annotated in ingresses {
        if builder.owner_before(annotated).is_none() {
            builder.declare(annotated);
        }
    }
    for annotated in ingresses {
        if let Some(owner) = builder.owner_before(annotated) {
            builder.declare_guest(annotated, &owner);
        }
    }
    for annotated in ingresses {
        builder.paths(annotated);
    }
    builder.default_location();
    builder.finish()
}

/// The host as it was, as far as it is the same.
pub(super) fn take_over(host: Host, old: Option<&Arc<Host>>) -> Arc<Host> {
    let Some(old) = old else { return Arc::new(host) };
    if **old == host {
        return Arc::clone(old);
    }
    let by_labels: HashMap<&Labels, _> = old.routes.iter().map(|one| (&*one.labels, one)).collect();
    let route = |route: Arc<Route>| match by_labels.get(&*route.labels) {
        Some(&old) if *old == route => Arc::clone(old),
        Some(old) => Arc::new(Route { labels: Arc::clone(&old.labels), ..Arc::unwrap_or_clone(route) }),
        None => route,
    };
    let routes = host.routes.into_iter().map(route).collect();
    let tls = if old.tls == host.tls { Arc::clone(&old.tls) } else { host.tls };
    Arc::new(Host { name: host.name, tls, routes })
}

struct Builder<'b, 'c, 'l> {
    name: &'b HostName,
    global: &'b Global,
    options: &'b Options,
    clusters: &'b mut Clusters<'c, 'l>,
    certificates: Certificates<'c, 'l>,
    problems: Vec<Problem>,
    tls: HostTls,
    policy: HostPolicy,
    /// The first Ingress of the host. It owns it, and is asked for paths that nobody declares.
    owner: Option<&'b Annotated<'b>>,
    /// How the Ingresses stand at the host.
    standings: HashMap<ObjectRef, Standing, foldhash::fast::FixedState>,
    /// The Ingress without rules, whose default backend comes before that of `owner`.
    catch_all: Option<&'b Annotated<'b>>,
    /// Who says what is asked of clients.
    demanded_by: Option<ObjectRef>,
    routes: Vec<Arc<Route>>,
    origins: Vec<RouteOrigin>,
    declared: HashMap<PathMatch, ObjectRef, foldhash::fast::FixedState>,
}

/// A backend and who asks for it.
struct Target<'a> {
    service: NsName,
    port: PortRef,
    asker: ObjectRef,
    origin: RouteOrigin,
    policy: &'a Policy,
}

// === impl Builder ===

impl<'b> Builder<'b, '_, '_> {
    /// Takes note of what an Ingress says about the host as a whole.
    fn declare(&mut self, annotated: &'b Annotated<'b>) {
        let ingress = annotated.ingress;
        let rules: Vec<_> = rules_for(self.name, ingress).collect();
        for rule in &rules {
            self.declare_host(annotated);
            if annotated.policy.passthrough {
                self.declare_passthrough(annotated, rule);
            }
        }
        if rules.is_empty() {
            self.declare_host(annotated);
            self.declare_catch_all(annotated);
        }
    }

    fn declare_host(&mut self, annotated: &Annotated<'_>) {
        let standing = Standing { demands: annotated.demand.is_some(), ..Standing::default() };
        self.standings.insert(annotated.ingress.reference(), standing);
        if !self.policy.has_tls
            && let Some(shown) = self.certificates.of_host(annotated.ingress, self.name)
        {
            self.policy.has_tls = true;
            if let Shown::Own(certificate) = shown {
                self.tls.certificate = Some(certificate);
            }
        }
        self.policy.denials.extend_from_slice(&annotated.policy.host_denials);
        if !self.global.proxy_ssl_location_only && self.policy.upstream_tls.is_none() {
            self.policy.upstream_tls = annotated.policy.backend.secret().cloned();
        }
        self.tls.ciphers = self.tls.ciphers.take().or_else(|| annotated.policy.ciphers.clone());
        self.tls.prefer_server_ciphers =
            self.tls.prefer_server_ciphers.or(annotated.policy.prefer_server_ciphers);
        let Some(demand) = &annotated.demand else { return };
        if self.policy.demand.as_ref() == Some(demand) {
            return;
        }
        if self.policy.demand.is_none() {
            self.tls.client_auth = demand.as_ref().ok().map(|demand| demand.auth.clone());
            self.policy.demand = Some(demand.clone());
            self.demanded_by = Some(annotated.ingress.reference());
        } else if let Some(first) = &self.demanded_by {
            let message = format!(
                "{first} says what is asked of the clients of host {} already; auth-tls-* of this one have no effect there",
                self.name
            );
            let problem = Problem::of(Severity::Warning, annotated.ingress, message);
            self.problems.push(problem.because(Reason::NoEffect));
        }
    }

    /// "Whole host by SNI to the Service; path `/` only."
    fn declare_passthrough(&mut self, annotated: &Annotated<'_>, rule: &IngressRule) {
        let (ingress, name) = (annotated.ingress, self.name);
        let mut paths = rule.http.iter().flat_map(|http| &http.paths);
        let root = paths.find(|path| matches!(path.value.path.as_deref(), None | Some("" | "/")));
        let target =
            root.and_then(|path| target(annotated, &path.value.backend, ingress.origin.line_of(path)));
        let (Some(path), Some(target)) = (root, target) else {
            let message = format!("host {name} has no path / to a Service, which ssl-passthrough needs");
            let problem = Problem::of(Severity::Warning, ingress, message);
            self.problems.push(problem.because(Reason::NoEffect));
            return;
        };
        if *name == HostName::Any {
            let message = "ssl-passthrough needs a host; connections for other hosts are not passed through";
            let problem = Problem::at(Severity::Warning, ingress, path, message);
            self.problems.push(problem.because(Reason::NoEffect));
            return;
        }
        if self.tls.passthrough.is_some() {
            return;
        }
        let (cluster, fault) = self.clusters.for_passthrough(&target.service, &target.port);
        self.tls.passthrough = Some(cluster);
        if let Some(fault) = fault {
            let problem = Problem::at(Severity::Error, ingress, path, fault);
            self.problems.push(problem.because(Reason::Missing));
        }
    }

    fn declare_catch_all(&mut self, annotated: &'b Annotated<'b>) {
        match self.catch_all {
            None => self.catch_all = Some(annotated),
            Some(first) => {
                let first = first.ingress.reference();
                let message =
                    format!("{first} is the default backend of every host already; this one is left out");
                let problem = Problem::of(Severity::Warning, annotated.ingress, message);
                self.problems.push(problem.because(Reason::Conflict));
            }
        }
    }

    /// Makes routes of an Ingress' paths.
    fn paths(&mut self, annotated: &Annotated<'_>) {
        let rules = rules_for(self.name, annotated.ingress);
        for path in rules.flat_map(|rule| &rule.http).flat_map(|http| &http.paths) {
            if let Err((severity, reason, message)) = self.path(annotated, path) {
                self.problems.push(Problem::at(severity, annotated.ingress, path, message).because(reason));
            }
        }
    }

    fn path(
        &mut self,
        annotated: &Annotated<'_>,
        declared: &At<IngressPath>,
    ) -> Result<(), (Severity, Reason, String)> {
        let error = |reason| move |message: String| (Severity::Error, reason, message);
        let ingress = annotated.ingress;
        let path = path_match(&declared.value).map_err(error(Reason::Invalid))?;
        let target = target(annotated, &declared.value.backend, ingress.origin.line_of(declared))
            .ok_or_else(|| {
                error(Reason::Unsupported)(format!(
                    "path {} names no Service with a port; it is left out",
                    path.path()
                ))
            })?;
        if let Some(first) = self.declared.get(&path) {
            let (text, kind, name) = (path.path(), path_type(&path), self.name);
            let message = format!(
                "path {text} ({kind}) of host {name} is declared by {first} already; this one is left out"
            );
            let is_own = *first == ingress.reference();
            let reason = if is_own { Reason::NoEffect } else { Reason::Conflict };
            return Err((Severity::Warning, reason, message));
        }
        match self.route(path, target) {
            Some(fault) => Err(error(Reason::Missing)(fault)),
            None => Ok(()),
        }
    }

    /// "Each host gets a "/" location: if no "/" path is declared, it is created from the first Ingress of the host (with
    /// that Ingress' annotations) to the default backend." Without one, the path stays without a route: that is a 404 too.
    fn default_location(&mut self) {
        let root = |path: &PathMatch| path.path() == "/" && !matches!(path, PathMatch::Exact(_));
        if self.declared.keys().any(root) {
            return;
        }
        let first = self.catch_all.or(self.owner);
        let Some(target) = first.and_then(own_default).or_else(|| self.flag_default(first)) else { return };
        let RouteOrigin { object, file, line } = target.origin.clone();
        if let Some(fault) = self.route(PathMatch::Prefix("/".to_owned()), target) {
            let problem = Problem::new(Severity::Error, format!("default backend: {fault}"));
            let file = file.as_deref().map(Path::to_owned);
            let problem = Problem { object: Some(object), file, line, ..problem };
            self.problems.push(problem.because(Reason::Missing));
        }
    }

    /// What `--default-backend-service` names, with the annotations of the host's first Ingress.
    fn flag_default(&self, first: Option<&'b Annotated<'b>>) -> Option<Target<'b>> {
        let service = self.options.default_backend_service.clone()?;
        let port = self.clusters.first_port(&service).unwrap_or(PortRef::Number(80));
        let reference =
            ObjectRef { kind: "Service", namespace: service.namespace.clone(), name: service.name.clone() };
        let origin = RouteOrigin { object: reference.clone(), file: None, line: None };
        let policy = first.map_or(&self.global.policy, |annotated| &annotated.policy);
        let asker = first.map_or(reference, |annotated| annotated.ingress.reference());
        Some(Target { service, port, asker, origin, policy })
    }

    /// Adds a route. Tells what is wrong with its backend; the route is there in any case.
    fn route(&mut self, path: PathMatch, target: Target<'_>) -> Option<String> {
        let Target { service, port, asker, origin, policy } = target;
        let of_host = self.policy.upstream_tls.as_ref();
        let (cluster, fault) = self.clusters.for_requests(&service, &port, policy, of_host);
        let standing = self.standings.get(&asker).cloned().unwrap_or_default();
        self.routes.push(Arc::new(Route {
            filters: policy.filters(&self.policy, &standing, path.path(), self.options.https_port),
            action: Action::Forward(policy.forward(cluster)),
            labels: Arc::new(Labels {
                namespace: asker.namespace.clone(),
                object: asker.name.clone(),
                service: service.name,
                service_port: port.to_string(),
                path: path.path().to_owned(),
                host: self.name.to_string(),
            }),
            access_log: policy.access_log,
            path: path.clone(),
        }));
        self.declared.insert(path, asker);
        self.origins.push(origin);
        fault
    }

    fn finish(self) -> Built {
        let Certificates { used: certificates, problems: of_certificates, .. } = self.certificates;
        let mut problems = self.problems;
        problems.extend(of_certificates);
        let mut routes = self.routes;
        routes.shrink_to_fit();
        let host = Host { name: self.name.clone(), tls: Arc::new(self.tls), routes };
        Built { host, origins: self.origins, certificates, problems }
    }
}

/// The rules of an Ingress for a host.
fn rules_for<'i>(name: &HostName, ingress: &'i Ingress) -> impl Iterator<Item = &'i IngressRule> {
    let rules = ingress.spec.rules.iter().map(|rule| &rule.value);
    rules.filter(move |rule| host_name(rule).is_ok_and(|host| host == *name))
}

/// "`spec.defaultBackend` without rules = catch-all; with rules = default upstream of its hosts."
fn own_default<'p>(first: &'p Annotated<'p>) -> Option<Target<'p>> {
    let backend = first.ingress.spec.default_backend.as_ref()?;
    target(first, &backend.value, first.ingress.origin.line_of(backend))
}

fn target<'p>(annotated: &'p Annotated<'_>, backend: &Backend, line: Option<u32>) -> Option<Target<'p>> {
    let ingress = annotated.ingress;
    let (service, port) = backend.service()?;
    let file = ingress.origin.file.clone();
    Some(Target {
        service: NsName::new(ingress.namespace(), service),
        port,
        asker: ingress.reference(),
        origin: RouteOrigin { object: ingress.reference(), file, line },
        policy: &annotated.policy,
    })
}

fn host_name(rule: &IngressRule) -> Result<HostName, (&At<String>, model::InvalidHostName)> {
    match &rule.host {
        Some(host) => HostName::parse(&host.value).map_err(|error| (host, error)),
        None => Ok(HostName::Any),
    }
}

/// What a path and its type take. Without regular expressions, `ImplementationSpecific` is a plain prefix of characters.
fn path_match(declared: &IngressPath) -> Result<PathMatch, String> {
    let path = declared.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let made = match declared.path_type.as_deref() {
        Some("Exact") => PathMatch::exact(path),
        Some("Prefix") => PathMatch::prefix(path),
        Some("ImplementationSpecific") | None => PathMatch::starts_with(path),
        Some(other) => {
            return Err(format!(
                "path {path}: pathType {other:?} is none of Exact, Prefix and ImplementationSpecific; it is left out"
            ));
        }
    };
    made.map_err(|error| format!("{error}; it is left out"))
}

fn path_type(path: &PathMatch) -> &'static str {
    match path {
        PathMatch::Exact(_) => "Exact",
        PathMatch::Prefix(_) => "Prefix",
        PathMatch::StartsWith(_) => "ImplementationSpecific",
    }
}
