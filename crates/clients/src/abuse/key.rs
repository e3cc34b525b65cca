//! The identity of a client.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A client: an IPv4 address, a /64 network of IPv6, which is what a subscriber commonly has (RFC 6177), or
/// the sender of a value that identifies clients.
///
/// It is one number of 64 bits. An IPv4 address takes the lower half: IPv6 networks whose upper half is zero
/// are reserved (RFC 4291 section 2.4). Values are hashes within the multicast networks (section 2.7), which
/// are no source addresses. All IPv6 addresses of these two kinds, the loopback address among them, count as
/// `0.0.0.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(u64);

/// The multicast networks of IPv6, `ff00::/8`.
const VALUES: u64 = 0xff << 56;
/// The prefix of a hash in text, before so many hexadecimal digits.
const PREFIX: &str = "key:";
const DIGITS: usize = 14;

/// A text that is not the name of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoClient;

impl ClientKey {
    /// A key that no client has.
    pub(super) const NOBODY: Self = Self(u64::MAX);

    /// The client with an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits())),
            IpAddr::V6(address) => {
                let network = (address.to_bits() >> 64) as u64;
                Self(if network >> 32 == 0 || network >= VALUES { 0 } else { network })
            }
        }
    }

    /// The client that sends a value with this hash. If the hash is unpredictable, two values have the same
    /// key by a chance of 1 in 2^56.
    pub(super) fn of_hash(hash: u64) -> Self {
        let key = Self(VALUES | hash >> VALUES.count_ones());
        if key == Self::NOBODY { Self(VALUES) } else { key }
    }

    /// Whether the client is identified by a value.
    pub fn is_of_value(self) -> bool {
        self.0 >= VALUES
    }

    /// The key as a number.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.0) {
            _ if self.is_of_value() => write!(f, "{PREFIX}{:0DIGITS$x}", self.0 & !VALUES),
            Ok(address) => Ipv4Addr::from_bits(address).fmt(f),
            Err(_) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(self.0) << 64)),
        }
    }
}

/// Parses an address of either version, and what [`Display`](fmt::Display) writes.
impl FromStr for ClientKey {
    type Err = NoClient;

    fn from_str(text: &str) -> Result<Self, NoClient> {
        if let Some(digits) = text.strip_prefix(PREFIX) {
            let hash =
                digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits).ok_or(NoClient)?;
            let hash =
                u64::from_str_radix(hash, 16).ok().filter(|_| digits.len() == DIGITS).ok_or(NoClient)?;
            return Ok(Self(VALUES | hash));
        }
        let network = text.strip_suffix("/64");
        let address: IpAddr = network.unwrap_or(text).parse().map_err(|_| NoClient)?;
        if network.is_some() && address.is_ipv4() { Err(NoClient) } else { Ok(Self::of(address)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(address: &str) -> String {
        ClientKey::of(address.parse().unwrap()).to_string()
    }

    #[test]
    fn a_client_is_an_address_or_a_network_of_64_bits() {
        assert_eq!(shown("192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
        assert_eq!([shown("::1"), shown("ff02::1"), shown("ffff:ffff:ffff:ffff::1")], ["0.0.0.0"; 3]);
        for text in ["192.0.2.7", "2001:db8:1:2::/64", "2001:db8:1:2::9"] {
            let key: ClientKey = text.parse().unwrap();
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for text in [
            "",
            "shop.test",
            "192.0.2.0/24",
            "192.0.2.0/64",
            "2001:db8::/32",
            "key:",
            "key:12",
            "key:+0123456789abc",
        ] {
            assert_eq!(text.parse::<ClientKey>(), Err(NoClient), "{text}");
        }
    }

    #[test]
    fn a_value_is_no_address() {
        for hash in [0, 1 << 8, 0x0123_4567_89ab_cdef, u64::MAX] {
            let key = ClientKey::of_hash(hash);
            assert!(key.is_of_value() && key != ClientKey::NOBODY, "{hash:x}");
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        assert_eq!(ClientKey::of_hash(0x0123_4567_89ab_cdef).to_string(), "key:0123456789abcd");
        assert!(!ClientKey::of("fe80::1".parse().unwrap()).is_of_value());
    }
}
