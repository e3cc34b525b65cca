//! The `ConfigMap`: settings of the whole proxy, and the defaults of each location.

pub(super) mod acme;
mod addresses;
mod geoip;
mod keys;
mod listed;
mod logs;
mod reasons;
mod snippets;
mod tracing;
mod upgrades;

pub(crate) use acme::named_secrets as acme_secrets;
pub(crate) use geoip::named_secret;
pub use keys::KEYS;

use std::time::Duration;

use model::log::{Escape, Output};
use model::{
    BlockedHeaders, ConnectionHeader, ErrorPages, ForwardedHeaders, HeadSettings, HeaderNames, Http3,
    Networks, PoolCap, ServerHeader, Settings,
};

use super::header::{self, Side};
use super::ingress::annotation::Risk;
use super::ingress::snippets::of_kind;
use super::ingress::{Settings as Defaults, cache, firewall, quota};
use super::inputs::Inputs;
use super::table::{is_default, suggestion};
use super::value::{self, Applied};
use crate::index::Index;
use crate::names::NsName;
use crate::objects::{At, ConfigMap, Sourced};
use crate::options::{Options, Unenforced};
use crate::outcome::Outcome;
use crate::problem::{Problem, Reason, Severity};

/// A key of the `ConfigMap`.
#[derive(Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// The value without an effect.
    pub default: &'static str,
    /// The purpose of the key.
    pub doc: &'static str,
    effect: Effect,
}

/// The handling of a key.
#[derive(Debug)]
enum Effect {
    /// The value becomes part of the settings.
    Supported(fn(&mut Global, &str) -> Applied),
    /// The key has no counterpart here and needs none.
    Ignored(&'static str),
    /// The value is nginx configuration, which is read after all other keys.
    Snippet,
    /// The key is not supported; the text names its replacement.
    Instead(&'static str),
}

/// The settings of the whole proxy, and values that depend on them.
#[derive(Debug)]
pub(super) struct Global {
    pub(super) settings: Settings,
    /// The settings that the annotations of each Ingress change.
    pub(super) defaults: Defaults,
    hsts: Hsts,
    proxy_protocol: ProxyProtocol,
    retry_non_idempotent: bool,
    tracing: tracing::Keys,
    blocked_headers: BlockedHeaders,
    escape_json: bool,
    escape_none: bool,
    underscores_in_headers: bool,
    ignores_invalid_headers: bool,
    forwarded_host_header: String,
    hidden_headers: Vec<String>,
    server: Server,
    log: Log,
    /// Names outside the cluster are treated as if they had no IPv6 addresses.
    pub(super) leaves_out_ipv6: bool,
    pub(super) geoip: geoip::Keys,
    pub(super) acme: acme::Keys,
}

/// The keys about the targets of access logs.
#[derive(Debug)]
struct Log {
    path: Output,
    http_path: Option<Output>,
    stream_path: Option<Output>,
    uses_syslog: bool,
    syslog_host: String,
    syslog_port: u16,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            path: Output::default(),
            http_path: None,
            stream_path: None,
            uses_syslog: false,
            syslog_host: String::new(),
            syslog_port: 514,
        }
    }
}

impl Log {
    /// The logs of requests, and of TCP and UDP. In ingress-nginx syslog is for requests only.
    fn outputs(self) -> (Output, Output) {
        let has_host = self.uses_syslog && !self.syslog_host.is_empty();
        let syslog = has_host.then_some(Output::Syslog { host: self.syslog_host, port: self.syslog_port });
        let common = self.path;
        (syslog.or(self.http_path).unwrap_or_else(|| common.clone()), self.stream_path.unwrap_or(common))
    }
}

/// The keys about the `Server` header.
#[derive(Debug, Default)]
struct Server {
    is_named: bool,
    of_endpoints: bool,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            defaults: Defaults::default(),
            hsts: Hsts::default(),
            proxy_protocol: ProxyProtocol::default(),
            retry_non_idempotent: false,
            tracing: tracing::Keys::default(),
            blocked_headers: BlockedHeaders::default(),
            escape_json: false,
            escape_none: false,
            underscores_in_headers: false,
            ignores_invalid_headers: true,
            forwarded_host_header: "X-Forwarded-Host".to_owned(),
            hidden_headers: Vec::new(),
            server: Server::default(),
            log: Log::default(),
            leaves_out_ipv6: false,
            geoip: geoip::Keys::default(),
            acme: acme::Keys::default(),
        }
    }
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
    /// The support of the key, as text for the documentation.
    pub fn support(&self) -> String {
        match self.effect {
            Effect::Supported(_) => "supported".to_owned(),
            Effect::Ignored(why) => format!("ignored: {why}"),
            Effect::Snippet => {
                "supported as far as it is understood; otherwise everything returns 503".to_owned()
            }
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
            Effect::Snippet => Outcome::Works,
            Effect::Instead(what) => Outcome::WithoutEffect(what.to_owned()),
        }
    }

    /// The key with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        let at = KEYS.binary_search_by_key(&name, |key| key.name).ok()?;
        Some(&KEYS[at])
    }

    /// Whether the key has the same effect as in ingress-nginx.
    pub fn is_supported(&self) -> bool {
        matches!(self.effect, Effect::Supported(_) | Effect::Snippet)
    }
}

/// The effect of each key of the `ConfigMap` in use that ingress-nginx knows.
pub(crate) fn judge<'i>(
    index: &'i Index,
    options: &'i Options,
) -> impl Iterator<Item = (&'static str, Outcome)> + 'i {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    let (global, said) =
        settings.map(|settings| read_all(settings, options, &mut |_, _| {})).unwrap_or_default();
    let (faults, has_firewall) = (said.faults, global.defaults.firewall.is_on());
    let data = settings.into_iter().flat_map(|settings| settings.data.iter());
    data.filter_map(move |(name, value)| {
        let key = Key::named(name)?;
        let outcome = match faults.iter().find(|(faulty, _)| *faulty == key.name) {
            Some((_, why)) => Outcome::Closed(format!("{CLOSED}: {why}")),
            None if FIREWALL.contains(&key.name)
                && !is_default(&value.value, key.default)
                && key.outcome(&value.value) == Outcome::Works =>
            {
                firewall::outcome(options, key.name, has_firewall, CLOSED)
            }
            None => key.outcome(&value.value),
        };
        Some((key.name, outcome))
    })
}

/// The settings that the annotations of each Ingress change.
pub(super) fn defaults(index: &Index, options: &Options) -> Defaults {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    settings.map(|settings| read_all(settings, options, &mut |_, _| {}).0.defaults).unwrap_or_default()
}

const CLOSED: &str = "everything returns 503";

/// Keys that request a web application firewall.
const FIREWALL: &[&str] = &["enable-modsecurity", "enable-owasp-modsecurity-crs", "modsecurity-snippet"];

/// Keys for which an empty value is an empty list. For other keys an empty value is the same as no value.
const EMPTY_MEANS_NONE: &[&str] = &["forebay-upgrade-protocols"];

/// Keys that restrict access: an unreadable value closes all routes.
const CLOSING: &[&str] = &[
    "block-cidrs",
    "block-referers",
    "block-user-agents",
    "denylist-source-range",
    "forebay-allow-asn",
    "forebay-allow-countries",
    "forebay-deny-asn",
    "forebay-deny-countries",
    "global-auth-url",
    "whitelist-source-range",
];

/// Usual names of the `ConfigMap`.
const USUAL_NAMES: &[&str] = &["ingress-nginx-controller", "nginx-config", "nginx-configuration"];

/// Keys that name another `ConfigMap`.
const NAMING: &[&str] = &["add-headers", "proxy-set-headers"];

/// The `ConfigMap`s that the settings name.
pub(crate) fn named(index: &Index, options: &Options) -> impl Iterator<Item = NsName> {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    let values = NAMING.iter().filter_map(move |key| settings?.data.get(*key));
    values.filter_map(|value| value.value.trim().parse().ok())
}

/// Whether annotations may name objects of other namespaces.
pub(crate) fn crosses_namespaces(index: &Index, options: &Options) -> bool {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    let value = settings.and_then(|settings| settings.data.get("allow-cross-namespace-resources"));
    value.is_some_and(|value| value::boolean(&value.value).unwrap_or_default())
}

/// Reads the `ConfigMap` that the options name. Without one, the defaults apply.
pub(super) fn read(inputs: &Inputs<'_>, problems: &mut Vec<Problem>) -> Global {
    let mut global = Global::default();
    set_defaults(&mut global.defaults, inputs.options);
    global.defaults.is_lenient = !inputs.options.validates_annotations;
    global.defaults.cache.has_memory = inputs.options.has_cache;
    global.defaults.cache.has_replicas = inputs.options.replicas.is_some();
    global.defaults.quota.has_replicas = inputs.options.counts_with_replicas();
    let Some(name) = &inputs.options.configmap else {
        problems.extend(inputs.configmaps().filter(|it| USUAL_NAMES.contains(&it.name())).map(unused));
        return global;
    };
    let Some(configmap) = inputs.configmap(name) else {
        let message = format!("ConfigMap {name} (--configmap) is missing; the defaults are used");
        problems.push(Problem::new(Severity::Error, message).because(Reason::Missing));
        return global;
    };
    let mut tell = |value: &At<String>, (severity, reason, message): Finding| {
        problems.push(Problem::at(severity, configmap, value, message).because(reason));
    };
    let (mut global, said) = read_all(configmap, inputs.options, &mut tell);
    for (name, remark) in said.remarks {
        if let Some(value) = configmap.data.get(name) {
            let (severity, reason, end) = of_kind(remark.kind);
            tell(value, (severity, reason, format!("key {name}: {remark}{end}")));
        }
    }
    for (name, why) in said.faults {
        let reason = format!("ConfigMap key {name}: {why}");
        if let Some(value) = configmap.data.get(name) {
            tell(
                value,
                (
                    Severity::Error,
                    Reason::Unsupported,
                    format!("key {name}: {why}: all locations return 503"),
                ),
            );
        }
        global.defaults.guards.of_locations.push(reason);
    }
    global.defaults.cache.has_memory = inputs.options.has_cache;
    global.defaults.cache.has_replicas = inputs.options.replicas.is_some() && !global.proxy_protocol.used;
    global.defaults.quota.has_replicas = inputs.options.counts_with_replicas();
    geoip::finish(&mut global, configmap, inputs, &mut tell);
    acme::finish(&mut global, configmap, inputs, &mut tell);
    report_without_effect(&global, configmap, inputs.options, &mut tell);
    if believes_everybody(&global) {
        global.settings.forwarded.priority_header = None;
    }
    global.defaults.is_lenient = !inputs.options.validates_annotations;
    let mut of_named = |key, side| header::of_settings(key, configmap, side, inputs, problems);
    let heads = HeadSettings {
        of_responses: of_named("add-headers", Side::Response),
        of_requests: of_named("proxy-set-headers", Side::Request),
        ..HeadSettings::default()
    };
    if global.log.uses_syslog && global.log.syslog_host.is_empty() {
        let message = "key enable-syslog has no effect without syslog-host; the log stays where it is";
        let place = configmap.data.get("enable-syslog");
        let problem = place.map(|value| Problem::at(Severity::Warning, configmap, value, message));
        problems.extend(problem.map(|problem| problem.because(Reason::NoEffect)));
    }
    global.finish(heads)
}

type Finding = (Severity, Reason, String);

/// Whether the proxy trusts all peers, so that a client could choose its address.
fn believes_everybody(global: &Global) -> bool {
    global.settings.forwarded.trusted.iter().any(|network| network.prefix_len() == 0)
}

const PRIORITY_FOR_EVERYBODY: &str =
    "proxy-real-ip-cidr is everybody, and any client could say it is critical; nobody is believed";

/// Reports keys that need a missing feature.
fn report_without_effect(
    global: &Global,
    configmap: &ConfigMap,
    options: &Options,
    tell: &mut dyn FnMut(&At<String>, Finding),
) {
    let Global { settings, defaults, tracing, .. } = global;
    let sends_no_spans = defaults.tracing.everywhere && tracing.export.host.is_empty();
    let has_no_cache = defaults.cache.is_on && !options.has_cache;
    let is_for_everybody = settings.forwarded.priority_header.is_some() && believes_everybody(global);
    let has_no_redis = settings.limits_fail_closed && !options.has_limit_redis;
    let reasons = [
        ("enable-opentelemetry", sends_no_spans.then_some("without otlp-collector-host no spans are sent")),
        ("forebay-cache", has_no_cache.then_some("there is no cache without --cache-memory")),
        ("forebay-cache-shared", cache::unshared_for_all(&defaults.cache)),
        ("forebay-priority-header", is_for_everybody.then_some(PRIORITY_FOR_EVERYBODY)),
        ("forebay-limit-shared", quota::unshared_for_all(&defaults.quota)),
        ("forebay-limit-redis-fail", has_no_redis.then_some("no Redis counts without --limit-redis")),
    ];
    for (key, why) in reasons {
        if let Some(value) = configmap.data.get(key)
            && let Some(why) = why
        {
            tell(value, (Severity::Warning, Reason::NoEffect, format!("key {key}: {why}")));
        }
    }
    for name in defaults.firewall.global.without_effect() {
        if let Some(value) = configmap.data.get(name) {
            let message =
                format!("key {name} has no effect, as in ingress-nginx: enable-modsecurity is not \"true\"");
            tell(value, (Severity::Notice, Reason::NoEffect, message));
        }
    }
    if let Some((name, fault)) = defaults.firewall.fault(&options.firewalls)
        && let Some(value) = configmap.data.get(name)
    {
        let (severity, effect) = match options.waf_unenforced {
            Unenforced::Close => {
                (Severity::Error, "locations without rules from before it return 503".to_owned())
            }
            Unenforced::Serve => (Severity::Warning, firewall::WITHOUT.to_owned()),
        };
        tell(value, (severity, firewall::reason(&fault), format!("key {name}: {fault}: {effect}")));
    }
}

/// Sets the defaults that the options change.
fn set_defaults(defaults: &mut Defaults, options: &Options) {
    if options.defaults.all_risks {
        defaults.screening.risk_max = Risk::Critical;
    }
    defaults.crosses_namespaces = options.defaults.crosses_namespaces;
}

/// Reads all keys. Returns the faults and remarks of snippets.
fn read_all(
    configmap: &ConfigMap,
    options: &Options,
    tell: &mut dyn FnMut(&At<String>, Finding),
) -> (Global, snippets::Said) {
    let mut global = Global::default();
    set_defaults(&mut global.defaults, options);
    for (key, value) in &configmap.data {
        if let Some(finding) = apply(&mut global, key, value) {
            tell(value, finding);
        }
    }
    let text = |key: &str| configmap.data.get(key).map(|value| value.value.as_str());
    let said = snippets::read(text, options.snippets_unenforced, &mut global);
    (global, said)
}

fn unused(configmap: &Sourced<ConfigMap>) -> Problem {
    let message = format!("is not used; to take settings from it, give --configmap {}", configmap.key());
    Problem::of(Severity::Notice, configmap, message)
}

impl Global {
    /// Adds the settings that several keys decide together.
    fn finish(mut self, heads: HeadSettings) -> Self {
        self.defaults.retries.on.non_idempotent |= self.retry_non_idempotent;
        if self.settings.upstream.cap == PoolCap::Fixed(0) {
            // As in ingress-nginx, the proxy announces to endpoints that it closes connections.
            self.defaults.headers.connection = Some(ConnectionHeader::Close);
        }
        std::mem::take(&mut self.tracing).finish(&mut self);
        self.settings.tls.strict_transport_security = self.hsts.value();
        let ProxyProtocol { used, header_timeout } = self.proxy_protocol;
        self.settings.client.proxy_header_timeout = used.then_some(header_timeout);
        self.settings.client.header_names = match (self.ignores_invalid_headers, self.underscores_in_headers)
        {
            (false, _) => HeaderNames::All,
            (true, true) => HeaderNames::Underscores,
            (true, false) => HeaderNames::Plain,
        };
        let names = ForwardedHeaders {
            address: self.settings.forwarded.header.clone(),
            host: self.forwarded_host_header.clone(),
        };
        let are_usual = names.address.eq_ignore_ascii_case("X-Forwarded-For")
            && names.host.eq_ignore_ascii_case("X-Forwarded-Host");
        self.settings.forwarded.other_headers = (!are_usual).then(|| Box::new(names));
        let server = match (self.server.is_named, self.server.of_endpoints) {
            (false, _) => ServerHeader::None,
            (true, false) => ServerHeader::Own,
            (true, true) => ServerHeader::Endpoint,
        };
        let heads = HeadSettings { hidden: std::mem::take(&mut self.hidden_headers), server, ..heads };
        let heads = HeadSettings { tells_of_http3: self.settings.tls.http3 != Http3::Off && !used, ..heads };
        (self.settings.access_log.output, self.settings.stream.log_output) =
            std::mem::take(&mut self.log).outputs();
        self.settings.heads = (heads != HeadSettings::default()).then(|| Box::new(heads));
        let blocked = self.defaults.access.blocked.clone();
        self.settings.blocked =
            blocked.map(|blocked| Networks { denied: Some(blocked), ..Networks::default() });
        let is_open = self.blocked_headers == BlockedHeaders::default();
        self.settings.blocked_headers = (!is_open).then(|| Box::new(self.blocked_headers.clone()));
        let statuses = &self.defaults.errors.global_statuses;
        let pages = || Box::new(ErrorPages::new(statuses.clone()));
        self.settings.error_pages = (!statuses.is_empty()).then(pages);
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
            Err(why) if CLOSING.contains(&name) || name.starts_with("forebay-waf-") => {
                global.defaults.guards.of_locations.push(format!("ConfigMap key {name} cannot be read"));
                Some((
                    Severity::Error,
                    Reason::Invalid,
                    format!("key {name}: {why}: all locations return 503"),
                ))
            }
            Err(why) => {
                let severity = if is_grave(name) { Severity::Error } else { Severity::Warning };
                Some((severity, Reason::Invalid, format!("key {name}: {why}; the default is used")))
            }
        },
        _ if is_default(value, key.default) => None,
        Effect::Snippet => None,
        Effect::Ignored(why) => {
            Some((Severity::Notice, Reason::NoEffect, format!("key {name} has no effect: {why}")))
        }
        Effect::Instead(advice) => {
            Some((Severity::Warning, Reason::Unsupported, format!("key {name} has no effect: {advice}")))
        }
    }
}

/// Whether an invalid value of a key is an error instead of a warning. A log in the wrong format may go
/// unnoticed for weeks, and so may weaker TLS than the operator requested.
fn is_grave(key: &str) -> bool {
    matches!(key, "log-format-stream" | "log-format-upstream" | "ssl-ciphers" | "ssl-protocols")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_for_the_search_and_distinct() {
        assert!(KEYS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    /// The table has 190 keys that ingress-nginx documents, 18 that are only in its code, 8 of F5's
    /// controller, and those of Forebay.
    #[test]
    fn every_key_that_upstream_reads_is_known() {
        let is_f5 = |key: &&Key| key.doc.starts_with("F5: ");
        assert_eq!(KEYS.iter().filter(is_f5).count(), 8);
        let own = KEYS.iter().filter(|key| key.name.starts_with("forebay-")).count();
        assert_eq!(KEYS.len(), 190 + 18 + 8 + own);
    }

    /// If the parser refused a default, a user who writes it out would get a problem.
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
