//! A listener of a Gateway or a `ListenerSet`, with what becomes of it. Must not be in here: how that is found.

use std::net::IpAddr;
use std::sync::Arc;

use model::{HostName, HostTls, ListenerId, ListenerKind, Transport};

use super::conditions::Fault;
use super::kinds::RouteKind;
use crate::names::NsName;
use crate::objects::gateway_api::{Listener, Protocol};

/// What routes are attached to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ParentKey {
    Gateway(NsName),
    Set(NsName),
}

/// A listener, with what becomes of it.
pub(super) struct Effective<'a> {
    pub(super) parent: ParentKey,
    /// Namespace of the object that has it.
    pub(super) namespace: &'a str,
    pub(super) listener: &'a Listener,
    pub(super) hostname: HostName,
    /// Where it is served: at which addresses (none for every address; no entry for nowhere), and at which port.
    pub(super) addresses: Vec<Option<IpAddr>>,
    pub(super) port: u16,
    pub(super) kinds: Vec<RouteKind>,
    /// Its TLS, if it ends TLS itself.
    pub(super) tls: Option<Arc<HostTls>>,
    /// Why it is not accepted.
    pub(super) refused: Option<Fault>,
    /// Another listener came before it.
    pub(super) is_conflicted: bool,
    /// Why a reference of it leads nowhere.
    pub(super) unresolved: Option<Fault>,
    /// It is not served since TLS cannot be.
    pub(super) lacks_tls: bool,
    /// Another listener of its port that is for some of its names too.
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

    /// Where it is served.
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

    /// Why it is not served, or not all of it; none if it is.
    pub(super) fn fault(&self) -> Option<&Fault> {
        self.refused.as_ref().or(self.unresolved.as_ref())
    }

    pub(super) fn transport(&self) -> Transport {
        if self.listener.protocol == Protocol::Udp { Transport::Udp } else { Transport::Tcp }
    }
}
