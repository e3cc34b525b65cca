//! The cache of a location: its settings.

use std::sync::Arc;
use std::time::Duration;

use model::{CacheBypass, CacheKeyQuery, CachePolicy};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "cache", Location, "false", Supported(|s, v| set(&mut s.cache.is_on, value::boolean(v))),
        "Caches responses, as a shared cache (RFC 9111). It needs `--cache-memory`.";
    "cache-bypass", Location, "", Supported(|s, v| set(&mut s.cache.policy.bypass, bypass(v))),
        "Requests that bypass the cache: `cookie:NAME` and `header:NAME`, separated by commas.";
    "cache-default-ttl", Location, "0", Supported(|s, v| set(&mut s.cache.policy.default_ttl, default_ttl(v))),
        "Freshness of a response that does not state it, if its request has no cookies and only harmless headers: seconds, or `10m`; 0 for RFC 9111's heuristic.";
    "cache-harmless-headers", Location, "", Supported(|s, v| set(&mut s.cache.policy.harmless_headers, harmless_headers(v))),
        "Further request headers that change no response, separated by commas.";
    "cache-key-query", Location, "all", Supported(|s, v| set(&mut s.cache.policy.query, query(v))),
        "Query parameters in the cache key: `all`, `none` or their names, separated by commas.";
    "cache-object-max", Location, "8m", Supported(|s, v| set(&mut s.cache.policy.object_bytes_max, object_max(v))),
        "Longest body that is cached.";
    "cache-shared", Location, "false", Supported(|s, v| set(&mut s.cache.policy.is_shared, value::boolean(v))),
        "Caches each response at one replica, which the others query. Needs `--replicas-service` and `--replicas-secret`.";
    "cache-stale-if-error", Location, "0", Supported(|s, v| set(&mut s.cache.policy.stale_if_error, value::duration(v))),
        "How long a stale response is served if the endpoint fails (RFC 5861).";
    "cache-stale-while-revalidate", Location, "0", Supported(|s, v| set(&mut s.cache.policy.stale_while_revalidate, value::duration(v))),
        "How long a stale response is served during revalidation (RFC 5861).";
}

/// Settings of the cache.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) is_on: bool,
    pub(in crate::translate) policy: CachePolicy,
    /// The process has memory for cached responses.
    pub(in crate::translate) has_memory: bool,
    /// Other replicas exist with which to share the cache.
    pub(in crate::translate) has_replicas: bool,
}

/// The reason why a cache is not shared although it should be.
const NOT_SHARED: &str = "there is nobody to share a cache with without --replicas-service, --replicas-secret and POD_IP, nor with \
    use-proxy-protocol; each replica keeps its own";

impl Settings {
    /// Whether each replica has its own cache although the cache should be shared.
    fn is_unshared(&self) -> bool {
        self.is_on && self.has_memory && self.policy.is_shared && !self.has_replicas
    }
}

/// The reason why the cache of the `ConfigMap` is not shared.
pub(in crate::translate) fn unshared_for_all(settings: &Settings) -> Option<&'static str> {
    settings.is_unshared().then_some(NOT_SHARED)
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    // Stored responses are given as they came, so that texts that are replaced for each request need an
    // endpoint each time.
    let is_changed = route.transfer.response.as_ref().is_some_and(|policy| policy.replacements.is_some());
    let is_on = settings.is_on && settings.has_memory && !is_changed;
    let is_shared = settings.policy.is_shared && settings.has_replicas;
    route.cache = is_on.then(|| Arc::new(CachePolicy { is_shared, ..settings.policy.clone() }));
}

impl Resolve for Settings {
    type Resolved = ();

    /// Reports a cache that is not there, or not shared.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let called = |name| context.asker.called(name);
        let mut problem = None;
        if self.is_unshared() {
            problem =
                context.without_effect("cache-shared", format!("{}: {NOT_SHARED}", called("cache-shared")));
        }
        if problem.is_none() && self.is_on && !self.has_memory {
            let why = "there is no cache without --cache-memory; requests are served without one";
            problem = context.without_effect("cache", format!("{}: {why}", called("cache")));
        }
        findings.problems.extend(problem);
    }
}

pub(in crate::translate) fn default_ttl(text: &str) -> Parsed<Option<Duration>> {
    value::duration(text).map(value::positive)
}

pub(in crate::translate) fn object_max(text: &str) -> Parsed<u64> {
    value::size(text).ok().filter(|&bytes| bytes > 0).ok_or_else(|| format!("{text:?} is no size above 0"))
}

pub(in crate::translate) fn query(text: &str) -> Parsed<CacheKeyQuery> {
    Ok(match text.trim() {
        "all" => CacheKeyQuery::All,
        "none" => CacheKeyQuery::None,
        names => CacheKeyQuery::Named(parameters(names)?),
    })
}

fn parameters(text: &str) -> Parsed<Vec<String>> {
    let names = value::list(text);
    let is_name = |name: &String| {
        name.bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'&' | b'=' | b'#' | b'?' | b'+' | b'%'))
    };
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("{name:?} is no name of a parameter")),
        None if names.is_empty() => Err(format!("{text:?} names no parameter; \"none\" is for none")),
        None => Ok(names),
    }
}

pub(in crate::translate) fn harmless_headers(text: &str) -> Parsed<Vec<String>> {
    let name = |name: &String| value::characters(name, "-_.").map(|name| name.to_ascii_lowercase());
    value::list(text).iter().map(name).collect()
}

pub(in crate::translate) fn bypass(text: &str) -> Parsed<CacheBypass> {
    let mut bypass = CacheBypass::default();
    for item in value::list(text) {
        let (kind, name) = item.split_once(':').unwrap_or(("", &item));
        let name = value::characters(name, "-_.")
            .map_err(|_| format!("{item:?} has no name of a cookie or a header"))?;
        match kind {
            "cookie" => bypass.cookies.push(name),
            "header" => bypass.headers.push(name),
            _ => return Err(format!("{item:?} is neither cookie:NAME nor header:NAME")),
        }
    }
    Ok(bypass)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_all_none_or_names() {
        assert_eq!((query("all"), query(" none ")), (Ok(CacheKeyQuery::All), Ok(CacheKeyQuery::None)));
        let named = CacheKeyQuery::Named(vec!["a".to_owned(), "b_1".to_owned()]);
        assert_eq!(query("a, b_1"), Ok(named));
        for text in ["", ",", "a&b", "a=1", "a%20b"] {
            assert!(query(text).is_err(), "{text}");
        }
    }

    #[test]
    fn harmless_headers_are_names() {
        let names = vec!["x-nonce".to_owned(), "app_trace".to_owned()];
        assert_eq!(
            (harmless_headers("X-Nonce, app_trace"), harmless_headers("")),
            (Ok(names), Ok(Vec::new()))
        );
        assert!(harmless_headers("a b").is_err() && harmless_headers("a:").is_err());
    }

    #[test]
    fn cookies_and_headers_are_named_by_kind() {
        let both = CacheBypass { cookies: vec!["session".to_owned()], headers: vec!["x-user".to_owned()] };
        assert_eq!(bypass("cookie:session, header:x-user"), Ok(both));
        assert_eq!(bypass(""), Ok(CacheBypass::default()));
        for text in ["session", "cookie:", "header:a b", "body:x"] {
            assert!(bypass(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_is_no_time() {
        let times = ["0", "60", "2m"].map(|text| default_ttl(text).unwrap());
        assert_eq!(times, [None, Some(Duration::from_secs(60)), Some(Duration::from_secs(120))]);
        assert!(default_ttl("-1").is_err() && default_ttl("soon").is_err() && object_max("0").is_err());
    }
}
