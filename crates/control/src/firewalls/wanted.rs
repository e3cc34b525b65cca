//! The rules that a firewall is to have.
//!
//! Never in here: compiled rules.

use std::fmt::Write;
use std::sync::Arc;

use waf::settings::Mode;

use super::exclusions::Exclusion;

/// The rules that a firewall is to have, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// The rules of the object itself.
    pub(crate) snippet: Option<Arc<str>>,
    /// The rules that many objects share.
    pub(crate) base: Base,
    pub(crate) tuning: Tuning,
}

/// Rules that many objects share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Base {
    /// The default settings come first.
    pub(crate) defaults: bool,
    /// The rules of the `ConfigMap`.
    pub(crate) snippet: Option<Arc<str>>,
    /// The core rules.
    pub(crate) core: bool,
}

/// Typed settings, which take precedence over those of all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tuning {
    pub(crate) mode: Option<Mode>,
    /// The paranoia level of rules that count for a refusal, from 1 to 4.
    pub(crate) paranoia_level: Option<u8>,
    /// The paranoia level of rules that run; none for that of the rules that count.
    pub(crate) detection_paranoia_level: Option<u8>,
    /// The score at which a request is refused.
    pub(crate) inbound_threshold: Option<u32>,
    /// The score at which a response is refused.
    pub(crate) outbound_threshold: Option<u32>,
    pub(crate) request_body_bytes_max: Option<u64>,
    pub(crate) request_body_no_files_bytes_max: Option<u64>,
    pub(crate) response_body_bytes_max: Option<u64>,
    pub(crate) exclusions: Arc<[Exclusion]>,
}

/// The rule that has the settings of the core rules. The `ModSecurity` project shares out ids of up to
/// 999,999 only.
const RULE_ID: u32 = 2_147_483_647;

impl Tuning {
    /// Why the settings contradict one another; none if they do not.
    pub(super) fn contradiction(&self) -> Option<String> {
        let detection = self.detection_paranoia_level?;
        match self.paranoia_level {
            None => Some("a detection paranoia level needs a paranoia level beside it".to_owned()),
            Some(level) if detection < level => Some(format!(
                "the detection paranoia level {detection} is below the paranoia level {level}: the core rules \
                 would refuse every request"
            )),
            Some(_) => None,
        }
    }

    /// The settings of the core rules as a rule, which has to run between their setup and the first of them.
    pub(super) fn core_settings(&self) -> Option<String> {
        let values = [
            ("blocking_paranoia_level", self.paranoia_level.map(u32::from)),
            // The setup may have another one, with which the core rules would refuse every request.
            (
                "detection_paranoia_level",
                self.detection_paranoia_level.or(self.paranoia_level).map(u32::from),
            ),
            ("inbound_anomaly_score_threshold", self.inbound_threshold),
            ("outbound_anomaly_score_threshold", self.outbound_threshold),
        ];
        let mut rule = format!("SecAction \"id:{RULE_ID},phase:1,pass,t:none,nolog");
        let empty = rule.len();
        for (name, value) in values {
            if let Some(value) = value {
                let _ = write!(rule, ",setvar:tx.{name}={value}");
            }
        }
        (rule.len() > empty).then(|| rule + "\"")
    }

    /// The settings of the engine as directives.
    pub(super) fn engine_settings(&self) -> String {
        let mode = self.mode.map(|mode| format!("SecRuleEngine {}\n", mode.name()));
        let limits = [
            ("SecRequestBodyLimit", self.request_body_bytes_max),
            ("SecRequestBodyNoFilesLimit", self.request_body_no_files_bytes_max),
            ("SecResponseBodyLimit", self.response_body_bytes_max),
        ];
        let limits = limits.iter().filter_map(|(name, bytes)| Some(format!("{name} {}\n", (*bytes)?)));
        mode.into_iter().chain(limits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_that_are_given() {
        let none = Tuning::default();
        assert_eq!((none.core_settings(), none.engine_settings()), (None, String::new()));
        let tuning = Tuning {
            mode: Some(Mode::On),
            paranoia_level: Some(2),
            outbound_threshold: Some(8),
            response_body_bytes_max: Some(1000),
            ..Tuning::default()
        };
        let rule = tuning.core_settings().unwrap();
        assert!(rule.ends_with(
            ",setvar:tx.blocking_paranoia_level=2,setvar:tx.detection_paranoia_level=2\
             ,setvar:tx.outbound_anomaly_score_threshold=8\""
        ));
        assert_eq!(tuning.engine_settings(), "SecRuleEngine On\nSecResponseBodyLimit 1000\n");
    }

    #[test]
    fn levels_that_the_core_rules_refuse_are_contradictions() {
        let levels = |paranoia_level, detection_paranoia_level| {
            let tuning = Tuning { paranoia_level, detection_paranoia_level, ..Tuning::default() };
            tuning.contradiction().is_some()
        };
        assert!(levels(None, Some(2)) && levels(Some(3), Some(2)));
        assert!(!levels(Some(2), Some(3)) && !levels(Some(2), None) && !levels(None, None));
    }
}
