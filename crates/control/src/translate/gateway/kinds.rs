//! The kinds of routes, and their protocols.

use crate::objects::Resource;
use crate::objects::gateway_api::{
    GROUP, GrpcRoute, HttpRoute, Listener, Protocol, RouteGroupKind, TcpRoute, TlsRoute, UdpRoute,
};

/// A kind of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RouteKind {
    Http,
    Grpc,
    Tls,
    Tcp,
    Udp,
}

impl RouteKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => HttpRoute::KIND,
            Self::Grpc => GrpcRoute::KIND,
            Self::Tls => TlsRoute::KIND,
            Self::Tcp => TcpRoute::KIND,
            Self::Udp => UdpRoute::KIND,
        }
    }

    pub(super) fn group_kind(self) -> RouteGroupKind {
        RouteGroupKind { group: Some(GROUP.into()), kind: self.name().into() }
    }

    /// The kinds that fit the protocol of a listener.
    pub(super) fn of(protocol: &Protocol) -> &'static [Self] {
        match protocol {
            Protocol::Http | Protocol::Https => &[Self::Http, Self::Grpc],
            Protocol::Tls => &[Self::Tls],
            Protocol::Tcp => &[Self::Tcp],
            Protocol::Udp => &[Self::Udp],
            Protocol::Other(_) => &[],
        }
    }

    /// The kinds that may be attached to a listener, and whether it requests others too.
    pub(super) fn supported(listener: &Listener) -> (Vec<Self>, bool) {
        let possible = Self::of(&listener.protocol);
        let asked = &listener.allowed_routes.kinds;
        if asked.is_empty() {
            return (possible.to_vec(), false);
        }
        let is_asked_for = |kind: &&Self| {
            asked
                .iter()
                .any(|one| one.group.as_deref().unwrap_or(GROUP) == GROUP && *one.kind == *kind.name())
        };
        let supported: Vec<_> = possible.iter().filter(is_asked_for).copied().collect();
        let asks_for_others = asked.iter().any(|one| {
            one.group.as_deref().unwrap_or(GROUP) != GROUP
                || !supported.iter().any(|kind| *one.kind == *kind.name())
        });
        (supported, asks_for_others)
    }
}
