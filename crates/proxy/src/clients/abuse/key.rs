//! What stands for a client.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A client: an address of IPv4, or a network of 64 bits of IPv6, which is what a subscriber commonly has (RFC 6177).
///
/// One number. An IPv4 address is its lower half: networks of IPv6 whose upper half is zero are reserved (RFC 4291 section 2.4), and all
/// of them together, the loopback address of IPv6 among them, stand for `0.0.0.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(u64);

/// Text that names no client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoClient;

impl ClientKey {
    /// A multicast network, in which nobody is who asks for anything.
    pub(super) const NOBODY: Self = Self(u64::MAX);

    /// Who has an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits())),
            IpAddr::V6(address) => {
                let network = (address.to_bits() >> 64) as u64;
                Self(if network >> 32 == 0 { 0 } else { network })
            }
        }
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.0) {
            Ok(address) => Ipv4Addr::from_bits(address).fmt(f),
            Err(_) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(self.0) << 64)),
        }
    }
}

/// An address of either version, or a network as it is told.
impl FromStr for ClientKey {
    type Err = NoClient;

    fn from_str(text: &str) -> Result<Self, NoClient> {
        let network = text.strip_suffix("/64");
        let address: IpAddr = network.unwrap_or(text).parse().map_err(|_| NoClient)?;
        if network.is_some() && address.is_ipv4() { Err(NoClient) } else { Ok(Self::of(address)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(address: &str) -> String {
        ClientKey::of(address.parse().unwrap()).to_string()
    }

    #[test]
    fn a_client_is_an_address_or_a_network_of_64_bits() {
        assert_eq!(told("192.0.2.7"), "192.0.2.7");
        assert_eq!(told("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(told("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
        assert_eq!(told("::1"), "0.0.0.0");
        for text in ["192.0.2.7", "2001:db8:1:2::/64", "2001:db8:1:2::9"] {
            let key: ClientKey = text.parse().unwrap();
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for text in ["", "shop.test", "192.0.2.0/24", "192.0.2.0/64", "2001:db8::/32"] {
            assert_eq!(text.parse::<ClientKey>(), Err(NoClient), "{text}");
        }
    }
}
