//! What cannot be enforced, and so is closed.

use crate::translate::claim::{Claim, DraftRoute};

/// Why requests must not be let through: guards that cannot be enforced.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) of_locations: Vec<String>,
    /// The same, for all locations of the hosts that the Ingress names.
    pub(super) of_hosts: Vec<String>,
    /// The Ingress is to be ignored as if it did not exist: a value of an annotation cannot be read.
    pub(super) ignores_ingress: bool,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.denials.extend_from_slice(&settings.of_locations);
}

/// Closes the host of a claim.
pub(super) fn apply_to_host(settings: &Settings, claim: &mut Claim) {
    claim.denials.extend_from_slice(&settings.of_hosts);
}
