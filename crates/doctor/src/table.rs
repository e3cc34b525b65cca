//! The table of checks. Each entry stands beside the function that judges.
//!
//! Must not be in here: what a check reads.

use crate::checks;
use crate::finding::{Finding, Outcome, Verdict};
use crate::sample::Unknown;
use crate::samples::Samples;

/// A check: something that costs QPS, and how it is recognised.
pub struct Check {
    /// Its name: in output, in JSON, as the metric's label and as the heading in its page.
    pub id: &'static str,
    /// The subject; findings are shown by category.
    pub category: &'static str,
    /// What is wrong if the verdict is not ok.
    pub what: &'static str,
    /// What is read, and how it is judged.
    pub how: &'static str,
    /// The worst verdict that it gives.
    pub severity: Verdict,
    /// What to do: the command or setting.
    pub remedy: &'static str,
    /// The field cases that the check is derived from.
    pub case: &'static str,
    /// The function that judges.
    pub(crate) look: fn(&Samples) -> Result<Outcome, Unknown>,
}

/// All checks, by category.
pub const CHECKS: &[&[Check]] = &[
    // One a line.
    checks::connections::CHECKS,
    checks::clients::CHECKS,
    checks::ports::CHECKS,
    checks::queues::CHECKS,
    checks::limits::CHECKS,
    checks::traffic::CHECKS,
    checks::hops::CHECKS,
    checks::throttling::CHECKS,
    checks::affinity::CHECKS,
    checks::workers::CHECKS,
    checks::ipvs::CHECKS,
    checks::overlay::CHECKS,
    checks::nic::CHECKS,
    checks::kernel::CHECKS,
];

/// All checks, one after the other.
pub fn all() -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().copied().flatten()
}

/// The page with the heading that explains a check.
pub fn doc_page(id: &str) -> String {
    format!("docs/doctor.md#{id}")
}

impl Check {
    /// The finding of this check for a machine.
    pub fn examine(&self, samples: &Samples) -> Finding {
        let outcome = (self.look)(samples).unwrap_or_else(|unknown| {
            Outcome::new(Verdict::Unknown, format!("could not look, because {unknown}"))
        });
        self.finding(outcome)
    }

    fn finding(&self, outcome: Outcome) -> Finding {
        let Outcome { verdict, message, evidence, remedy } = outcome;
        let remedy = remedy.unwrap_or_else(|| self.remedy.to_owned());
        Finding {
            id: self.id,
            category: self.category,
            verdict,
            message,
            evidence,
            remedy: if verdict > Verdict::Unknown { remedy } else { String::new() },
            doc: doc_page(self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_entry_is_whole_and_every_name_is_its_own() {
        let mut ids = BTreeSet::new();
        for check in all() {
            assert!(ids.insert(check.id), "{} is there twice", check.id);
            for text in [check.category, check.what, check.how, check.remedy, check.case] {
                assert!(!text.is_empty(), "{}", check.id);
            }
            assert!(check.severity > Verdict::Unknown, "{}", check.id);
        }
    }

    #[test]
    fn what_belongs_together_stands_together() {
        let mut categories: Vec<_> = all().map(|check| check.category).collect();
        categories.dedup();
        assert_eq!(categories.len(), BTreeSet::from_iter(categories).len());
    }

    #[test]
    fn who_sees_nothing_finds_nothing_fine() {
        let blind = Samples::default();
        for check in all() {
            let finding = check.examine(&blind);
            assert_eq!(finding.verdict, Verdict::Unknown, "{}: {}", check.id, finding.message);
            assert!(finding.message.starts_with("could not look, because "), "{}", finding.message);
        }
    }
}
