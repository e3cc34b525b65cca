//! Canary Ingresses, which receive a share of the requests for another Ingress's paths.

use model::{CanaryHeader, CanaryHeaderRule, CanaryRules, CanaryWeight, Expression};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use super::rollout;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "affinity-canary-behavior", Ingress, "sticky", Supported(|s, v| set(&mut s.canary.is_legacy, is_legacy(v))),
        "`sticky` keeps a client at the canary or off it by the mainline's cookie, `legacy` only off it.";
    "canary", Ingress, "false", Supported(|s, v| set(&mut s.canary.is_canary, value::boolean(v))),
        "Makes the Ingress an alternative to one with the same host and path.";
    "canary-by-cookie", Ingress, "", Supported(|s, v| set(&mut s.canary.by_cookie, name(v).map(Some))),
        "Cookie that sends a request to the canary, or never.", Medium;
    "canary-by-header", Ingress, "", Supported(|s, v| set(&mut s.canary.by_header, name(v).map(Some))),
        "Header that sends a request to the canary, or never.", Medium;
    "canary-by-header-pattern", Ingress, "", Supported(|s, v| s.canary.read_pattern(v)),
        "Regular expression for the value of `canary-by-header`.", Medium;
    "canary-by-header-value", Ingress, "", Supported(|s, v| set(&mut s.canary.by_header_value, name(v).map(Some))),
        "Value of `canary-by-header` that sends a request to the canary.", Medium;
    "canary-weight", Ingress, "0", Supported(|s, v| set(&mut s.canary.weight, value::number(v))),
        "Share of requests that go to the canary.";
    "canary-weight-total", Ingress, "100", Supported(|s, v| set(&mut s.canary.weight_total, value::number(v))),
        "The total of which `canary-weight` is a share; not below 100.";
}

/// The annotations that apply to a canary beside its own: for all others, the mainline's values apply.
const COUNTING: &[&str] = &[
    "affinity-canary-behavior",
    "load-balance",
    "service-upstream",
    "upstream-hash-by",
    "upstream-hash-by-subset",
    "upstream-hash-by-subset-size",
];

/// Settings of a canary Ingress.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(super) is_canary: bool,
    by_header: Option<String>,
    by_header_value: Option<String>,
    by_header_pattern: Option<CanaryHeaderRule>,
    by_cookie: Option<String>,
    weight: i64,
    weight_total: WeightTotal,
    /// The mainline's cookie keeps clients at the mainline, and the canary sets no cookie.
    pub(super) is_legacy: bool,
    /// Shares over a time, in place of the weight.
    pub(super) rollout: rollout::Settings,
}

/// The total that the weight is a share of.
#[derive(Clone, Copy, Debug)]
struct WeightTotal(i64);

const WEIGHT_TOTAL: i64 = 100;

impl Default for WeightTotal {
    fn default() -> Self {
        Self(WEIGHT_TOTAL)
    }
}

impl std::str::FromStr for WeightTotal {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Settings {
    /// The rules that select the canary's requests. "Total default 100 and only honoured when >100."
    pub(super) fn rules(&self) -> CanaryRules {
        let of_header = || match (&self.by_header_value, &self.by_header_pattern) {
            (Some(value), _) => CanaryHeaderRule::Value(value.clone()),
            (None, Some(pattern)) => pattern.clone(),
            (None, None) => CanaryHeaderRule::AlwaysOrNever,
        };
        // nginx looks it up as `$http_NAME`, in which a dash and an underscore are the same.
        let header = |name: &String| CanaryHeader { name: name.replace('_', "-"), rule: of_header() };
        let weight = u64::try_from(self.weight).unwrap_or_default();
        let total = self.weight_total.0.max(WEIGHT_TOTAL).unsigned_abs();
        CanaryRules {
            header: self.by_header.as_ref().map(header),
            cookie: self.by_cookie.clone(),
            weight: CanaryWeight::new(weight, total),
        }
    }

    /// Reads the pattern. An invalid pattern is no bad value in ingress-nginx: it fails for each request,
    /// which then goes to the mainline.
    fn read_pattern(&mut self, text: &str) -> Applied {
        let text = value::characters(text, value::REGEX)?;
        let (rule, remark) = match Expression::case_sensitive(&text) {
            Ok(pattern) => (CanaryHeaderRule::Pattern(pattern), None),
            Err(why) => {
                (CanaryHeaderRule::Never, Some(format!("{why}: requests with the header go to the mainline")))
            }
        };
        self.by_header_pattern = Some(rule);
        Ok(remark)
    }
}

/// Whether an annotation of a canary has an effect.
pub(super) fn counts(name: &str) -> bool {
    name == "canary" || name.starts_with("canary-") || COUNTING.contains(&name)
}

fn is_legacy(text: &str) -> Parsed<bool> {
    match text.trim() {
        "sticky" => Ok(false),
        "legacy" => Ok(true),
        _ => Err(format!("{text:?} is neither \"sticky\" nor \"legacy\"")),
    }
}

/// Parses a name. Spaces within it are not checked, but stay in the value.
fn name(text: &str) -> Parsed<String> {
    value::characters(&text.replace(' ', ""), value::NAME)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(weight: &str, total: &str) -> CanaryWeight {
        let number = |text| value::number(text).unwrap();
        let settings = Settings {
            weight: value::number(weight).unwrap(),
            weight_total: number(total),
            ..Settings::default()
        };
        settings.rules().weight
    }

    #[test]
    fn the_total_counts_only_above_100() {
        assert_eq!(weight("5", "100"), CanaryWeight::new(5, 100));
        assert_eq!(weight("5", "10"), CanaryWeight::new(5, 100));
        assert_eq!(weight("5", "-1"), CanaryWeight::new(5, 100));
        assert_eq!(weight("5", "1000"), CanaryWeight::new(5, 1000));
        assert_eq!(weight("-5", "100"), CanaryWeight::new(0, 100));
    }

    #[test]
    fn a_value_stands_before_a_pattern_and_neither_counts_without_a_header() {
        let mut settings = Settings { by_header_value: Some("a".to_owned()), ..Settings::default() };
        assert_eq!(settings.read_pattern("b+"), Ok(None));
        assert_eq!(settings.rules().header, None);
        settings.by_header = Some("X".to_owned());
        let rule = |settings: &Settings| settings.rules().header.unwrap().rule;
        assert_eq!(rule(&settings), CanaryHeaderRule::Value("a".to_owned()));
        settings.by_header_value = None;
        assert_eq!(rule(&settings), CanaryHeaderRule::Pattern(Expression::case_sensitive("b+").unwrap()));
        assert!(settings.read_pattern("(").unwrap().is_some());
        assert_eq!(rule(&settings), CanaryHeaderRule::Never);
        assert!(settings.read_pattern("a#b").is_err());
    }

    #[test]
    fn names_may_hold_spaces() {
        assert_eq!(name(" a b "), Ok("a b".to_owned()));
        assert!(name("a;b").is_err() && name(" ").is_err());
    }
}
