//! What is served for Gateways beside what is served for Ingresses: at the ports of the latter both share hosts.
//!
//! Never in here: how hosts are made.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Host, HostList, HostName, Listener, Model, Protocol};

use super::hosts::{Assembled, Served, Slot};
use crate::options::Options;
use crate::translate::claim::RouteOrigin;

/// Hosts that both have, kept from one translation to the next.
#[derive(Default)]
pub(super) struct Kept(HashMap<(bool, HostName), Shared>);

struct Shared {
    of_ingresses: Arc<Host>,
    of_gateways: Arc<Host>,
    served: Served,
}

/// Adds what is served for Gateways to a model. `origins` are those of its hosts.
pub(super) fn join(
    assembled: Assembled,
    options: &Options,
    model: &mut Model,
    origins: &mut Vec<Arc<[RouteOrigin]>>,
    kept: &mut Kept,
) {
    let Assembled { mut hosts, streams } = assembled;
    let before = std::mem::take(kept);
    let mut own = |is_tls: bool, port: u16| hosts.remove(&Slot { address: None, port, is_tls });
    let gateways = [own(false, options.http_port), own(true, options.https_port)];
    if gateways.iter().any(Option::is_some) {
        let base: Vec<Served> = {
            let hosts = model
                .listeners
                .first()
                .and_then(Listener::hosts)
                .into_iter()
                .flat_map(|it| it.iter().cloned());
            hosts.zip(std::mem::take(origins)).collect()
        };
        for (at, of_gateways) in gateways.into_iter().enumerate() {
            let is_tls = at == 1;
            let all = add(&base, of_gateways.unwrap_or_default(), is_tls, &before, kept);
            let (list, of_list) = unzipped(all);
            origins.extend(of_list);
            model.listeners[at].protocol = protocol(is_tls, list);
        }
    }
    for (place, (slot, hosts)) in (2..).zip(hosts) {
        let (list, of_list) = unzipped(hosts);
        origins.extend(of_list);
        let listener =
            Listener { address: slot.address, port: slot.port, protocol: protocol(slot.is_tls, list) };
        model.listeners.insert(place, listener);
    }
    model.listeners.extend(streams);
}

fn protocol(is_tls: bool, list: HostList) -> Protocol {
    if is_tls { Protocol::Https(list) } else { Protocol::Http(list) }
}

fn unzipped(served: Vec<Served>) -> (HostList, Vec<Arc<[RouteOrigin]>>) {
    let (hosts, origins): (Vec<_>, Vec<_>) = served.into_iter().unzip();
    (Arc::new(hosts), origins)
}

/// The hosts of both. One that both have keeps the TLS and the names that Ingresses ask for, and their routes come first.
fn add(
    base: &[Served],
    of_gateways: Vec<Served>,
    is_tls: bool,
    before: &Kept,
    kept: &mut Kept,
) -> Vec<Served> {
    let mut all = base.to_vec();
    let places: HashMap<&HostName, usize> =
        base.iter().zip(0..).map(|((host, _), at)| (&host.name, at)).collect();
    for (host, origins) in of_gateways {
        match places.get(&host.name) {
            None => all.push((host, origins)),
            Some(&at) => all[at] = shared(&base[at], (host, origins), is_tls, before, kept),
        }
    }
    all
}

fn shared(own: &Served, other: Served, is_tls: bool, before: &Kept, kept: &mut Kept) -> Served {
    let ((own, own_origins), (other, other_origins)) = (own, other);
    let key = (is_tls, own.name.clone());
    let is_same =
        |old: &&Shared| Arc::ptr_eq(&old.of_ingresses, own) && Arc::ptr_eq(&old.of_gateways, &other);
    let make = || {
        let host = Host {
            routes: own.routes.iter().chain(&other.routes).cloned().collect(),
            wider: other.wider.clone(),
            ..(**own).clone()
        };
        (Arc::new(host), own_origins.iter().chain(other_origins.iter()).cloned().collect())
    };
    let served = before.0.get(&key).filter(is_same).map_or_else(make, |old| old.served.clone());
    let of_ingresses = Arc::clone(own);
    kept.0.insert(key, Shared { of_ingresses, of_gateways: other, served: served.clone() });
    served
}
