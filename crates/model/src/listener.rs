use std::net::IpAddr;
use std::sync::Arc;

use crate::{Host, Stream};

/// Hosts that one listener serves, or several: listeners with the same hosts share one list, so that a hundred thousand hosts are
/// stored and compiled once. A name occurs at most once by convention: of two, the last one would be served.
pub type HostList = Arc<Vec<Arc<Host>>>;

/// A port that clients connect to.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The only address that it is listened at; none for those that [the settings](crate::ListenAddresses) say. A listener with an address and
    /// one without may have the same port: connections to the address are the former's.
    pub address: Option<IpAddr>,
    /// Number of the port; for HTTP and HTTPS 0 is any free one.
    pub port: u16,
    /// What clients speak there, and what they get.
    pub protocol: Protocol,
}

/// What clients speak at a [`Listener`], with what is served there.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// HTTP/1 and HTTP/2 in clear. A request for a host that is not listed goes to [`HostName::Any`](crate::HostName::Any) where that is
    /// listed.
    Http(HostList),
    /// The same over TLS. Hosts with [`HostTls::passthrough`](crate::HostTls::passthrough) are not decrypted.
    Https(HostList),
    /// Bytes over TCP that are passed on as they are.
    Tcp(Stream),
    /// Datagrams over UDP that are passed on as they are.
    Udp(Stream),
}

/// What a [`Listener`] is known by from one model to the next: its address and port, and how it is spoken to there. Two listeners on
/// port 0 are told apart by the latter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId {
    /// What clients speak.
    pub kind: ListenerKind,
    /// As configured.
    pub port: u16,
    /// As configured.
    pub address: Option<IpAddr>,
}

/// The kinds of [`Protocol`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// What it is known by.
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

    /// What is passed on as it is, where that is so.
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
