//! The second reading of settings: the objects that they name are looked up, and settings that cannot have
//! their effect are reported.
//!
//! Never in here: the meaning of a setting.

use super::asker::Asker;
use super::guards;
use crate::names::NsName;
use crate::objects::{ConfigMap, Secret, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::inputs::Inputs;

/// The settings of a concern, which may depend on other objects and on options.
pub(super) trait Resolve {
    /// The meaning of the settings once the objects are known.
    type Resolved;

    /// Looks up the objects, and adds what cannot be served to the findings.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) -> Self::Resolved;
}

/// The asker of settings, and the objects that they may name.
pub(super) struct Context<'c, 'a> {
    pub(super) asker: &'c dyn Asker,
    pub(super) inputs: &'c Inputs<'a>,
    /// The settings may name objects of other namespaces.
    pub(super) crosses_namespaces: bool,
}

/// The consequences of settings that cannot have their effect.
pub(super) struct Findings<'f> {
    pub(super) guards: &'f mut guards::Settings,
    pub(super) problems: &'f mut Vec<Problem>,
}

/// The reason why the named object cannot be used.
pub(super) type Fault = (Reason, String);

impl<'a> Context<'_, 'a> {
    /// The Secret with this name: `namespace/name`.
    pub(super) fn secret(&self, text: &str) -> Result<&'a Sourced<Secret>, Fault> {
        let name = self.name("Secret", text)?;
        self.inputs.secret(&name).ok_or_else(|| (Reason::Secret, format!("Secret {name} is missing")))
    }

    /// The `ConfigMap` with this name: `namespace/name`.
    pub(super) fn configmap(&self, text: &str) -> Result<&'a Sourced<ConfigMap>, Fault> {
        let name = self.name("ConfigMap", text)?;
        self.inputs.configmap(&name).ok_or_else(|| (Reason::Missing, format!("ConfigMap {name} is missing")))
    }

    /// The text with the asker's namespace, if it names none.
    pub(super) fn with_namespace(&self, text: &str) -> String {
        if text.contains('/') { text.to_owned() } else { format!("{}/{text}", self.asker.namespace()) }
    }

    fn name(&self, kind: &str, text: &str) -> Result<NsName, Fault> {
        let name: NsName = text.trim().parse().map_err(|error| (Reason::Annotation, format!("{error}")))?;
        if name.namespace != self.asker.namespace() && !self.crosses_namespaces {
            let why = format!(
                "{kind} {name} is of another namespace, which allow-cross-namespace-resources has to allow"
            );
            return Err((Reason::Forbidden, why));
        }
        Ok(name)
    }

    /// The problem of a setting without effect; none if the asker has no such setting.
    pub(super) fn without_effect(&self, name: &str, message: String) -> Option<Problem> {
        let place = self.asker.given(name)?;
        Some(Problem::in_place(Severity::Warning, &place, message).because(Reason::NoEffect))
    }

    /// The problem of a setting that closes routes of the asker.
    pub(super) fn closing(&self, name: &str, fault: Fault) -> Problem {
        let (reason, why) = fault;
        let message = self.asker.closing(&self.asker.called(name), &why);
        self.asker.problem(Severity::Error, name, message).because(reason)
    }
}
