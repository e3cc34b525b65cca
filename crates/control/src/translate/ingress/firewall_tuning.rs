//! Typed settings of the firewall: its mode, the levels and thresholds of the core rules, limits of bodies,
//! and exclusions.
//!
//! A setting that cannot be read closes its locations. Never in here: rules.

use std::ops::RangeInclusive;
use std::sync::Arc;

use waf::settings::Mode;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use crate::firewalls::{Exclusion, read_exclusions};
use crate::translate::value::{self, Parsed, set};

annotations! {
    "waf-detection-paranoia-level", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.detection_paranoia_level, paranoia_level(v))), ClosesLocations,
        "Core rules of up to this level run, and those above `forebay.io/waf-paranoia-level` only report; at least that level.";
    "waf-exclusions", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.exclusions, exclusions(v))), ClosesLocations,
        "Rules that are left out, or do not look at some targets, everywhere or on some paths: a list in YAML, see [the firewall](waf.md#exclusions).";
    "waf-inbound-anomaly-threshold", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.inbound_threshold, threshold(v))), ClosesLocations,
        "Score at which the core rules refuse a request.";
    "waf-mode", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.mode, mode(v))), ClosesLocations,
        "Web application firewall: `On` refuses, `DetectionOnly` reports, `Off` turns it off. It beats `SecRuleEngine`.";
    "waf-outbound-anomaly-threshold", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.outbound_threshold, threshold(v))), ClosesLocations,
        "Score at which the core rules refuse a response.";
    "waf-paranoia-level", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.paranoia_level, paranoia_level(v))), ClosesLocations,
        "Core rules of up to this level, from 1 to 4, count for a refusal.";
    "waf-request-body-limit", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.request_body_bytes_max, size(v))), ClosesLocations,
        "The firewall refuses longer bodies of requests (`SecRequestBodyLimit`).";
    "waf-request-body-no-files-limit", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.request_body_no_files_bytes_max, size(v))), ClosesLocations,
        "The same without uploaded files (`SecRequestBodyNoFilesLimit`).";
    "waf-response-body-limit", Ingress, "", Supported(|s, v| set(&mut s.firewall.tuning.response_body_bytes_max, size(v))), ClosesLocations,
        "The firewall looks at as much of a response (`SecResponseBodyLimit`).";
}

/// The levels of the core rules.
pub(crate) const LEVELS: RangeInclusive<u8> = 1..=4;

/// The highest threshold: a score is the sum of the rules that match, with 5 for each at most.
pub(crate) const THRESHOLD_MAX: u32 = 100_000;

/// Parses a mode; none without a text.
pub(crate) fn mode(text: &str) -> Parsed<Option<Mode>> {
    let named = |text: &str| {
        let mode = [Mode::On, Mode::DetectionOnly, Mode::Off].into_iter().find(|mode| mode.name() == text);
        mode.ok_or_else(|| format!("{text:?} is none of On, DetectionOnly and Off"))
    };
    optional(text, named)
}

/// Parses a paranoia level; none without a text.
pub(crate) fn paranoia_level(text: &str) -> Parsed<Option<u8>> {
    let level = |text: &str| value::number(text).ok().filter(|level| LEVELS.contains(level));
    optional(text, |text| level(text).ok_or_else(|| format!("{text:?} is no paranoia level from 1 to 4")))
}

/// Parses a threshold of scores; none without a text.
pub(crate) fn threshold(text: &str) -> Parsed<Option<u32>> {
    let score = |text: &str| value::number(text).ok().filter(|score| (1..=THRESHOLD_MAX).contains(score));
    optional(text, |text| {
        score(text).ok_or_else(|| format!("{text:?} is no score from 1 to {THRESHOLD_MAX}"))
    })
}

/// Parses a size in bytes; none without a text.
pub(crate) fn size(text: &str) -> Parsed<Option<u64>> {
    optional(text, value::size)
}

/// Parses a list of exclusions in YAML; an empty one without a text.
pub(crate) fn exclusions(text: &str) -> Parsed<Arc<[Exclusion]>> {
    if text.trim().is_empty() {
        return Ok(Arc::default());
    }
    // Blanks before the first line are the indentation of all lines.
    Ok(read_exclusions(&value::yaml(text)?)?.into())
}

fn optional<T>(text: &str, parse: impl FnOnce(&str) -> Parsed<T>) -> Parsed<Option<T>> {
    let text = text.trim();
    if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
}
