//! The table of checks. Each entry stands beside the function that judges.
//!
//! Must not be in here: what a check reads.

use crate::check::Check;
use crate::checks;

/// All checks, by category.
pub const CHECKS: &[&[Check]] = &[
    // One a line.
    checks::connections::CHECKS,
    checks::clients::CHECKS,
    checks::abuse::CHECKS,
    checks::shared_limits::CHECKS,
    checks::certificates::CHECKS,
    checks::ports::CHECKS,
    checks::queues::CHECKS,
    checks::udp::CHECKS,
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
    checks::guard::CHECKS,
];

/// All checks, one after the other.
pub fn all() -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::finding::Verdict;
    use crate::samples::Samples;

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
            assert!(finding.message.starts_with("not checked: "), "{}", finding.message);
        }
    }
}
