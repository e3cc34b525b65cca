//! The Secrets and `ConfigMap`s that the Gateway API's objects of our classes name. The translation decides
//! whether a grant allows a reference.

use std::collections::BTreeSet;

use super::named::Named;
use crate::index::Index;
use crate::names::NsName;
use crate::objects::gateway_api::{BackendTlsPolicy, Gateway, Listener, ListenerSet, ObjectReference};
use crate::objects::{At, ForebayPolicy, Resource, Sourced};
use crate::translate::gateway::report::CONTROLLER;
use crate::translate::policy::kinds::FieldKind;
use crate::translate::policy::read;

/// Calls `found` for each object with references, and passes the objects that it names.
pub(super) fn each(index: &Index, mut found: impl FnMut(&'static str, NsName, BTreeSet<Named>)) {
    let stores = &index.gateway;
    if !stores.classes.iter().any(|class| class.object.spec.controller_name == CONTROLLER) {
        return;
    }
    for gateway in stores.gateways.iter().filter(|gateway| is_ours(gateway, index)) {
        found(Gateway::KIND, gateway.key(), of_gateway(gateway));
    }
    for set in stores.listener_sets.iter().filter(|set| belongs_to_ours(set, index)) {
        let names = of_listeners(&set.object.spec.listeners, set.namespace());
        found(ListenerSet::KIND, set.key(), names.collect());
    }
    for policy in stores.backend_tls_policies.iter() {
        let authorities = &policy.object.spec.validation.ca_certificate_refs;
        let names = authorities.iter().filter_map(|name| named(&name.value, "ConfigMap", policy.namespace()));
        found(BackendTlsPolicy::KIND, policy.key(), names.collect());
    }
    for policy in stores.forebay_policies.iter() {
        found(ForebayPolicy::KIND, policy.key(), of_policy(policy));
    }
}

fn is_ours(gateway: &Gateway, index: &Index) -> bool {
    let class = NsName::new("", gateway.spec.gateway_class_name.value.as_str());
    index.gateway.classes.get(&class).is_some_and(|class| class.object.spec.controller_name == CONTROLLER)
}

fn belongs_to_ours(set: &Sourced<ListenerSet>, index: &Index) -> bool {
    let parent = &set.object.spec.parent_ref.value;
    let namespace = parent.namespace.as_deref().unwrap_or(set.namespace());
    let gateway = index.gateway.gateways.get(&NsName::new(namespace, &*parent.name));
    gateway.is_some_and(|gateway| is_ours(gateway, index))
}

fn of_gateway(gateway: &Sourced<Gateway>) -> BTreeSet<Named> {
    let namespace = gateway.namespace();
    let spec = &gateway.object.spec;
    let frontend = spec.tls.iter().filter_map(|tls| tls.frontend.as_ref());
    let frontend = frontend.flat_map(|tls| {
        let per_port = tls.per_port.iter().map(|port| &port.tls);
        std::iter::once(&tls.default).chain(per_port)
    });
    let authorities = frontend.filter_map(|tls| tls.validation.as_ref());
    let authorities = authorities.flat_map(|validation| &validation.ca_certificate_refs);
    let authorities = authorities.filter_map(|name| named(&name.value, "ConfigMap", namespace));
    let backend = spec.tls.iter().filter_map(|tls| tls.backend.as_ref()?.client_certificate_ref.as_ref());
    let backend = backend.filter_map(|name| named(&name.value, "Secret", namespace));
    of_listeners(&spec.listeners, namespace).chain(authorities).chain(backend).collect()
}

fn of_listeners<'a>(listeners: &'a [At<Listener>], namespace: &'a str) -> impl Iterator<Item = Named> + 'a {
    let certificates = listeners.iter().filter_map(|listener| listener.value.tls.as_ref());
    let certificates = certificates.flat_map(|tls| &tls.certificate_refs);
    certificates.filter_map(move |name| named(&name.value, "Secret", namespace))
}

/// The objects that the fields of a policy name.
fn of_policy(policy: &Sourced<ForebayPolicy>) -> BTreeSet<Named> {
    let named = read::names(policy).into_iter().map(|(kind, key)| match kind {
        FieldKind::Secret => Named::secret(key),
        _ => Named::configmap(key),
    });
    named.collect()
}

/// The Secret or `ConfigMap` of a reference from a namespace; `kind` is the default kind of the reference.
fn named(reference: &ObjectReference, kind: &str, namespace: &str) -> Option<Named> {
    if !reference.group().is_empty() {
        return None;
    }
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    let key = NsName::new(namespace, &*reference.name);
    match reference.kind_or(kind) {
        "Secret" => Some(Named::secret(key)),
        "ConfigMap" => Some(Named::configmap(key)),
        _ => None,
    }
}
