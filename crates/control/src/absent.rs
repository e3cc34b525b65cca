//! Services that Ingresses and routes name and that no file declares: many problems become one.
//!
//! Never in here: what is served. This module only sums up problems that the translation has found.

use std::collections::BTreeMap;

use crate::index::Index;
use crate::names::NsName;
use crate::problem::{Problem, Reason, Severity};
use crate::source::strict::is_near;
use crate::translate::Translation;

/// The most Services that the message names.
const NAMED_MAX: usize = 5;

/// Replaces the problems about Services that no file declares by a single problem. A Service with a similar
/// name in the same namespace, or with the same name in another namespace, suggests a mistake; its problem
/// stays separate.
///
/// The single problem is a notice where the files declare no Service at all: a folder that holds only
/// Ingresses is no mistake.
pub(crate) fn sum_up(translation: &mut Translation, index: &Index) {
    let mut absent: BTreeMap<NsName, Vec<Problem>> = BTreeMap::new();
    let missing: Vec<_> = translation.missing_services.iter().map(|name| (name, told_as(name))).collect();
    let problems = std::mem::take(&mut translation.problems);
    for mut problem in problems {
        let name = missing.iter().find(|(_, told)| problem.message.contains(told)).map(|(name, _)| *name);
        match name.map(|name| (name, meant(name, index))) {
            None => translation.problems.push(problem),
            Some((_, Some(meant))) => {
                problem.message.push_str("; did you mean ");
                problem.message.push_str(&meant.to_string());
                problem.message.push('?');
                translation.problems.push(problem);
            }
            Some((name, None)) => absent.entry(name.clone()).or_default().push(problem),
        }
    }
    let has_services = index.services.iter().next().is_some();
    match absent.len() {
        0 => {}
        1 if has_services => translation.problems.extend(absent.into_values().flatten()),
        _ => translation.problems.push(summary(&absent, has_services)),
    }
}

/// The beginning of the translation's message about a missing Service; it identifies those problems.
fn told_as(name: &NsName) -> String {
    format!("Service {name} is missing:")
}

/// The existing Service that the author probably meant by a name that does not exist.
fn meant(name: &NsName, index: &Index) -> Option<NsName> {
    let services = || index.services.iter().map(|service| service.key());
    let similar = |other: &NsName| other.namespace == name.namespace && is_near(&name.name, &other.name);
    services().find(similar).or_else(|| services().find(|other| other.name == name.name))
}

fn summary(absent: &BTreeMap<NsName, Vec<Problem>>, has_services: bool) -> Problem {
    let named = absent.iter().take(NAMED_MAX).map(|(name, problems)| {
        let first = &problems[0];
        match (&first.file, first.line) {
            (Some(file), Some(line)) => format!("{name} ({}:{line})", file.display()),
            _ => name.to_string(),
        }
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let further = match absent.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        further => format!(" and {further} more"),
    };
    let (services, are) = if absent.len() == 1 { ("Service", "is") } else { ("Services", "are") };
    let count = absent.len();
    if has_services {
        let message = format!("{count} {services} {are} not among the files: {named}{further}");
        Problem::new(Severity::Error, message).because(Reason::Missing)
    } else {
        let message = format!(
            "{count} {services} {are} not among the files, so that endpoints are not checked: {named}{further}"
        );
        Problem::new(Severity::Notice, message)
    }
}
