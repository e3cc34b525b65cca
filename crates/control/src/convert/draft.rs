//! Routes before they have names: rules with remarks, and their hosts.
//!
//! Never in here: the content of rules.

use super::document::at;
use crate::objects::At;
use crate::objects::gateway_api::{
    Filter, FilterType, Header, HeaderModifier, HttpMatch, HttpRouteRule, ParentReference, PathModifierType,
};

/// The most matches of a rule, and the most names of a route (Gateway API).
pub(super) const MATCHES_MAX: usize = 64;
const HOSTNAMES_MAX: usize = 16;

/// A rule with remarks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    pub(super) rule: HttpRouteRule,
    pub(super) remarks: Vec<String>,
    /// The rule does not redirect to TLS, because certificate authorities fetch ACME challenges over HTTP.
    pub(super) is_exempt: bool,
    /// The rule stays the same at the listener of HTTP, because its redirect comes before every other filter.
    pub(super) is_first: bool,
}

/// A route before it has a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    /// Names of the hosts; empty for all hosts.
    pub(super) hostnames: Vec<String>,
    pub(super) parents: Vec<ParentReference>,
    pub(super) rules: Vec<Made>,
    pub(super) role: Role,
}

/// The purpose of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The route is attached to all listeners of its hosts.
    Whole,
    /// The route is attached to the HTTPS listeners.
    Secure,
    /// The route is attached to the HTTP listener, usually to redirect.
    Clear,
    /// The route redirects from one name of a host to another.
    Www,
}

impl Made {
    /// The rule with a `Strict-Transport-Security` in its responses, unless the rule redirects.
    pub(super) fn told_to_stay(mut self, value: Option<&str>) -> Self {
        let redirects = |filter: &At<Filter>| filter.value.kind == FilterType::RequestRedirect;
        let Some(value) = value.filter(|_| !self.rule.filters.iter().any(redirects)) else { return self };
        let header = Header { name: "Strict-Transport-Security".into(), value: value.into() };
        let changes =
            self.rule.filters.iter_mut().find_map(|filter| filter.value.response_header_modifier.as_mut());
        if let Some(changes) = changes {
            changes.set.push(header);
        } else {
            let changes = HeaderModifier { set: vec![header], ..HeaderModifier::default() };
            let kind = FilterType::ResponseHeaderModifier;
            let response_header_modifier = Some(Box::new(changes));
            self.rule.filters.push(at(Filter { kind, response_header_modifier, ..Filter::default() }));
        }
        self
    }
}

impl Draft {
    /// Whether hosts with the same rules fit into one route.
    pub(super) fn takes(&self, other: &Self) -> bool {
        let count = self.hostnames.len();
        self.role == other.role
            && self.role != Role::Www
            && count > 0
            && count + other.hostnames.len() <= HOSTNAMES_MAX
            && !other.hostnames.is_empty()
            && self.rules == other.rules
            && self.parents.len() == other.parents.len()
    }

    pub(super) fn join(&mut self, other: Self) {
        self.hostnames.extend(other.hostnames);
        for parent in other.parents {
            if !self.parents.contains(&parent) {
                self.parents.push(parent);
            }
        }
    }
}

/// A rule that redirects.
pub(super) fn redirecting(matches: Vec<At<HttpMatch>>, filters: Vec<At<Filter>>) -> Made {
    let rule = HttpRouteRule { matches, filters, ..HttpRouteRule::default() };
    Made { rule, remarks: Vec::new(), is_exempt: false, is_first: false }
}

/// Joins rules that differ only in their matches. A prefix that is replaced has to be the only match of its
/// rule.
pub(super) fn joined(made: Vec<Made>) -> Vec<Made> {
    let mut joined: Vec<Made> = Vec::new();
    for one in made {
        let is_alike = |last: &&mut Made| {
            let bare = |made: &Made| {
                let rule = HttpRouteRule { matches: Vec::new(), ..made.rule.clone() };
                Made { rule, ..made.clone() }
            };
            let filters = one.rule.filters.iter();
            let mut changes = filters.flat_map(|it| &it.value.url_rewrite).flat_map(|rewrite| &rewrite.path);
            let replaces = changes.any(|change| change.kind == PathModifierType::ReplacePrefixMatch);
            !replaces && last.rule.matches.len() < MATCHES_MAX && bare(last) == bare(&one)
        };
        match joined.last_mut().filter(is_alike) {
            Some(last) => last.rule.matches.extend(one.rule.matches),
            None => joined.push(one),
        }
    }
    joined
}
