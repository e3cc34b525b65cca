//! The routes of one Ingress.
//!
//! A host that redirects its clients to TLS has two: one at the listener of HTTP, which redirects, and one at
//! the listener of HTTPS.
//!
//! Never in here: listeners, and the content of single filters.

use std::collections::{BTreeMap, BTreeSet};

use super::annotations::Annotations;
use super::backends::{self, Canaries, Service, with_headers};
use super::defaults::Defaults;
use super::document::{Document, all, at};
use super::draft::{Draft, MATCHES_MAX, Made, Role, joined, redirecting};
use super::filters::Common;
use super::grpc;
use super::hosts::{Host, Hosts, Name, Rule, declare, rules};
use super::kinds::AttachedRoute;
use super::listeners::{Listeners, Sections};
use super::names::Names;
use super::paths::{self, Mode};
use super::policy::Attached;
use super::protocol::Protocol;
use super::redirects;
use crate::index::Index;
use crate::names::NsName;
use crate::objects::gateway_api::{
    Filter, HttpMatch, HttpRoute, HttpRouteRule, HttpRouteSpec, ParentReference, PathMatch, PathMatchType,
    ValueMatch,
};
use crate::objects::{At, Resource};
use crate::problem::{Problem, Reason, Severity, SourceLocation};

/// The remark for a host, or an alias of a host, without an HTTPS listener.
const IN_CLEAR: &str =
    "Served over HTTP only. ingress-nginx also serves it over HTTPS, with a certificate that is not for it.";

/// The remark for redirects to TLS.
const TO_TLS: &str = "ingress-nginx drops a slash at the end of Location, and redirects paths that no rule takes before it answers 404.";

/// The remark for redirects from one host name to another.
const TO_HOST: &str = "ingress-nginx drops a slash at the end of Location, and writes the port.";

/// The most rules of a route (Gateway API).
const RULES_MAX: usize = 16;

/// The results that all Ingresses share.
pub(super) struct Context<'s> {
    pub(super) index: &'s Index,
    pub(super) hosts: &'s Hosts,
    pub(super) listeners: &'s Listeners<'s>,
    pub(super) canaries: &'s Canaries<'s>,
    pub(super) defaults: &'s Defaults,
    /// The Ingresses that cannot become `GRPCRoute`s.
    pub(super) as_http: &'s BTreeSet<NsName>,
}

/// The paths that have an owner, by host, with the name of the owning Ingress.
pub(super) type Claims = BTreeMap<(Name, String), String>;

/// The settings of an Ingress that hold for all its rules.
pub(super) struct Wishes<'i> {
    pub(super) annotations: &'i Annotations<'i>,
    pub(super) common: Common,
    pub(super) redirect: Option<(Filter, Vec<String>)>,
    pub(super) protocol: Protocol,
    /// Clients are redirected to TLS: where the host has a certificate, and always.
    pub(super) to_tls: (bool, bool),
    /// The reason for closing the Ingress: a setting that restricts access has no counterpart.
    pub(super) closed: Option<String>,
}

/// The routes of an Ingress.
pub(super) struct Routes {
    pub(super) documents: Vec<Document>,
    pub(super) attached: Vec<Attached>,
    pub(super) placed: Vec<AttachedRoute>,
    /// The Services that the routes send requests to.
    pub(super) services: Vec<Service>,
    pub(super) findings: Vec<Problem>,
}

/// Creates the routes of an Ingress.
pub(super) fn make<'s>(
    wishes: &Wishes<'s>,
    around: &Context<'s>,
    claims: &mut Claims,
    names: &mut Names,
) -> Routes {
    let mut maker = Maker { wishes, around, claims, services: Vec::new(), findings: Vec::new() };
    let drafts = maker.drafts();
    let Maker { services, findings, .. } = maker;
    let mut routes =
        Routes { documents: Vec::new(), attached: Vec::new(), placed: Vec::new(), services, findings };
    routes.write(drafts, wishes, names);
    routes
}

struct Maker<'m, 's> {
    wishes: &'m Wishes<'s>,
    around: &'m Context<'s>,
    claims: &'m mut Claims,
    services: Vec<Service>,
    findings: Vec<Problem>,
}

impl<'s> Maker<'_, 's> {
    fn drafts(&mut self) -> Vec<Draft> {
        let ingress = self.wishes.annotations.ingress;
        let mut rules = rules(ingress);
        if ingress.spec.rules.is_empty() && ingress.spec.default_backend.is_some() {
            rules.push(Rule { host: None, paths: Vec::new() });
        }
        let mut drafts: Vec<Draft> = Vec::new();
        for rule in &rules {
            for draft in self.of_host(rule) {
                match drafts.iter_mut().find(|known| known.takes(&draft)) {
                    Some(known) => known.join(draft),
                    None => drafts.push(draft),
                }
            }
        }
        drafts
    }

    fn of_host(&mut self, rule: &Rule<'s>) -> Vec<Draft> {
        let namespace = self.wishes.annotations.ingress.namespace();
        let unknown = Host::default();
        let host = self.around.hosts.get(&rule.host).unwrap_or(&unknown);
        let mut made = self.rules(rule, host);
        let Some(first) = made.first_mut() else { return Vec::new() };
        let Sections { http, https } = self.around.listeners.of(&rule.host, namespace);
        if https.is_none() {
            first.remarks.push(IN_CLEAR.to_owned());
        }
        let (with_certificate, always) = self.wishes.to_tls;
        let is_catch_all = self.wishes.annotations.ingress.spec.rules.is_empty();
        let redirects = !is_catch_all && (always || with_certificate && host.has_tls);
        // A name that the certificate does not cover is served in clear, unless all clients are redirected to
        // TLS.
        let (covered, clear): (Vec<_>, Vec<_>) =
            host.aliases.iter().partition(|(_, is_covered)| *is_covered || always || !host.has_tls);
        let names = |aliases: Vec<&(String, bool)>| {
            aliases.into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let (covered, clear) = (names(covered), names(clear));
        let own_https = |name: &String| self.around.listeners.of(&Some(name.clone()), namespace).https;
        let mut secure: Vec<_> = https.clone().into_iter().collect();
        for section in covered.iter().filter_map(own_https) {
            if !secure.contains(&section) {
                secure.push(section);
            }
        }
        let hostnames: Vec<_> = rule.host.iter().chain(&covered).cloned().collect();
        let mut drafts = Vec::new();
        if !clear.is_empty() {
            let (parents, mut rules) = (vec![http.clone()], made.clone());
            rules[0].remarks.push(IN_CLEAR.to_owned());
            drafts.push(Draft { hostnames: clear, parents, rules, role: Role::Whole });
        }
        if redirects {
            let mut clear = self.in_clear(&made);
            if secure.is_empty() {
                let lacks = "the host has no certificate, so that the Gateway has no listener for HTTPS: redirects lead nowhere until it has one";
                let remark = self.wishes.annotations.lose(Severity::Warning, "force-ssl-redirect", lacks);
                clear[0].remarks.extend([IN_CLEAR.to_owned(), remark]);
            } else {
                let hsts = self.around.defaults.hsts.as_deref();
                let rules = made.into_iter().map(|one| one.told_to_stay(hsts)).collect();
                drafts.push(Draft {
                    hostnames: hostnames.clone(),
                    parents: secure,
                    rules,
                    role: Role::Secure,
                });
            }
            drafts.push(Draft { hostnames, parents: vec![http.clone()], rules: clear, role: Role::Clear });
        } else {
            let parents = std::iter::once(http.clone()).chain(secure).collect();
            drafts.push(Draft { hostnames, parents, rules: made, role: Role::Whole });
        }
        drafts.extend(self.www(rule, host, http, https));
        drafts
    }

    /// The rules at the HTTP listener if clients are redirected to HTTPS.
    fn in_clear(&self, made: &[Made]) -> Vec<Made> {
        let filter = redirects::to_tls(self.around.defaults.redirect_status);
        let redirect = |matches| Made {
            rule: HttpRouteRule { matches, filters: all([filter.clone()]), ..HttpRouteRule::default() },
            remarks: vec![TO_TLS.to_owned()],
            is_exempt: false,
            is_first: false,
        };
        let stays = |made: &&Made| made.is_exempt || made.is_first;
        let mut rules: Vec<_> = made.iter().filter(stays).cloned().collect();
        let sent: Vec<_> = made.iter().filter(|made| !stays(made)).collect();
        if self.around.defaults.believes_hops {
            // A client that uses TLS towards a proxy in front of us needs no redirect.
            let scheme = ValueMatch {
                name: "X-Forwarded-Proto".into(),
                value: "https".into(),
                ..ValueMatch::default()
            };
            for one in &sent {
                let matches = one
                    .rule
                    .matches
                    .iter()
                    .map(|it| at(with_headers(&it.value, std::slice::from_ref(&scheme))));
                let rule = HttpRouteRule { matches: matches.collect(), ..one.rule.clone() };
                rules.push(Made { rule, ..(*one).clone() });
            }
        }
        let mut matches: Vec<At<HttpMatch>> = Vec::new();
        for one in sent.iter().flat_map(|made| &made.rule.matches) {
            let bare = at(HttpMatch { path: one.value.path.clone(), ..HttpMatch::default() });
            if !matches.contains(&bare) {
                matches.push(bare);
            }
        }
        let is_root = |one: &At<HttpMatch>| one.value.path.as_ref().is_some_and(|path| *path == root());
        if rules.is_empty() && matches.iter().any(is_root) {
            matches.retain(is_root);
        }
        rules.extend(matches.chunks(MATCHES_MAX).map(|matches| redirect(matches.to_vec())));
        rules
    }

    /// A route that redirects from the alternative name of a host.
    fn www(
        &self,
        rule: &Rule<'_>,
        host: &Host,
        http: ParentReference,
        https: Option<ParentReference>,
    ) -> Option<Draft> {
        if !self.wishes.annotations.is_on("from-to-www-redirect") {
            return None;
        }
        let from = host
            .redirected_from
            .clone()
            .filter(|from| !self.around.hosts.contains_key(&Some(from.clone())))?;
        let filter = redirects::to_host(rule.host.as_deref()?, self.around.defaults.redirect_status);
        let rule = HttpRouteRule { filters: all([filter]), ..HttpRouteRule::default() };
        let made = Made { rule, remarks: vec![TO_HOST.to_owned()], is_exempt: false, is_first: true };
        let https = https.map(|https| {
            let own = self
                .around
                .listeners
                .of(&Some(from.clone()), self.wishes.annotations.ingress.namespace())
                .https;
            own.unwrap_or(https)
        });
        let parents = std::iter::once(http).chain(https).collect();
        Some(Draft { hostnames: vec![from], parents, rules: vec![made], role: Role::Www })
    }

    /// The rules of an Ingress at a host, without the paths that an older Ingress owns.
    fn rules(&mut self, rule: &Rule<'s>, host: &Host) -> Vec<Made> {
        let ingress = self.wishes.annotations.ingress;
        let mut made = Vec::new();
        if let Some(path) =
            host.app_root.as_deref().filter(|_| self.wishes.annotations.text("app-root").is_some())
        {
            let matches =
                vec![at(of_path(PathMatch { kind: PathMatchType::Exact, value: Some("/".into()) }))];
            if path.contains('$') {
                let what =
                    "variables in a redirect have no counterpart in the Gateway API; the redirect is ignored";
                self.wishes.annotations.lose(Severity::Warning, "app-root", what);
            } else {
                let filters = all([redirects::to_path(path, 302)]);
                made.push(Made { is_first: true, ..redirecting(matches, filters) });
            }
        }
        let target = paths::target(self.wishes.annotations);
        let mut paths = rule.paths.clone();
        if host.mode == Mode::Expressions {
            paths.sort_by_key(|path| {
                let path = declare(&path.value, None).path;
                (std::cmp::Reverse(path.len()), std::cmp::Reverse(path))
            });
        }
        for path in paths {
            let declared = declare(&path.value, target);
            if !declared.path.starts_with('/') {
                continue;
            }
            let converted = paths::convert(&declared, host.mode);
            let place = SourceLocation::at(ingress, path);
            if self.claims_path(&rule.host, &converted.path, &place) {
                let canary = self.around.canaries.find(
                    ingress.namespace(),
                    &rule.host,
                    declared.path,
                    declared.is_exact,
                );
                let is_exempt = self.around.defaults.is_exempt(declared.path);
                let of_path = self.of_path(&converted, &path.value.backend, canary, &place);
                made.extend(of_path.into_iter().map(|one| Made { is_exempt, ..one }));
            }
        }
        if let Some(backend) = &ingress.spec.default_backend {
            let place = SourceLocation::at(ingress, backend);
            let converted = paths::Converted::of(root());
            let key = (rule.host.clone(), key(&converted.path));
            if !self.claims.contains_key(&key) && self.claims_path(&rule.host, &converted.path, &place) {
                made.extend(self.of_path(&converted, &backend.value, None, &place));
            }
        }
        joined(made)
    }

    /// Whether no older Ingress owns the path.
    fn claims_path(&mut self, host: &Name, path: &PathMatch, place: &SourceLocation) -> bool {
        let key = (host.clone(), key(path));
        let own = place.object.to_string();
        let Some(owner) = self.claims.get(&key) else {
            self.claims.insert(key, own);
            return true;
        };
        let name = host.as_deref().map_or("all hosts".to_owned(), |host| format!("host {host}"));
        let message =
            format!("path {} of {name} is ignored: {owner} has it", path.value.as_deref().unwrap_or("/"));
        self.findings.push(Problem::in_place(Severity::Warning, place, message).because(Reason::Conflict));
        false
    }

    fn of_path(
        &mut self,
        converted: &paths::Converted,
        backend: &crate::objects::Backend,
        canary: Option<&backends::Canary<'s>>,
        place: &SourceLocation,
    ) -> Vec<Made> {
        let matches = of_path(converted.path.clone());
        let mut made = Vec::new();
        if let Some(bare) = &converted.adds_slash_to {
            let bare = of_path(PathMatch { kind: PathMatchType::Exact, value: Some(bare.as_str().into()) });
            let to = format!("{}/", converted.path.value.as_deref().unwrap_or_default());
            let rule = redirecting(vec![at(bare)], all([redirects::to_path(&to, 301)]));
            made.push(Made { is_first: true, ..rule });
        }
        if let Some((filter, remarks)) = &self.wishes.redirect {
            let one = redirecting(vec![at(matches)], all([filter.clone()]));
            made.push(Made { remarks: remarks.clone(), is_first: true, ..one });
            return made;
        }
        let mut remarks: Vec<_> = converted.remark.map(str::to_owned).into_iter().collect();
        if let Some(lacks) = &converted.lacks {
            let message = format!("rewrite-target: {lacks}; requests are answered 500");
            self.findings.push(
                Problem::in_place(Severity::Warning, place, message.clone()).because(Reason::Unsupported),
            );
            remarks.push(message);
        }
        let namespace = self.wishes.annotations.ingress.namespace();
        let service = backends::service(backend, namespace, self.around.index);
        if let Err(why) = &service {
            let message = format!("{why}; requests are answered 500");
            self.findings
                .push(Problem::in_place(Severity::Warning, place, message.clone()).because(Reason::Missing));
            remarks.push(message);
        }
        let is_closed = self.wishes.closed.is_some() || converted.lacks.is_some();
        let service = service.ok().filter(|_| !is_closed);
        let Some(service) = service else {
            let rule = HttpRouteRule { matches: vec![at(matches)], ..HttpRouteRule::default() };
            made.push(Made { rule, remarks, is_exempt: false, is_first: false });
            return made;
        };
        let is_rewritten = converted.change.is_some();
        let filters = self.wishes.common.filters_with(converted.change.clone(), is_rewritten);
        for share in backends::shares(&service, canary, self.around.index, &mut self.findings) {
            let mut remarks = remarks.clone();
            remarks.extend(share.remark);
            let rule = HttpRouteRule {
                matches: vec![at(with_headers(&matches, &share.headers))],
                filters: filters.clone(),
                backend_refs: share.backends,
                session_persistence: self.wishes.common.session.clone().map(Box::new),
                ..HttpRouteRule::default()
            };
            made.push(Made { rule, remarks, is_exempt: false, is_first: false });
        }
        if !self.services.contains(&service) {
            self.services.push(service);
        }
        made
    }
}

/// The key of a path among the claims.
fn key(path: &PathMatch) -> String {
    format!("{} {}", path.kind.as_str(), path.value.as_deref().unwrap_or("/"))
}

fn root() -> PathMatch {
    PathMatch { kind: PathMatchType::PathPrefix, value: Some("/".into()) }
}

fn of_path(path: PathMatch) -> HttpMatch {
    HttpMatch { path: Some(path), ..HttpMatch::default() }
}

impl Routes {
    fn write(&mut self, drafts: Vec<Draft>, wishes: &Wishes<'_>, names: &mut Names) {
        let ingress = wishes.annotations.ingress;
        let mut own = Some(ingress.name());
        for draft in drafts {
            let begin = match draft.role {
                Role::Whole | Role::Secure => ingress.name().to_owned(),
                Role::Clear => format!("{}-http", ingress.name()),
                Role::Www => format!("{}-www", ingress.name()),
            };
            for rules in draft.rules.chunks(RULES_MAX) {
                let name = match own.take_if(|own| *own == begin) {
                    Some(own) => own.to_owned(),
                    None => names.take(ingress.namespace(), &begin),
                };
                self.route(&name, &draft, rules, wishes);
            }
        }
    }

    fn route(&mut self, name: &str, draft: &Draft, rules: &[Made], wishes: &Wishes<'_>) {
        let namespace = wishes.annotations.ingress.namespace();
        let serves = matches!(draft.role, Role::Whole | Role::Secure);
        let grpc = Some(rules).filter(|_| serves && wishes.protocol.is_grpc_route).and_then(grpc::spec);
        self.placed.push(AttachedRoute::new(wishes.annotations.ingress.key(), grpc.is_some(), draft));
        let mut document = if let Some(spec) = grpc {
            let spec = grpc::with(spec, draft);
            self.attached.push(Attached { kind: grpc::KIND, name: name.to_owned() });
            Document::of_gateway_api(grpc::KIND, Some(namespace), name, &spec)
        } else {
            let spec = HttpRouteSpec {
                parent_refs: all(draft.parents.iter().cloned()),
                hostnames: all(draft.hostnames.iter().cloned()),
                rules: all(rules.iter().map(|made| made.rule.clone())),
            };
            if serves || rules.iter().any(|made| !made.rule.backend_refs.is_empty()) {
                self.attached.push(Attached { kind: HttpRoute::KIND, name: name.to_owned() });
            }
            Document::of_gateway_api(HttpRoute::KIND, Some(namespace), name, &spec)
        };
        for (number, made) in rules.iter().enumerate() {
            for remark in &made.remarks {
                document.remark(format!("/spec/rules/{number}"), remark.clone());
            }
        }
        self.documents.push(document);
    }
}
