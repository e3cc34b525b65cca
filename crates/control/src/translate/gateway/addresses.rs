//! The addresses that Gateways are given, of those that the options have for them.
//!
//! Never in here: sockets.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::conditions::Fault;
use super::report::GatewayStatusAddress;
use crate::names::NsName;
use crate::objects::Sourced;
use crate::objects::gateway_api::{AddressType, Gateway};
use crate::options::Options;

/// Most addresses of one network that are looked at for a free one.
const ADDRESSES_TRIED_MAX: usize = 4096;

/// The addresses that Gateways have, kept from one translation to the next: a Gateway keeps its address for as long as it is there.
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<NsName, IpAddr>);

/// What a Gateway has got.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    /// The only addresses at which it is served; empty for all.
    pub(super) addresses: Vec<IpAddr>,
    /// Why the Gateway is not accepted.
    pub(super) unsupported: Option<Fault>,
    /// Why it has no address.
    pub(super) unusable: Option<Fault>,
}

impl Assigned {
    /// For the status; none if it is served at all addresses.
    pub(super) fn status(&self) -> Option<Vec<GatewayStatusAddress>> {
        let written =
            |ip: &IpAddr| GatewayStatusAddress { kind: AddressType::IPAddress, value: ip.to_string() };
        let has_own = !self.addresses.is_empty() || self.unusable.is_some();
        has_own.then(|| self.addresses.iter().map(written).collect())
    }
}

impl Addresses {
    /// Gives addresses to Gateways, of which the oldest comes first.
    pub(super) fn assign(&mut self, gateways: &[&Sourced<Gateway>], options: &Options) -> Vec<Assigned> {
        let asked: Vec<_> = gateways.iter().map(|gateway| asked(gateway, options)).collect();
        let mut taken: HashSet<IpAddr> = asked.iter().flat_map(|asked| &asked.addresses).copied().collect();
        let waiting = |asked: &Assigned| {
            asked.addresses.is_empty() && asked.unusable.is_none() && asked.unsupported.is_none()
        };
        self.0.retain(|name, ip| {
            let still = gateways.iter().zip(&asked).any(|(it, asked)| it.key() == *name && waiting(asked));
            still && is_given(*ip, options) && taken.insert(*ip)
        });
        let mut assigned = asked;
        if options.gateway_addresses.is_empty() {
            return assigned;
        }
        for (gateway, assigned) in gateways.iter().zip(&mut assigned).filter(|(_, asked)| waiting(asked)) {
            let key = gateway.key();
            let free = || {
                let all =
                    options.gateway_addresses.iter().flat_map(|net| net.hosts().take(ADDRESSES_TRIED_MAX));
                all.into_iter().find(|ip| !taken.contains(ip))
            };
            if let Some(ip) = self.0.get(&key).copied().or_else(free) {
                taken.insert(ip);
                self.0.insert(key, ip);
                assigned.addresses.push(ip);
            } else {
                let message = "all addresses of --gateway-address are given to other Gateways";
                assigned.unusable = Some(Fault::new("AddressNotAssigned", message));
            }
        }
        assigned
    }
}

fn is_given(ip: IpAddr, options: &Options) -> bool {
    options.gateway_addresses.iter().any(|net| net.contains(&ip))
}

/// What a Gateway asks for itself.
fn asked(gateway: &Gateway, options: &Options) -> Assigned {
    let mut assigned = Assigned::default();
    for address in gateway.spec.addresses.iter().map(|address| &address.value) {
        let Some(value) = address.value.as_deref().filter(|value| !value.is_empty()) else { continue };
        if address.kind != AddressType::IPAddress {
            let message = format!("addresses of type {} are not supported", address.kind.as_str());
            assigned.unsupported = Some(Fault::new("UnsupportedAddress", message));
            continue;
        }
        if let Some(ip) = value.parse::<IpAddr>().ok().filter(|&ip| is_given(ip, options)) {
            assigned.addresses.push(ip);
        } else {
            let message = format!("{value} is not among the addresses of --gateway-address");
            assigned.unusable = Some(Fault::new("AddressNotUsable", message));
        }
    }
    assigned
}
