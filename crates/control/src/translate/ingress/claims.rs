//! Makes the claim of an Ingress about one of its hosts.

use std::sync::Arc;

use model::{HostName, PathMatch};

use super::rules::{path_match, rules_for};
use super::{
    Annotated, abuse, access, affinity, auth, bodies, cache, certificates, compression, cors,
    direct_response, errors, ext_proc, fallback, fastcgi, files, firewall, guards, headers, health_check,
    host_tls, limits, logging, maintenance, mirror, overload, quota, redirect, responses, retries, rewrite,
    snippets, timeouts, tracing, upstream_tls,
};
use crate::names::NsName;
use crate::objects::{At, Backend, Ingress, IngressPath, IngressRule, Sourced};
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use crate::translate::claim::{
    CanaryClaim, CanaryDraft, Claim, DraftRoute, NamedPort, PassthroughClaim, TlsClaim, Words,
};
use crate::translate::inputs::Inputs;

const WORDS: Words = Words {
    client_auth: "auth-tls-*",
    ciphers: "ssl-ciphers and ssl-prefer-server-ciphers",
    passthrough: "ssl-passthrough",
    aliases: "server-alias",
    app_root: "app-root",
    www_redirect: "from-to-www-redirect",
    denials: "server-snippet",
    script: "server-snippet",
};

/// The claim of an Ingress about a host.
pub(super) fn claim(
    ingress: &Arc<Sourced<Ingress>>,
    annotated: &Annotated,
    host: &HostName,
    inputs: &Inputs<'_>,
) -> Claim {
    let claimant = Claimant { ingress, annotated, https_port: inputs.options.https_port };
    let rules: Vec<_> = rules_for(host, ingress).collect();
    let paths = rules.iter().flat_map(|rule| &rule.http).flat_map(|http| &http.paths);
    let settings = &annotated.settings;
    let mut claim = Claim {
        place: SourceLocation::of(ingress),
        words: &WORDS,
        is_catch_all: rules.is_empty(),
        routes: paths.map(|path| claimant.route(path)).collect(),
        rest: claimant.rest(),
        tls: TlsClaim::default(),
        aliases: settings.rewrite.aliases.clone(),
        app_root: None,
        www_redirect: None,
        denials: Vec::new(),
        script: None,
    };
    redirect::apply_to_host(&settings.redirect, &mut claim);
    guards::apply_to_host(&settings.guards, &mut claim);
    snippets::apply_to_host(&annotated.snippets, &mut claim);
    host_tls::apply(&settings.host_tls, &mut claim.tls);
    claim.tls.certificate = certificates::claim(ingress, settings.acme, host, inputs);
    claim.tls.client_auth.clone_from(&annotated.client_auth);
    claim.tls.upstream = settings.upstream_tls.of_host(&annotated.upstream);
    if let Some(passthrough) = &mut claim.tls.passthrough {
        for rule in rules {
            claimant.pass_through(host, rule, passthrough);
        }
    }
    claim
}

/// The claim of a canary about a host: a share of the requests for its paths, and, if it has no rules, of the
/// requests for the default backend of all hosts.
pub(super) fn canary(ingress: &Sourced<Ingress>, annotated: &Annotated, host: &HostName) -> CanaryClaim {
    let settings = &annotated.settings;
    let rollout = settings.canary.rollout.plan(ingress);
    let draft = |path: PathMatch, backend: &Backend, place: SourceLocation| {
        let Some((service, port)) = backend.service() else {
            let message = format!("path {} names no Service with a port; it is ignored", path.path());
            let problem = Problem::in_place(Severity::Error, &place, message);
            return Err(Box::new(problem.because(Reason::Unsupported)));
        };
        let backend = NamedPort { service: NsName::new(ingress.namespace(), service), port };
        let rules = settings.canary.rules();
        let (rollout, is_sticky) = (rollout.clone(), !settings.canary.is_legacy);
        Ok((path, CanaryDraft { backend, place, rules, rollout, is_sticky }))
    };
    let of_path = |declared: &At<IngressPath>| {
        let place = SourceLocation::at(ingress, declared);
        match path_match(&declared.value) {
            Ok(path) => draft(path, &declared.value.backend, place),
            Err(why) => {
                let problem = Problem::in_place(Severity::Error, &place, why);
                Err(Box::new(problem.because(Reason::Invalid)))
            }
        }
    };
    let rules = rules_for(host, ingress);
    let paths = rules.flat_map(|rule| &rule.http).flat_map(|http| &http.paths).map(of_path);
    let rest = ingress.spec.default_backend.as_deref().filter(|_| *host == HostName::Any);
    let rest =
        rest.map(|backend| draft(PathMatch::root(), &backend.value, SourceLocation::at(ingress, backend)));
    CanaryClaim {
        place: SourceLocation::of(ingress),
        crosses_namespaces: settings.crosses_namespaces,
        paths: paths.chain(rest).collect(),
    }
}

/// Applies the settings of annotations to a route.
fn apply(annotated: &Annotated, https_port: u16, route: &mut DraftRoute) {
    redirect::apply(&annotated.settings.redirect, https_port, route);
    rewrite::apply(&annotated.settings.rewrite, route);
    apply_to_any(annotated, route);
}

/// Applies the settings that also apply to requests for unknown hosts. As in ingress-nginx, such requests are
/// neither redirected nor rewritten.
pub(super) fn apply_to_any(annotated: &Annotated, route: &mut DraftRoute) {
    let settings = &annotated.settings;
    abuse::apply(&settings.abuse, route);
    access::apply(&settings.access, route);
    auth::apply(&settings.auth, &annotated.auth, route);
    affinity::apply(&settings.affinity, route);
    errors::apply(&settings.errors, route);
    ext_proc::apply(&settings.ext_proc, route);
    firewall::apply(&settings.firewall, route);
    bodies::apply(&settings.bodies, route);
    cache::apply(&settings.cache, route);
    cors::apply(&settings.cors, route);
    guards::apply(&settings.guards, route);
    headers::apply(&settings.headers, annotated.custom_headers.as_ref(), route);
    limits::apply(&settings.limits, route);
    logging::apply(&settings.logging, route);
    mirror::apply(&settings.mirror, route);
    overload::apply(&settings.overload, route);
    quota::apply(&settings.quota, settings.limits.exempt(), route);
    responses::apply(&settings.responses, route);
    compression::apply(&settings.compression, route);
    retries::apply(&settings.retries, route);
    snippets::apply(&annotated.snippets, route);
    timeouts::apply(&settings.timeouts, route);
    tracing::apply(&settings.tracing, route);
    upstream_tls::apply(&annotated.upstream, route);
    health_check::apply(&settings.health_check, route);
    fastcgi::apply(&annotated.fast_cgi, route);
    files::apply(&settings.files, route);
    direct_response::apply(&settings.direct_response, route);
    maintenance::apply(&settings.maintenance, route);
    fallback::apply(&settings.fallback, route);
}

struct Claimant<'i> {
    ingress: &'i Arc<Sourced<Ingress>>,
    annotated: &'i Annotated,
    https_port: u16,
}

impl Claimant<'_> {
    fn route(&self, declared: &At<IngressPath>) -> Result<DraftRoute, Box<Problem>> {
        let place = SourceLocation::at(self.ingress, declared).of_routes(self.ingress);
        let left_out = |reason, message: String| {
            Box::new(Problem::in_place(Severity::Error, &place, message).because(reason))
        };
        let path = path_match(&declared.value).map_err(|why| left_out(Reason::Invalid, why))?;
        let backend = self.backend(&declared.value.backend);
        let settings = &self.annotated.settings;
        let needs_backend = !settings.files.is_asked_for() && !settings.direct_response.is_asked_for();
        if backend.is_none() && needs_backend {
            let message = format!("path {} names no Service with a port; it is ignored", path.path());
            return Err(left_out(Reason::Unsupported, message));
        }
        Ok(self.draft(path, backend, place))
    }

    /// The route for undeclared paths. "`spec.defaultBackend` without rules = catch-all; with rules = default
    /// upstream of its hosts."
    fn rest(&self) -> DraftRoute {
        let backend = self.ingress.spec.default_backend.as_deref();
        let place = backend
            .map_or_else(|| SourceLocation::of(self.ingress), |it| SourceLocation::at(self.ingress, it))
            .of_routes(self.ingress);
        let backend = backend.and_then(|backend| self.backend(&backend.value));
        if self.ingress.spec.rules.is_empty() {
            let mut route = DraftRoute::new(PathMatch::root(), backend, place);
            apply_to_any(self.annotated, &mut route);
            return route;
        }
        let mut route = self.draft(PathMatch::root(), backend, place);
        if self.ingress.spec.default_backend.is_none() {
            // Files are served only for the paths that the object declares.
            route.files = None;
        }
        route
    }

    fn draft(&self, path: PathMatch, backend: Option<NamedPort>, place: SourceLocation) -> DraftRoute {
        let mut route = DraftRoute::new(path, backend, place);
        apply(self.annotated, self.https_port, &mut route);
        route
    }

    fn backend(&self, backend: &Backend) -> Option<NamedPort> {
        let (service, port) = backend.service()?;
        Some(NamedPort { service: NsName::new(self.ingress.namespace(), service), port })
    }

    /// Adds a passthrough to the claim. "Whole host by SNI to the Service; path `/` only."
    fn pass_through(&self, host: &HostName, rule: &IngressRule, claim: &mut PassthroughClaim) {
        let mut paths = rule.http.iter().flat_map(|http| &http.paths);
        let root = paths.find(|path| matches!(path.value.path.as_deref(), None | Some("" | "/")));
        let backend = root.and_then(|path| self.backend(&path.value.backend));
        let no_effect = |place: &SourceLocation, message: String| {
            Problem::in_place(Severity::Warning, place, message).because(Reason::NoEffect)
        };
        let (Some(path), Some(backend)) = (root, backend) else {
            let message = format!("host {host} has no path / to a Service, which ssl-passthrough needs");
            claim.problems.push(no_effect(&SourceLocation::of(self.ingress), message));
            return;
        };
        let place = SourceLocation::at(self.ingress, path);
        if *host == HostName::Any {
            let message = "ssl-passthrough needs a host; connections for other hosts are not passed through";
            claim.problems.push(no_effect(&place, message.to_owned()));
            return;
        }
        claim.backends.push((backend, place));
    }
}
