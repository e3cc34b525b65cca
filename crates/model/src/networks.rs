use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;

use crate::{AddressSet, ClientPlaces};

/// The client addresses that a route admits; others are answered with 403.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Networks {
    /// Addresses that are refused even if [`allowed`](Self::allowed) has them.
    pub denied: Option<Arc<AddressSet>>,
    /// Addresses that may; none for all.
    pub allowed: Option<Arc<AddressSet>>,
    /// Rules that are evaluated in their order after both lists; a client that no rule matches is admitted.
    pub rules: Arc<[AddressRule]>,
    /// Clients by country and autonomous system, beside all rules for addresses.
    pub places: Option<Arc<ClientPlaces>>,
}

/// Lets the addresses of a network in, or refuses them (nginx: `allow`, `deny`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AddressRule {
    /// Whether the rule admits or refuses.
    pub allows: bool,
    /// Addresses that the rule matches; none for all.
    pub network: Option<IpNet>,
}

impl Networks {
    /// Rules for addresses with rules for places beside them; none without either.
    pub fn with_places(by_address: Option<Self>, places: Option<Arc<ClientPlaces>>) -> Option<Self> {
        match places {
            Some(places) => Some(Self { places: Some(places), ..by_address.unwrap_or_default() }),
            None => by_address,
        }
    }

    /// The rules of a route at a host with rules of its own: those of the route, and those of the host if the
    /// route has none for addresses.
    pub fn within(own: Option<Self>, of_host: Option<&Self>) -> Option<Self> {
        match own {
            Some(Self { denied: None, allowed: None, rules, places }) if rules.is_empty() => {
                let of_host = of_host.cloned().unwrap_or_default();
                Some(Self { places: places.or_else(|| of_host.places.clone()), ..of_host })
            }
            Some(own) => Some(own),
            None => of_host.cloned(),
        }
    }

    /// Whether the rules for addresses admit a client with this address. Places have to be looked up.
    pub fn admits(&self, client: IpAddr) -> bool {
        let holds = |set: &Option<Arc<AddressSet>>| set.as_ref().map(|set| set.contains(client));
        let address = client.to_canonical();
        let is_met = |rule: &&AddressRule| rule.network.is_none_or(|network| network.contains(&address));
        holds(&self.denied) != Some(true)
            && holds(&self.allowed) != Some(false)
            && self.rules.iter().find(is_met).is_none_or(|rule| rule.allows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_is_met_decides() {
        let rule = |allows, network: &str| AddressRule { allows, network: network.parse().ok() };
        let rules = [rule(false, "10.1.0.0/16"), rule(true, "10.0.0.0/8"), rule(false, "all")];
        let networks = Networks { rules: rules.into(), ..Networks::default() };
        let admits = |client: &str| networks.admits(client.parse().unwrap());
        assert!(admits("10.2.0.1") && admits("::ffff:10.2.0.1") && !admits("10.1.0.1") && !admits("::1"));
        let open = Networks { rules: [rule(false, "10.0.0.0/8")].into(), ..Networks::default() };
        assert!(open.admits("192.0.2.1".parse().unwrap()), "who meets none is let in");
    }
}
