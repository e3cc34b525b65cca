//! The replicas: the endpoints of Forebay's own Service.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use routing::Snapshot;
use wire::rendezvous;

use crate::upstream::Endpoint;
use crate::worker::{Worker, WorkerConfig};

/// The other replicas, as a worker reaches them; none where nothing is shared.
pub(super) fn others<'a>(
    worker: &Worker,
    config: &'a WorkerConfig,
) -> impl Iterator<Item = &'a Rc<Endpoint>> {
    let replicas = config.settings().replicas.as_ref();
    replicas.into_iter().flat_map(|replicas| {
        let members = worker.cluster(config, replicas.cluster).members();
        let endpoints = members.iter().map(|member| &member.endpoint);
        endpoints.filter(|endpoint| endpoint.address.ip() != replicas.own)
    })
}

/// All other replicas, terminating ones included, as a worker reaches them.
pub(super) fn everyone(worker: &Worker, config: &WorkerConfig) -> Vec<Rc<Endpoint>> {
    let Some(replicas) = &config.settings().replicas else { return Vec::new() };
    let (protocol, _) = worker.pool.protocols(config.snapshot.cluster(replicas.cluster));
    let endpoint = |address| worker.pool.endpoint(address, &protocol);
    addresses(&config.snapshot).into_iter().map(endpoint).collect()
}

/// The replica that is the home of a key; none where that is this one.
pub(crate) fn home<'a>(worker: &Worker, config: &'a WorkerConfig, key: &[u8]) -> Option<&'a Rc<Endpoint>> {
    let own = config.settings().replicas.as_ref()?.own;
    let addresses = others(worker, config).map(|endpoint| endpoint.address.ip());
    let home: IpAddr = rendezvous::home(key, addresses.chain([own]))?;
    others(worker, config).find(|endpoint| endpoint.address.ip() == home)
}

/// Whether an address is another replica's.
pub(crate) fn is_other(snapshot: &Snapshot, address: IpAddr) -> bool {
    snapshot.settings.replicas.as_ref().is_some_and(|replicas| {
        let endpoints = &snapshot.cluster(replicas.cluster).endpoints;
        address != replicas.own && endpoints.iter().any(|endpoint| endpoint.address.ip() == address)
    })
}

/// The addresses of the other replicas, terminating ones included.
pub fn addresses(snapshot: &Snapshot) -> Vec<SocketAddr> {
    let Some(replicas) = &snapshot.settings.replicas else { return Vec::new() };
    let all = snapshot.cluster(replicas.cluster).endpoints.iter().map(|endpoint| endpoint.address);
    all.filter(|address| address.ip() != replicas.own).collect()
}

/// The addresses of all other replicas that are listed, also of those that start or stop and get no requests.
pub(crate) fn listed(snapshot: &Snapshot) -> impl Iterator<Item = IpAddr> {
    let unready = snapshot.settings.replicas.as_ref().map(|replicas| replicas.unready.iter().copied());
    addresses(snapshot).into_iter().map(|address| address.ip()).chain(unready.into_iter().flatten())
}
