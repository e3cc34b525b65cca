//! `/console/issuers`: the issuers of JSON Web Tokens that routes trust, with what is known of their keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::Translation;
use model::JwtIssuer;
use serde::Serialize;

/// An issuer, and its keys from one place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Issuer {
    /// As tokens have it in `iss`.
    name: String,
    /// URL of the keys, or the object that has them.
    source: String,
    /// Objects whose routes trust it, as `namespace/name`; at most as many as are listed.
    objects: Vec<String>,
    /// Identifiers of its keys; `-` for a key without one.
    keys: Vec<String>,
    /// Keys that cannot be used, each with the reason.
    ignored: Vec<String>,
    /// When the keys were last fetched, in seconds since 1970; null for keys of an object, and before the
    /// first fetch.
    fetched_seconds: Option<f64>,
    fetches: u64,
    failures: u64,
    /// When the last fetch failed, and why; null if it did not.
    failed_seconds: Option<f64>,
    failure: Option<String>,
}

/// Objects of an issuer that are listed.
const OBJECTS_MAX: usize = 20;

/// All issuers of a translation, by name.
pub(super) fn of(translation: &Translation) -> Vec<Issuer> {
    let mut issuers: BTreeMap<(String, String), (Arc<identity::KeySource>, Vec<String>)> = BTreeMap::new();
    for route in translation.model.hosts().flat_map(|host| &host.routes) {
        let jwt = route.access.as_ref().and_then(|access| access.jwt.as_ref());
        for JwtIssuer { terms, keys } in jwt.iter().flat_map(|jwt| jwt.issuers.iter()) {
            let key = (terms.issuer.clone(), keys.name().to_owned());
            let (_, objects) = issuers.entry(key).or_insert_with(|| (Arc::clone(keys), Vec::new()));
            let object = format!("{}/{}", route.labels.namespace(), route.labels.object());
            if objects.len() < OBJECTS_MAX && !objects.contains(&object) {
                objects.push(object);
            }
        }
    }
    issuers.into_iter().map(|((name, source), (keys, objects))| known(name, source, &keys, objects)).collect()
}

fn known(name: String, source: String, keys: &identity::KeySource, objects: Vec<String>) -> Issuer {
    let condition = keys.condition();
    let (failed, failure) = condition.failure.unzip();
    Issuer {
        name,
        source,
        objects,
        keys: condition.keys,
        ignored: condition.ignored,
        fetched_seconds: condition.fetched.as_ref().map(Duration::as_secs_f64),
        fetches: condition.fetches,
        failures: condition.failures,
        failed_seconds: failed.as_ref().map(Duration::as_secs_f64),
        failure,
    }
}
