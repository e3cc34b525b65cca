use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde::{Serialize, Serializer};

/// A set of addresses, made of networks. To ask for one is a binary search, however many networks there were.
///
/// An IPv4 address that is written in IPv6 (`::ffff:10.0.0.1`) counts as the IPv4 address. A network of IPv6,
/// be it all of it, holds no IPv4 address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AddressSet {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl AddressSet {
    /// The addresses of these networks together.
    pub fn new(networks: &[IpNet]) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match network {
                IpNet::V4(network) => v4.push((network.network().to_bits(), network.broadcast().to_bits())),
                IpNet::V6(network) => v6.push((network.network().to_bits(), network.broadcast().to_bits())),
            }
        }
        Self { v4: merged(v4), v6: merged(v6) }
    }

    /// Whether an address is in the set.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => is_within(&self.v4, address.to_bits()),
            IpAddr::V6(address) => is_within(&self.v6, address.to_bits()),
        }
    }

    /// The ranges as text: `10.0.0.0-10.255.255.255`.
    fn ranges(&self) -> impl Iterator<Item = String> {
        let v4 = self.v4.iter().map(|&(first, last)| {
            (IpAddr::V4(Ipv4Addr::from_bits(first)), IpAddr::V4(Ipv4Addr::from_bits(last)))
        });
        let v6 = self.v6.iter().map(|&(first, last)| {
            (IpAddr::V6(Ipv6Addr::from_bits(first)), IpAddr::V6(Ipv6Addr::from_bits(last)))
        });
        v4.chain(v6).map(|(first, last)| format!("{first}-{last}"))
    }
}

impl fmt::Debug for AddressSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ranges()).finish()
    }
}

impl Serialize for AddressSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.ranges())
    }
}

/// Ranges in order, of which no two overlap.
fn merged<T: Copy + Ord>(mut ranges: Vec<(T, T)>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    let mut merged: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged.into()
}

fn is_within<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= address);
    after > 0 && address <= ranges[after - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(networks: &[&str]) -> AddressSet {
        AddressSet::new(&networks.iter().map(|network| network.parse().unwrap()).collect::<Vec<_>>())
    }

    fn holds(set: &AddressSet, address: &str) -> bool {
        set.contains(address.parse().unwrap())
    }

    #[test]
    fn networks_that_overlap_are_one_range() {
        let set = set(&["10.0.0.0/8", "10.1.0.0/16", "192.0.2.7/32", "10.255.255.255/32", "9.0.0.0/8"]);
        for address in ["9.0.0.0", "10.0.0.0", "10.1.2.3", "10.255.255.255", "192.0.2.7"] {
            assert!(holds(&set, address), "{address}");
        }
        for address in ["8.255.255.255", "11.0.0.0", "192.0.2.6", "192.0.2.8", "::a00:1"] {
            assert!(!holds(&set, address), "{address}");
        }
    }

    #[test]
    fn each_version_has_its_own_networks() {
        assert!(!holds(&set(&["::/0"]), "10.0.0.1") && !holds(&set(&["::/0"]), "::ffff:10.0.0.1"));
        assert!(holds(&set(&["::/0"]), "2001:db8::1") && !holds(&set(&["0.0.0.0/0"]), "2001:db8::1"));
        assert!(holds(&set(&["10.0.0.0/8"]), "::ffff:10.0.0.1"));
        assert!(!holds(&set(&[]), "10.0.0.1"));
    }

    #[test]
    fn a_thousand_networks_are_a_thousand_ranges() {
        let networks: Vec<String> =
            (0..1000).map(|at| format!("10.{}.{}.0/24", at / 250, at % 250)).collect();
        let set = set(&networks.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(holds(&set, "10.3.249.255") && !holds(&set, "10.3.250.0") && !holds(&set, "10.4.0.0"));
    }
}
