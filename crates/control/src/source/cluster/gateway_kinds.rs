//! The watches on the kinds of the Gateway API, which exist as long as the API server has the kinds.
//!
//! Never in here: the mechanism of a watch.

use std::collections::BTreeMap;

use futures::future::AbortHandle;

use super::discovery::Served;
use super::item::Watched;
use super::watch::{Trouble, Watch};
use super::{Cluster, Scope};
use crate::objects::gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute, XBackendTrafficPolicy,
};
use crate::objects::{ForebayPolicy, Namespace, Resource};
use crate::options::Options;

/// The name of the discovery of these kinds, in messages.
pub(super) const NAME: &str = "kinds of the Gateway API";

/// The state of discovery, and the watches on the discovered kinds.
#[derive(Default)]
pub(super) struct GatewayKinds {
    /// Whether the API server has answered the first discovery.
    pub(super) is_told: bool,
    /// The reason why discovery fails.
    pub(super) trouble: Option<Trouble>,
    /// The watches, by kind: version, index of the state, handle.
    watches: BTreeMap<&'static str, (&'static str, usize, AbortHandle)>,
}

/// A watch on a version of a kind.
fn watch(plural: &str, version: &'static str, namespace: Option<&str>) -> Option<Watch> {
    macro_rules! known {
        ($($kind:ident)*) => {
            match plural {
                $(<$kind as Watched>::PLURAL => {
                    let namespace = namespace.filter(|_| $kind::NAMESPACED);
                    Some(Watch::of_gateway_api::<$kind>(namespace, version))
                })*
                _ => None,
            }
        };
    }
    known!(GatewayClass Gateway ListenerSet HttpRoute GrpcRoute TlsRoute TcpRoute UdpRoute ReferenceGrant BackendTlsPolicy XBackendTrafficPolicy ForebayPolicy)
}

impl Cluster {
    /// Handles an answer of the API server: starts watches on new kinds, and ends those on removed kinds.
    pub(super) fn take_served(&mut self, answer: Result<Served, Trouble>, options: &Options) {
        let served = match answer {
            Ok(served) => served,
            Err(trouble) => {
                if self.gateway.trouble.as_ref() != Some(&trouble) {
                    tracing::warn!("cannot ask for the {NAME}: {trouble}");
                    self.gateway.trouble = Some(trouble);
                }
                return;
            }
        };
        if self.gateway.trouble.take().is_some() {
            tracing::info!("the {NAME} can be asked for again");
        }
        let is_first = !std::mem::replace(&mut self.gateway.is_told, true);
        self.changed |= is_first;
        let namespace = match &self.scope {
            Scope::Namespace(namespace) => Some(namespace.clone()),
            Scope::All | Scope::Selector(_) => None,
        };
        self.connection.versions.set_bundle(served.bundle.as_deref());
        let mut wanted: Vec<Watch> = served
            .kinds
            .iter()
            .filter_map(|(plural, version)| watch(plural, version, namespace.as_deref()))
            .collect();
        // The labels of Namespaces decide which routes a Gateway admits. Namespaces that a selector matches
        // are always watched.
        if wanted.iter().any(|watch| watch.kind == Gateway::KIND) && matches!(self.scope, Scope::All) {
            wanted.push(Watch::all_namespaces());
        }
        self.end_unserved(&wanted, options);
        let mut begun = Vec::new();
        for watch in wanted {
            let (kind, version) = (watch.kind, watch.version);
            if self.gateway.watches.contains_key(kind) {
                continue;
            }
            begun.push(format!("{kind} {version}"));
            let place = self.states.len();
            let handle = self.follow(watch);
            // Serving has started already, so it does not wait for a kind that appears later.
            self.states[place].is_late = !is_first;
            self.gateway.watches.insert(kind, (version, place, handle));
            self.connection.versions.set(kind, Some(version));
        }
        if !begun.is_empty() {
            tracing::info!(kinds = begun.join(", "), "the API server has the Gateway API");
        } else if is_first {
            tracing::info!("the API server has no {NAME}; they are watched once their CRDs are there");
        }
    }

    /// Ends the watches on kinds that are no longer served, or only in another version.
    fn end_unserved(&mut self, wanted: &[Watch], options: &Options) {
        let is_wanted = |kind: &str, version: &str| {
            wanted.iter().any(|watch| watch.kind == kind && watch.version == version)
        };
        let ended: Vec<_> = self
            .gateway
            .watches
            .iter()
            .filter(|(kind, (version, ..))| !is_wanted(kind, version))
            .map(|(kind, _)| *kind)
            .collect();
        for kind in ended {
            let Some((_, place, handle)) = self.gateway.watches.remove(kind) else { continue };
            handle.abort();
            // The index stays occupied, because a stream is identified by its index.
            let state = &mut self.states[place];
            (state.listed, state.seen, state.trouble) = (true, None, None);
            let watch = state.watch.clone();
            self.connection.versions.set(kind, None);
            if wanted.iter().any(|watch| watch.kind == kind) {
                // The list in the other version replaces these objects.
                continue;
            }
            tracing::warn!("the API server has no {kind} any more");
            for key in self.keys_of(&watch) {
                self.remove(kind, &key, options);
            }
        }
    }
}

/// Whether objects of this kind exist only for the Gateway API.
pub(super) fn is_optional(kind: &str) -> bool {
    const KINDS: [&str; 12] = [
        GatewayClass::KIND,
        Gateway::KIND,
        ListenerSet::KIND,
        HttpRoute::KIND,
        GrpcRoute::KIND,
        TlsRoute::KIND,
        TcpRoute::KIND,
        UdpRoute::KIND,
        ReferenceGrant::KIND,
        BackendTlsPolicy::KIND,
        XBackendTrafficPolicy::KIND,
        ForebayPolicy::KIND,
    ];
    KINDS.contains(&kind)
}

/// Whether the proxy can serve without a watch: a controller that was installed for Ingresses has no right to
/// the Gateway API's kinds.
pub(super) fn may_lack(watch: &Watch, scope: &Scope) -> bool {
    is_optional(watch.kind) || watch.kind == Namespace::KIND && !matches!(scope, Scope::Selector(_))
}
