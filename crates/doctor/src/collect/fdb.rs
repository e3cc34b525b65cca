//! The forwarding databases of the calling thread's network namespace, which `bridge fdb` shows: those of
//! vxlan devices hold the machines at the remote ends.
//!
//! Must not be in here: bridges, whose entries name ports and not addresses.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::fd::OwnedFd;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};

use super::netlink::{attribute, dump, u32_at};
use crate::tunnels::TunnelEnd;

// Values of linux/rtnetlink.h and linux/neighbour.h.
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const AF_BRIDGE: u8 = 7;
/// Length of `struct ndmsg`.
const MESSAGE_BYTES: usize = 12;

/// The remote ends of the tunnels.
pub(super) fn tunnel_ends() -> io::Result<BTreeSet<TunnelEnd>> {
    let names = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut body = [0; MESSAGE_BYTES];
    body[0] = AF_BRIDGE;
    let mut ends = BTreeSet::new();
    dump(None, RTM_GETNEIGH, &body, |message| ends.extend(end(message, &names)))?;
    Ok(ends)
}

fn end(message: &[u8], names: &OwnedFd) -> Option<TunnelEnd> {
    let attributes = message.get(MESSAGE_BYTES..)?;
    let remote = attribute(attributes, NDA_DST)?;
    let remote = match <[u8; 4]>::try_from(remote) {
        Ok(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(remote).ok()?)),
    };
    Some(TunnelEnd { device: index_to_name(names, u32_at(message, 4)).ok()?, remote })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_an_address_is_an_end() {
        let names = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
        let head = [AF_BRIDGE, 0, 0, 0, 1, 0, 0, 0, 0x80, 0, 2, 0];
        let attribute = [&8_u16.to_ne_bytes()[..], &NDA_DST.to_ne_bytes(), &[192, 168, 1, 12]].concat();
        let entry = [&head[..], &attribute].concat();
        // The first device of each namespace is its loopback.
        let expected = TunnelEnd { device: "lo".into(), remote: [192, 168, 1, 12].into() };
        assert_eq!(end(&entry, &names), Some(expected));
        assert_eq!(end(&head, &names), None);
        assert_eq!(end(&entry[..5], &names), None);
        tunnel_ends().expect("an answer, if an empty one");
    }
}
