//! The addresses of this machine's interfaces, in the network namespace of this process.

use std::collections::BTreeSet;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use crate::reach;

/// The current addresses, without those that [`reach::refusal`] refuses to every endpoint.
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

    /// Loopback addresses are left out. The local address of a socket with a route to the internet has to be
    /// in the result.
    #[test]
    fn the_address_of_a_socket_is_one_of_them() {
        let found = addresses().unwrap();
        assert!(found.iter().all(|&ip| reach::refusal(ip).is_none()), "{found:?}");
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        // `connect` of a UDP socket sends nothing. Without a route the test has no address to look for.
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert!(found.contains(&own), "{own} is not one of {found:?}");
        }
    }
}
