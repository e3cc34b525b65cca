//! The rules of an Ingress: its hosts, paths and backends.

use model::{HostName, PathMatch};

use crate::names::{NsName, PortRef};
use crate::objects::{At, Ingress, IngressPath, IngressRule, PathType, Sourced};
use crate::problem::{Problem, Reason, Severity};

/// The hosts of an Ingress' rules, and the host for all names if its default backend is a catch-all.
pub(crate) fn hosts_of(ingress: &Ingress) -> impl Iterator<Item = HostName> {
    let of_rules = ingress.spec.rules.iter().filter_map(|rule| host_name(&rule.value).ok());
    let backend = ingress.spec.default_backend.as_deref().filter(|_| ingress.spec.rules.is_empty());
    let is_catch_all = backend.is_some_and(|backend| backend.value.service().is_some());
    of_rules.chain(is_catch_all.then_some(HostName::Any))
}

/// The ports of Services that an Ingress names.
pub(in crate::translate) fn backends(ingress: &Sourced<Ingress>) -> impl Iterator<Item = (NsName, PortRef)> {
    let spec = &ingress.spec;
    let paths = spec.rules.iter().filter_map(|rule| rule.value.http.as_ref()).flat_map(|http| &http.paths);
    let of_paths = paths.map(|path| &path.value.backend);
    let all = spec.default_backend.iter().map(|backend| &backend.value).chain(of_paths);
    all.filter_map(|backend| {
        let (service, port) = backend.service()?;
        Some((NsName::new(ingress.namespace(), service), port))
    })
}

/// Reports the rules with an invalid host, and a default backend without a Service.
pub(super) fn check(ingress: &Sourced<Ingress>, problems: &mut Vec<Problem>) {
    for rule in &ingress.spec.rules {
        if let Err((host, why)) = host_name(&rule.value) {
            let message = format!("{why}; the rule is ignored");
            problems.push(Problem::at(Severity::Error, ingress, host, message).because(Reason::Invalid));
        }
    }
    let backend = ingress.spec.default_backend.as_deref();
    if let Some(backend) = backend.filter(|backend| backend.value.service().is_none()) {
        let message = "the default backend names no Service with a port; it is ignored";
        let problem = Problem::at(Severity::Error, ingress, backend, message);
        problems.push(problem.because(Reason::Unsupported));
    }
}

/// The rules of an Ingress for a host.
pub(super) fn rules_for<'i>(name: &HostName, ingress: &'i Ingress) -> impl Iterator<Item = &'i IngressRule> {
    let rules = ingress.spec.rules.iter().map(|rule| &rule.value);
    rules.filter(move |rule| host_name(rule).is_ok_and(|host| host == *name))
}

/// The match for a path and its type, as long as the paths of the host are no regular expressions.
/// "`ImplementationSpecific` counts as Prefix."
pub(super) fn path_match(declared: &IngressPath) -> Result<PathMatch, String> {
    let path = declared.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let made = match &declared.path_type {
        Some(PathType::Exact) => PathMatch::exact(path),
        Some(PathType::Prefix | PathType::ImplementationSpecific) | None => PathMatch::prefix(path),
        Some(PathType::Other(other)) => {
            return Err(format!(
                "path {path}: pathType {other:?} is none of Exact, Prefix and ImplementationSpecific; it is ignored"
            ));
        }
    };
    made.map_err(|error| format!("{error}; it is ignored"))
}

fn host_name(rule: &IngressRule) -> Result<HostName, (&At<Box<str>>, model::InvalidHostName)> {
    match &rule.host {
        Some(host) => HostName::parse(&host.value).map_err(|error| (host, error)),
        None => Ok(HostName::Any),
    }
}
