//! `/console/providers`: the providers at which people sign in, with what is known of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use control::Translation;
use identity::oidc::provider::{Counts, Known, Provider};
use serde::Serialize;

/// A provider with its client. The numbers are of sessions, since the provider has been in the configuration.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedProvider {
    issuer: String,
    client_id: String,
    /// Objects whose routes need it, as `namespace/name`; at most as many as are listed.
    objects: Vec<String>,
    /// Whether its document is known.
    is_known: bool,
    /// When it has last done as asked, in seconds since 1970; null before that.
    answered_seconds: Option<u64>,
    /// Why it has not since; null if it has.
    error: Option<String>,
    signed_in: usize,
    failed: usize,
    renewed: usize,
    refused: usize,
    unrenewed: usize,
    signed_out: usize,
}

/// Objects of a provider that are listed.
const OBJECTS_MAX: usize = 20;

/// All providers of a translation, by issuer and client.
pub(super) fn of(translation: &Translation) -> Vec<ListedProvider> {
    type Uses<'a> = (&'a Arc<Provider>, Vec<String>);
    let mut providers: BTreeMap<(&str, &str), Uses<'_>> = BTreeMap::new();
    for route in translation.model.hosts().flat_map(|host| &host.routes) {
        let Some(oidc) = route.access.as_ref().and_then(|access| access.oidc.as_ref()) else { continue };
        let provider = &oidc.client.provider;
        let key = (provider.settings().issuer.as_str(), provider.settings().client_id.as_str());
        let (_, objects) = providers.entry(key).or_insert_with(|| (provider, Vec::new()));
        let object = format!("{}/{}", route.labels.namespace(), route.labels.object());
        if objects.len() < OBJECTS_MAX && !objects.contains(&object) {
            objects.push(object);
        }
    }
    providers.into_values().map(|(provider, objects)| listed(provider, objects)).collect()
}

fn listed(provider: &Provider, objects: Vec<String>) -> ListedProvider {
    let Known { metadata, answered, error } = provider.known();
    let Counts { signed_in, failed, renewed, refused, unrenewed, signed_out } = provider.counts();
    let count = |cell: &AtomicUsize| cell.load(Ordering::Relaxed);
    ListedProvider {
        issuer: provider.settings().issuer.clone(),
        client_id: provider.settings().client_id.clone(),
        objects,
        is_known: metadata.is_some(),
        answered_seconds: answered,
        error,
        signed_in: count(signed_in),
        failed: count(failed),
        renewed: count(renewed),
        refused: count(refused),
        unrenewed: count(unrenewed),
        signed_out: count(signed_out),
    }
}
