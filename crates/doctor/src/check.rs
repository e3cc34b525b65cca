//! An entry of the table of checks, and how its finding is made.
//!
//! Must not be in here: the checks.

use crate::finding::{Finding, Outcome, Translated, Verdict};
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::text::{Text, say};

/// A check: something that costs QPS, and how it is recognised.
pub struct Check {
    /// Its name: in output, in JSON, as the metric's label and as the heading in its page.
    pub id: &'static str,
    /// The subject; findings are shown by category.
    pub category: &'static str,
    /// The problem if the verdict is not ok.
    pub what: &'static str,
    /// The files and figures that the check reads, and how it judges them.
    pub how: &'static str,
    /// The worst verdict that it gives.
    pub severity: Verdict,
    /// The remedy: the command or setting.
    pub remedy: &'static str,
    /// The field cases that the check is derived from.
    pub case: &'static str,
    /// The function that judges.
    pub(crate) look: fn(&Samples) -> Result<Outcome, Unknown>,
}

/// The page with the heading that explains a check.
pub fn doc_page(id: &str) -> String {
    format!("docs/doctor.md#{id}")
}

impl Check {
    /// The finding of this check for a machine.
    pub fn examine(&self, samples: &Samples) -> Finding {
        let outcome = (self.look)(samples)
            .unwrap_or_else(|unknown| Outcome::new(Verdict::Unknown, say!("not checked: {}", unknown.0)));
        self.finding(outcome)
    }

    fn finding(&self, outcome: Outcome) -> Finding {
        let Outcome { verdict, message, evidence, remedy } = outcome;
        let is_needed = verdict > Verdict::Unknown;
        let remedy = remedy.unwrap_or_else(|| Text::fixed(self.remedy));
        let remedy = if is_needed { remedy } else { Text::none() };
        Finding {
            id: self.id,
            category: self.category,
            verdict,
            message: message.english(),
            evidence,
            remedy: remedy.english(),
            zh: Translated { message: message.chinese(), remedy: remedy.chinese() },
            doc: doc_page(self.id),
        }
    }
}
