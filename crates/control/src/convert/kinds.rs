//! Ingresses that cannot become `GRPCRoute`s, because a listener accepts one kind of routes for each host.

use std::collections::BTreeSet;

use model::HostName;

use super::draft::Draft;
use crate::names::NsName;
use crate::objects::gateway_api::ParentReference;
use crate::translate::gateway::hostnames;

/// A route, and the listener and host that it is attached to.
pub(super) struct AttachedRoute {
    ingress: NsName,
    is_grpc: bool,
    hostnames: Vec<HostName>,
    parents: Vec<ParentReference>,
}

impl AttachedRoute {
    pub(super) fn new(ingress: NsName, is_grpc: bool, draft: &Draft) -> Self {
        let parsed = draft.hostnames.iter().filter_map(|name| HostName::parse_with_suffix(name).ok());
        let mut hostnames: Vec<_> = parsed.collect();
        if draft.hostnames.is_empty() {
            hostnames.push(HostName::Any);
        }
        Self { ingress, is_grpc, hostnames, parents: draft.parents.clone() }
    }

    fn is_in_the_way_of(&self, other: &Self) -> bool {
        let meets = |name| other.hostnames.iter().any(|it| hostnames::intersection(name, it).is_some());
        self.parents.iter().any(|parent| other.parents.contains(parent)) && self.hostnames.iter().any(meets)
    }
}

/// The Ingresses whose `GRPCRoute`s have a host in common with an `HTTPRoute`.
pub(super) fn in_conflict(placed: &[AttachedRoute]) -> BTreeSet<NsName> {
    let (calls, requests): (Vec<_>, Vec<_>) = placed.iter().partition(|route| route.is_grpc);
    let is_in_conflict =
        |call: &&&AttachedRoute| requests.iter().any(|request| request.is_in_the_way_of(call));
    calls.iter().filter(is_in_conflict).map(|call| call.ingress.clone()).collect()
}
