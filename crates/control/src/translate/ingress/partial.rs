//! Settings of those concerns only that an asker sets: the use of annotations by other kinds of objects than
//! Ingresses.
//!
//! Never in here: the asker, and its routes.

use super::annotation::Annotation;
use super::asker::Asker;
use super::resolve::{Context, Findings, Resolve};
use super::{
    Settings, abuse, access, auth, bodies, cache, compression, direct_response, errors, ext_proc, fallback,
    files, firewall, headers, health_check, limits, logging, maintenance, overload, quota, responses,
    retries, timeouts, tracing,
};
use crate::problem::Problem;
use crate::translate::claim::DraftRoute;
use crate::translate::inputs::Inputs;
use crate::translate::value::Parsed;

/// A group of settings that applies as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::translate) enum Concern {
    Abuse,
    Access,
    Auth,
    Bodies,
    Cache,
    /// Responses, including compression.
    Responses,
    DirectResponse,
    Errors,
    ExtProc,
    Fallback,
    Files,
    Firewall,
    Headers,
    HealthCheck,
    Limits,
    Logging,
    Maintenance,
    Overload,
    Retries,
    Timeouts,
    Tracing,
}

/// Settings, after looking up the objects that they name.
pub(in crate::translate) struct Partial {
    settings: Settings,
    auth: auth::Resolved,
}

impl Partial {
    /// The settings of the `ConfigMap`, changed by values. The caller has checked that the asker may name the
    /// objects in these values.
    pub(in crate::translate) fn new<'v>(
        base: &Settings,
        values: impl Iterator<Item = (&'static Annotation, &'v str)>,
        asker: &dyn Asker,
        inputs: &Inputs<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut settings = base.clone();
        // ingress-nginx's limit of body sizes applies only to Ingresses.
        settings.bodies.bytes_max = None;
        for (annotation, text) in values {
            if annotation.read(&mut settings, text).is_err() && annotation.is_strict() {
                let denial = format!("{} cannot be read", asker.called(annotation.name));
                settings.guards.of_locations.push(denial);
            }
        }
        let context = Context { asker, inputs, crosses_namespaces: true };
        let mut findings = Findings { guards: &mut settings.guards, problems };
        if firewall::is_given(asker) {
            settings.firewall.resolve(&context, &mut findings);
        }
        settings.tracing.resolve(&context, &mut findings);
        settings.cache.resolve(&context, &mut findings);
        settings.quota.resolve(&context, &mut findings);
        settings.access.places.resolve(&context, &mut findings);
        settings.responses.resolve(&context, &mut findings);
        settings.files.resolve(&context, &mut findings);
        settings.errors.resolve(&context, &mut findings);
        settings.ext_proc.resolve(&context, &mut findings);
        settings.direct_response.resolve(&context, &mut findings);
        settings.maintenance.resolve(&context, &mut findings);
        settings.fallback.resolve(&context, &mut findings);
        let auth = settings.auth.resolve(&context, &mut findings);
        Self { settings, auth }
    }

    /// Applies the reasons for refusing all requests, which do not depend on the concern.
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
            Concern::DirectResponse => direct_response::apply(&settings.direct_response, route),
            Concern::Errors => errors::apply(&settings.errors, route),
            Concern::ExtProc => ext_proc::apply(&settings.ext_proc, route),
            Concern::Fallback => fallback::apply(&settings.fallback, route),
            Concern::Files => files::apply(&settings.files, route),
            Concern::Firewall => firewall::apply(&settings.firewall, route),
            Concern::Headers => headers::apply(&settings.headers, None, route),
            Concern::HealthCheck => health_check::apply(&settings.health_check, route),
            Concern::Limits => {
                limits::apply(&settings.limits, route);
                quota::apply(&settings.quota, settings.limits.exempt(), route);
            }
            Concern::Logging => logging::apply(&settings.logging, route),
            Concern::Maintenance => maintenance::apply(&settings.maintenance, route),
            Concern::Overload => overload::apply(&settings.overload, route),
            Concern::Retries => retries::apply(&settings.retries, route),
            Concern::Timeouts => timeouts::apply(&settings.timeouts, route),
            Concern::Tracing => tracing::apply(&settings.tracing, route),
        }
    }
}

/// Checks a value. Returns a remark about a part without effect, or the error.
pub(in crate::translate) fn check(
    settings: &mut Settings,
    annotation: &Annotation,
    text: &str,
) -> Parsed<Option<String>> {
    if let Some(why) = settings.screening.refusal(annotation.name, text) {
        return Err(why);
    }
    if settings.screening.drops(annotation.name) {
        return Err("allow-snippet-annotations of the ConfigMap is not \"true\"".to_owned());
    }
    annotation.read(settings, text)
}
