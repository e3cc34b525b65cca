//! The addresses of this machine's interfaces: those of the network namespace that this process is in.

use std::collections::BTreeSet;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use crate::reach;

/// The addresses that there are now, but for those that no endpoint may have in any case; or why they are not known.
pub(crate) fn addresses() -> std::io::Result<BTreeSet<IpAddr>> {
    let interfaces = getifaddrs()?;
    Ok(reach::own(interfaces.filter_map(|interface| interface.address.as_ref().and_then(ip))))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every machine has loopback addresses, which are left out; an address that routes lead to is one of the others.
    #[test]
    fn the_address_of_a_socket_is_one_of_them() {
        let found = addresses().unwrap();
        assert!(found.iter().all(|&ip| reach::refusal(ip).is_none()), "{found:?}");
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        // Nothing is sent. Without a route there is no address to look for.
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert!(found.contains(&own), "{own} is not one of {found:?}");
        }
    }
}
