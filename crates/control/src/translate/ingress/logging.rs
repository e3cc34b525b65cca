//! The access log.

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, set};

annotations! {
    "enable-access-log", Location, "true", Supported(|s, v| set(&mut s.logging.access_log, value::boolean(v))),
        "Writes requests to the access log.";
    "enable-rewrite-log", Location, "false", Ignored("it is a debugging aid of nginx"), "Logs rewrites.";
}

/// Settings of access logs.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    access_log: bool,
    /// Requests to the default backend are logged, by the key `enable-access-log-for-default-backend`.
    pub(in crate::translate) of_default_backend: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { access_log: true, of_default_backend: false }
    }
}

/// Applies the settings for hosts without an Ingress.
pub(super) fn apply_to_rest(settings: &Settings, route: &mut DraftRoute) {
    route.access_log = settings.of_default_backend;
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.access_log = settings.access_log;
}
