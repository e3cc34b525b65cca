//! A host with its routes, merged from the claims of all objects about it.
//!
//! The settings of the whole host are decided first (its certificate, its default backend, restrictions that
//! close it); then each draft becomes a route. Of two claims for the same setting or path, the first counts.
//! Only the namespace of the oldest object decides the settings of the whole host; the other objects are
//! `guests`.
//!
//! Never in here: the kinds of objects.

mod auth_services;
mod canaries;
mod errors;
pub(super) mod fallback;
mod guests;
mod locations;
mod passes;
mod routes;
mod terms;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::{
    Action, Alias, Certificate, ErrorPages, Host, HostName, HostScript, HostTls, LabelTexts, Labels,
    PathKind, PathMatch, Rare, Redirect, RedirectTarget, RequestFilter, RequestFilters, Route,
};

use super::claim::{CanaryClaim, Claim, DraftRoute, HostCertificate, NamedPort, www};
use super::clusters::ClusterQueries;
use super::origin::RouteOrigin;
use super::ownership::Terms;
use super::{acme, sign_in};
use crate::names::{NsName, ObjectRef, PortRef};
use crate::problem::{Problem, Reason, Severity, SourceLocation};
pub(super) use routes::files_of;
use terms::HostTerms;

/// A host, and the messages about it.
pub(super) struct Merged {
    pub(super) host: Host,
    /// Another host that redirects to this one, unless objects declare it.
    pub(super) www: Option<(Host, RouteOrigin)>,
    /// The object that declares each route, in the order of the routes.
    pub(super) origins: Vec<RouteOrigin>,
    pub(super) certificates: Vec<HostCertificate>,
    pub(super) problems: Vec<Problem>,
    /// Settings of all routes of the host, if any exist.
    pub(super) terms: Option<Arc<Terms>>,
    /// The number of the claim with the aliases of the host.
    pub(super) aliases_by: Option<usize>,
    /// Forebay obtains the certificate of the host.
    pub(super) is_obtained: bool,
}

/// The properties that a host without TLS of its own inherits from the wildcard that matches its name.
#[derive(Clone, Debug)]
pub(super) struct WildcardTls {
    /// The certificate of the wildcard; none for the default certificate.
    pub(super) certificate: Option<Arc<Certificate>>,
}

/// The parts that hosts share.
pub(super) struct Defaults<'d> {
    /// TLS of the hosts for which no object configures TLS. Most hosts share it.
    pub(super) tls: &'d Arc<HostTls>,
    /// The Service for requests that no route matches.
    pub(super) backend: Option<&'d NsName>,
    /// Makes the route to the default backend for a host without claims; the argument is the place of the
    /// Service.
    pub(super) route: &'d dyn Fn(SourceLocation) -> DraftRoute,
    /// The error pages, shared by routes with equal ones.
    pub(super) error_pages: &'d RefCell<HashSet<Arc<ErrorPages>>>,
}

/// Merges the claims of a host, which come in the order of age of their objects, the oldest first.
/// `wildcard`: an object serves the wildcard of this name over TLS, so its certificate applies to the host if
/// the host has none of its own.
pub(super) fn merge(
    name: &HostName,
    claims: Vec<Claim>,
    canaries: &[CanaryClaim],
    defaults: &Defaults<'_>,
    wildcard: Option<&WildcardTls>,
    clusters: &mut ClusterQueries<'_, '_>,
) -> Merged {
    let mut merge = Merge::new(name, &claims, defaults, clusters);
    merge.terms.wildcard_has_tls = wildcard.is_some();
    for (number, claim) in claims.iter().enumerate() {
        if merge.owner_before(claim).is_none() {
            merge.declare(number, claim);
        }
    }
    for (number, claim) in claims.iter().enumerate() {
        if let Some(owner) = merge.owner_before(claim) {
            merge.declare_guest(number, claim, &owner);
        }
    }
    if let Some(wildcard) = wildcard.filter(|_| !merge.terms.has_tls) {
        merge.tls.certificate.clone_from(&wildcard.certificate);
    }
    let askers: Vec<_> = claims.iter().map(|claim| claim.place.object.clone()).collect();
    let rest_of = merge.source_of_rest();
    if let Some((number, _)) = &merge.catch_all {
        // ingress-nginx reads default backends before rules: a rule for "/" comes second, however old it is.
        merge.declared.insert(PathMatch::root(), *number);
    }
    let mut rest = None;
    for (number, claim) in by_namespace(claims) {
        if rest_of == Some(number) {
            merge.hold_root(number, &claim.rest);
            rest = Some((number, claim.rest));
        }
        for route in claim.routes {
            if let Err(problem) = merge.declare_route(number, &askers, route) {
                merge.problems.push(*problem);
            }
        }
    }
    merge.attach_canaries(canaries, rest.as_mut().map(|(_, rest)| rest));
    merge.declare_rest(rest, defaults);
    merge.limit_to_certificate();
    merge.make_routes(&askers);
    merge.finish(defaults)
}

/// The claims with their numbers: first those of the owner's namespace, then those of each other namespace,
/// ordered by the age of its oldest object.
fn by_namespace(claims: Vec<Claim>) -> Vec<(usize, Claim)> {
    let mut namespaces: Vec<String> = Vec::new();
    for claim in &claims {
        if !namespaces.contains(&claim.place.object.namespace) {
            namespaces.push(claim.place.object.namespace.clone());
        }
    }
    let mut numbered: Vec<_> = claims.into_iter().enumerate().collect();
    numbered.sort_by_key(|(_, claim)| namespaces.iter().position(|it| *it == claim.place.object.namespace));
    numbered
}

/// The messages about a host that only canaries name. Such a host is not served.
pub(super) fn unclaimed(name: &HostName, canaries: &[CanaryClaim], tls: &Arc<HostTls>) -> Merged {
    let problem = |claim: &CanaryClaim| {
        let message = format!("no other Ingress has host {name}: there the canary takes nothing");
        Problem::in_place(Severity::Warning, &claim.place, message).because(Reason::NoEffect)
    };
    let host = Host {
        name: name.clone(),
        aliases: Rare::default(),
        tls: Arc::clone(tls),
        routes: Vec::new(),
        wider: None,
    };
    Merged {
        host,
        www: None,
        origins: Vec::new(),
        certificates: Vec::new(),
        problems: canaries.iter().map(problem).collect(),
        terms: None,
        aliases_by: None,
        is_obtained: false,
    }
}

/// Replaces equal parts of the new host by those of the old host, so that later stages find them unchanged.
/// Routes are matched by position, or by their labels if the positions differ.
pub(super) fn take_over(host: Host, old: Option<&Arc<Host>>) -> Arc<Host> {
    let Some(old) = old else { return Arc::new(host) };
    if **old == host {
        return Arc::clone(old);
    }
    let mut by_labels: HashMap<&Labels, Vec<&Arc<Route>>> = HashMap::new();
    for route in &old.routes {
        by_labels.entry(&route.labels).or_default().push(route);
    }
    let take_over = |(place, route): (usize, Arc<Route>)| {
        let in_place = old.routes.get(place).filter(|old| **old == route);
        let alike = by_labels.get(&*route.labels);
        let same = || alike.and_then(|alike| alike.iter().copied().find(|old| **old == route));
        match (in_place.or_else(same), alike.and_then(|alike| alike.first())) {
            (Some(old), _) => Arc::clone(old),
            (None, Some(old)) => {
                let mut route = Arc::unwrap_or_clone(route);
                canaries::take_over_name(&mut route, old);
                Arc::new(Route { labels: Arc::clone(&old.labels), ..route })
            }
            (None, None) => route,
        }
    };
    let routes = host.routes.into_iter().enumerate().map(take_over).collect();
    let tls = if old.tls == host.tls { Arc::clone(&old.tls) } else { host.tls };
    Arc::new(Host { name: host.name, aliases: host.aliases, tls, routes, wider: host.wider })
}

struct Merge<'m, 'c, 'a> {
    name: &'m HostName,
    /// The oldest object. It owns the host, and its annotations apply to paths that no object declares.
    owner: Option<ObjectRef>,
    clusters: &'m mut ClusterQueries<'c, 'a>,
    defaults: &'m Defaults<'m>,
    problems: Vec<Problem>,
    problems_of_certificates: Vec<Problem>,
    certificates: Vec<HostCertificate>,
    tls: HostTls,
    terms: HostTerms,
    /// The rights of each claim, by number.
    standings: Vec<ClaimEffect>,
    /// The claim of the default backend for all hosts, which takes precedence over the owner's claim.
    catch_all: Option<(usize, ObjectRef)>,
    /// The object that configures client certificates.
    client_auth_by: Option<ObjectRef>,
    /// The object whose snippet applies to the host.
    script_by: Option<ObjectRef>,
    /// The script for all requests of the host, once a route has needed it.
    host_script: OnceCell<Option<Arc<HostScript>>>,
    aliases: Vec<Alias>,
    /// The number of the claim with the aliases.
    aliases_by: Option<usize>,
    /// The longest path of the object whose `app_root` applies.
    app_root_by: (usize, String),
    www_redirect: Option<(u16, SourceLocation)>,
    /// The certificate covers that name too.
    covers_www: bool,
    /// Forebay obtains the certificate.
    is_obtained: bool,
    /// The route that answers the challenge of an order in progress.
    challenge: Option<(Route, RouteOrigin)>,
    /// The drafts of all routes.
    drafts: Vec<Declared>,
    /// The rules at which an auth service may be found.
    asked_here: Vec<auth_services::Asked>,
    routes: Vec<Arc<Route>>,
    origins: Vec<RouteOrigin>,
    /// The number of the claim that declares each path.
    declared: HashMap<PathMatch, usize, foldhash::fast::FixedState>,
    /// The paths that have an owner, in every spelling; empty if the host has no guests.
    held: guests::Held,
}

/// A draft that becomes one or more routes.
struct Declared {
    /// The number of its claim; none for a draft without a claim.
    number: Option<usize>,
    draft: DraftRoute,
    /// The draft is for requests that no declared path matches.
    is_rest: bool,
    /// The path that the draft adds to those of the owner, if its object is a guest.
    of_guest: Option<PathMatch>,
}

/// The effect of an object's claim on its own routes.
#[derive(Clone, Default)]
struct ClaimEffect {
    /// The object's routes redirect to TLS, although the owner does not use TLS at this host.
    has_tls: bool,
    /// The reason for closing the object's routes: it is not the owner, and client certificates cannot be
    /// required of the whole host.
    closed: Option<String>,
    /// The object configures client certificates itself.
    asks_clients: bool,
    /// The reasons for closing the object's routes. If the object were the owner, all routes of the host
    /// would be closed.
    denials: Vec<String>,
}

// === impl Merge ===

impl<'m, 'c, 'a> Merge<'m, 'c, 'a> {
    fn new(
        name: &'m HostName,
        claims: &[Claim],
        defaults: &'m Defaults<'m>,
        clusters: &'m mut ClusterQueries<'c, 'a>,
    ) -> Self {
        Self {
            name,
            owner: claims.first().map(|claim| claim.place.object.clone()),
            clusters,
            defaults,
            problems: Vec::new(),
            problems_of_certificates: Vec::new(),
            certificates: Vec::new(),
            tls: HostTls::default(),
            terms: HostTerms::default(),
            standings: vec![ClaimEffect::default(); claims.len()],
            catch_all: None,
            client_auth_by: None,
            script_by: None,
            host_script: OnceCell::new(),
            aliases: Vec::new(),
            aliases_by: None,
            app_root_by: (0, String::new()),
            www_redirect: None,
            covers_www: false,
            is_obtained: false,
            challenge: None,
            drafts: Vec::new(),
            asked_here: Vec::new(),
            routes: Vec::new(),
            origins: Vec::new(),
            declared: HashMap::default(),
            held: guests::Held::of(claims),
        }
    }

    /// Applies the settings of an object in the owner's namespace to the whole host.
    fn declare(&mut self, number: usize, claim: &Claim) {
        let tls = &claim.tls;
        self.standings[number].asks_clients = tls.client_auth.is_some();
        if !self.terms.has_tls
            && let Some(certificate) = &tls.certificate
        {
            self.terms.has_tls = true;
            self.covers_www = certificate.covers_www;
            self.terms.certificate_names.clone_from(&certificate.names);
            self.tls.certificate.clone_from(&certificate.shown);
            self.certificates.extend(certificate.told.clone());
            self.problems_of_certificates.extend(certificate.problem.clone());
            if let Some(acme) = &certificate.acme {
                self.is_obtained = true;
                self.tls.challenge = acme::certificate(acme);
                self.challenge = acme::route(self.name, acme);
            }
        }
        self.terms.denials.extend_from_slice(&claim.denials);
        self.terms.upstream_tls = self.terms.upstream_tls.take().or_else(|| tls.upstream.clone());
        self.tls.ciphers = self.tls.ciphers.take().or_else(|| tls.ciphers.clone());
        self.tls.early_data = self.tls.early_data.or(tls.early_data);
        self.tls.prefer_server_ciphers = self.tls.prefer_server_ciphers.or(tls.prefer_server_ciphers);
        self.declare_client_auth(claim);
        self.declare_app_root(claim);
        if self.aliases.is_empty() && !claim.aliases.is_empty() {
            self.aliases.clone_from(&claim.aliases);
            self.aliases_by = Some(number);
        }
        self.declare_script(claim);
        if self.www_redirect.is_none() {
            self.www_redirect = claim.www_redirect.map(|status| (status, claim.place.clone()));
        }
        if let Some(passthrough) = &tls.passthrough {
            self.problems.extend_from_slice(&passthrough.problems);
            self.declare_passthrough(passthrough.backends.first());
        }
        if claim.is_catch_all {
            self.declare_catch_all(number, claim);
        }
    }

    /// Applies the snippet of a claim: "The first Ingress that has one, a second is ignored."
    fn declare_script(&mut self, claim: &Claim) {
        let Some(script) = &claim.script else { return };
        let Some(first) = &self.script_by else {
            self.terms.script = Some(Arc::clone(script));
            self.script_by = Some(claim.place.object.clone());
            return;
        };
        let (name, what) = (self.name, claim.words.script);
        let message =
            format!("{first} has a {what} for host {name} already; that of this one is ignored there");
        let problem = Problem::in_place(Severity::Warning, &claim.place, message);
        self.problems.push(problem.because(Reason::NoEffect));
    }

    fn declare_client_auth(&mut self, claim: &Claim) {
        let Some(client_auth) = &claim.tls.client_auth else { return };
        if self.terms.client_auth.as_ref() == Some(client_auth) {
            return;
        }
        if self.terms.client_auth.is_none() {
            self.tls.client_auth = client_auth.as_ref().ok().map(|policy| policy.auth.clone());
            self.terms.client_auth = Some(client_auth.clone());
            self.client_auth_by = Some(claim.place.object.clone());
        } else if let Some(first) = &self.client_auth_by {
            let message = format!(
                "{first} says what is asked of the clients of host {} already; {} of this one have no effect there",
                self.name, claim.words.client_auth
            );
            let problem = Problem::in_place(Severity::Warning, &claim.place, message);
            self.problems.push(problem.because(Reason::NoEffect));
        }
    }

    /// Applies the `app_root` of a claim. nginx tries the locations in the order of their length: among
    /// several Ingresses, the one with the longest path decides.
    fn declare_app_root(&mut self, claim: &Claim) {
        let paths = claim.routes.iter().flatten().map(|route| route.path.path());
        let longest = paths.map(|path| (path.len(), path.to_owned())).max().unwrap_or_default();
        if let Some(path) = &claim.app_root
            && (self.terms.app_root.is_none() || longest > self.app_root_by)
        {
            self.terms.app_root = Some(path.clone());
            self.app_root_by = longest;
        }
    }

    fn declare_passthrough(&mut self, backend: Option<&(NamedPort, SourceLocation)>) {
        let Some((NamedPort { service, port }, place)) = backend.filter(|_| self.tls.passthrough.is_none())
        else {
            return;
        };
        let (cluster, fault) = self.clusters.for_passthrough(service, port);
        self.tls.passthrough = Some(cluster);
        if let Some(fault) = fault {
            let problem = Problem::in_place(Severity::Error, place, fault);
            self.problems.push(problem.because(Reason::Missing));
        }
    }

    fn declare_catch_all(&mut self, number: usize, claim: &Claim) {
        let Some((_, first)) = &self.catch_all else {
            self.catch_all = Some((number, claim.place.object.clone()));
            return;
        };
        let message = format!("{first} is the default backend of every host already; this one is ignored");
        let problem = Problem::in_place(Severity::Warning, &claim.place, message);
        self.problems.push(problem.because(Reason::Conflict));
    }

    fn declare_route(
        &mut self,
        number: usize,
        askers: &[ObjectRef],
        route: Result<DraftRoute, Box<Problem>>,
    ) -> Result<(), Box<Problem>> {
        let route = route?;
        if let Some(&first) = self.declared.get(&route.path) {
            let (text, kind, name) = (route.path.path(), route.path.kind().as_str(), self.name);
            let first_asker = &askers[first];
            let message = format!(
                "path {text} ({kind}) of host {name} is declared by {first_asker} already; this one is ignored"
            );
            let reason = if first == number { Reason::NoEffect } else { Reason::Conflict };
            let problem = Problem::in_place(Severity::Warning, &route.place, message);
            return Err(Box::new(problem.because(reason)));
        }
        let of_guest = self.hold(&route, askers, number)?;
        self.declared.insert(route.path.clone(), number);
        self.drafts.push(Declared { number: Some(number), draft: route, is_rest: false, of_guest });
        Ok(())
    }

    /// The claim whose settings apply to undeclared paths: that of the owner. Requests for unknown hosts have
    /// no owner.
    fn source_of_rest(&self) -> Option<usize> {
        match &self.catch_all {
            Some((number, _)) => Some(*number),
            None => (*self.name != HostName::Any).then_some(0),
        }
    }

    /// Adds the draft for `/` if no object declares this path. "Each host gets a "/" location: if no "/" path
    /// is declared, it is created from the first Ingress of the host (with that Ingress' annotations) to the
    /// default backend."
    fn declare_rest(&mut self, rest: Option<(usize, DraftRoute)>, defaults: &Defaults<'_>) {
        let root = |path: &PathMatch| path.path() == "/" && path.kind() != PathKind::Exact;
        if self.catch_all.is_none() && self.declared.keys().any(root) {
            return;
        }
        let number = rest.as_ref().map(|(number, _)| *number);
        let mut rest = rest.map(|(_, route)| route);
        let has_backend = rest.as_ref().is_some_and(|rest| rest.backend.is_some());
        if let Some(service) = defaults.backend.filter(|_| !has_backend) {
            let port = self.clusters.first_port(service).unwrap_or(PortRef::Number(80));
            let NsName { namespace, name } = service.clone();
            let object = ObjectRef { kind: "Service", namespace, name };
            let place = SourceLocation { object, uid: None, file: None, line: None, ingress: None };
            let mut route = rest.unwrap_or_else(|| (defaults.route)(place.clone()));
            route.place = place;
            route.backend = Some(NamedPort { service: service.clone(), port });
            rest = Some(route);
        }
        self.drafts.extend(rest.map(|draft| Declared { number, draft, is_rest: true, of_guest: None }));
    }

    /// Restricts TLS of aliases to those in the certificate: "Certificate and https redirect only if the
    /// certificate covers" an alias.
    fn limit_to_certificate(&mut self) {
        if self.aliases.is_empty() {
            return;
        }
        let names = self.terms.certificate_names.iter().chain([self.name]).cloned();
        let covered: Arc<[HostName]> = names.collect();
        self.tls.shown_for = self.tls.certificate.is_some().then(|| Arc::clone(&covered));
        self.terms.covered = Some(covered);
    }

    /// The host that redirects its clients to this one.
    fn www(&self) -> Option<(Host, RouteOrigin)> {
        let ((status, place), name) = (self.www_redirect.clone()?, www(self.name)?);
        let to = RedirectTarget::Host(self.name.to_string());
        let filters = vec![RequestFilter::Redirect(Redirect { status, to })];
        let labels = Labels::from(LabelTexts {
            namespace: place.object.namespace.clone(),
            object: place.object.name.clone(),
            path: "/".to_owned(),
            host: name.clone(),
            ..LabelTexts::default()
        });
        let mut route = Route::new(PathMatch::root(), Action::NotFound, Arc::new(labels));
        route.request_filters = RequestFilters::new(filters).expect("it is one");
        let certificate = self.tls.certificate.clone().filter(|_| self.covers_www);
        let tls = Arc::new(HostTls { certificate, ..HostTls::default() });
        let host = Host {
            name: HostName::Exact(name),
            aliases: Rare::default(),
            tls,
            routes: vec![Arc::new(route)],
            wider: None,
        };
        Some((host, place.into()))
    }

    fn finish(self, defaults: &Defaults<'_>) -> Merged {
        let www = self.www();
        let terms = self.terms.of_all_routes();
        let mut problems = self.problems;
        problems.extend(self.problems_of_certificates);
        problems.extend(self.clusters.take_problems());
        let (mut routes, mut origins) = (self.routes, self.origins);
        if let Some((route, origin)) = self.challenge {
            acme::add(route, origin, &mut routes, &mut origins);
        }
        let taken = sign_in::add_endpoints(&mut routes, &mut origins, &mut Vec::new());
        problems.extend(taken.into_iter().map(|taken| taken.problem(self.name)));
        routes.shrink_to_fit();
        let tls = if self.tls == **defaults.tls { Arc::clone(defaults.tls) } else { Arc::new(self.tls) };
        let host = Host { name: self.name.clone(), aliases: self.aliases.into(), tls, routes, wider: None };
        let (certificates, aliases_by) = (self.certificates, self.aliases_by);
        let is_obtained = self.is_obtained;
        Merged { host, www, origins, certificates, problems, terms, aliases_by, is_obtained }
    }
}

#[cfg(test)]
mod tests {
    use model::{Backends, ClusterId, Forward, Transfer};

    use super::*;

    fn route(path: &str, cluster: u32) -> Arc<Route> {
        let draft = DraftRoute::new(PathMatch::prefix(path).unwrap(), None, place());
        let DraftRoute { path, timeouts, retry, body_bytes_max, connection_header, .. } = draft;
        let backends = Backends::One(ClusterId(cluster));
        let forward = Forward {
            backends,
            timeouts: timeouts.into(),
            retry: retry.into(),
            body_bytes_max: body_bytes_max.into(),
            connection_header,
            sets_affinity_cookie: false,
            head: None,
            transfer: Transfer::default().into(),
            cache: None,
            overload: None,
            priority: model::overload::Priority::default(),
            fallback: None,
        };
        Arc::new(Route::new(path, Action::Forward(forward), Arc::default()))
    }

    fn place() -> SourceLocation {
        let object = ObjectRef { kind: "HTTPRoute", namespace: "a".to_owned(), name: "b".to_owned() };
        SourceLocation { object, uid: None, file: None, line: None, ingress: None }
    }

    fn host(routes: Vec<Arc<Route>>) -> Host {
        Host { name: HostName::Any, aliases: Rare::default(), tls: Arc::default(), routes, wider: None }
    }

    #[test]
    fn routes_that_stay_are_known_although_others_have_the_same_labels() {
        let old = Arc::new(host(vec![route("/a", 0), route("/b", 0), route("/c", 0)]));
        let same = |new: &Host, places: &[(usize, usize)]| {
            places.iter().all(|&(new_at, old_at)| Arc::ptr_eq(&new.routes[new_at], &old.routes[old_at]))
        };
        let new = take_over(host(vec![route("/a", 0), route("/b", 1), route("/c", 0)]), Some(&old));
        assert!(same(&new, &[(0, 0), (2, 2)]) && !same(&new, &[(1, 1)]));
        assert_eq!(*new.routes[1], *route("/b", 1));
        let new = take_over(host(vec![route("/new", 0), route("/a", 0), route("/b", 0)]), Some(&old));
        assert!(same(&new, &[(1, 0), (2, 1)]) && *new.routes[0] == *route("/new", 0));
        assert!(Arc::ptr_eq(&new.routes[0].labels, &old.routes[0].labels), "equal labels are shared");
        let again = take_over(host(vec![route("/a", 0), route("/b", 0), route("/c", 0)]), Some(&old));
        assert!(Arc::ptr_eq(&again, &old));
    }
}
