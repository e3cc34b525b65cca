//! Options and errors of the blocking sockets at both ends.

use std::io::{self, ErrorKind};
use std::net::TcpStream;

use crate::PATIENCE;

/// Sends without delay, and bounds each wait by [`PATIENCE`].
pub(crate) fn set_patience(stream: &TcpStream) {
    stream.set_nodelay(true).expect("a socket option");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket option");
}

/// Whether an error is the end of such a wait.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
