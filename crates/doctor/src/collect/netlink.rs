//! Requests to the kernel over netlink (`netlink(7)`), and the messages of its answers.
//!
//! Must not be in here: the meaning of a message.

use std::io;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

// Values of linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x001 | 0x100 | 0x200;
const HEADER_BYTES: usize = 16;

/// Size of the receive buffer: the kernel fills at most 32 KiB.
const BUFFER_BYTES: usize = 64 * 1024;

/// Requests all objects of a kind, and calls `visit` with each message without its header. `protocol` is that
/// of the netlink socket; routes, links and neighbours need none.
pub(super) fn dump(
    protocol: Option<Protocol>,
    kind: u16,
    body: &[u8],
    mut visit: impl FnMut(&[u8]),
) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    send(&socket, &request(kind, body), SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if take(&buffer[..length], &mut visit)? {
            return Ok(());
        }
    }
}

/// The content of an attribute of a message; none if the message does not have it.
pub(super) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    while bytes.len() >= 4 {
        let (length, kind) = (usize::from(u16_at(bytes, 0)), u16_at(bytes, 2));
        if kind == wanted {
            return bytes.get(4..length);
        }
        bytes = bytes.get(aligned(length.max(4))..)?;
    }
    None
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// `struct nlmsghdr` and the body of the request.
fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// Handles the messages of one datagram. Returns whether the last message has come.
fn take(mut bytes: &[u8], visit: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    while bytes.len() >= HEADER_BYTES {
        let length = u32_at(bytes, 0) as usize;
        let (Some(message), kind) = (bytes.get(HEADER_BYTES..length), u16_at(bytes, 4)) else { break };
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = u32_at(message, 0).cast_signed();
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => visit(message),
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(false)
}

/// Messages and attributes begin at multiples of four.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_no_message_and_a_refusal_is_an_error() {
        let mut visit = |_: &[u8]| panic!("no message");
        assert!(!take(&[1; 15], &mut visit).expect("nothing"));
        let refused =
            [&20_u32.to_ne_bytes()[..], &2_u16.to_ne_bytes(), &[0; 10], &(-1_i32).to_ne_bytes()].concat();
        assert_eq!(take(&refused, &mut visit).map_err(|error| error.raw_os_error()), Err(Some(1)));
    }

    #[test]
    fn attributes_are_found_by_their_kind() {
        let bytes = [
            &5_u16.to_ne_bytes()[..],
            &1_u16.to_ne_bytes(),
            &[9, 0, 0, 0],
            &6_u16.to_ne_bytes(),
            &2_u16.to_ne_bytes(),
            &[7, 8],
        ]
        .concat();
        assert_eq!(
            (attribute(&bytes, 1), attribute(&bytes, 2), attribute(&bytes, 3)),
            (Some(&[9][..]), Some(&[7, 8][..]), None)
        );
        assert_eq!(attribute(&[0; 4], 1), None);
    }
}
