//! The auth services of a host's routes if their URL depends on the host (`https://$host/oauth2/auth`).
//!
//! The auth service is determined here, before any request: so no client can select the service that admits
//! it, and no request waits for the DNS.
//!
//! Never in here: the content of auth requests, and the handling of their responses.

use std::sync::Arc;

use model::template::{Part, Template, Variable};
use model::{
    AppProtocol, ClusterId, ExtAuthz, ExternalAuth, ExternalCheck, HostName, PathKind, PathMatch, Processor,
};

use super::locations::is_plain;
use super::{Declared, Merge};
use crate::names::{NsName, PortRef};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::{
    AuthOfHost, AuthPlace, AuthService, AuthzDraft, DraftRoute, ExternalDraft, FILES_UNPROCESSED, NamedPort,
    ProcessorDraft,
};
use crate::translate::upstream_protocol::UpstreamDraft;

/// A rule of a host, as a possible target of auth requests from other rules.
pub(super) struct Asked {
    path: PathMatch,
    /// The backend; none if the rule restricts access, or changes requests.
    open: Option<(NamedPort, UpstreamDraft)>,
}

impl Merge<'_, '_, '_> {
    /// The rules of the host at which an auth service may be found; none if no route needs them, or if
    /// expressions could lead elsewhere.
    pub(super) fn asked_here(&self, drafts: &[Declared]) -> Vec<Asked> {
        let is_asking = |declared: &Declared| {
            let external = declared.draft.access.external.as_ref();
            external.is_some_and(|external| matches!(external.place, AuthPlace::OfHost(_)))
        };
        let is_expression = |declared: &Declared| {
            let path = &declared.draft.path;
            path.kind() == PathKind::Regex || !path.path().bytes().all(is_plain)
        };
        if !drafts.iter().any(is_asking) || drafts.iter().any(is_expression) {
            return Vec::new();
        }
        let ruled = drafts.iter().filter(|declared| declared.number.is_some() && !declared.is_rest);
        ruled.map(|declared| Asked { path: declared.draft.path.clone(), open: self.open(declared) }).collect()
    }

    fn open(&self, declared: &Declared) -> Option<(NamedPort, UpstreamDraft)> {
        let Declared { number, draft, .. } = declared;
        let standing = &self.standings[(*number)?];
        let access = self.terms.access(draft, standing);
        let is_for_all = access.forbidden.is_none()
            && access.unavailable.is_none()
            && access.networks.is_none()
            && access.api_keys.is_none()
            && access.jwt.is_none()
            && access.basic.is_none()
            && access.oidc.is_none()
            && draft.access.external.is_none()
            && draft.access.ext_authz.is_none()
            && draft.access.processor.is_none();
        let is_untouched =
            draft.filters.is_empty() && draft.rewrite.is_none() && draft.script.location.is_none();
        let backend = draft.backend.clone().filter(|_| is_for_all && is_untouched)?;
        Some((backend, draft.upstream.clone()))
    }

    /// The auth service of a route, or the reason for closing the route. A service without an address admits
    /// no request.
    pub(super) fn external(
        &mut self,
        external: &ExternalDraft,
        draft: &DraftRoute,
    ) -> Result<ExternalAuth, String> {
        let (service, check) = match &external.place {
            AuthPlace::Known(service) => (service.clone(), Arc::clone(&external.check)),
            AuthPlace::OfHost(place) => {
                if let Some(found) = self.behind_this_host(place, &external.check) {
                    return Ok(found);
                }
                let host = self.host_of(place, draft).inspect_err(|why| {
                    let message = format!("auth-url: {why}: the location returns 503");
                    let problem = Problem::in_place(Severity::Error, &draft.place, message);
                    self.problems.push(problem.because(Reason::Annotation));
                });
                let host = host.map_err(|_| "auth-url cannot be enforced".to_owned())?;
                let name = Template::parse(&host).map_err(|error| error.to_string())?;
                let check = ExternalCheck { host: name, ..ExternalCheck::clone(&external.check) };
                let service = AuthService { host, port: place.port, is_encrypted: place.is_encrypted };
                (service, Arc::new(check))
            }
        };
        let cluster = self.service_cluster(&service, AppProtocol::Http1, draft);
        Ok(ExternalAuth { cluster, check })
    }

    /// The authorization service of a route. A service without an address admits no request.
    pub(super) fn ext_authz(&mut self, authz: &AuthzDraft, draft: &DraftRoute) -> ExtAuthz {
        let cluster = self.service_cluster(&authz.service, authz.version, draft);
        ExtAuthz { cluster, check: Arc::clone(&authz.check) }
    }

    /// The cluster of a service that decides about a route's requests.
    fn service_cluster(
        &mut self,
        service: &AuthService,
        version: AppProtocol,
        draft: &DraftRoute,
    ) -> ClusterId {
        let (cluster, fault) = self.clusters.for_url_speaking(service, version);
        if let Some(fault) = fault {
            let problem = Problem::in_place(Severity::Error, &draft.place, format!("auth service: {fault}"));
            self.problems.push(problem.because(Reason::Missing));
        } else if self.clusters.is_on_this_machine(service) {
            let message = format!(
                "auth service: {}:{} is on this machine, which is allowed in files; in a cluster it is refused",
                service.host, service.port
            );
            self.problems.push(Problem::in_place(Severity::Notice, &draft.place, message));
        }
        cluster
    }

    /// The external processor of a route. One without an address is not passed by, unless the route says so.
    pub(super) fn processor(&mut self, processor: &ProcessorDraft, draft: &DraftRoute) -> Processor {
        let ProcessorDraft { service, policy } = processor;
        let (cluster, fault) = self.clusters.for_url_speaking(service, AppProtocol::Http2);
        if let Some(fault) = fault {
            let message = format!("external processor: {fault}");
            let problem = Problem::in_place(Severity::Error, &draft.place, message);
            self.problems.push(problem.because(Reason::Missing));
        }
        if draft.files.is_some() {
            let problem = Problem::in_place(Severity::Error, &draft.place, FILES_UNPROCESSED);
            self.problems.push(problem.because(Reason::Annotation));
        }
        Processor { cluster, policy: Arc::clone(policy) }
    }

    /// The service behind another rule of this host, if the URL names the host itself: nginx would connect to
    /// its own address and match the same rule.
    fn behind_this_host(&mut self, place: &AuthOfHost, check: &Arc<ExternalCheck>) -> Option<ExternalAuth> {
        let is_own = matches!(place.host.parts(), [Part::Variable(variable)] if is_host_asked_for(variable));
        let has_own_port = place.port == if place.is_encrypted { 443 } else { 80 };
        let path = place.path.as_deref().filter(|_| is_own && has_own_port)?;
        let asked = self.asked_here.iter().filter(|asked| takes(&asked.path, path));
        let asked =
            asked.max_by_key(|asked| (asked.path.path().len(), asked.path.kind() == PathKind::Exact))?;
        // A rule for all paths serves another purpose.
        let (backend, upstream) = asked.open.as_ref().filter(|_| asked.path.path() != "/")?;
        let at: (&NsName, &PortRef) = (&backend.service, &backend.port);
        let (cluster, _) = self.clusters.for_questions(at, upstream, self.terms.upstream_tls.as_ref())?;
        Some(ExternalAuth { cluster, check: Arc::clone(check) })
    }

    /// The host name of the URL, which is the same for all requests of a route.
    fn host_of(&self, place: &AuthOfHost, draft: &DraftRoute) -> Result<String, String> {
        let object = &draft.place.object;
        let mut host = String::new();
        for part in place.host.parts() {
            match part {
                Part::Text(text) => host.push_str(text),
                Part::Variable(variable) if is_host_asked_for(variable) => match self.name {
                    HostName::Exact(name) => host.push_str(name),
                    HostName::Any => {
                        return Err(
                            "a rule without a host is for all names: clients would choose who is asked"
                                .to_owned(),
                        );
                    }
                    many => {
                        return Err(format!("{many} is for many names: clients would choose who is asked"));
                    }
                },
                Part::Variable(Variable::Namespace) => host.push_str(&object.namespace),
                Part::Variable(Variable::IngressName) => host.push_str(&object.name),
                Part::Variable(Variable::ServiceName) => {
                    host.push_str(draft.backend.as_ref().map_or("", |backend| &backend.service.name));
                }
                Part::Variable(_) => {
                    return Err("its host has a variable that clients decide, and so who is asked".to_owned());
                }
            }
        }
        let host = host.to_ascii_lowercase();
        if AuthService::is_host(&host) { Ok(host) } else { Err(format!("{host:?} is no host")) }
    }
}

/// Whether the variable's value is the requested host.
fn is_host_asked_for(variable: &Variable) -> bool {
    match variable {
        Variable::Host | Variable::BestHttpHost | Variable::ServerName => true,
        Variable::RequestHeader(name) => name == "host",
        _ => false,
    }
}

fn takes(rule: &PathMatch, path: &str) -> bool {
    let is_below = || {
        let rest = path.strip_prefix(rule.path().trim_end_matches('/'));
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    rule.path() == path || rule.kind() == PathKind::Prefix && is_below()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_takes_what_is_below_it() {
        let rule = |kind, path: &str| PathMatch::new(kind, path).unwrap();
        for (kind, path, is_taken) in [
            (PathKind::Prefix, "/oauth2", true),
            (PathKind::Prefix, "/oauth2/", true),
            (PathKind::Prefix, "/oauth2/auth", true),
            (PathKind::Exact, "/oauth2/auth", true),
            (PathKind::Exact, "/oauth2", false),
            (PathKind::Prefix, "/oauth", false),
            (PathKind::Prefix, "/", true),
        ] {
            assert_eq!(takes(&rule(kind, path), "/oauth2/auth"), is_taken, "{kind:?} {path}");
        }
    }
}
