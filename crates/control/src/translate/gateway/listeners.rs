//! The listeners of all Gateways and `ListenerSet`s: their addresses and ports, their conflicts, and the
//! routes that may be attached.
//!
//! Never in here: routes.

use std::collections::HashMap;

use model::{HostName, Transport};

use super::acme::{Asking, Found};
use super::addresses::{Addresses, Assigned};
use super::conditions::{Fault, age};
use super::effective::{Effective, ParentKey};
use super::hostnames;
use super::kinds::RouteKind;
use super::listener_tls;
use super::report::CONTROLLER;
use crate::names::NsName;
use crate::objects::gateway_api::{
    AllowedListeners, FromNamespaces, Gateway, GatewayClass, LabelSelector, Listener, ListenerSet, Protocol,
};
use crate::objects::{At, Map, Resource, Sourced};
use crate::problem::SourceLocation;
use crate::translate::ingress::acme::Settings as AcmeSettings;
use crate::translate::inputs::Inputs;
use crate::translate::ownership::Owner;

/// All listeners of this controller.
#[derive(Default)]
pub(super) struct Listeners<'a> {
    pub(super) classes: Vec<&'a Sourced<GatewayClass>>,
    /// The Gateways, the oldest first.
    pub(super) gateways: Vec<OwnGateway<'a>>,
    pub(super) sets: Vec<OwnSet<'a>>,
    pub(super) all: Vec<Effective<'a>>,
    /// The indices of the listeners of each parent.
    pub(super) of_parent: HashMap<ParentKey, Vec<usize>>,
    /// The findings about certificates that Forebay obtains.
    pub(super) acme: Found,
}

/// The inputs of listeners.
pub(super) struct Context<'c, 'a> {
    pub(super) inputs: &'c Inputs<'a>,
    /// The settings of certificates that Forebay obtains.
    pub(super) acme: AcmeSettings,
    /// TLS of the listeners, as it was before.
    pub(super) tls: &'c mut listener_tls::Kept,
}

/// A Gateway of this controller.
pub(super) struct OwnGateway<'a> {
    pub(super) object: &'a Sourced<Gateway>,
    pub(super) assigned: Assigned,
    /// The reason for not accepting it, whatever its listeners are.
    pub(super) refused: Option<Fault>,
    /// The Secret with the client certificate for backends.
    pub(super) client_certificate: Option<NsName>,
    /// The fault of its references.
    pub(super) unresolved: Option<Fault>,
}

/// A `ListenerSet` that names a Gateway of this controller.
pub(super) struct OwnSet<'a> {
    pub(super) object: &'a Sourced<ListenerSet>,
    pub(super) gateway: NsName,
    /// The reason for not accepting it, whatever its listeners are.
    pub(super) refused: Option<Fault>,
}

/// The listeners of all Gateways. `streams` are the ports of TCP and UDP services.
pub(super) fn find<'a>(
    context: &mut Context<'_, 'a>,
    addresses: &mut Addresses,
    streams: &[(Transport, u16)],
) -> Listeners<'a> {
    let inputs = context.inputs;
    let stores = inputs.gateway();
    let is_ours = |class: &&Sourced<GatewayClass>| class.spec.controller_name == CONTROLLER;
    let classes: Vec<_> = stores.classes.iter().map(|class| &**class).filter(is_ours).collect();
    let is_of_ours = |gateway: &&Sourced<Gateway>| {
        classes.iter().any(|class| class.name() == gateway.spec.gateway_class_name.value)
    };
    let mut gateways: Vec<_> = stores.gateways.iter().map(|gateway| &**gateway).filter(is_of_ours).collect();
    gateways.sort_by_cached_key(|gateway| age(*gateway));
    let assigned = addresses.assign(&gateways, inputs.options);
    let mut found = Listeners { classes, ..Listeners::default() };
    let mut sets: Vec<_> = stores.listener_sets.iter().map(|set| &**set).collect();
    sets.sort_by_cached_key(|set| age(*set));
    for (object, assigned) in gateways.into_iter().zip(assigned) {
        let (client_certificate, unresolved) = match listener_tls::client_certificate(object, inputs) {
            Ok(certificate) => (certificate, None),
            Err(fault) => (None, Some(fault)),
        };
        let refused = assigned.unsupported.clone().or_else(|| parameters_fault(object));
        found.gateways.push(OwnGateway { object, assigned, refused, client_certificate, unresolved });
        let at = found.gateways.len() - 1;
        found.add_gateway(at, context);
        let key = object.key();
        for set in sets.iter().filter(|set| gateway_of(set) == Some(key.clone())) {
            found.add_set(at, set, context);
        }
    }
    found.settle(inputs, streams);
    found
}

fn parameters_fault(gateway: &Gateway) -> Option<Fault> {
    let reference = gateway.spec.infrastructure.as_ref()?.parameters_ref.as_ref()?;
    let message = format!("infrastructure.parametersRef {:?}: there are no parameters", reference.value.name);
    Some(Fault::new("InvalidParameters", message))
}

fn gateway_of(set: &Sourced<ListenerSet>) -> Option<NsName> {
    let parent = &set.spec.parent_ref.value;
    let namespace = parent.namespace.as_deref().unwrap_or_else(|| set.namespace());
    parent.is_kind("Gateway").then(|| NsName::new(namespace, &*parent.name))
}

impl<'a> Listeners<'a> {
    /// The Gateway of a parent.
    pub(super) fn gateway_of(&self, parent: &ParentKey) -> Option<&OwnGateway<'a>> {
        let name = match parent {
            ParentKey::Gateway(name) => name,
            ParentKey::Set(name) => &self.sets.iter().find(|set| set.object.key() == *name)?.gateway,
        };
        self.gateways.iter().find(|gateway| gateway.object.key() == *name)
    }

    /// A parent as an owner of hosts.
    pub(super) fn owner_of(&self, parent: &ParentKey) -> Option<Owner> {
        match parent {
            ParentKey::Gateway(name) => {
                let found = self.gateways.iter().find(|one| one.object.key() == *name)?;
                Some(Owner { born: age(found.object).0, object: found.object.reference() })
            }
            ParentKey::Set(name) => {
                let found = self.sets.iter().find(|one| one.object.key() == *name)?;
                Some(Owner { born: age(found.object).0, object: found.object.reference() })
            }
        }
    }

    fn add_gateway(&mut self, at: usize, context: &mut Context<'_, 'a>) {
        let object = self.gateways[at].object;
        let key = ParentKey::Gateway(object.key());
        self.add(at, &key, object, &object.spec.listeners, context);
    }

    fn add_set(&mut self, at: usize, object: &'a Sourced<ListenerSet>, context: &mut Context<'_, 'a>) {
        let gateway = self.gateways[at].object;
        let allowed = gateway.spec.allowed_listeners.as_ref();
        let is_allowed = allowed.is_some_and(|allowed| allows(allowed, gateway, object, context.inputs));
        let refused = if is_allowed {
            self.gateways[at]
                .refused
                .as_ref()
                .map(|_| Fault::new("ParentNotAccepted", format!("{} is not accepted", gateway.reference())))
        } else {
            let message = format!("{} does not allow listeners of this namespace", gateway.reference());
            Some(Fault::new("NotAllowed", message))
        };
        if refused.is_none() {
            let key = ParentKey::Set(object.key());
            self.add(at, &key, object, &object.spec.listeners, context);
        }
        self.sets.push(OwnSet { object, gateway: gateway.key(), refused });
    }

    fn add<T: Resource>(
        &mut self,
        at: usize,
        parent: &ParentKey,
        object: &'a Sourced<T>,
        listeners: &'a [At<Listener>],
        context: &mut Context<'_, 'a>,
    ) {
        let OwnGateway { object: gateway, assigned, refused, .. } = &self.gateways[at];
        let is_nowhere = refused.is_some() || assigned.unusable.is_some();
        let addresses: Vec<_> = match assigned.addresses.as_slice() {
            _ if is_nowhere => Vec::new(),
            [] => vec![None],
            own => own.iter().copied().map(Some).collect(),
        };
        let asking = Asking::of(object, context.acme, &mut self.acme);
        for located in listeners {
            let listener = &located.value;
            let (kinds, asks_for_others) = RouteKind::supported(listener);
            let hostname = hostnames::of_listener(listener.hostname.as_ref());
            let mut effective = Effective {
                parent: parent.clone(),
                namespace: object.namespace(),
                listener,
                hostname: hostname.clone().unwrap_or(HostName::Any),
                addresses: addresses.clone(),
                port: listener.port,
                kinds,
                tls: None,
                refused: None,
                is_conflicted: false,
                unresolved: None,
                lacks_tls: false,
                obtained: None,
                overlaps: None,
            };
            if asks_for_others {
                let message = "allowedRoutes.kinds has kinds that do not fit the protocol";
                effective.unresolved = Some(Fault::new("InvalidRouteKinds", message));
            }
            let mut reading = listener_tls::Reading {
                inputs: context.inputs,
                asking: &asking,
                found: &mut self.acme,
                kept: &mut *context.tls,
            };
            let place = || SourceLocation::at(object, located);
            listener_tls::read(&mut effective, gateway, &place, &mut reading);
            if let Protocol::Other(protocol) = &listener.protocol {
                let message = format!("protocol {protocol} is not supported");
                effective.refused = Some(Fault::new("UnsupportedProtocol", message));
            } else if let Err(why) = hostname {
                effective.refused = Some(Fault::new("UnsupportedValue", why));
            } else if let Some(filter) = listener.filters.iter().flat_map(|all| &all.requests).next() {
                // "If a filter is unsupported, the listener MUST be rejected" (GEP-5224): it may guard the
                // routes.
                let kind = filter.kind.as_str();
                let message = format!("filters.requests: {kind} before a route is chosen is not supported");
                effective.refused = Some(Fault::new("UnsupportedValue", message));
            }
            self.of_parent.entry(parent.clone()).or_default().push(self.all.len());
            self.all.push(effective);
        }
    }

    /// Decides ports and conflicts. "Listeners are merged in this order: those of the Gateway, then those of
    /// `ListenerSet`s, the oldest first": if two are in conflict, the first is served.
    fn settle(&mut self, inputs: &Inputs<'_>, streams: &[(Transport, u16)]) {
        for at in 0..self.all.len() {
            let (before, rest) = self.all.split_at_mut(at);
            let one = &mut rest[0];
            if one.refused.is_some() {
                continue;
            }
            if let Err(fault) = settle_port(one, inputs, streams) {
                one.refused = Some(fault);
                continue;
            }
            let shares = |other: &&Effective<'_>| {
                // Port 0 stands for any free port; the one for HTTPS differs from the one for HTTP.
                let is_same = other.port == one.port && (one.port > 0 || is_tls(other) == is_tls(one));
                other.refused.is_none()
                    && is_same
                    && other.transport() == one.transport()
                    && other.addresses.iter().any(|address| one.addresses.contains(address))
            };
            if let Some(fault) = before.iter().filter(shares).find_map(|other| conflict(other, one)) {
                one.refused = Some(fault);
                one.is_conflicted = true;
            }
        }
        self.find_overlaps();
    }

    /// Finds HTTPS listeners at one port whose hostnames have names in common.
    fn find_overlaps(&mut self) {
        for at in 0..self.all.len() {
            let one = &self.all[at];
            let is_https =
                |it: &Effective<'_>| it.listener.protocol == Protocol::Https && it.refused.is_none();
            let overlapping = self.all.iter().enumerate().find(|(other_at, other)| {
                *other_at != at
                    && is_https(one)
                    && is_https(other)
                    && other.port == one.port
                    && other.addresses == one.addresses
                    && hostnames::intersection(&one.hostname, &other.hostname).is_some()
            });
            self.all[at].overlaps = overlapping.map(|(_, other)| {
                format!("listener {} of the same port has names in common with it", other.listener.name)
            });
        }
    }
}

/// Decides the port of a listener. If Gateways have no addresses of their own, 80 and 443 stand for the
/// controller's ports.
fn settle_port(
    one: &mut Effective<'_>,
    inputs: &Inputs<'_>,
    streams: &[(Transport, u16)],
) -> Result<(), Fault> {
    let options = inputs.options;
    let wanted = one.listener.port;
    let unavailable = |by: &str| Fault::new("PortUnavailable", format!("port {wanted} is taken by {by}"));
    let has_own_address = one.addresses.iter().all(Option::is_some);
    let is_http = one.listener.protocol == Protocol::Http;
    let is_tls = is_tls(one);
    let reserved = options.reserved(one.transport(), wanted);
    if has_own_address {
        // At an address of its own, a listener may use the ports of Ingresses.
        let is_served =
            one.transport() == Transport::Tcp && [options.http_port, options.https_port].contains(&wanted);
        return match reserved.filter(|_| !is_served) {
            Some(flag) => Err(unavailable(&format!("Forebay itself ({flag})"))),
            None => Ok(()),
        };
    }
    if one.transport() == Transport::Tcp {
        let is_own = |usual: u16, own: u16| wanted == usual || wanted == own;
        if is_http && is_own(80, options.http_port) {
            one.port = options.http_port;
            return Ok(());
        }
        if is_tls && is_own(443, options.https_port) {
            one.port = options.https_port;
            return Ok(());
        }
    }
    if let Some(flag) = reserved {
        return Err(unavailable(&format!("Forebay itself ({flag})")));
    }
    if streams.contains(&(one.transport(), wanted)) {
        return Err(unavailable("a TCP or UDP service of the settings"));
    }
    Ok(())
}

fn is_tls(one: &Effective<'_>) -> bool {
    matches!(one.listener.protocol, Protocol::Https | Protocol::Tls)
}

/// The reason why a listener conflicts with an earlier one of the same port.
fn conflict(first: &Effective<'_>, second: &Effective<'_>) -> Option<Fault> {
    let family = |protocol: &Protocol| match protocol {
        Protocol::Http => 0,
        Protocol::Https | Protocol::Tls => 1,
        Protocol::Tcp => 2,
        Protocol::Udp => 3,
        Protocol::Other(_) => 4,
    };
    let (ours, theirs) = (&second.listener.protocol, &first.listener.protocol);
    let name = &first.listener.name;
    let port = second.listener.port;
    if family(ours) != family(theirs) {
        let message = format!("listener {name} speaks {} at port {port} already", theirs.as_str());
        return Some(Fault::new("ProtocolConflict", message));
    }
    let is_for_hosts = family(ours) < 2;
    (!is_for_hosts || first.hostname == second.hostname).then(|| {
        let message = format!("listener {name} has the same port {port} and hostname");
        Fault::new("HostnameConflict", message)
    })
}

/// Whether a Gateway allows a set to add listeners.
fn allows(
    allowed: &AllowedListeners,
    gateway: &Sourced<Gateway>,
    set: &Sourced<ListenerSet>,
    inputs: &Inputs<'_>,
) -> bool {
    let Some(namespaces) = &allowed.namespaces else { return false };
    let from = namespaces.from.as_ref().unwrap_or(&FromNamespaces::None);
    is_allowed(from, namespaces.selector.as_ref(), gateway.namespace(), set.namespace(), inputs)
}

/// Whether an object of a namespace is allowed by an object of another one.
pub(super) fn is_allowed(
    from: &FromNamespaces,
    selector: Option<&LabelSelector>,
    own: &str,
    other: &str,
    inputs: &Inputs<'_>,
) -> bool {
    match from {
        FromNamespaces::All => true,
        FromNamespaces::Same => own == other,
        FromNamespaces::Selector => selector.is_some_and(|selector| {
            let namespace = inputs.gateway().namespaces.get(&NsName::new("", other));
            namespace.is_some_and(|namespace| {
                selector.selects(namespace.metadata.labels().unwrap_or(&Map::default()))
            })
        }),
        FromNamespaces::None | FromNamespaces::Other(_) => false,
    }
}
