//! The draft of a route with the values of policies, made by the readers of annotations.
//!
//! Never in here: the policies that apply to a route, and the precedence of their values.

use std::sync::Arc;

use super::read::Given;
use crate::problem::{Problem, SourceLocation};
use crate::translate::claim::{DraftRoute, RouteSetting};
use crate::translate::ingress::Settings;
use crate::translate::ingress::asker::Asker;
use crate::translate::ingress::partial::{Concern, Partial};
use crate::translate::inputs::Inputs;

/// The policy values for routes.
pub(in crate::translate) struct Wanted<'w> {
    /// The fields that apply, in the order of their annotations.
    pub(in crate::translate) given: Vec<&'w Given>,
    /// The reasons for refusing requests.
    pub(in crate::translate) denials: Vec<String>,
    /// The route for which limits count.
    pub(in crate::translate) place: SourceLocation,
}

/// The concern of each section.
fn concern_of(section: &str) -> Option<Concern> {
    Some(match section {
        "abuse" => Concern::Abuse,
        "access" => Concern::Access,
        "auth" | "extAuthz" => Concern::Auth,
        "bodies" => Concern::Bodies,
        "cache" => Concern::Cache,
        "compression" | "responses" => Concern::Responses,
        "directResponse" => Concern::DirectResponse,
        "errors" => Concern::Errors,
        "extProc" => Concern::ExtProc,
        "fallback" => Concern::Fallback,
        "files" => Concern::Files,
        "headers" => Concern::Headers,
        "healthCheck" => Concern::HealthCheck,
        "limits" => Concern::Limits,
        "logging" => Concern::Logging,
        "maintenance" => Concern::Maintenance,
        "overload" => Concern::Overload,
        "retries" => Concern::Retries,
        "timeouts" => Concern::Timeouts,
        "tracing" => Concern::Tracing,
        "waf" => Concern::Firewall,
        _ => return None,
    })
}

impl Wanted<'_> {
    /// The draft made from `usual`, the draft for all routes. Sections without values change nothing.
    pub(in crate::translate) fn draft(
        &self,
        usual: &DraftRoute,
        base: &Settings,
        inputs: &Inputs<'_>,
        problems: &mut Vec<Problem>,
    ) -> DraftRoute {
        let mut draft = DraftRoute { place: self.place.clone(), ..usual.clone() };
        if self.given.iter().any(|given| concern_of(given.field.section.name) == Some(Concern::Firewall)) {
            // The usual draft is closed only where the firewall of the ConfigMap cannot be had.
            draft.denials.clear();
        }
        let values = self.given.iter().map(|given| (given.field.annotation, given.text.as_str()));
        let partial = Partial::new(base, values, self, inputs, problems);
        let mut applied: Vec<Concern> = Vec::new();
        for concern in self.given.iter().filter_map(|given| concern_of(given.field.section.name)) {
            if applied.contains(&concern) {
                continue;
            }
            applied.push(concern);
            if concern == Concern::Errors {
                // The Service that a policy names belongs to the policy's namespace.
                self.namespace().clone_into(&mut draft.place.object.namespace);
            }
            partial.apply(concern, &mut draft);
            draft.place.object.namespace.clone_from(&self.place.object.namespace);
        }
        partial.apply_denials(&mut draft);
        draft.denials.extend(self.denials.iter().cloned());
        draft
    }

    /// The description of the fields that apply.
    pub(in crate::translate) fn settings(&self) -> Arc<[RouteSetting]> {
        let told = |given: &&Given| {
            let SourceLocation { object, file, line, .. } = given.place.clone();
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
    /// The namespace of Services that are named without one. Only Services are.
    fn namespace(&self) -> &str {
        let given = self.find("default-backend");
        &given.map_or(&self.place, |given| &given.place).object.namespace
    }

    fn place(&self) -> SourceLocation {
        self.place.clone()
    }

    fn given(&self, name: &str) -> Option<SourceLocation> {
        self.find(name).map(|given| given.place.clone())
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.find(name).map(|given| given.text.as_str())
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
