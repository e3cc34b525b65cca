//! Requests of `ip link` and `ip address`: messages of `rtnetlink(7)`, in the calling thread's namespace.
//!
//! Must not be in here: the topology.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

// Values of linux/netlink.h.
const NLM_F_REQUEST_ACK: u16 = 0x001 | 0x004;
const NLM_F_NEW: u16 = 0x200 | 0x400;
const HEADER_BYTES: usize = 16;
// Values of linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, linux/veth.h.
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const AF_INET: u8 = 2;
const IFF_UP: u32 = 1;

/// Creates a cable: one end with this name here, the other with that name in another namespace.
pub(crate) fn add_cable(name: &str, peer: &str, namespace: BorrowedFd<'_>) -> io::Result<()> {
    let far = [
        interface(0, 0),
        attribute(IFLA_IFNAME, &text(peer)),
        attribute(IFLA_NET_NS_FD, &(namespace.as_raw_fd().cast_unsigned()).to_ne_bytes()),
    ];
    let kind = attribute(IFLA_INFO_KIND, b"veth");
    let data = attribute(IFLA_INFO_DATA, &attribute(VETH_INFO_PEER, &far.concat()));
    let link = attribute(IFLA_LINKINFO, &[kind, data].concat());
    ask(RTM_NEWLINK, NLM_F_NEW, &[interface(0, 0), attribute(IFLA_IFNAME, &text(name)), link].concat())
}

/// Adds an address to a device, and with it a route to its network.
pub(crate) fn add_address(device: &str, address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
    // `struct ifaddrmsg`: family, length of the prefix, flags, scope, index.
    let head = [&[AF_INET, prefix_bits, 0, 0][..], &index(device)?.to_ne_bytes()].concat();
    let octets = address.octets();
    ask(
        RTM_NEWADDR,
        NLM_F_NEW,
        &[head, attribute(IFA_LOCAL, &octets), attribute(IFA_ADDRESS, &octets)].concat(),
    )
}

/// Enables a device.
pub(crate) fn set_up(device: &str) -> io::Result<()> {
    ask(RTM_NEWLINK, 0, &interface(index(device)?, IFF_UP))
}

fn index(device: &str) -> io::Result<u32> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(name_to_index(&socket, device)?)
}

/// `struct ifinfomsg`: family and type are unspecified; these flags are set, and no others changed.
fn interface(index: u32, flags: u32) -> Vec<u8> {
    [0, index, flags, flags].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// `struct rtattr` and its content, padded to four bytes.
fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = (4 + content.len()) as u16;
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

/// Sends a request and waits for the kernel's acknowledgement (`NLMSG_ERROR`, whose code is 0 for success).
fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let length = (HEADER_BYTES + body.len()) as u32;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST_ACK | flags).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0; 4096];
    recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let code = answer[HEADER_BYTES..].first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_filled_up_and_tell_their_length_without() {
        assert_eq!(
            attribute(3, b"lo\0"),
            [[7u16.to_ne_bytes(), 3u16.to_ne_bytes()].as_flattened(), b"lo\0\0"].concat()
        );
        assert_eq!(attribute(1, b"veth").len(), 8);
    }
}
