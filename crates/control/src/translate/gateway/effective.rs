//! A listener of a Gateway or a `ListenerSet`, with its result. Never in here: the computation of the result.

use std::net::IpAddr;
use std::sync::Arc;

use model::{HostName, HostTls, ListenerId, ListenerKind, Transport};

use super::acme::Obtained;
use super::conditions::Fault;
use super::kinds::RouteKind;
use crate::names::NsName;
use crate::objects::gateway_api::{Listener, Protocol, TlsMode};

/// The parent of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ParentKey {
    Gateway(NsName),
    Set(NsName),
}

/// A listener with its result.
pub(super) struct Effective<'a> {
    pub(super) parent: ParentKey,
    /// Namespace of the object that declares it.
    pub(super) namespace: &'a str,
    pub(super) listener: &'a Listener,
    pub(super) hostname: HostName,
    /// The addresses at which it is served (none stands for every address; an empty list means that it is not
    /// served), and the port.
    pub(super) addresses: Vec<Option<IpAddr>>,
    pub(super) port: u16,
    pub(super) kinds: Vec<RouteKind>,
    /// The TLS settings, if the listener terminates TLS.
    pub(super) tls: Option<Arc<HostTls>>,
    /// The reason for not accepting it.
    pub(super) refused: Option<Fault>,
    /// An earlier listener conflicts with it.
    pub(super) is_conflicted: bool,
    /// The reason why a reference of it leads nowhere.
    pub(super) unresolved: Option<Fault>,
    /// The listener is not served, because its TLS settings cannot be used.
    pub(super) lacks_tls: bool,
    /// The certificate that Forebay obtains for it, in place of Secrets; none where it does not.
    pub(super) obtained: Option<Obtained>,
    /// Another listener of its port with names in common.
    pub(super) overlaps: Option<String>,
}

impl Effective<'_> {
    /// Whether routes can be attached to it.
    pub(super) fn takes_routes(&self) -> bool {
        self.refused.is_none()
    }

    /// Whether clients are served.
    pub(super) fn is_served(&self) -> bool {
        self.refused.is_none() && !self.lacks_tls
    }

    /// Whether it will be served once its certificate has been obtained.
    pub(super) fn is_awaited(&self) -> bool {
        self.refused.is_none() && self.lacks_tls && self.obtained.is_some()
    }

    /// The addresses and ports where it is served.
    pub(super) fn places(&self) -> Vec<ListenerId> {
        let kind = match self.listener.protocol {
            Protocol::Http => ListenerKind::Http,
            Protocol::Https | Protocol::Tls => ListenerKind::Https,
            Protocol::Tcp => ListenerKind::Tcp,
            Protocol::Udp => ListenerKind::Udp,
            Protocol::Other(_) => return Vec::new(),
        };
        let addresses = self.addresses.iter().filter(|_| self.is_served());
        addresses.map(|&address| ListenerId { kind, port: self.port, address }).collect()
    }

    /// The reason why it is not served, or only in part; none for a listener without faults.
    pub(super) fn fault(&self) -> Option<&Fault> {
        self.refused.as_ref().or(self.unresolved.as_ref())
    }

    /// Whether connections over TLS are passed on as they come.
    pub(super) fn passes_tls(&self) -> bool {
        let mode = self.listener.tls.as_ref().map(|tls| &tls.mode);
        self.listener.protocol == Protocol::Tls && mode == Some(&TlsMode::Passthrough)
    }

    pub(super) fn transport(&self) -> Transport {
        if self.listener.protocol == Protocol::Udp { Transport::Udp } else { Transport::Tcp }
    }
}
