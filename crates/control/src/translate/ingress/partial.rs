//! Settings of which only those concerns hold that somebody asks for: what other kinds of objects than Ingresses have of annotations.
//!
//! Never in here: who asks, and for which routes.

use super::annotation::Annotation;
use super::asker::Asker;
use super::{
    Settings, abuse, access, auth, bodies, cache, compression, errors, files, headers, limits, logging,
    overload, quota, responses, retries, timeouts, tracing,
};
use crate::problem::Problem;
use crate::translate::claim::DraftRoute;
use crate::translate::inputs::Inputs;
use crate::translate::value::Parsed;

/// A group of concerns that holds as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::translate) enum Concern {
    Abuse,
    Access,
    Auth,
    Bodies,
    Cache,
    /// With compression, which is a part of how responses are passed on.
    Responses,
    Errors,
    Files,
    Headers,
    Limits,
    Logging,
    Overload,
    Retries,
    Timeouts,
    Tracing,
}

/// Settings, with the objects that they name looked up.
pub(in crate::translate) struct Partial {
    settings: Settings,
    auth: auth::Resolved,
}

impl Partial {
    /// The settings of the `ConfigMap`, changed by values. No value may name an object that the asker must not name.
    pub(in crate::translate) fn new<'v>(
        base: &Settings,
        values: impl Iterator<Item = (&'static Annotation, &'v str)>,
        asker: &dyn Asker,
        inputs: &Inputs<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut settings = base.clone();
        // What ingress-nginx allows of a body is for those who come from there.
        settings.bodies.bytes_max = None;
        for (annotation, text) in values {
            if annotation.read(&mut settings, text).is_err() && annotation.is_strict() {
                let denial = format!("{} cannot be read", asker.called(annotation.name));
                settings.guards.of_locations.push(denial);
            }
        }
        problems.extend(tracing::problem(&settings.tracing, asker));
        problems.extend(cache::problem(&settings.cache, asker));
        problems.extend(quota::problem(&settings.quota, asker));
        settings.responses.check(asker, problems);
        settings.files.check(asker, inputs.options, &mut settings.guards, problems);
        settings.errors.resolve(asker, inputs, problems);
        let auth = settings.auth.resolve(asker, true, inputs, problems);
        Self { settings, auth }
    }

    /// Applies what holds whatever is asked for: why nobody may be served.
    pub(in crate::translate) fn apply_denials(&self, route: &mut DraftRoute) {
        super::guards::apply(&self.settings.guards, route);
    }

    /// Applies the settings of a concern.
    pub(in crate::translate) fn apply(&self, concern: Concern, route: &mut DraftRoute) {
        let settings = &self.settings;
        match concern {
            Concern::Abuse => abuse::apply(&settings.abuse, route),
            Concern::Access => access::apply(&settings.access, route),
            Concern::Auth => {
                auth::apply(&settings.auth, &self.auth, route);
                route.access.spared.clone_from(&settings.auth.except);
            }
            Concern::Bodies => bodies::apply(&settings.bodies, route),
            Concern::Cache => cache::apply(&settings.cache, route),
            Concern::Responses => {
                responses::apply(&settings.responses, route);
                compression::apply(&settings.compression, route);
            }
            Concern::Errors => errors::apply(&settings.errors, route),
            Concern::Files => files::apply(&settings.files, route),
            Concern::Headers => headers::apply(&settings.headers, None, route),
            Concern::Limits => {
                limits::apply(&settings.limits, route);
                quota::apply(&settings.quota, settings.limits.exempt(), route);
            }
            Concern::Logging => logging::apply(&settings.logging, route),
            Concern::Overload => overload::apply(&settings.overload, route),
            Concern::Retries => retries::apply(&settings.retries, route),
            Concern::Timeouts => timeouts::apply(&settings.timeouts, route),
            Concern::Tracing => tracing::apply(&settings.tracing, route),
        }
    }
}

/// Whether a value can be read, and what of it has no effect.
pub(in crate::translate) fn check(
    settings: &mut Settings,
    annotation: &Annotation,
    text: &str,
) -> Parsed<Option<String>> {
    if let Some(why) = settings.screening.refusal(annotation.name, text) {
        return Err(why);
    }
    annotation.read(settings, text)
}
