//! The events of the sessions of providers, counted for metrics.

use std::sync::atomic::Ordering;

use identity::oidc::provider::{Counts, Provider};
use observe::SignIns;

/// The numbers of a provider's sessions.
pub(super) fn of(provider: &Provider) -> SignIns {
    let known = provider.known();
    let Counts { signed_in, failed, renewed, refused, unrenewed, signed_out } = provider.counts();
    let results = [
        ("signed_in", signed_in),
        ("failed", failed),
        ("renewed", renewed),
        ("refused", refused),
        ("unrenewed", unrenewed),
        ("signed_out", signed_out),
    ];
    SignIns {
        issuer: provider.settings().issuer.clone(),
        is_up: known.metadata.is_some() && known.error.is_none(),
        results: results.map(|(result, count)| (result, count.load(Ordering::Relaxed) as u64)),
    }
}
