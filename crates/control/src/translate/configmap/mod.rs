//! The `ConfigMap`: settings of the whole proxy, and the defaults of each location.

mod keys;

pub use keys::KEYS;

use std::time::Duration;

use model::log::Escape;
use model::{ConnectionHeader, Networks, PoolCap, Settings};

use super::ingress::Settings as Defaults;
use super::inputs::Inputs;
use super::table::{is_default, suggestion};
use super::value::{self, Taken};
use crate::index::Index;
use crate::objects::{At, ConfigMap, Sourced};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::problem::{Problem, Reason, Severity};

/// A key of the `ConfigMap`.
#[derive(Debug)]
pub struct Key {
    /// Name.
    pub name: &'static str,
    /// The value that asks for nothing.
    pub default: &'static str,
    /// What it is for.
    pub doc: &'static str,
    effect: Effect,
}

/// How a key is handled.
#[derive(Debug)]
enum Effect {
    /// Its value becomes part of the settings.
    Supported(fn(&mut Global, &str) -> Taken),
    /// It has no counterpart here and needs none.
    Ignored(&'static str),
    /// It is not supported yet.
    Unsupported,
    /// It is not supported yet, and to serve without it could give access to somebody who must not have it. All routes are closed.
    Restricting,
    /// It is not supported; the text names what to use instead.
    Instead(&'static str),
}

/// The settings of the whole proxy, and what depends on them.
#[derive(Debug, Default)]
pub(super) struct Global {
    pub(super) settings: Settings,
    /// The settings that the annotations of each Ingress start from.
    pub(super) defaults: Defaults,
    hsts: Hsts,
    proxy_protocol: ProxyProtocol,
    retry_non_idempotent: bool,
    escape_json: bool,
    escape_none: bool,
}

/// The keys `hsts*`.
#[derive(Debug)]
struct Hsts {
    sent: bool,
    max_age_s: u64,
    include_subdomains: bool,
    preload: bool,
}

impl Default for Hsts {
    fn default() -> Self {
        Self { sent: true, max_age_s: 31_536_000, include_subdomains: true, preload: false }
    }
}

impl Hsts {
    /// The value of `Strict-Transport-Security` (RFC 6797 section 6.1); none if it is turned off.
    fn value(&self) -> Option<String> {
        let subdomains = if self.include_subdomains { "; includeSubDomains" } else { "" };
        let preload = if self.preload { "; preload" } else { "" };
        self.sent.then(|| format!("max-age={}{subdomains}{preload}", self.max_age_s))
    }
}

#[derive(Debug)]
struct ProxyProtocol {
    used: bool,
    header_timeout: Duration,
}

impl Default for ProxyProtocol {
    fn default() -> Self {
        Self { used: false, header_timeout: Duration::from_secs(5) }
    }
}

impl Key {
    /// How it is supported, as text for the documentation.
    pub fn support(&self) -> String {
        match self.effect {
            Effect::Supported(_) => "supported".to_owned(),
            Effect::Ignored(why) => format!("ignored: {why}"),
            Effect::Unsupported => "not yet; reported".to_owned(),
            Effect::Restricting => "not yet; everything answers 503".to_owned(),
            Effect::Instead(what) => format!("not: {what}"),
        }
    }

    fn outcome(&self, value: &str) -> Outcome {
        match self.effect {
            Effect::Supported(parse) => match parse(&mut Global::default(), value) {
                Ok(None) => Outcome::Works,
                Ok(Some(remark)) => Outcome::Differs(remark),
                Err(_) if value.is_empty() => Outcome::Works,
                Err(_) => Outcome::BadValue("the default is used".to_owned()),
            },
            _ if is_default(value, self.default) => Outcome::Works,
            Effect::Ignored(why) => Outcome::WithoutEffect(why.to_owned()),
            Effect::Unsupported => Outcome::NotYet,
            Effect::Restricting => Outcome::Closed("everything answers 503".to_owned()),
            Effect::Instead(what) => Outcome::WithoutEffect(what.to_owned()),
        }
    }

    /// The key with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        let at = KEYS.binary_search_by_key(&name, |key| key.name).ok()?;
        Some(&KEYS[at])
    }

    /// Whether it has the same effect as in ingress-nginx.
    pub fn is_supported(&self) -> bool {
        matches!(self.effect, Effect::Supported(_))
    }
}

/// What becomes of each key of the `ConfigMap` in use that ingress-nginx knows.
pub(crate) fn judge<'i>(
    index: &'i Index,
    options: &'i Options,
) -> impl Iterator<Item = (&'static str, Outcome)> + 'i {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    let data = settings.into_iter().flat_map(|settings| settings.data.iter());
    data.filter_map(|(name, value)| {
        let key = Key::named(name)?;
        Some((key.name, key.outcome(&value.value)))
    })
}

/// Keys for which an empty value is an empty list. For other keys an empty value is the same as no value.
const EMPTY_MEANS_NONE: &[&str] = &["forebay-upgrade-protocols"];

/// Keys that restrict access: without a value that can be read, nobody has any.
const CLOSING: &[&str] =
    &["block-cidrs", "denylist-source-range", "global-auth-url", "whitelist-source-range"];

/// Names that the `ConfigMap` commonly has.
const USUAL_NAMES: &[&str] = &["ingress-nginx-controller", "nginx-config", "nginx-configuration"];

/// Whether annotations may name objects of other namespaces.
pub(crate) fn crosses_namespaces(index: &Index, options: &Options) -> bool {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    let value = settings.and_then(|settings| settings.data.get("allow-cross-namespace-resources"));
    value.is_some_and(|value| value::boolean(&value.value).unwrap_or_default())
}

/// Reads the `ConfigMap` that the options name. Without one, the defaults hold.
pub(super) fn read(inputs: &Inputs<'_>, problems: &mut Vec<Problem>) -> Global {
    let mut global = Global::default();
    let Some(name) = &inputs.options.configmap else {
        problems.extend(inputs.configmaps().filter(|it| USUAL_NAMES.contains(&it.name())).map(unused));
        return global;
    };
    let Some(configmap) = inputs.configmap(name) else {
        let message = format!("ConfigMap {name} (--configmap) is missing; the defaults are used");
        problems.push(Problem::new(Severity::Error, message).because(Reason::Missing));
        return global;
    };
    for (key, value) in &configmap.data {
        if let Some((severity, reason, message)) = apply(&mut global, key, value) {
            problems.push(Problem::at(severity, configmap, value, message).because(reason));
        }
    }
    global.finish()
}

fn unused(configmap: &Sourced<ConfigMap>) -> Problem {
    let message = format!("is not used; to take settings from it, give --configmap {}", configmap.key());
    Problem::of(Severity::Notice, configmap, message)
}

impl Global {
    /// Adds the settings that several keys decide together.
    fn finish(mut self) -> Self {
        self.defaults.retries.on.non_idempotent |= self.retry_non_idempotent;
        if self.settings.upstream.cap == PoolCap::Fixed(0) {
            // As in ingress-nginx, endpoints are told that connections are not kept.
            self.defaults.headers.connection = Some(ConnectionHeader::Close);
        }
        self.settings.tls.strict_transport_security = self.hsts.value();
        let ProxyProtocol { used, header_timeout } = self.proxy_protocol;
        self.settings.client.proxy_header_timeout = used.then_some(header_timeout);
        let blocked = self.defaults.access.blocked.clone();
        self.settings.blocked = blocked.map(|blocked| Networks { denied: Some(blocked), allowed: None });
        self.settings.access_log.format.escape = match (self.escape_none, self.escape_json) {
            (true, _) => Escape::None,
            (false, true) => Escape::Json,
            (false, false) => Escape::Default,
        };
        self
    }
}

fn apply(global: &mut Global, name: &str, value: &At<String>) -> Option<(Severity, Reason, String)> {
    let value = &value.value;
    let Some(key) = Key::named(name) else {
        let hint = suggestion(name, KEYS.iter().map(|key| key.name));
        let message = format!("key {name} is unknown, and has no effect{hint}");
        return Some((Severity::Warning, Reason::NoEffect, message));
    };
    match key.effect {
        Effect::Supported(_) if value.is_empty() && !EMPTY_MEANS_NONE.contains(&name) => None,
        Effect::Supported(parse) => match parse(global, value) {
            Ok(remark) => Some((Severity::Warning, Reason::NoEffect, format!("key {name}: {}", remark?))),
            Err(why) if CLOSING.contains(&name) => {
                global.defaults.guards.of_locations.push(format!("ConfigMap key {name} cannot be read"));
                Some((
                    Severity::Error,
                    Reason::Invalid,
                    format!("key {name}: {why}: all locations answer 503"),
                ))
            }
            Err(why) => {
                let severity = if is_grave(name) { Severity::Error } else { Severity::Warning };
                Some((severity, Reason::Invalid, format!("key {name}: {why}; the default is used")))
            }
        },
        _ if is_default(value, key.default) => None,
        Effect::Ignored(why) => {
            Some((Severity::Notice, Reason::NoEffect, format!("key {name} has no effect: {why}")))
        }
        Effect::Instead(advice) => {
            Some((Severity::Warning, Reason::Unsupported, format!("key {name} has no effect: {advice}")))
        }
        Effect::Unsupported => {
            let message = format!("key {name} is not yet supported, and has no effect");
            Some((Severity::Warning, Reason::Unsupported, message))
        }
        Effect::Restricting => {
            let reason = format!("ConfigMap key {name} may restrict access and is not yet supported");
            let message = format!("{reason}: all locations answer 503");
            global.defaults.guards.of_locations.push(reason);
            Some((Severity::Error, Reason::Unsupported, message))
        }
    }
}

/// Whether an invalid value of a key is an error rather than a warning. A log in the wrong format may go unnoticed for weeks, and
/// so may weaker TLS than the operator asked for.
fn is_grave(key: &str) -> bool {
    matches!(key, "log-format-upstream" | "ssl-ciphers" | "ssl-protocols")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_for_the_search_and_distinct() {
        assert!(KEYS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    /// 190 keys that ingress-nginx documents, 18 that are only in its code, 8 of F5's controller, and one of Forebay.
    #[test]
    fn every_key_that_upstream_reads_is_known() {
        let is_f5 = |key: &&Key| key.doc.starts_with("F5: ");
        assert_eq!(KEYS.iter().filter(is_f5).count(), 8);
        assert_eq!(KEYS.iter().filter(|key| key.name.starts_with("forebay-")).count(), 1);
        assert_eq!(KEYS.len(), 190 + 18 + 8 + 1);
    }

    /// If the parser refused a default, writing it out would be reported as a problem.
    #[test]
    fn defaults_of_supported_keys_are_what_holds_anyway() {
        for key in KEYS {
            if let Effect::Supported(parse) = key.effect
                && !key.default.is_empty()
            {
                let mut global = Global::default();
                parse(&mut global, key.default).unwrap();
                assert_eq!(format!("{global:?}"), format!("{:?}", Global::default()), "{}", key.name);
            }
        }
    }
}
