//! The draft of a route as policies want it, with the readers of annotations.
//!
//! Never in here: which policies hold for a route, and which of two values counts.

use std::sync::Arc;

use super::read::Given;
use crate::problem::{Place, Problem};
use crate::translate::claim::{DraftRoute, RouteSetting};
use crate::translate::ingress::Settings;
use crate::translate::ingress::asker::Asker;
use crate::translate::ingress::partial::{Concern, Partial};
use crate::translate::inputs::Inputs;

/// What policies say for routes.
pub(in crate::translate) struct Wanted<'w> {
    /// The fields that hold, in the order of their annotations.
    pub(in crate::translate) given: Vec<&'w Given>,
    /// Why requests have to be refused.
    pub(in crate::translate) denials: Vec<String>,
    /// The route, which limits count for.
    pub(in crate::translate) place: Place,
}

/// The concern of each section.
fn concern_of(section: &str) -> Option<Concern> {
    Some(match section {
        "abuse" => Concern::Abuse,
        "access" => Concern::Access,
        "auth" => Concern::Auth,
        "bodies" => Concern::Bodies,
        "cache" => Concern::Cache,
        "compression" | "responses" => Concern::Responses,
        "errors" => Concern::Errors,
        "files" => Concern::Files,
        "headers" => Concern::Headers,
        "limits" => Concern::Limits,
        "logging" => Concern::Logging,
        "overload" => Concern::Overload,
        "retries" => Concern::Retries,
        "timeouts" => Concern::Timeouts,
        "tracing" => Concern::Tracing,
        _ => return None,
    })
}

impl Wanted<'_> {
    /// The draft that follows from `usual`, what holds for all routes. Of the sections that nothing is said of nothing changes.
    pub(in crate::translate) fn draft(
        &self,
        usual: &DraftRoute,
        base: &Settings,
        inputs: &Inputs<'_>,
        problems: &mut Vec<Problem>,
    ) -> DraftRoute {
        let mut draft = DraftRoute { place: self.place.clone(), ..usual.clone() };
        let values = self.given.iter().map(|given| (given.field.annotation, given.text.as_str()));
        let partial = Partial::new(base, values, self, inputs, problems);
        let mut applied: Vec<Concern> = Vec::new();
        for concern in self.given.iter().filter_map(|given| concern_of(given.field.section.name)) {
            if applied.contains(&concern) {
                continue;
            }
            applied.push(concern);
            if concern == Concern::Errors {
                // The Service that a policy names is of the policy's namespace.
                self.namespace().clone_into(&mut draft.place.object.namespace);
            }
            partial.apply(concern, &mut draft);
            draft.place.object.namespace.clone_from(&self.place.object.namespace);
        }
        partial.apply_denials(&mut draft);
        draft.denials.extend(self.denials.iter().cloned());
        draft
    }

    /// What is told of the fields that hold.
    pub(in crate::translate) fn settings(&self) -> Arc<[RouteSetting]> {
        let told = |given: &&Given| {
            let Place { object, file, line, .. } = given.place.clone();
            RouteSetting {
                annotation: given.field.annotation.name,
                field: given.field.path(),
                value: given.text.clone(),
                object,
                file,
                line,
            }
        };
        self.given.iter().map(told).collect()
    }

    fn find(&self, name: &str) -> Option<&Given> {
        self.given.iter().copied().find(|given| given.field.annotation.name == name)
    }
}

impl Asker for Wanted<'_> {
    /// Only Services are named without a namespace.
    fn namespace(&self) -> &str {
        let given = self.find("default-backend");
        &given.map_or(&self.place, |given| &given.place).object.namespace
    }

    fn place(&self) -> Place {
        self.place.clone()
    }

    fn given(&self, name: &str) -> Option<Place> {
        self.find(name).map(|given| given.place.clone())
    }

    fn names(&self) -> Vec<&str> {
        self.given.iter().map(|given| given.field.annotation.name).collect()
    }

    fn short(&self, name: &str) -> String {
        super::fields::of_annotation(name).map_or_else(|| name.to_owned(), super::fields::Field::path)
    }

    fn key(&self, name: &str) -> String {
        self.short(name)
    }

    fn called(&self, name: &str) -> String {
        format!("field {}", self.short(name))
    }

    fn closed(&self) -> &'static str {
        "the rules that the policy is for"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::policy::sections::SECTIONS;

    #[test]
    fn every_section_has_a_concern() {
        assert!(SECTIONS.iter().all(|section| concern_of(section.name).is_some()));
        assert!(concern_of("none").is_none());
    }
}
