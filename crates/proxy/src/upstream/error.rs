//! Why a connection to an endpoint could not be had.

use std::io;

use observe::Reason;

use crate::socket::is_about_descriptors;
use crate::tls::upstream::NoSession;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoConnection {
    /// Every source address is out of ports towards the endpoint (`EADDRNOTAVAIL`), and no connection came back in time.
    PortsExhausted,
    /// The connection could not be made.
    Failed(io::Error),
    /// It could, and TLS could not be spoken on it.
    NoSession(NoSession),
}

impl NoConnection {
    /// The name under which it is counted.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::PortsExhausted => Reason::PortsExhausted,
            Self::Failed(error) if is_about_descriptors(error) => Reason::DescriptorsExhausted,
            Self::Failed(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => Reason::ConnectRefused,
                io::ErrorKind::TimedOut => Reason::ConnectTimeout,
                _ => Reason::ConnectFailed,
            },
            Self::NoSession(NoSession::BadCertificate) => Reason::UpstreamCertificateBad,
            Self::NoSession(NoSession::HandshakeFailed) => Reason::UpstreamHandshakeFailed,
        }
    }
}
