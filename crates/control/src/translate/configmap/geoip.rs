//! Keys about databases of addresses.

use std::sync::Arc;
use std::time::Duration;

use model::template::Variable;

use super::{Finding, Global};
use crate::geoip::Wanted;
use crate::index::Index;
use crate::names::NsName;
use crate::objects::{At, ConfigMap, Sourced};
use crate::options::Options;
use crate::problem::{Reason, Severity};
use crate::translate::inputs::Inputs;
use crate::translate::value::{self, Parsed};

/// The key that names a Secret with databases.
const SECRET: &str = "forebay-geoip-secret";

/// The key that counts requests by country.
const METRICS: &str = "forebay-client-country-metrics";

/// The values of the keys.
#[derive(Debug, Default)]
pub(in crate::translate) struct Keys {
    pub(in crate::translate) wanted: Wanted,
    pub(super) reload_minutes: u32,
    pub(super) secret: Option<NsName>,
}

/// Parses the name of a Secret, `namespace/name`; none for an empty text.
pub(super) fn secret(text: &str) -> Parsed<Option<NsName>> {
    let Some(name) = value::name(text) else { return Ok(None) };
    name.parse().map(Some).map_err(|error| format!("{error}"))
}

/// The Secret that the settings name.
pub(crate) fn named_secret(index: &Index, options: &Options) -> Option<NsName> {
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name))?;
    secret(&settings.data.get(SECRET)?.value).ok()?
}

/// Looks up the Secret, notes which rules databases can decide about, and reports what has no effect.
pub(super) fn finish(
    global: &mut Global,
    configmap: &Sourced<ConfigMap>,
    inputs: &Inputs<'_>,
    tell: &mut dyn FnMut(&At<String>, Finding),
) {
    let Keys { wanted, reload_minutes, secret } = &mut global.geoip;
    let minutes = Duration::from_mins(u64::from(*reload_minutes));
    wanted.reload = (!minutes.is_zero()).then_some(minutes);
    let mut report = |key: &str, severity: Severity, reason: Reason, why: &str| {
        if let Some(value) = configmap.data.get(key) {
            tell(value, (severity, reason, format!("key {key}: {why}")));
        }
    };
    if let Some(name) = secret.as_ref().filter(|_| wanted.is_on) {
        match inputs.secret(name) {
            Some(secret) => wanted.secret = Some(Arc::new(secret.clone())),
            None => report(SECRET, Severity::Error, Reason::Secret, &format!("Secret {name} is missing")),
        }
    } else if secret.is_some() {
        report(SECRET, Severity::Warning, Reason::NoEffect, "it has no effect: use-geoip2 is not \"true\"");
    }
    let log = &global.settings.access_log.format.template;
    if !wanted.is_on && log.variables().any(|variable| matches!(variable, Variable::Geo(_))) {
        let why = "its variables $geoip2_* are empty: use-geoip2 is not \"true\"";
        report("log-format-upstream", Severity::Warning, Reason::NoEffect, why);
    }
    let places = &mut global.defaults.access.places;
    places.uses_databases = wanted.is_on;
    places.coverage = if wanted.is_on { inputs.options.geoip_coverage } else { geo::Coverage::default() };
    if global.settings.counts_countries && !places.coverage.countries {
        report(METRICS, Severity::Warning, Reason::NoEffect, places.lacks_countries());
    }
    for (name, why) in places.unenforceable() {
        let why = format!("{why}: the locations for which it holds return 503");
        report(&format!("forebay-{name}"), Severity::Error, Reason::Missing, &why);
    }
}
