//! Errors of opening a connection to an endpoint.

use std::io;

use observe::Reason;

use crate::io::socket::is_about_descriptors;
use crate::io::tls::upstream::NoSession;

/// Why no connection could be opened.
#[derive(Debug)]
pub(crate) enum NoConnection {
    /// Every source address is out of ports towards the endpoint (`EADDRNOTAVAIL`), and no connection was
    /// returned in time.
    PortsExhausted,
    /// The TCP connection failed.
    Failed(io::Error),
    /// The TCP connection succeeded, and the TLS handshake failed.
    NoSession(NoSession),
}

impl NoConnection {
    /// The reason under which it is counted.
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
