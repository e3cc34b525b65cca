//! nginx's configuration in annotations. A snippet with a directive that is not understood closes the
//! locations or hosts that it is for.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{AuthScript, Block, Replacements, Substitution};

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::{Ingress, Location};
use super::annotation::{Annotation, annotations};
use super::{compression, guards, limits, own};
use crate::objects::Ingress as Object;
use crate::objects::Sourced;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::{Claim, DraftRoute};
use crate::translate::snippet::{
    self, Faults, Names, OfHost, OfLocation, OwnErrors, OwnLimits, Remark, RemarkKind, SettingLine, Target,
};
use crate::translate::upstream_protocol::Protocol;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "configuration-snippet", Location, "", Supported(|s, v| set(&mut s.snippets.configuration, Ok(value::unless_blank(v)))),
        "nginx configuration for the locations: headers, conditions, answers, rewriting, addresses.", Critical;
    "server-snippet", Ingress, "", Supported(|s, v| set(&mut s.snippets.server, Ok(value::unless_blank(v)))),
        "nginx configuration for the host.", Critical;
    "stream-snippet", Ingress, "", Ignored("TCP and UDP services are those of tcp-services and udp-services, and have no other settings"),
        "nginx configuration for TCP and UDP.", Critical;
}

/// The snippets of an Ingress, and those of the `ConfigMap`.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    configuration: Option<String>,
    server: Option<String>,
    /// The snippet for requests to the auth service.
    pub(super) auth: Option<String>,
    pub(in crate::translate) global: Arc<Global>,
}

/// The contents of the `ConfigMap`'s snippets, for every Ingress.
#[derive(Debug, Default)]
pub(in crate::translate) struct Global {
    pub(in crate::translate) names: Names,
    pub(in crate::translate) location: OfLocation,
    pub(in crate::translate) host: Option<Arc<OfHost>>,
}

/// The result of all snippets of an Ingress.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolved {
    location: OfLocation,
    /// The block of the location; none if it would be empty except for addresses.
    block: Option<Arc<Block>>,
    /// The Ingress's directives for its hosts.
    host: Option<Arc<OfHost>>,
    /// The `ConfigMap`'s directives for all hosts.
    global: Option<Arc<OfHost>>,
    /// Changes of the subrequest to the Ingress's own auth service.
    pub(super) auth: Option<Arc<AuthScript>>,
    /// The ignored lines, by annotation.
    pub(super) remarks: Vec<(&'static str, Remark)>,
}

/// Finds an annotation by its name without prefix.
type Named = fn(&str) -> Option<&'static Annotation>;

/// The name of an annotation, and the fault of its snippet.
type Faulty = (&'static str, String);

/// The reason why a line about the cache has no effect.
const NO_CACHE: &str = "no response is cached unless proxy_cache or forebay.io/cache is set";

const CONFIGURATION: &str = "configuration-snippet";
const SERVER: &str = "server-snippet";
const AUTH: &str = "auth-snippet";

impl Settings {
    /// Reads the snippets. Unusable snippets count as empty, and are returned with their faults.
    pub(super) fn read(&self) -> (Resolved, Vec<Faulty>) {
        let global = &*self.global;
        let (mut names, mut faults) = (global.names.clone(), Vec::new());
        [&self.configuration, &self.server].into_iter().flatten().for_each(|text| names.add_set_by(text));
        let mut resolved = Resolved { global: global.host.clone(), ..Resolved::default() };
        let mut read = Read { remarks: &mut resolved.remarks, faults: &mut faults };
        let host = self.server.as_ref().map(|text| snippet::server(text, &names));
        let host = read.take(SERVER, host).map(Arc::new);
        if let Some(host) = &host {
            names.add_error_blocks(host);
        }
        let location = self.configuration.as_ref().map(|text| snippet::location(text, &names));
        let location = read.take(CONFIGURATION, location).unwrap_or_default();
        let auth = self.auth.as_ref().map(|text| snippet::auth(text, &names));
        let auth = read.take(AUTH, auth).map(Arc::new);
        let location = location.then(&global.location);
        let block = (location.block != Block::default()).then(|| Arc::new(location.block.clone()));
        (Resolved { location, block, host, auth, ..resolved }, faults)
    }
}

/// The remarks and faults of snippets that are being read.
struct Read<'r> {
    remarks: &'r mut Vec<(&'static str, Remark)>,
    faults: &'r mut Vec<Faulty>,
}

impl Read<'_> {
    fn take<T>(&mut self, name: &'static str, read: Option<Result<(T, Vec<Remark>), Faults>>) -> Option<T> {
        match read? {
            Ok((of, said)) => {
                self.remarks.extend(said.into_iter().map(|remark| (name, remark)));
                Some(of)
            }
            Err(found) => {
                self.faults.push((name, found.to_string()));
                None
            }
        }
    }
}

/// Reads the snippets of an Ingress, and applies lines with the meaning of annotations to its settings.
/// Unusable snippets count as empty, and are returned with their faults. `is_given` tells whether the Ingress
/// itself has an annotation.
pub(super) fn resolve(
    settings: &mut super::Settings,
    is_given: impl Fn(&str) -> bool,
    named: Named,
) -> (Resolved, Vec<Faulty>) {
    let (mut resolved, mut faults) = settings.snippets.read();
    let of_host = resolved.host.clone();
    let of_host = of_host.iter().flat_map(|host| &host.asks).map(|ask| (SERVER, ask));
    let location = resolved.location.clone();
    let mut known: Vec<(&'static str, &SettingLine)> = Vec::new();
    for (name, ask) in of_host.chain(location.asks.iter().map(|ask| (CONFIGURATION, ask))) {
        let (Target::Annotation(target) | Target::Key(target) | Target::Own(target)) = ask.target;
        if known.iter().any(|(of, other)| *of == name && other.target == ask.target) {
            faults.push((name, ask.fault("it is there twice, and one is understood").to_string()));
            continue;
        }
        known.push((name, ask));
        if name == SERVER && is_given(target) {
            let why = format!("the annotation {target} stands before it");
            resolved.remarks.push((name, ask.remark(&why)));
            continue;
        }
        match obey(settings, ask, named) {
            Ok(None) => {}
            Ok(Some(why)) => resolved.remarks.push((name, ask.remark(&why))),
            Err(why) => {
                faults.push((name, ask.fault(&why).to_string()));
                if name == SERVER {
                    resolved.host = None;
                } else {
                    resolved.block = None;
                    resolved.location = OfLocation::default();
                }
            }
        }
    }
    if !settings.cache.is_on {
        let is_idle = |ask: &SettingLine| matches!(ask.target, Target::Own(own) if own.starts_with("cache-"));
        let idle = known.iter().filter(|(_, ask)| is_idle(ask));
        resolved.remarks.extend(idle.map(|(name, ask)| (*name, ask.remark(NO_CACHE))));
    }
    if let Some(host) = &resolved.host {
        take_own(settings, host.replacements.as_ref(), &host.errors, &host.limits);
    }
    let of_location = &resolved.location;
    take_own(settings, of_location.replacements.as_ref(), &of_location.errors, &of_location.limits);
    let variables = location.auth_variables.iter();
    let variables: Vec<_> = variables.map(|it| (Arc::clone(&it.name), it.header.clone())).collect();
    if !variables.is_empty() {
        settings.auth.set_variables(&variables);
    }
    (resolved, faults)
}

/// Applies settings of a snippet that no annotation has. Those of an inner block replace those of an outer
/// one.
pub(in crate::translate) fn take_own(
    settings: &mut super::Settings,
    replacements: Option<&Arc<Replacements>>,
    errors: &OwnErrors,
    limits: &OwnLimits,
) {
    if let Some(replacements) = replacements {
        settings.responses.replacements = Some(Arc::clone(replacements));
    }
    let intercepts = settings.errors.own.intercepts || errors.intercepts;
    if !errors.pages.is_empty() {
        settings.errors.own.clone_from(errors);
    }
    settings.errors.own.intercepts = intercepts;
    if limits.zone.is_some() {
        settings.limits.own.clone_from(limits);
    }
}

/// Applies the setting of a line. Returns the reason if it has no effect.
pub(in crate::translate) fn obey(settings: &mut super::Settings, ask: &SettingLine, named: Named) -> Applied {
    let protocol = settings.upstream_tls.speaks();
    let is_grpc = matches!(protocol, Some(Protocol::Grpc | Protocol::Grpcs));
    if ask.directive.starts_with("grpc_") && !is_grpc {
        return Ok(Some("backend-protocol is not GRPC".to_owned()));
    }
    if ask.directive.starts_with("fastcgi_") && protocol != Some(Protocol::Fcgi) {
        return Ok(Some("backend-protocol is not FCGI".to_owned()));
    }
    let (value, gzip) = (ask.value.as_str(), &mut settings.compression.gzip);
    match ask.target {
        Target::Annotation("proxy-cookie-path") if value.contains(';') => {
            set(&mut settings.responses.cookie_path, cookie_path(value).map(Some))
        }
        Target::Annotation("proxy-cookie-domain" | "proxy-cookie-path" | "proxy-redirect-from")
            if value.starts_with('~') =>
        {
            Err("regular expressions are not understood here".to_owned())
        }
        Target::Annotation(name) => {
            named(name).map_or(Ok(None), |annotation| annotation.read(settings, value))
        }
        Target::Key("use-gzip") => set(&mut gzip.is_on, value::boolean(value)),
        Target::Key("gzip-level") => {
            set(&mut gzip.level, compression::level(value, compression::GZIP_LEVELS))
        }
        Target::Key("gzip-min-length") => set(&mut gzip.bytes_min, value::number(value)),
        Target::Key("gzip-types") => set(&mut gzip.media_types, compression::media_types(value)),
        Target::Key("limit-req-status-code") => set(&mut settings.limits.rate_status, limits::status(value)),
        Target::Key("limit-conn-status-code") => {
            set(&mut settings.limits.connections_status, limits::status(value))
        }
        Target::Own(name) => own::named(name).map_or(Ok(None), |annotation| annotation.read(settings, value)),
        Target::Key("gzip-disable") => {
            set(&mut settings.compression.gzip_disabled, compression::gzip_disabled(value))
        }
        Target::Key(name) => Err(format!("use the key {name} of the ConfigMap")),
    }
}

/// Parses a path and its replacement, followed by attributes of the cookie: `/ "/; Secure; HttpOnly"`.
fn cookie_path(text: &str) -> Parsed<Substitution> {
    let invalid = || format!("{text:?} is no path and what replaces it");
    let (from, to) = text.split_once(' ').ok_or_else(invalid)?;
    let is_text = |char: char| (char.is_ascii_graphic() || char == ' ') && !"$,\"\\".contains(char);
    if from.starts_with('/') && from.chars().chain(to.chars()).all(is_text) {
        Ok(Substitution { from: from.to_owned(), to: to.to_owned() })
    } else {
        Err(invalid())
    }
}

/// Closes the part that an unusable snippet is for.
pub(super) fn close(
    (name, why): Faulty,
    ingress: &Sourced<Object>,
    prefix: &str,
    guards: &mut guards::Settings,
    problems: &mut Vec<Problem>,
) {
    let key = format!("{prefix}/{name}");
    let paths = ingress.spec.rules.iter().filter_map(|rule| rule.value.http.as_ref());
    let paths: usize = paths.map(|http| http.paths.len()).sum();
    let routes = if paths == 1 { "1 route".to_owned() } else { format!("{paths} routes") };
    let (denials, what) = if name == SERVER {
        (
            &mut guards.of_hosts,
            format!("all locations of its hosts return 503, {routes} of this Ingress among them"),
        )
    } else {
        (&mut guards.of_locations, format!("the locations of this Ingress return 503 ({routes})"))
    };
    denials.push(format!("annotation {key}: {why}"));
    let message = format!("annotation {key}: {why}: {what}");
    let problem = Problem::of_annotation(Severity::Error, ingress, &key, message);
    problems.push(problem.because(Reason::Unsupported));
}

/// Reports the ignored lines: one problem for all lines of a snippet with the same kind.
pub(super) fn remark(
    remarks: &[(&'static str, Remark)],
    ingress: &Sourced<Object>,
    prefix: &str,
    problems: &mut Vec<Problem>,
) {
    let mut said: BTreeMap<(&str, RemarkKind), Vec<String>> = BTreeMap::new();
    for (name, remark) in remarks {
        said.entry((name, remark.kind)).or_default().push(remark.to_string());
    }
    for ((name, kind), lines) in said {
        let key = format!("{prefix}/{name}");
        let (severity, reason, end) = of_kind(kind);
        let message = format!("annotation {key}: {}{end}", lines.join("; "));
        let problem = Problem::of_annotation(severity, ingress, &key, message);
        problems.push(problem.because(reason));
    }
}

/// The form in which ignored lines are reported.
pub(in crate::translate) fn of_kind(kind: RemarkKind) -> (Severity, Reason, &'static str) {
    match kind {
        RemarkKind::NoEffect => (Severity::Notice, Reason::NoEffect, ""),
        RemarkKind::ForAll => (Severity::Warning, Reason::NoEffect, ""),
        RemarkKind::Unenforced => (
            Severity::Warning,
            Reason::Unsupported,
            ": passed over, since it restricts nobody (--snippets-unenforced=serve)",
        ),
    }
}

pub(super) fn apply(resolved: &Resolved, route: &mut DraftRoute) {
    route.script.location.clone_from(&resolved.block);
    route.script.global.clone_from(&resolved.global);
    route.script.passes.clone_from(&resolved.location.passes);
    if !resolved.location.rules.is_empty() {
        route.access.networks.get_or_insert_default().rules = resolved.location.rules.as_slice().into();
    }
}

pub(super) fn apply_to_host(resolved: &Resolved, claim: &mut Claim) {
    claim.script.clone_from(&resolved.host);
}
