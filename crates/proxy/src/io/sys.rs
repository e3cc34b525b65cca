//! System calls that no safe wrapper offers. The only module of the crate with unsafe code.
#![expect(
    unsafe_code,
    reason = "socket options, control messages and a scheduling policy that rustix and socket2 do not have"
)]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use socket2::SockAddr;

/// Leaves the choice of a local port to `connect`, which may use one port towards many destinations. Without
/// it, `bind` takes a port for itself, and a source address runs out of them after one port range of
/// connections (ip(7)).
pub(crate) fn set_bind_address_no_port(socket: &impl AsFd) -> io::Result<()> {
    set_on(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

/// Has the kernel report for each datagram the address of this machine that it was sent to.
pub(crate) fn set_receive_destination(socket: &impl AsFd, is_v6: bool) -> io::Result<()> {
    let (level, option) = if is_v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    set_on(socket, level, option)
}

fn set_on(socket: &impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the option reads one int from `on`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel select by a program of classic BPF which of the sockets that share an address gets a
/// datagram; it returns the socket's index (socket(7)).
pub(crate) fn attach_reuse_port_filter(socket: &impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel copies the program, of
    // which there are as many instructions as `filter` says; it does not write to it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The number of connections that a listening socket has ready for `accept`, which the kernel reports as
/// `tcpi_unacked` (tcp(7)).
pub(crate) fn established_waiting(socket: &impl AsFd) -> io::Result<usize> {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as it is borrowed; the kernel writes at most `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(info.tcpi_unacked as usize) } else { Err(io::Error::last_os_error()) }
}

/// A copy of the descriptor with this number, which is closed when another program begins.
pub(crate) fn copy_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number, which need not be that of an open descriptor.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it, so that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The descriptor with this number, which was open when this program began, and which nothing else in it
/// uses. The number is free after that.
pub(crate) fn take_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    let copy = copy_descriptor(number)?;
    // SAFETY: the number is that of an open descriptor, of which the caller is the only user.
    unsafe { libc::close(number) };
    Ok(copy)
}

/// Has the calling thread run where no other one wants the CPU (`SCHED_IDLE`, sched(7)), or with the lowest
/// priority where that is forbidden. Needs no rights, and cannot be taken back without some.
pub(crate) fn yield_to_others() -> io::Result<()> {
    // SAFETY: all of its fields are numbers, for which zero is a value; SCHED_IDLE allows the priority 0
    // only.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the call reads `parameter` and is about the calling thread alone, which 0 stands for.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) } == 0 {
        return Ok(());
    }
    // On Linux the nice value is a thread's own.
    rustix::process::nice(NICE_MAX).map(drop).map_err(io::Error::from)
}

/// The nice value of the lowest priority.
const NICE_MAX: i32 = 19;

/// A datagram that was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) len: usize,
    /// Address of the sender.
    pub(crate) from: SocketAddr,
    /// The address of this machine that it was sent to, where the kernel reports it.
    pub(crate) to: Option<IpAddr>,
}

/// Room for a control message with the larger of the two, and aligned as the kernel's macros expect it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Receives a datagram; bytes that do not fit are lost.
pub(crate) fn receive_datagram(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut received = (0, None);
    // SAFETY: the storage is as large as its length says, and `recvmsg` writes an address into it and its
    // length, or fails.
    let ((), from) = unsafe {
        SockAddr::try_init(|name, name_len| {
            // A message of zeroes is an empty header.
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_name = name.cast();
            message.msg_namelen = *name_len;
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of::<Control>();
            let len = libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT);
            received = (usize::try_from(len).map_err(|_| io::Error::last_os_error())?, destination(&message));
            *name_len = message.msg_namelen;
            Ok(())
        })
    }?;
    let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    Ok(Datagram { len: received.0, from, to: received.1 })
}

/// # Safety
///
/// The message must be one that the kernel has filled, and its buffers must still be there.
unsafe fn destination(message: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the macros stay within the control buffer of a message that the kernel has filled; the content
    // of a control message of these types is of these types, and is read without regard to its alignment.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = control.as_ref() {
            match (header.cmsg_level, header.cmsg_type) {
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = libc::CMSG_DATA(control).cast::<libc::in6_pktinfo>().read_unaligned();
                    return Some(IpAddr::from(info.ipi6_addr.s6_addr));
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = libc::CMSG_DATA(control).cast::<libc::in_pktinfo>().read_unaligned();
                    return Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                _ => control = libc::CMSG_NXTHDR(message, control),
            }
        }
    }
    None
}

/// Sends a datagram from one of the machine's addresses, or from the one that the kernel chooses.
pub(crate) fn send_datagram(
    socket: &impl AsFd,
    bytes: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
) -> io::Result<()> {
    let to = SockAddr::from(to);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: `sendmsg` reads the address, the bytes and the control buffer, all of which outlive the call.
    // The control message is written within its buffer, which has room for either kind.
    let sent = unsafe {
        // A message of zeroes is an empty header.
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(from) = from {
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of::<Control>();
            message.msg_controllen = put_source(&message, from);
        }
        libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes the control message that names the source address; returns the space that it takes.
///
/// # Safety
///
/// The message must have a control buffer of the size of [`Control`].
unsafe fn put_source(message: &libc::msghdr, from: IpAddr) -> usize {
    // SAFETY: the buffer has room for one header and the larger of the two contents, which are written
    // without regard to their alignment.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        let (level, kind, len) = match from {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>()),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>()),
        };
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(len as libc::c_uint) as usize;
        let content = libc::CMSG_DATA(header);
        match from {
            IpAddr::V4(ip) => content.cast::<libc::in_pktinfo>().write_unaligned(libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
                ipi_addr: libc::in_addr { s_addr: 0 },
            }),
            IpAddr::V6(ip) => content.cast::<libc::in6_pktinfo>().write_unaligned(libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr { s6_addr: ip.octets() },
                ipi6_ifindex: 0,
            }),
        }
        libc::CMSG_SPACE(len as libc::c_uint) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_listener_tells_how_many_connections_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(established_waiting(&listener).unwrap(), 0);
        // Over loopback a connection is in the queue when `connect` returns.
        let _clients = [(); 3].map(|()| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        assert_eq!(established_waiting(&listener).unwrap(), 3);
        listener.accept().unwrap();
        assert_eq!(established_waiting(&listener).unwrap(), 2);
    }

    #[test]
    fn an_answer_comes_from_where_the_question_went() {
        for (listen, client, destination) in [
            ("0.0.0.0:0", "127.0.0.1:0", "127.0.0.9"),
            ("[::]:0", "127.0.0.1:0", "127.0.0.9"),
            ("[::]:0", "[::1]:0", "::1"),
        ] {
            let Ok(server) = UdpSocket::bind(listen) else { continue };
            set_receive_destination(&server, listen.starts_with('[')).unwrap();
            let Ok(client) = UdpSocket::bind(client) else { continue };
            let destination: IpAddr = destination.parse().unwrap();
            let destination = SocketAddr::new(destination, server.local_addr().unwrap().port());
            client.send_to(b"question", destination).unwrap();
            let mut buffer = [0; 100];
            // Over loopback it has arrived when `send_to` returns.
            let datagram = receive_datagram(&server, &mut buffer).unwrap();
            assert_eq!(&buffer[..datagram.len], b"question");
            assert_eq!(datagram.from.port(), client.local_addr().unwrap().port());
            assert_eq!(datagram.to.unwrap().to_canonical(), destination.ip());
            send_datagram(&server, b"answer", datagram.from, datagram.to).unwrap();
            let (len, from) = client.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from), (&b"answer"[..], destination));
        }
    }

    #[test]
    fn nothing_to_receive_is_no_datagram() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = receive_datagram(&server, &mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
