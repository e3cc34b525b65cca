use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::{Host, List, Stream};

/// Hosts that one listener serves, or several: listeners with the same hosts share one list, so that a
/// hundred thousand hosts are stored and compiled once. A name occurs at most once by convention: of two, the
/// last one would be served.
pub type HostList = Arc<List<Arc<Host>>>;

/// A port that clients connect to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listener {
    /// The only address to listen at; none for those of [the settings](crate::ListenAddresses). A listener
    /// with an address and one without may have the same port: connections to the address belong to the
    /// former.
    pub address: Option<IpAddr>,
    /// Number of the port; for HTTP and HTTPS 0 is any free one.
    pub port: u16,
    /// The protocol of clients, and the hosts or backends behind it.
    pub protocol: Protocol,
}

/// The protocol of a [`Listener`], with the hosts or backends behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Protocol {
    /// HTTP/1 and HTTP/2 in clear. A request for a host that is not listed goes to
    /// [`HostName::Any`](crate::HostName::Any) if that is listed.
    Http(HostList),
    /// The same over TLS. Hosts with [`HostTls::passthrough`](crate::HostTls::passthrough) are not decrypted.
    Https(HostList),
    /// TCP connections, whose bytes are passed on unchanged.
    Tcp(Stream),
    /// UDP datagrams, which are passed on unchanged.
    Udp(Stream),
}

/// The identity of a [`Listener`] from one model to the next: address, port and kind. The kind tells two
/// listeners on port 0 apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ListenerId {
    /// Kind of the protocol.
    pub kind: ListenerKind,
    /// The port as configured, which may be 0.
    pub port: u16,
    /// The address as configured; none for those of the settings.
    pub address: Option<IpAddr>,
}

/// The kinds of [`Protocol`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum ListenerKind {
    /// HTTP in clear.
    Http,
    /// HTTP over TLS.
    Https,
    /// Bytes over TCP.
    Tcp,
    /// Datagrams over UDP.
    Udp,
}

impl Listener {
    /// The listener's identity from one model to the next.
    pub fn id(&self) -> ListenerId {
        let kind = match self.protocol {
            Protocol::Http(_) => ListenerKind::Http,
            Protocol::Https(_) => ListenerKind::Https,
            Protocol::Tcp(_) => ListenerKind::Tcp,
            Protocol::Udp(_) => ListenerKind::Udp,
        };
        ListenerId { kind, port: self.port, address: self.address }
    }

    /// Its hosts, where HTTP is spoken.
    pub fn hosts(&self) -> Option<&HostList> {
        match &self.protocol {
            Protocol::Http(hosts) | Protocol::Https(hosts) => Some(hosts),
            Protocol::Tcp(_) | Protocol::Udp(_) => None,
        }
    }

    /// The stream behind a TCP or UDP listener.
    pub fn stream(&self) -> Option<&Stream> {
        match &self.protocol {
            Protocol::Http(_) | Protocol::Https(_) => None,
            Protocol::Tcp(stream) | Protocol::Udp(stream) => Some(stream),
        }
    }
}

impl ListenerId {
    /// Whether clients speak TLS with the listener itself.
    pub fn is_tls(self) -> bool {
        self.kind == ListenerKind::Https
    }
}

impl ListenerKind {
    /// The name for metrics and logs: `HTTP`, `HTTPS`, `TCP` or `UDP`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}
