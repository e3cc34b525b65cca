//! Access restrictions that cannot be enforced: they close the locations or hosts that they protect.

use crate::translate::claim::{Claim, DraftRoute};

/// The reasons for closing locations or hosts.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) of_locations: Vec<String>,
    /// The reasons for closing all locations of the Ingress's hosts.
    pub(super) of_hosts: Vec<String>,
    /// The Ingress is ignored as if it did not exist, because the value of an annotation is invalid.
    pub(super) ignores_ingress: bool,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.denials.extend_from_slice(&settings.of_locations);
}

/// Closes the host of a claim if a reason exists.
pub(super) fn apply_to_host(settings: &Settings, claim: &mut Claim) {
    claim.denials.extend_from_slice(&settings.of_hosts);
}
