//! Addresses that endpoints may have. The author of a Service decides where requests go. This module refuses
//! the addresses that Forebay can reach and the author could not: Forebay's own, and those that only the
//! machine itself should reach.
//!
//! Never in here: names, IO.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks that no endpoint may be in, each with the reason.
const REFUSED: &[(IpNet, &str)] = &[
    // These come before 0.0.0.0/8: as IPv4-compatible IPv6 addresses they would match that network.
    (v6(Ipv6Addr::UNSPECIFIED, 128), "it stands for this machine (::)"),
    (v6(Ipv6Addr::LOCALHOST, 128), "it is the loopback address"),
    (v4([0, 0, 0, 0], 8), "it stands for this machine (0.0.0.0/8)"),
    (v4([127, 0, 0, 0], 8), "it is a loopback address"),
    (v4([169, 254, 0, 0], 16), "it is a link-local address, as metadata services of clouds have"),
    (v4([224, 0, 0, 0], 4), "it is a multicast address"),
    (v4([255, 255, 255, 255], 32), "it is the broadcast address"),
    (v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), "it is a link-local address"),
    (v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8), "it is a multicast address"),
    // Metadata services of clouds that are not at a link-local address. They give the machine's credentials
    // to every process of the machine.
    (v4([100, 100, 100, 200], 32), "it is the metadata service of Alibaba Cloud"),
    (v4([192, 0, 0, 192], 32), "it is the metadata service of Oracle Cloud"),
    (v4([168, 63, 129, 16], 32), "it is the host agent of Azure"),
    (v6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128), "it is the metadata service of AWS"),
    (
        v6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128),
        "it is the metadata service of Google Cloud",
    ),
];

/// Prefixes of IPv6 addresses whose last 32 bits are an IPv4 address: IPv4-mapped and IPv4-compatible
/// addresses (RFC 4291 section 2.5.5), and the well-known prefix of NAT64 (RFC 6052 section 2.1).
const EMBEDDING: &[Ipv6Net] = &[
    Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 96),
    Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96),
];

const fn v4(octets: [u8; 4], bits: u8) -> IpNet {
    let [a, b, c, d] = octets;
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits))
}

const fn v6(address: Ipv6Addr, bits: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(address, bits))
}

/// The reason why no endpoint may have this address, whatever the source; none if an endpoint may have it.
pub(crate) fn refusal(ip: IpAddr) -> Option<&'static str> {
    let (ip, inner) = (ip.to_canonical(), inner(ip));
    REFUSED.iter().find(|(network, _)| network.contains(&ip) || network.contains(&inner)).map(|(_, why)| *why)
}

/// Whether the addresses include this one. An IPv6 address that embeds an IPv4 address counts as the IPv4
/// address.
pub(crate) fn is_one_of(addresses: &BTreeSet<IpAddr>, ip: IpAddr) -> bool {
    addresses.contains(&ip.to_canonical()) || addresses.contains(&inner(ip))
}

/// Whether an address is in one of these networks. An IPv6 address that embeds an IPv4 address counts as the
/// IPv4 address.
pub(crate) fn is_within(networks: &[IpNet], ip: IpAddr) -> bool {
    let (ip, inner) = (ip.to_canonical(), inner(ip));
    networks.iter().any(|network| network.contains(&ip) || network.contains(&inner))
}

/// The addresses of this machine, without those that [`refusal`] refuses anyway.
pub(crate) fn own(addresses: impl Iterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
    addresses.map(|ip| ip.to_canonical()).filter(|&ip| refusal(ip).is_none()).collect()
}

/// The IPv4 address that an IPv6 address embeds, or the address itself.
fn inner(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) if EMBEDDING.iter().any(|prefix| prefix.contains(&ip)) => {
            let [.., a, b, c, d] = ip.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_only_this_machine_reaches_is_refused_in_every_form() {
        for (text, why) in [
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("::1", "loopback"),
            ("0.0.0.0", "this machine"),
            ("0.1.2.3", "this machine"),
            ("::", "this machine"),
            ("169.254.169.254", "link-local"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.250", "multicast"),
            ("ff02::1", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::127.0.0.1", "loopback"),
            ("::169.254.169.254", "link-local"),
            ("64:ff9b::127.0.0.1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("100.100.100.200", "Alibaba"),
            ("::ffff:100.100.100.200", "Alibaba"),
            ("192.0.0.192", "Oracle"),
            ("168.63.129.16", "Azure"),
            ("fd00:ec2::254", "AWS"),
            ("fd20:ce::254", "Google"),
        ] {
            let said = refusal(ip(text));
            assert!(said.is_some_and(|said| said.contains(why)), "{text}: {said:?}");
        }
    }

    #[test]
    fn what_pods_and_outside_services_have_is_not() {
        for text in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "192.0.2.1",
            "192.0.0.191",
            "240.0.0.1",
            "1.0.0.0",
            "2001:db8::1",
            "fd00::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
        ] {
            assert_eq!(refusal(ip(text)), None, "{text}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known_in_every_form() {
        let found = ["127.0.0.1", "10.1.2.3", "::1", "fe80::1", "2001:db8::1", "::ffff:10.9.9.9"];
        let own = own(found.map(ip).into_iter());
        assert_eq!(own, BTreeSet::from(["10.1.2.3", "10.9.9.9", "2001:db8::1"].map(ip)));
        for text in ["10.1.2.3", "::ffff:10.1.2.3", "::10.1.2.3", "64:ff9b::10.1.2.3", "2001:db8::1"] {
            assert!(is_one_of(&own, ip(text)), "{text}");
        }
        assert!(!is_one_of(&own, ip("10.1.2.4")));
    }

    #[test]
    fn networks_hold_addresses_in_every_form() {
        let networks = ["10.0.0.0/8", "2001:db8::/32"].map(|network| network.parse().unwrap());
        for text in ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2001:db8::1"] {
            assert!(is_within(&networks, ip(text)), "{text}");
        }
        assert!(
            !is_within(&networks, ip("11.0.0.1"))
                && !is_within(&["::/0".parse().unwrap()], ip("::ffff:1.2.3.4"))
        );
    }
}
