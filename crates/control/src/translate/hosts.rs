//! Hosts with their paths, gathered over all Ingresses.
//!
//! First every host is known with what holds for it as a whole (a certificate, a default backend, what closes it), then
//! each path becomes a route. Of what is asked for twice the first stays.

use std::collections::HashMap;

use model::{Action, Host, HostName, HostTls, Labels, PathMatch, Route};

use super::certificates::{Certificates, Shown};
use super::configmap::Global;
use super::endpoints::Clusters;
use super::policy::{HostPolicy, Policy};
use super::{Annotated, RouteOrigin};
use crate::objects::{At, Backend, Ingress, IngressPath, IngressRule, PortRef};
use crate::options::{NsName, Options};
use crate::problem::{ObjectRef, Problem, Reason, Severity};

/// The hosts in order of appearance, and who asked for each of their routes.
pub(super) fn build<'c>(
    ingresses: &[Annotated<'_>],
    global: &Global,
    options: &Options,
    clusters: &mut Clusters<'c>,
    certificates: &mut Certificates<'c>,
    problems: &mut Vec<Problem>,
) -> (Vec<Host>, Vec<RouteOrigin>) {
    let proxy_ssl_location_only = global.proxy_ssl_location_only;
    let hosts = Hosts::default();
    let mut builder = Builder { hosts, options, proxy_ssl_location_only, clusters, certificates, problems };
    let served: Vec<_> = ingresses.iter().filter(|annotated| !annotated.policy.is_canary).collect();
    for annotated in &served {
        builder.declare(annotated);
    }
    for annotated in &served {
        for rule in &annotated.ingress.spec.rules {
            builder.paths(annotated, &rule.value);
        }
    }
    builder.default_locations(global);
    builder.hosts.finish()
}

struct Builder<'a, 'i, 'c> {
    hosts: Hosts<'i>,
    options: &'a Options,
    proxy_ssl_location_only: bool,
    clusters: &'a mut Clusters<'c>,
    certificates: &'a mut Certificates<'c>,
    problems: &'a mut Vec<Problem>,
}

#[derive(Default)]
struct Hosts<'i> {
    drafts: Vec<Draft<'i>>,
    places: HashMap<HostName, usize>,
}

/// A host in the making.
struct Draft<'i> {
    name: HostName,
    tls: HostTls,
    policy: HostPolicy,
    /// Who is asked for paths that nobody declares: the first Ingress of the host.
    first: Option<&'i Annotated<'i>>,
    /// The Ingress without rules, whose default backend comes before that of `first`.
    catch_all: Option<&'i Annotated<'i>>,
    /// Who says what is asked of clients.
    demanded_by: Option<ObjectRef>,
    routes: Vec<(Route, RouteOrigin)>,
    declared: HashMap<PathMatch, ObjectRef>,
}

/// A backend and who asks for it.
struct Target<'a> {
    service: NsName,
    port: PortRef,
    asker: ObjectRef,
    origin: RouteOrigin,
    policy: &'a Policy,
}

// === impl Hosts ===

impl<'i> Hosts<'i> {
    fn draft(&mut self, name: HostName) -> &mut Draft<'i> {
        let place = *self.places.entry(name.clone()).or_insert(self.drafts.len());
        if place == self.drafts.len() {
            self.drafts.push(Draft {
                name,
                tls: HostTls::default(),
                policy: HostPolicy::default(),
                first: None,
                catch_all: None,
                demanded_by: None,
                routes: Vec::new(),
                declared: HashMap::new(),
            });
        }
        &mut self.drafts[place]
    }

    fn finish(self) -> (Vec<Host>, Vec<RouteOrigin>) {
        let mut origins = Vec::new();
        let mut hosts = Vec::with_capacity(self.drafts.len());
        for draft in self.drafts {
            let (routes, theirs): (Vec<_>, Vec<_>) = draft.routes.into_iter().unzip();
            origins.extend(theirs);
            hosts.push(Host { name: draft.name, tls: draft.tls, routes });
        }
        (hosts, origins)
    }
}

// === impl Builder ===

impl<'i> Builder<'_, 'i, '_> {
    /// Takes note of an Ingress' hosts.
    fn declare(&mut self, annotated: &'i Annotated<'i>) {
        let ingress = annotated.ingress;
        for rule in &ingress.spec.rules {
            match host_name(&rule.value) {
                Ok(name) => {
                    self.declare_host(annotated, name.clone());
                    if annotated.policy.passthrough {
                        self.declare_passthrough(annotated, &rule.value, &name);
                    }
                }
                Err((host, why)) => {
                    let message = format!("{why}; the rule is left out");
                    self.problems.push(Problem::at(Severity::Error, ingress, host, message));
                }
            }
        }
        let Some(backend) = &ingress.spec.default_backend else { return };
        if backend.value.service().is_none() {
            let message = "the default backend names no Service with a port; it is left out";
            let problem = Problem::at(Severity::Error, ingress, backend, message);
            self.problems.push(problem.because(Reason::Unsupported));
        } else if ingress.spec.rules.is_empty() {
            self.declare_host(annotated, HostName::Any);
            self.declare_catch_all(annotated);
        }
    }

    fn declare_host(&mut self, annotated: &'i Annotated<'i>, name: HostName) {
        if !self.hosts.draft(name.clone()).policy.has_tls
            && let Some(shown) = self.certificates.of_host(annotated.ingress, &name)
        {
            let draft = self.hosts.draft(name.clone());
            draft.policy.has_tls = true;
            if let Shown::Own(certificate) = shown {
                draft.tls.certificate = Some(certificate);
            }
        }
        let draft = self.hosts.draft(name);
        draft.policy.denials.extend_from_slice(&annotated.policy.host_denials);
        draft.first.get_or_insert(annotated);
        if !self.proxy_ssl_location_only && draft.policy.upstream_tls.is_none() {
            draft.policy.upstream_tls = annotated.policy.backend.secret().cloned();
        }
        draft.tls.ciphers = draft.tls.ciphers.take().or_else(|| annotated.policy.ciphers.clone());
        draft.tls.prefer_server_ciphers =
            draft.tls.prefer_server_ciphers.or(annotated.policy.prefer_server_ciphers);
        let Some(demand) = &annotated.demand else { return };
        if draft.policy.demand.as_ref() == Some(demand) {
            return;
        }
        if draft.policy.demand.is_none() {
            draft.tls.client_auth = demand.as_ref().ok().map(|demand| demand.auth.clone());
            draft.policy.demand = Some(demand.clone());
            draft.demanded_by = Some(annotated.ingress.reference());
        } else if let Some(first) = &draft.demanded_by {
            let message = format!(
                "{first} says what is asked of the clients of host {} already; auth-tls-* of this one have no effect there",
                draft.name
            );
            let problem = Problem::of(Severity::Warning, annotated.ingress, message);
            self.problems.push(problem.because(Reason::NoEffect));
        }
    }

    /// "Whole host by SNI to the Service; path `/` only."
    fn declare_passthrough(&mut self, annotated: &'i Annotated<'i>, rule: &IngressRule, name: &HostName) {
        let ingress = annotated.ingress;
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
        if self.hosts.draft(name.clone()).tls.passthrough.is_some() {
            return;
        }
        let (cluster, fault) = self.clusters.for_passthrough(&target.service, &target.port);
        self.hosts.draft(name.clone()).tls.passthrough = Some(cluster);
        if let Some(fault) = fault {
            let problem = Problem::at(Severity::Error, ingress, path, fault);
            self.problems.push(problem.because(Reason::Missing));
        }
    }

    fn declare_catch_all(&mut self, annotated: &'i Annotated<'i>) {
        let draft = self.hosts.draft(HostName::Any);
        match draft.catch_all {
            None => draft.catch_all = Some(annotated),
            Some(first) => {
                let first = first.ingress.reference();
                let message =
                    format!("{first} is the default backend of every host already; this one is left out");
                let problem = Problem::of(Severity::Warning, annotated.ingress, message);
                self.problems.push(problem.because(Reason::Conflict));
            }
        }
    }

    /// Makes routes of a rule's paths.
    fn paths(&mut self, annotated: &Annotated<'_>, rule: &IngressRule) {
        let Ok(name) = host_name(rule) else { return };
        for path in rule.http.iter().flat_map(|http| &http.paths) {
            if let Err((severity, reason, message)) = self.path(annotated, &name, path) {
                self.problems.push(Problem::at(severity, annotated.ingress, path, message).because(reason));
            }
        }
    }

    fn path(
        &mut self,
        annotated: &Annotated<'_>,
        name: &HostName,
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
        if let Some(first) = self.hosts.draft(name.clone()).declared.get(&path) {
            let (text, kind) = (path.path(), path_type(&path));
            let message = format!(
                "path {text} ({kind}) of host {name} is declared by {first} already; this one is left out"
            );
            let is_own = *first == ingress.reference();
            let reason = if is_own { Reason::NoEffect } else { Reason::Conflict };
            return Err((Severity::Warning, reason, message));
        }
        match self.route(name, path, &target) {
            Some(fault) => Err(error(Reason::Missing)(fault)),
            None => Ok(()),
        }
    }

    /// "Each host gets a "/" location: if no "/" path is declared, it is created from the first Ingress of the host (with
    /// that Ingress' annotations) to the default backend." Without one, the path stays without a route: that is a 404 too.
    fn default_locations(&mut self, global: &Global) {
        if self.options.default_backend_service.is_some() {
            self.hosts.draft(HostName::Any);
        }
        for place in 0..self.hosts.drafts.len() {
            let draft = &self.hosts.drafts[place];
            let root = |path: &PathMatch| path.path() == "/" && !matches!(path, PathMatch::Exact(_));
            if draft.declared.keys().any(root) {
                continue;
            }
            let name = draft.name.clone();
            let first = draft.catch_all.or(draft.first);
            let Some(target) = first.and_then(own_default).or_else(|| self.flag_default(first, global))
            else {
                continue;
            };
            if let Some(fault) = self.route(&name, PathMatch::Prefix("/".to_owned()), &target) {
                let problem = Problem::new(Severity::Error, format!("default backend: {fault}"))
                    .because(Reason::Missing);
                let RouteOrigin { object, file, line } = target.origin;
                self.problems.push(Problem { object: Some(object), file, line, ..problem });
            }
        }
    }

    /// What `--default-backend-service` names, with the annotations of the host's first Ingress.
    fn flag_default<'p>(&self, first: Option<&'p Annotated<'p>>, global: &'p Global) -> Option<Target<'p>> {
        let service = self.options.default_backend_service.clone()?;
        let port = self.clusters.first_port(&service).unwrap_or(PortRef::Number(80));
        let reference =
            ObjectRef { kind: "Service", namespace: service.namespace.clone(), name: service.name.clone() };
        let origin = RouteOrigin { object: reference.clone(), file: None, line: None };
        let policy = first.map_or(&global.policy, |annotated| &annotated.policy);
        let asker = first.map_or(reference, |annotated| annotated.ingress.reference());
        Some(Target { service, port, asker, origin, policy })
    }

    /// Adds a route. Tells what is wrong with its backend; the route is there in any case.
    fn route(&mut self, name: &HostName, path: PathMatch, target: &Target<'_>) -> Option<String> {
        let (cluster, fault) = {
            let of_host = self.hosts.draft(name.clone()).policy.upstream_tls.clone();
            self.clusters.for_requests(&target.service, &target.port, target.policy, of_host.as_ref())
        };
        let draft = self.hosts.draft(name.clone());
        let route = Route {
            filters: target.policy.filters(&draft.policy, self.options.https_port),
            action: Action::Forward(target.policy.forward(cluster)),
            labels: Labels {
                namespace: target.asker.namespace.clone(),
                object: target.asker.name.clone(),
                service: target.service.name.clone(),
                service_port: target.port.to_string(),
                path: path.path().to_owned(),
                host: name.to_string(),
            },
            access_log: target.policy.access_log,
            path: path.clone(),
        };
        draft.declared.insert(path, target.asker.clone());
        draft.routes.push((route, target.origin.clone()));
        fault
    }
}

/// The hosts that an Ingress is about.
pub(crate) fn hosts_of(ingress: &Ingress) -> impl Iterator<Item = HostName> {
    let of_rules = ingress.spec.rules.iter().filter_map(|rule| host_name(&rule.value).ok());
    let is_catch_all = ingress.spec.rules.is_empty() && ingress.spec.default_backend.is_some();
    of_rules.chain(is_catch_all.then_some(HostName::Any))
}

/// "`spec.defaultBackend` without rules = catch-all; with rules = default upstream of its hosts."
fn own_default<'p>(first: &'p Annotated<'p>) -> Option<Target<'p>> {
    let backend = first.ingress.spec.default_backend.as_ref()?;
    target(first, &backend.value, first.ingress.origin.line_of(backend))
}

fn target<'p>(annotated: &'p Annotated<'_>, backend: &Backend, line: Option<u32>) -> Option<Target<'p>> {
    let ingress = annotated.ingress;
    let (service, port) = backend.service()?;
    let file = ingress.origin.file.as_deref().map(Into::into);
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
