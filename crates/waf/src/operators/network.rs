//! Networks of addresses (`@ipMatch`).
//!
//! Never in here: names, sockets.

use std::net::IpAddr;

/// A network: an address and the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, or an address that stands for itself.
    pub(crate) fn parse(text: &str) -> Result<Network, String> {
        let fault = || format!("{text} is not an address or a network");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| fault())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(fault()) } else { Ok(Network { address, bits }) }
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(own) & mask == u32::from(other) & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(own) & mask == u128::from(other) & mask
            }
            _ => false,
        }
    }
}

/// True if one of the networks has the address that a text is.
pub(crate) fn contain(networks: &[Network], text: &[u8]) -> bool {
    let address = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<IpAddr>().ok());
    address.is_some_and(|address| {
        let address = address.to_canonical();
        networks.iter().any(|network| network.contains(address))
    })
}

/// The networks of a list with commas or white space.
pub(crate) fn list(text: &str) -> Result<Vec<Network>, String> {
    let separator = |letter: char| letter == ',' || letter.is_whitespace();
    text.split(separator).filter(|part| !part.is_empty()).map(Network::parse).collect()
}
