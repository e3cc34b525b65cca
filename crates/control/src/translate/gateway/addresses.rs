//! The assignment of addresses to Gateways, from those that the options list.
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

/// The most addresses of one network that are examined for a free one.
const ADDRESSES_TRIED_MAX: usize = 4096;

/// The assigned addresses, stored from one translation to the next: a Gateway has the same address as long as
/// it exists.
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<NsName, IpAddr>);

/// The result of the assignment for a Gateway.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    /// The only addresses at which it is served; empty for all addresses.
    pub(super) addresses: Vec<IpAddr>,
    /// The reason for not accepting the Gateway.
    pub(super) unsupported: Option<Fault>,
    /// The reason why it has no address.
    pub(super) unusable: Option<Fault>,
}

impl Assigned {
    /// The addresses for the status; none if it is served at all addresses.
    pub(super) fn status(&self) -> Option<Vec<GatewayStatusAddress>> {
        let written =
            |ip: &IpAddr| GatewayStatusAddress { kind: AddressType::IPAddress, value: ip.to_string() };
        let has_own = !self.addresses.is_empty() || self.unusable.is_some();
        has_own.then(|| self.addresses.iter().map(written).collect())
    }
}

impl Addresses {
    /// Assigns addresses to Gateways, which come in order of age, the oldest first.
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

/// The requested addresses of a Gateway.
fn asked(gateway: &Gateway, options: &Options) -> Assigned {
    let mut assigned = Assigned::default();
    for address in gateway.spec.addresses.iter().map(|address| &address.value) {
        if let Some(routability) = address.routability.as_deref().filter(|text| !text.is_empty()) {
            let message = format!("addresses of routability {routability} are not supported");
            assigned.unsupported = Some(Fault::new("UnsupportedAddress", message));
            continue;
        }
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
