//! The check of clients by their addresses: networks, and the countries and autonomous systems that
//! databases have for them.

use model::Networks;
use observe::Reason;

use crate::admit::Targeted;
use crate::request::geo;

/// The reason for refusing the client; none if it may use the route. A place that no loaded database can tell
/// refuses, whatever the rules are: translation closes such routes.
pub(super) fn refusal(targeted: &Targeted<'_>, networks: &Networks) -> Option<Reason> {
    if !networks.admits(targeted.forwarded.client) {
        return Some(Reason::AddressDenied);
    }
    let places = networks.places.as_deref()?;
    if places.need_countries() {
        match geo::country(targeted.request) {
            Ok(country) if places.admit_country(country) => {}
            Ok(_) => return Some(Reason::PlaceDenied),
            Err(_) => return Some(Reason::Unavailable),
        }
    }
    if places.need_systems() {
        match geo::system(targeted.request) {
            Ok(system) if places.admit_system(system) => {}
            Ok(_) => return Some(Reason::PlaceDenied),
            Err(_) => return Some(Reason::Unavailable),
        }
    }
    None
}
