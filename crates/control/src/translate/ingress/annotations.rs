//! The table of annotations, and the settings that result from the annotations of an Ingress.
//!
//! A value is parsed into a typed field or refused; none is ever inserted into a text. If an annotation
//! restricts access and cannot be enforced, the locations that it protects are closed.

use super::Settings;
use super::annotation::{Annotation, BadValue, Effect};
use super::{
    access, affinity, auth, balancing, bodies, canary, carried_over, client_certificates, cors, errors,
    fastcgi, firewall, headers, host_tls, limits, logging, mirror, own, redirect, responses, retries,
    rewrite, rollout, snippets, timeouts, tracing, upstream_tls,
};
use crate::objects::{At, Ingress, Sourced};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::table::{is_default, suggestion};
use crate::translate::value;

/// All annotations, by concern.
const CONCERNS: &[&[Annotation]] = &[
    // This comment makes rustfmt put each concern on its own line.
    access::ANNOTATIONS,
    affinity::ANNOTATIONS,
    auth::ANNOTATIONS,
    balancing::ANNOTATIONS,
    bodies::ANNOTATIONS,
    canary::ANNOTATIONS,
    client_certificates::ANNOTATIONS,
    cors::ANNOTATIONS,
    errors::ANNOTATIONS,
    fastcgi::ANNOTATIONS,
    firewall::ANNOTATIONS,
    headers::ANNOTATIONS,
    host_tls::ANNOTATIONS,
    limits::ANNOTATIONS,
    logging::ANNOTATIONS,
    mirror::ANNOTATIONS,
    redirect::ANNOTATIONS,
    responses::ANNOTATIONS,
    retries::ANNOTATIONS,
    rewrite::ANNOTATIONS,
    snippets::ANNOTATIONS,
    timeouts::ANNOTATIONS,
    tracing::ANNOTATIONS,
    upstream_tls::ANNOTATIONS,
];

/// All annotations, by name: 136, and 2 former names.
pub const ANNOTATIONS: &[&Annotation] = &sorted_by_name();

/// The annotations that name a Secret.
pub(crate) const SECRETS: &[&str] = &["auth-secret", "auth-tls-secret", "proxy-ssl-secret"];

/// The annotations that name a `ConfigMap`.
pub(crate) const CONFIGMAPS: &[&str] =
    &["auth-proxy-set-headers", "custom-headers", "fastcgi-params-configmap"];

/// The annotations among both that may omit the namespace, which is then that of the Ingress.
pub(crate) const NAMED_NEARBY: &[&str] = &["auth-secret", "fastcgi-params-configmap"];

/// The settings of an Ingress: the defaults, changed by its annotations.
pub(super) fn read(
    ingress: &Sourced<Ingress>,
    base: &Settings,
    prefix: &str,
    problems: &mut Vec<Problem>,
) -> Settings {
    let mut settings = base.clone();
    let canary = ingress.metadata.annotations.get(&format!("{prefix}/canary"));
    let is_canary = canary.is_some_and(|value| value::boolean(&value.value).unwrap_or_default());
    let mut hints = HINTS_MAX;
    for (key, value) in ingress.metadata.annotations.iter() {
        let Some((their_prefix, name)) = key.split_once('/') else { continue };
        let found = if their_prefix == prefix {
            let newer = newer_name(name).map(|newer| format!("{prefix}/{newer}"));
            if newer.is_some_and(|newer| ingress.metadata.annotations.get(&newer).is_some()) {
                continue;
            }
            match named(name) {
                Some(annotation) if is_canary && !canary::counts(name) => {
                    Some(without_effect(&mut settings, annotation, key, value))
                }
                Some(_) if settings.screening.drops(name) => Some(dropped(key)),
                _ => match missing_leader(ingress, prefix, name) {
                    Some(leader) => {
                        let message = format!("annotation {key} has no effect without {leader}");
                        Some((Severity::Notice, Reason::NoEffect, message))
                    }
                    None => apply(&mut settings, key, name, value, &mut hints),
                },
            }
        } else if their_prefix == own::PREFIX {
            match own::named(name) {
                Some(annotation) if is_canary && !rollout::counts(name) => {
                    Some(without_effect(&mut settings, annotation, key, value))
                }
                Some(_) if !is_canary && rollout::counts(name) => {
                    let message = format!("annotation {key} has no effect without {prefix}/canary");
                    Some((Severity::Notice, Reason::NoEffect, message))
                }
                Some(annotation) => take(&mut settings, annotation, key, name, value),
                None => Some(unknown_own(key, name)),
            }
        } else {
            carried_over::foreign(their_prefix, name, |name| named(name).is_some())
                .map(|message| (Severity::Notice, Reason::NoEffect, message))
        };
        if let Some((severity, reason, message)) = found {
            problems.push(Problem::at(severity, ingress, value, message).because(reason));
        }
    }
    settings
}

/// Whether an Ingress has an annotation with this name, which has no prefix.
pub(super) fn is_given(ingress: &Sourced<Ingress>, prefix: &str, name: &str) -> bool {
    ingress.metadata.annotations.get(&format!("{prefix}/{name}")).is_some()
}

/// The annotation without which ingress-nginx ignores another one, if the Ingress lacks it.
fn missing_leader(ingress: &Sourced<Ingress>, prefix: &str, name: &str) -> Option<&'static str> {
    let leaders: &[_] = match name {
        "auth-secret-type" => &["auth-type"],
        "auth-realm" => &["auth-type", "auth-secret"],
        _ => return None,
    };
    let is_missing = |leader: &str| {
        let value = ingress.metadata.annotations.get(&format!("{prefix}/{leader}"));
        value.is_none_or(|value| value.value.is_empty())
    };
    leaders.iter().copied().find(|leader| is_missing(leader))
}

/// The effect of each annotation of an Ingress that has our prefix and a name that ingress-nginx knows.
pub(in crate::translate) fn judge(
    ingress: &Sourced<Ingress>,
    options: &Options,
    base: &Settings,
    before: &Settings,
) -> Vec<(&'static str, Outcome)> {
    let prefix = &options.annotations_prefix;
    let mut settings = read(ingress, base, prefix, &mut Vec::new());
    let (_, faults) = snippets::resolve(&mut settings, |name| is_given(ingress, prefix, name), named);
    let judged = ingress.metadata.annotations.iter().filter_map(|(key, value)| {
        let (their_prefix, name) = key.split_once('/')?;
        let annotation = named(name).filter(|_| their_prefix == prefix)?;
        let closed = |(_, why): &(_, String)| {
            let what =
                if name == "server-snippet" { "its hosts return 503" } else { "the Ingress returns 503" };
            Outcome::Closed(format!("{what}: {why}"))
        };
        let outcome = if let Some(why) = base.screening.refusal(name, &value.value) {
            match before.screening.refusal(name, &value.value) {
                Some(_) => Outcome::BadValue("the Ingress is ignored".to_owned()),
                None => Outcome::Closed(format!("the Ingress is ignored: {why}")),
            }
        } else if let Some(leader) = missing_leader(ingress, prefix, name) {
            Outcome::WithoutEffect(format!("it counts beside {leader}"))
        } else if base.screening.drops(name) {
            Outcome::BadValue("it is ignored, since allow-snippet-annotations is not true".to_owned())
        } else if let Some(fault) = faults.iter().find(|(faulty, _)| *faulty == name) {
            closed(fault)
        } else if firewall::is_ours(annotation.name)
            && !is_default(&value.value, annotation.default)
            && outcome(annotation, &value.value) == Outcome::Works
        {
            firewall::outcome(options, annotation.name, settings.firewall.is_on(), "the Ingress returns 503")
        } else {
            outcome(annotation, &value.value)
        };
        Some((annotation.name, outcome))
    });
    judged.collect()
}

fn outcome(annotation: &Annotation, value: &str) -> Outcome {
    match annotation.effect {
        Effect::Supported(parse) => match parse(&mut Settings::default(), value) {
            Ok(None) => Outcome::Works,
            Ok(Some(remark)) => Outcome::Differs(remark),
            Err(_) if value.is_empty() => Outcome::Works,
            Err(why) if FEWER_VALUES.contains(&annotation.name) => Outcome::Differs(why),
            Err(_) => Outcome::BadValue(match annotation.bad_value {
                BadValue::Passed => "the default is used".to_owned(),
                BadValue::ClosesLocations => "the Ingress returns 503".to_owned(),
                BadValue::IgnoresIngress => "the Ingress is ignored".to_owned(),
            }),
        },
        _ if is_default(value, annotation.default) => Outcome::Works,
        Effect::Ignored(why) => Outcome::WithoutEffect(why.to_owned()),
        // Aliases have been resolved before.
        Effect::AliasOf(_) => Outcome::Works,
    }
}

/// Annotations for which Forebay supports fewer values than ingress-nginx.
const FEWER_VALUES: &[&str] = &["proxy-ssl-ciphers", "proxy-ssl-protocols"];

/// Annotations whose empty value differs from an absent one, unless the former name is used.
const EMPTY_IS_BAD: &[&str] = &["allowlist-source-range", "denylist-source-range"];

/// The most unknown annotations of one Ingress for which a similar name is suggested. A suggestion takes some
/// hundred microseconds, and the 256 KiB that Kubernetes allows hold thousands of annotations.
const HINTS_MAX: usize = 16;

type Finding = Option<(Severity, Reason, String)>;

fn apply(settings: &mut Settings, key: &str, name: &str, value: &At<String>, hints: &mut usize) -> Finding {
    match named(name) {
        Some(annotation) => take(settings, annotation, key, name, value),
        None => Some(unknown(key, name, hints)),
    }
}

/// Applies the value of an annotation to the settings.
fn take(
    settings: &mut Settings,
    annotation: &Annotation,
    key: &str,
    name: &str,
    value: &At<String>,
) -> Finding {
    let value = &value.value;
    match annotation.effect {
        Effect::Supported(parse) => match parse(settings, value) {
            Ok(remark) => {
                Some((Severity::Warning, Reason::NoEffect, format!("annotation {key}: {}", remark?)))
            }
            // ingress-nginx treats an empty value as an absent one.
            Err(_) if value.is_empty() && !EMPTY_IS_BAD.contains(&name) => None,
            Err(why) => {
                let reason =
                    if FEWER_VALUES.contains(&name) { Reason::Unsupported } else { Reason::Annotation };
                let what = format!("annotation {key}: {why}");
                let (severity, message) = refuse(settings, annotation.bad_value, key, &what);
                Some((severity, reason, message))
            }
        },
        _ if is_default(value, annotation.default) => None,
        Effect::Ignored(_)
            if annotation.bad_value == BadValue::IgnoresIngress && value::boolean(value).is_err() =>
        {
            let what = format!("annotation {key}: {value:?} is no boolean");
            let (severity, message) = refuse(settings, annotation.bad_value, key, &what);
            Some((severity, Reason::Annotation, message))
        }
        Effect::Ignored(why) => {
            Some((Severity::Notice, Reason::NoEffect, format!("annotation {key} has no effect: {why}")))
        }
        // Aliases have been resolved before.
        Effect::AliasOf(_) => None,
    }
}

/// The remark about a canary's annotation without effect: "The mainline's annotations hold for the canary's
/// requests." An invalid value still has the Ingress ignored.
fn without_effect(
    settings: &mut Settings,
    annotation: &Annotation,
    key: &str,
    value: &At<String>,
) -> (Severity, Reason, String) {
    if annotation.bad_value == BadValue::IgnoresIngress
        && let Effect::Supported(parse) = annotation.effect
        && let Err(why) = parse(&mut Settings::default(), &value.value)
        && !value.value.is_empty()
    {
        let (severity, message) =
            refuse(settings, annotation.bad_value, key, &format!("annotation {key}: {why}"));
        return (severity, Reason::Annotation, message);
    }
    let message = format!(
        "annotation {key} has no effect: for the requests of a canary the annotations of the main Ingress hold"
    );
    (Severity::Notice, Reason::NoEffect, message)
}

/// Handles an invalid value as ingress-nginx does.
fn refuse(settings: &mut Settings, bad_value: BadValue, key: &str, what: &str) -> (Severity, String) {
    match bad_value {
        BadValue::Passed => (Severity::Warning, format!("{what}; the default is used")),
        BadValue::IgnoresIngress => {
            settings.guards.ignores_ingress = true;
            (Severity::Error, format!("{what}; the Ingress is ignored, as by ingress-nginx"))
        }
        BadValue::ClosesLocations => {
            settings.guards.of_locations.push(format!("annotation {key} cannot be read"));
            (Severity::Error, format!("{what}: the locations of this Ingress return 503"))
        }
    }
}

/// The problem of a dropped snippet: "With risk level Critical but allow-snippet-annotations false only the
/// snippets are dropped."
fn dropped(key: &str) -> (Severity, Reason, String) {
    let message = format!(
        "annotation {key} is ignored, as by ingress-nginx: allow-snippet-annotations of the ConfigMap is not \"true\""
    );
    (Severity::Warning, Reason::Annotation, message)
}

fn unknown(key: &str, name: &str, hints: &mut usize) -> (Severity, Reason, String) {
    if let Some(advice) = carried_over::replacement(name) {
        let message = format!("annotation {key} is ignored, as by ingress-nginx; {advice}");
        return (Severity::Notice, Reason::NoEffect, message);
    }
    let names = ANNOTATIONS.iter().map(|annotation| annotation.name).take_while(|_| *hints > 0);
    let hint = suggestion(name, names);
    *hints = hints.saturating_sub(1);
    let message = format!("annotation {key} is unknown, and has no effect{hint}");
    (Severity::Warning, Reason::NoEffect, message)
}

fn unknown_own(key: &str, name: &str) -> (Severity, Reason, String) {
    let hint = suggestion(name, own::annotations().map(|annotation| annotation.name));
    (Severity::Warning, Reason::NoEffect, format!("annotation {key} is unknown, and has no effect{hint}"))
}

/// The current name of an annotation with a former name.
fn newer_name(name: &str) -> Option<&'static str> {
    let at = ANNOTATIONS.binary_search_by_key(&name, |annotation| annotation.name).ok()?;
    match ANNOTATIONS[at].effect {
        Effect::AliasOf(newer) => Some(newer),
        _ => None,
    }
}

/// The annotation with this name without prefix.
pub(in crate::translate) fn named(name: &str) -> Option<&'static Annotation> {
    let at = ANNOTATIONS.binary_search_by_key(&name, |annotation| annotation.name).ok()?;
    match ANNOTATIONS[at].effect {
        Effect::AliasOf(name) => named(name),
        _ => Some(ANNOTATIONS[at]),
    }
}

// === the table, made while compiling ===

const COUNT: usize = {
    let (mut count, mut concern) = (0, 0);
    while concern < CONCERNS.len() {
        count += CONCERNS[concern].len();
        concern += 1;
    }
    count
};

const fn sorted_by_name() -> [&'static Annotation; COUNT] {
    let mut table = [&CONCERNS[0][0]; COUNT];
    let (mut count, mut concern) = (0, 0);
    while concern < CONCERNS.len() {
        let mut entry = 0;
        while entry < CONCERNS[concern].len() {
            let new = &CONCERNS[concern][entry];
            let mut place = count;
            while place > 0 && comes_before(new.name, table[place - 1].name) {
                table[place] = table[place - 1];
                place -= 1;
            }
            table[place] = new;
            (count, entry) = (count + 1, entry + 1);
        }
        concern += 1;
    }
    table
}

/// Compares two texts (`a < b`), because constants have no other way to compare texts.
const fn comes_before(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() {
        if a[at] != b[at] {
            return a[at] < b[at];
        }
        at += 1;
    }
    a.len() < b.len()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_holds_136_names_and_2_aliases() {
        let names: HashSet<_> = ANNOTATIONS.iter().map(|annotation| annotation.name).collect();
        assert_eq!(names.len(), 138, "all distinct");
        let is_alias = |annotation: &&&Annotation| matches!(annotation.effect, Effect::AliasOf(_));
        let aliases: Vec<_> = ANNOTATIONS.iter().filter(is_alias).map(|annotation| annotation.name).collect();
        assert_eq!(aliases, ["limit-whitelist", "whitelist-source-range"]);
        assert_eq!(ANNOTATIONS.len() - aliases.len(), 136);
    }

    #[test]
    fn tables_are_sorted_for_the_search() {
        assert!(ANNOTATIONS.is_sorted_by_key(|annotation| annotation.name));
        assert!(ANNOTATIONS.iter().all(|annotation| named(annotation.name).is_some()));
    }

    /// If the parser refused a default, a user who writes it out would get a problem.
    #[test]
    fn defaults_of_supported_annotations_are_what_holds_anyway() {
        for annotation in ANNOTATIONS {
            // These annotations override the ConfigMap, whatever their value is.
            let beats_all =
                ["enable-modsecurity", "enable-opentelemetry", "opentelemetry-trust-incoming-span"];
            let is_default = !beats_all.contains(&annotation.name);
            if let Effect::Supported(parse) = annotation.effect
                && !annotation.default.is_empty()
                && is_default
            {
                let mut settings = Settings::default();
                parse(&mut settings, annotation.default).unwrap();
                assert_eq!(
                    format!("{settings:?}"),
                    format!("{:?}", Settings::default()),
                    "{}",
                    annotation.name
                );
            }
        }
    }

    #[test]
    fn whatever_guards_closes() {
        for annotation in ANNOTATIONS {
            let tunes = annotation.name.starts_with("auth-keepalive");
            let guards = annotation.name.starts_with("auth-") && !tunes
                || annotation.name.ends_with("-snippet") && annotation.name != "stream-snippet"
                || ["allowlist-source-range", "denylist-source-range", "satisfy", "enable-modsecurity"]
                    .contains(&annotation.name);
            // A supported annotation is enforced, or closes the locations that it protects.
            assert!(annotation.is_supported() || !guards, "{}", annotation.name);
        }
    }
}
