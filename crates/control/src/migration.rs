//! For who comes over from ingress-nginx: what becomes of each annotation and key that is in use, and which Ingresses need a look.
//!
//! Never in here: what is served. A report says what the translation says, and nothing of its own.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Serialize;

use crate::index::Index;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::Translation;
use crate::translate::ingress::class::is_ours;
use crate::translate::{configmap, judge};

/// A name in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// The annotation, without its prefix, or the key.
    pub name: &'static str,
    /// What becomes of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How many Ingresses carry it with that outcome; 1 for a key.
    pub count: usize,
}

/// An Ingress that behaves in another way than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Look {
    /// The object, with its place.
    pub ingress: String,
    /// What is different, and what to do about it.
    pub why: Vec<String>,
}

/// What there is to know before ingress-nginx is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Ingresses of our class.
    pub ingresses: usize,
    /// Their annotations, by name.
    pub annotations: Vec<Use>,
    /// The keys of the `ConfigMap`, by name.
    pub keys: Vec<Use>,
    /// The Ingresses that need a look.
    pub need_a_look: Vec<Look>,
    /// Ingresses, or parts of them, that ingress-nginx leaves out as well.
    pub left_out_before: Vec<String>,
}

impl Report {
    /// Describes objects, and what their translation says of them.
    pub fn new(index: &Index, options: &Options, translation: &Translation) -> Self {
        let mut report = Self::default();
        let mut used: BTreeMap<(&'static str, Outcome), usize> = BTreeMap::new();
        let ours = || index.ingresses.iter().filter(|ingress| is_ours(ingress, index, options));
        report.ingresses = ours().count();
        for one in judge(ours(), index, options) {
            *used.entry(one).or_default() += 1;
        }
        report.annotations = listed(used);
        report.keys = listed(configmap::judge(index, options).map(|one| (one, 1)));
        report.need_a_look = looks(translation.problems.iter().filter(|problem| makes_a_difference(problem)));
        report.left_out_before = translation
            .problems
            .iter()
            .filter(|problem| problem.reason == Reason::Annotation && problem.severity == Severity::Error)
            .map(ToString::to_string)
            .collect();
        report
    }

    /// Writes the report as text.
    ///
    /// # Errors
    ///
    /// When writing to `out` fails.
    pub fn write(&self, out: &mut impl Write) -> fmt::Result {
        table(out, "ANNOTATION", &self.annotations)?;
        table(out, "CONFIGMAP KEY", &self.keys)?;
        for look in &self.need_a_look {
            writeln!(out, "{} needs a look", look.ingress)?;
            look.why.iter().try_for_each(|why| writeln!(out, "    {why}"))?;
        }
        writeln!(out, "{}", self.verdict())
    }

    /// The verdict in one line.
    pub fn verdict(&self) -> String {
        let looks = self.need_a_look.len();
        let as_before = self.ingresses.saturating_sub(looks);
        let verdict = match (self.ingresses, as_before) {
            (1, _) => format!("{as_before} of 1 Ingress behaves as before"),
            (all, 1) => format!("1 of {all} Ingresses behaves as before"),
            (all, as_before) => format!("{as_before} of {all} Ingresses behave as before"),
        };
        match looks {
            0 => verdict,
            1 => format!("{verdict}; 1 needs a look"),
            looks => format!("{verdict}; {looks} need a look"),
        }
    }
}

fn listed(used: impl IntoIterator<Item = ((&'static str, Outcome), usize)>) -> Vec<Use> {
    used.into_iter().map(|((name, outcome), count)| Use { name, outcome, count }).collect()
}

/// Whether a problem says that an Ingress does something else than in ingress-nginx.
fn makes_a_difference(problem: &Problem) -> bool {
    let is_of_ingress = problem.object.as_ref().is_some_and(|object| object.kind == "Ingress");
    let is_ours_alone = matches!(problem.reason, Reason::Unsupported | Reason::NotOwner | Reason::Forbidden);
    is_of_ingress && is_ours_alone && problem.severity != Severity::Notice
}

fn looks<'p>(problems: impl Iterator<Item = &'p Problem>) -> Vec<Look> {
    let mut looks: BTreeMap<String, Look> = BTreeMap::new();
    for problem in problems {
        let object = problem.object.as_ref().map(ToString::to_string).unwrap_or_default();
        let look = looks.entry(object.clone()).or_insert_with(|| {
            let place = problem.file.as_ref().map(|file| format!(" ({})", file.display()));
            Look { ingress: format!("{object}{}", place.unwrap_or_default()), why: Vec::new() }
        });
        let line = problem.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        look.why.push(format!("{line}{}", problem.message));
    }
    looks.into_values().collect()
}

fn table(out: &mut impl Write, heading: &str, uses: &[Use]) -> fmt::Result {
    if uses.is_empty() {
        return Ok(());
    }
    let width = uses.iter().map(|one| one.name.len()).chain([heading.len()]).max().unwrap_or(0);
    writeln!(out, "{heading:<width$}  USED  HERE")?;
    for Use { name, outcome, count } in uses {
        writeln!(out, "{name:<width$}  {count:>4}  {outcome}")?;
    }
    writeln!(out)
}
