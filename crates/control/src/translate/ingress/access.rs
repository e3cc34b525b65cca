//! Access by client address, and how it is combined with other checks.

use std::sync::Arc;

use ipnet::IpNet;
use model::{AddressSet, Networks, Satisfy};

use super::annotation::Effect::{AliasOf, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::places;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "allowlist-source-range", Location, "", Supported(|s, v| set(&mut s.access.allowed, address_set(v))), ClosesLocations,
        "Networks of clients that are allowed; others get 403.", Medium;
    "denylist-source-range", Location, "", Supported(|s, v| set(&mut s.access.denied, address_set(v))), ClosesLocations,
        "Networks of clients that get 403.", Medium;
    "satisfy", Location, "all", Supported(|s, v| set(&mut s.access.satisfy, satisfy(v))),
        "Whether `any` access check suffices, or `all` are needed.";
    "whitelist-source-range", Location, "", AliasOf("allowlist-source-range"),
        "Former name of `allowlist-source-range`.", Medium;
}

/// Settings of access by client address.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) allowed: Option<Arc<AddressSet>>,
    pub(in crate::translate) denied: Option<Arc<AddressSet>>,
    /// Clients that are refused if neither of the lists is given.
    pub(in crate::translate) blocked: Option<Arc<AddressSet>>,
    pub(super) satisfy: Satisfy,
    pub(in crate::translate) places: places::Settings,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let Settings { allowed, denied, blocked, satisfy, places } = settings;
    let is_open = allowed.is_none() && denied.is_none();
    let networks = || Networks { denied: denied.clone(), allowed: allowed.clone(), ..Networks::default() };
    route.access.networks = (!is_open).then(networks);
    route.access.blocked.clone_from(blocked);
    route.access.satisfy = *satisfy;
    places::apply(places, route);
}

/// Parses networks and addresses, separated by commas. An empty or invalid item makes the whole list invalid.
pub(in crate::translate) fn address_set(text: &str) -> Parsed<Option<Arc<AddressSet>>> {
    let networks = text.split(',').map(|item| value::network(item.trim())).collect::<Parsed<Vec<IpNet>>>()?;
    Ok(Some(Arc::new(AddressSet::new(&networks))))
}

fn satisfy(text: &str) -> Parsed<Satisfy> {
    match text.trim() {
        "all" => Ok(Satisfy::All),
        "any" => Ok(Satisfy::Any),
        _ => Err(format!("{text:?} is neither \"all\" nor \"any\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_item_makes_a_list_unreadable() {
        assert!(address_set(" 10.0.0.0/8 , 192.0.2.1,2001:db8::/32").is_ok());
        for text in ["", ",", "10.0.0.0/8,", "10.0.0.0/8,,::1", "10.0.0.0/33", "a", "10.0.0.1-10.0.0.9"] {
            assert!(address_set(text).is_err(), "{text:?}");
        }
    }
}
