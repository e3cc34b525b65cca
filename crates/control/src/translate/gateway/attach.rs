//! Attachment of routes to listeners, and the hostnames of each attachment.
//!
//! Never in here: the contents of routes.

use model::HostName;

use super::conditions::Fault;
use super::effective::{Effective, ParentKey};
use super::hostnames::{self, Shared};
use super::kinds::RouteKind;
use super::listeners::{Listeners, is_allowed};
use crate::names::NsName;
use crate::objects::gateway_api::{Gateway, ListenerSet, ParentReference};
use crate::objects::{At, Resource};
use crate::translate::inputs::Inputs;

/// The properties of a route of any kind that decide about attachment.
pub(super) struct Candidate<'r> {
    pub(super) kind: RouteKind,
    pub(super) namespace: &'r str,
    pub(super) parents: &'r [At<ParentReference>],
    /// The hostnames; none for a kind without hostnames.
    pub(super) hostnames: Option<&'r [At<String>]>,
}

/// The result for a reference to a parent of this controller.
pub(super) struct Attached {
    /// The index of the reference among those of the route.
    pub(super) parent: usize,
    pub(super) key: ParentKey,
    /// The indices of the listeners with the names of the attachment, or the reason why no listener accepts
    /// the route.
    pub(super) listeners: Result<Vec<(usize, Vec<Shared>)>, Fault>,
}

/// Finds the listeners of each parent. Parents of other controllers, and those that do not exist, are left
/// out.
pub(super) fn attach(route: &Candidate<'_>, listeners: &Listeners<'_>, inputs: &Inputs<'_>) -> Vec<Attached> {
    let attached = |(at, parent): (usize, &At<ParentReference>)| {
        let key = key_of(&parent.value, route.namespace)?;
        let of_parent = match listeners.of_parent.get(&key) {
            Some(places) => places.as_slice(),
            None if is_known(&key, listeners) => &[],
            None => return None,
        };
        let found = find(route, &parent.value, of_parent, listeners, inputs);
        Some(Attached { parent: at, key, listeners: found })
    };
    route.parents.iter().enumerate().filter_map(attached).collect()
}

fn key_of(parent: &ParentReference, namespace: &str) -> Option<ParentKey> {
    let name = || NsName::new(parent.namespace.as_deref().unwrap_or(namespace), &*parent.name);
    if parent.is_kind(Gateway::KIND) {
        Some(ParentKey::Gateway(name()))
    } else {
        parent.is_kind(ListenerSet::KIND).then(|| ParentKey::Set(name()))
    }
}

/// Whether a parent without listeners belongs to this controller.
fn is_known(key: &ParentKey, listeners: &Listeners<'_>) -> bool {
    match key {
        ParentKey::Gateway(name) => listeners.gateways.iter().any(|it| it.object.key() == *name),
        ParentKey::Set(name) => listeners.sets.iter().any(|it| it.object.key() == *name),
    }
}

fn find(
    route: &Candidate<'_>,
    parent: &ParentReference,
    of_parent: &[usize],
    listeners: &Listeners<'_>,
    inputs: &Inputs<'_>,
) -> Result<Vec<(usize, Vec<Shared>)>, Fault> {
    let is_meant = |one: &Effective<'_>| {
        parent.section_name.as_deref().is_none_or(|name| *name == *one.listener.name)
            && parent.port.is_none_or(|port| port == one.listener.port)
    };
    let one = |&at: &usize| (at, &listeners.all[at]);
    let meant: Vec<_> =
        of_parent.iter().map(one).filter(|(_, one)| is_meant(one) && one.takes_routes()).collect();
    if meant.is_empty() {
        let message = "no listener that is accepted has the name and port that the reference asks for";
        return Err(Fault::new("NoMatchingParent", message));
    }
    let is_allowed = |(_, one): &(usize, &Effective<'_>)| {
        let namespaces = &one.listener.allowed_routes.namespaces;
        one.kinds.contains(&route.kind)
            && is_allowed(
                &namespaces.from,
                namespaces.selector.as_ref(),
                one.namespace,
                route.namespace,
                inputs,
            )
    };
    let allowing: Vec<_> = meant.into_iter().filter(is_allowed).collect();
    if allowing.is_empty() {
        let message = format!("no listener allows {}s of namespace {}", route.kind.name(), route.namespace);
        return Err(Fault::new("NotAllowedByListeners", message));
    }
    let names = |(at, one): (usize, &Effective<'_>)| {
        let names = names(route.hostnames, &one.hostname);
        (!names.is_empty()).then_some((at, names))
    };
    let found: Vec<_> = allowing.into_iter().filter_map(names).collect();
    if found.is_empty() {
        let message = "no listener has a hostname in common with the route";
        return Err(Fault::new("NoMatchingListenerHostname", message));
    }
    Ok(found)
}

/// The names for which a listener accepts a route with these hostnames. Invalid hostnames are left out, and a
/// route without any is for all names.
fn names(hostnames: Option<&[At<String>]>, listener: &HostName) -> Vec<Shared> {
    let Some(hostnames) = hostnames else { return vec![Shared::of(listener.clone(), listener)] };
    if hostnames.is_empty() {
        return vec![Shared::of(listener.clone(), &HostName::Any)];
    }
    let parsed = hostnames.iter().filter_map(|name| HostName::parse_with_suffix(&name.value).ok());
    let mut names: Vec<Shared> = Vec::new();
    for asked in parsed {
        let Some(name) = hostnames::intersection(listener, &asked) else { continue };
        let new = Shared::of(name, &asked);
        match names.iter_mut().find(|known| known.name == new.name) {
            Some(known) => known.width = known.width.min(new.width),
            None => names.push(new),
        }
    }
    names
}
