//! The hosts of Gateways for which Forebay obtains certificates.
//!
//! Never in here: the certificates, and whether a listener asks for one.

use model::HostName;

use super::effective::Effective;
use super::hostnames;
use super::listeners::Listeners;
use crate::objects::gateway_api::Protocol;
use crate::translate::Translation;
use crate::translate::claim::HostCertificate;
use crate::translate::ownership::{HostsOfIngresses, Owner};

/// A host for which a certificate is obtained.
pub(super) struct Wish {
    host: HostName,
    /// The Gateway or set with the listener, and whether it shares the ports of Ingresses.
    owner: Option<Owner>,
    is_shared: bool,
    /// A listener serves the host over HTTP.
    has_http: bool,
    told: Option<HostCertificate>,
}

/// The hosts of all listeners that are served, or would be with a certificate.
pub(super) fn of(listeners: &Listeners<'_>) -> Vec<Wish> {
    let usable = listeners.all.iter().filter(|one| one.refused.is_none() && !one.addresses.is_empty());
    let wish = |one: &Effective<'_>| {
        let obtained = one.obtained.as_ref()?;
        Some(Wish {
            host: one.hostname.clone(),
            owner: listeners.owner_of(&one.parent),
            is_shared: one.addresses.contains(&None),
            has_http: listeners.all.iter().any(|http| is_http_of(http, one)),
            told: obtained.told.clone(),
        })
    };
    usable.filter_map(wish).collect()
}

/// Whether a listener serves the host of another one over HTTP.
fn is_http_of(http: &Effective<'_>, one: &Effective<'_>) -> bool {
    http.refused.is_none()
        && http.listener.protocol == Protocol::Http
        && http.addresses.iter().any(|address| one.addresses.contains(address))
        && hostnames::covers(&http.hostname, &one.hostname)
}

/// Adds hosts to those of a translation. A host of an older Ingress of another namespace is left out: the
/// listener does not serve it.
pub(super) fn add(wishes: Vec<Wish>, names: &HostsOfIngresses, translation: &mut Translation) {
    let mut added = Vec::new();
    for Wish { host, owner, is_shared, has_http, told } in wishes {
        let ingress = names.get(&host).filter(|_| is_shared);
        let is_foreign = ingress.zip(owner).is_some_and(|(ingress, own)| ingress.owner.precedes(&own));
        let name = host.to_string();
        if is_foreign || !translation.acme.hosts.insert(name.clone()) {
            continue;
        }
        added.extend(told);
        if !has_http {
            translation.acme.by_handshake.insert(name);
        }
    }
    if !added.is_empty() {
        translation.certificates = translation.certificates.iter().cloned().chain(added).collect();
    }
}
