//! Access restrictions that cannot be enforced: they close what they guard.

use crate::translate::claim::{Claim, DraftRoute};

/// Why locations or hosts have to be closed.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) of_locations: Vec<String>,
    /// The reasons that close all locations of the Ingress' hosts.
    pub(super) of_hosts: Vec<String>,
    /// The Ingress is to be ignored as if it did not exist: a value of an annotation cannot be read.
    pub(super) ignores_ingress: bool,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.denials.extend_from_slice(&settings.of_locations);
}

/// Closes the host of a claim, if there is a reason.
pub(super) fn apply_to_host(settings: &Settings, claim: &mut Claim) {
    claim.denials.extend_from_slice(&settings.of_hosts);
}
