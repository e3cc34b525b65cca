//! Conversion of the rules of a route to those of a `GRPCRoute`.

use super::document::{all, at};
use super::draft::{Draft, Made};
use crate::objects::Resource;
use crate::objects::gateway_api::{
    FilterType, GrpcMatch, GrpcMethodMatch, GrpcRoute, GrpcRouteRule, GrpcRouteSpec, HttpMatch,
    PathMatchType, ValueMatchType,
};

pub(super) const KIND: &str = GrpcRoute::KIND;

/// The rules; none if one of them does not consist of a service and its methods.
pub(super) fn spec(rules: &[Made]) -> Option<GrpcRouteSpec> {
    let rules = rules.iter().map(rule).collect::<Option<Vec<_>>>()?;
    Some(GrpcRouteSpec { rules: all(rules), ..GrpcRouteSpec::default() })
}

/// The spec with the hosts and Gateways of a route.
pub(super) fn with(spec: GrpcRouteSpec, draft: &Draft) -> GrpcRouteSpec {
    let (parent_refs, hostnames) = (all(draft.parents.iter().cloned()), all(draft.hostnames.iter().cloned()));
    GrpcRouteSpec { parent_refs, hostnames, ..spec }
}

fn rule(made: &Made) -> Option<GrpcRouteRule> {
    let rule = &made.rule;
    let fits = |kind: &FilterType| {
        matches!(
            kind,
            FilterType::RequestHeaderModifier
                | FilterType::ResponseHeaderModifier
                | FilterType::RequestMirror
        )
    };
    if !rule.filters.iter().all(|filter| fits(&filter.value.kind)) {
        return None;
    }
    let matches =
        rule.matches.iter().map(|one| grpc_match(&one.value).map(at)).collect::<Option<Vec<_>>>()?;
    let says_nothing = |one: &GrpcMatch| *one == GrpcMatch::default();
    let matches = if matches.iter().any(|one| says_nothing(&one.value)) { Vec::new() } else { matches };
    Some(GrpcRouteRule {
        name: None,
        matches,
        filters: rule.filters.clone(),
        backend_refs: rule.backend_refs.clone(),
        session_persistence: rule.session_persistence.clone(),
    })
}

/// The path of a method is `/SERVICE/METHOD`.
fn grpc_match(one: &HttpMatch) -> Option<GrpcMatch> {
    let path = one.path.as_ref()?;
    let value = path.value.as_deref()?.strip_prefix('/')?;
    let parts: Vec<_> = value.split('/').collect();
    let method = match (&path.kind, parts.as_slice()) {
        (PathMatchType::PathPrefix, [""]) => None,
        (PathMatchType::PathPrefix, [service]) => Some((*service, None)),
        (PathMatchType::Exact, [service, method]) if !method.is_empty() => Some((*service, Some(*method))),
        _ => return None,
    };
    let method = method.map(|(service, method)| GrpcMethodMatch {
        kind: ValueMatchType::Exact,
        service: Some(service.into()),
        method: method.map(Into::into),
    });
    Some(GrpcMatch { method, headers: one.headers.clone() })
}
