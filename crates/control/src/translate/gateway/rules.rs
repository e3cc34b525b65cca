//! The rules of HTTP and gRPC routes in one form, with their conditions for requests.
//!
//! Never in here: the handling of requests.

use model::{Condition, Conditions, InvalidPath, PathKind, PathMatch, Pattern, ValueMatch};
use serde::Serialize;

use super::conditions::Fault;
use crate::objects::gateway_api::{
    self, BackendRef, Filter, GrpcMatch, GrpcMethodMatch, GrpcRoute, HttpMatch, HttpRoute, PathMatchType,
    Retry, SessionPersistence, Timeouts, ValueMatchType,
};
use crate::objects::{At, Sourced};
use crate::problem::SourceLocation;
use crate::translate::claim::RouteSetting;

/// The fields of rules that decide about the handling of requests; filters by their types.
pub const FIELDS: &[&str] = &[
    "RequestHeaderModifier",
    "ResponseHeaderModifier",
    "RequestRedirect",
    "URLRewrite",
    "RequestMirror",
    "CORS",
    "ExternalAuth",
    "DirectResponse",
    "ExtensionRef",
    "timeouts",
    "retry",
    "sessionPersistence",
];

/// A rule of either kind of route.
pub(super) struct Rule<'r> {
    pub(super) name: &'r str,
    pub(super) place: SourceLocation,
    pub(super) matches: Vec<Result<Match, Fault>>,
    pub(super) filters: &'r [At<Filter>],
    pub(super) backends: &'r [At<BackendRef>],
    pub(super) timeouts: Option<&'r Timeouts>,
    pub(super) retry: Option<&'r Retry>,
    pub(super) session: Option<&'r SessionPersistence>,
    /// The fields of the rule that are among [`FIELDS`].
    pub(super) settings: Vec<RouteSetting>,
}

/// The conditions for a request.
pub(super) struct Match {
    pub(super) path: PathMatch,
    /// The path in the route's form.
    pub(super) written: String,
    pub(super) conditions: Conditions,
}

/// The rules of an `HTTPRoute`.
pub(super) fn of_http(route: &Sourced<HttpRoute>) -> Vec<Rule<'_>> {
    let rule = |rule| {
        let At { value, .. }: &At<gateway_api::HttpRouteRule> = rule;
        let matches = value.matches.iter().map(|one| http_match(&one.value));
        Rule {
            name: value.name.as_deref().unwrap_or_default(),
            place: SourceLocation::at(route, rule),
            matches: or_all(matches.collect()),
            filters: &value.filters,
            backends: &value.backend_refs,
            timeouts: value.timeouts.as_deref(),
            retry: value.retry.as_deref(),
            session: value.session_persistence.as_deref(),
            settings: RuleSettings::new(SourceLocation::at(route, rule))
                .filters(&value.filters, |filter| SourceLocation::at(route, filter))
                .field("timeouts", value.timeouts.as_ref())
                .field("retry", value.retry.as_ref())
                .field("sessionPersistence", value.session_persistence.as_ref())
                .0,
        }
    };
    route.spec.rules.iter().map(rule).collect()
}

/// The rules of a `GRPCRoute`.
pub(super) fn of_grpc(route: &Sourced<GrpcRoute>) -> Vec<Rule<'_>> {
    let rule = |rule| {
        let At { value, .. }: &At<gateway_api::GrpcRouteRule> = rule;
        let matches = value.matches.iter().map(|one| grpc_match(&one.value));
        Rule {
            name: value.name.as_deref().unwrap_or_default(),
            place: SourceLocation::at(route, rule),
            matches: or_all(matches.collect()),
            filters: &value.filters,
            backends: &value.backend_refs,
            timeouts: None,
            retry: None,
            session: value.session_persistence.as_deref(),
            settings: RuleSettings::new(SourceLocation::at(route, rule))
                .filters(&value.filters, |filter| SourceLocation::at(route, filter))
                .field("sessionPersistence", value.session_persistence.as_ref())
                .0,
        }
    };
    route.spec.rules.iter().map(rule).collect()
}

/// The description of a rule's fields, and the place of the rule.
struct RuleSettings(Vec<RouteSetting>, SourceLocation);

impl RuleSettings {
    fn new(rule: SourceLocation) -> Self {
        Self(Vec::new(), rule)
    }

    fn filters(mut self, filters: &[At<Filter>], place: impl Fn(&At<Filter>) -> SourceLocation) -> Self {
        for filter in filters {
            let kind = filter.value.kind.as_str();
            if let Some(name) = FIELDS.iter().copied().find(|field| *field == kind) {
                self.0.push(setting(name, "filters", kind.to_owned(), place(filter)));
            }
        }
        self
    }

    fn field(mut self, name: &'static str, value: Option<&impl Serialize>) -> Self {
        if let Some(text) = value.and_then(|value| serde_json::to_string(value).ok()) {
            self.0.push(setting(name, name, text, self.1.clone()));
        }
        self
    }
}

fn setting(annotation: &'static str, field: &str, value: String, place: SourceLocation) -> RouteSetting {
    let SourceLocation { object, file, line, .. } = place;
    RouteSetting { annotation, field: field.to_owned(), value, object, file, line }
}

/// The matches, or the default: "If no matches are specified, the default is a prefix path match on `/`,
/// which has the effect of matching every HTTP request."
fn or_all(matches: Vec<Result<Match, Fault>>) -> Vec<Result<Match, Fault>> {
    if matches.is_empty() { vec![Ok(all())] } else { matches }
}

fn all() -> Match {
    Match { path: PathMatch::root(), written: "/".to_owned(), conditions: Conditions::default() }
}

fn unsupported(message: impl Into<String>) -> Fault {
    Fault::new("UnsupportedValue", message)
}

fn http_match(one: &HttpMatch) -> Result<Match, Fault> {
    let mut taken = all();
    if let Some(path) = &one.path {
        let value = path.value.as_deref().unwrap_or("/");
        value.clone_into(&mut taken.written);
        taken.path = match &path.kind {
            PathMatchType::Exact => PathMatch::exact(value),
            PathMatchType::PathPrefix => PathMatch::prefix(value),
            PathMatchType::RegularExpression => whole_path(value),
            PathMatchType::Other(kind) => {
                return Err(unsupported(format!("path matches of type {kind} are not supported")));
            }
        }
        .map_err(|why| unsupported(why.to_string()))?;
    }
    taken.conditions = Conditions {
        method: one.method.as_deref().map(str::to_owned),
        headers: values(&one.headers, str::eq_ignore_ascii_case)?,
        query: values(&one.query_params, |a, b| a == b)?,
        cookies: Vec::new(),
    };
    Ok(taken)
}

fn grpc_match(one: &GrpcMatch) -> Result<Match, Fault> {
    let mut taken = all();
    if let Some(method) = &one.method {
        (taken.path, taken.written) = grpc_path(method)?;
    }
    taken.conditions.headers = values(&one.headers, str::eq_ignore_ascii_case)?;
    Ok(taken)
}

/// The path of a gRPC method: `/SERVICE/METHOD`.
fn grpc_path(one: &GrpcMethodMatch) -> Result<(PathMatch, String), Fault> {
    let (service, method) = (one.service.as_deref(), one.method.as_deref());
    let path = match (&one.kind, service, method) {
        (ValueMatchType::Other(kind), ..) => {
            return Err(unsupported(format!("method matches of type {kind} are not supported")));
        }
        (_, None, None) => Ok(PathMatch::root()),
        (ValueMatchType::Exact, Some(service), Some(method)) => {
            PathMatch::exact(&format!("/{service}/{method}"))
        }
        (ValueMatchType::Exact, Some(service), None) => PathMatch::prefix(&format!("/{service}")),
        (ValueMatchType::Exact, None, Some(method)) => whole_path(&format!("/[^/]+/{}", escaped(method))),
        (ValueMatchType::RegularExpression, service, method) => {
            let any = "[^/]+";
            whole_path(&format!("/(?:{})/(?:{})", service.unwrap_or(any), method.unwrap_or(any)))
        }
    };
    let path = path.map_err(|why| unsupported(why.to_string()))?;
    let written = format!("/{}/{}", service.unwrap_or("*"), method.unwrap_or("*"));
    Ok((path, written))
}

/// Escapes a name. Names of methods contain letters, digits and underscores; any other character stands for
/// itself.
fn escaped(text: &str) -> String {
    let escape = |char: char| {
        let is_plain = char.is_ascii_alphanumeric() || char == '_';
        if is_plain { String::from(char) } else { format!("\\{char}") }
    };
    text.chars().map(escape).collect()
}

/// An expression for a whole path, in which letter case counts.
fn whole_path(expression: &str) -> Result<PathMatch, InvalidPath> {
    let rest = expression.strip_prefix('/');
    let anchored = rest.map_or_else(|| expression.to_owned(), |rest| format!("/(?-i:{rest})$"));
    PathMatch::new(PathKind::Regex, &anchored).map_err(|invalid| match invalid {
        InvalidPath::Expression(_, why) => InvalidPath::Expression(expression.to_owned(), why),
        other @ (InvalidPath::NoSlash(_) | InvalidPath::Control(_)) => other,
    })
}

/// The values to compare. "If multiple entries specify equivalent names, only the first entry with an
/// equivalent name MUST be considered for a match."
fn values(
    matches: &[gateway_api::ValueMatch],
    is_same: impl Fn(&str, &str) -> bool,
) -> Result<Vec<Condition>, Fault> {
    let mut conditions: Vec<Condition> = Vec::with_capacity(matches.len());
    for one in matches {
        if conditions.iter().any(|known| is_same(&known.name, &one.name)) {
            continue;
        }
        let value = match &one.kind {
            ValueMatchType::Exact => ValueMatch::Exact(one.value.to_string()),
            ValueMatchType::RegularExpression => {
                let pattern = Pattern::parse(&format!("^(?:{})$", one.value));
                ValueMatch::Pattern(pattern.map_err(|why| unsupported(format!("{}: {why}", one.name)))?)
            }
            ValueMatchType::Other(kind) => {
                return Err(unsupported(format!("matches of type {kind} are not supported")));
            }
        };
        conditions.push(Condition { name: one.name.to_string(), value });
    }
    Ok(conditions)
}
