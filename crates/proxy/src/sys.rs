//! System calls that no safe wrapper offers. The only module with unsafe code.
#![expect(unsafe_code, reason = "socket options that rustix and socket2 do not have")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Leaves the choice of a local port to `connect`, which may use one port towards many destinations. Without it, `bind`
/// takes a port for itself, and a source address runs out of them after one port range of connections (ip(7)).
pub(crate) fn set_bind_address_no_port(socket: &impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the option reads one int from `on`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
