//! Which connections are let in, and whom they and requests are counted for.
//!
//! Never in here: how clients are told from each other, and the table of them, which is `clients`.

use std::net::IpAddr;
use std::sync::Arc;

use model::{AbuseMode, ListenerId, Settings};
use observe::{Counter, Reason};

use crate::clients::ClientPlace;
use crate::clients::abuse::{ClientKey, Signal, Verdict};
use crate::worker::Worker;

/// Whether a peer speaks for others: its connections are theirs.
fn is_hop(settings: &Settings, peer: IpAddr) -> bool {
    let forwarded = &settings.forwarded;
    (forwarded.use_incoming || forwarded.real_ip)
        && forwarded.trusted.iter().any(|network| network.contains(&peer))
}

fn is_allowed(settings: &Settings, client: IpAddr) -> bool {
    settings.abuse.allowed.as_ref().is_some_and(|allowed| allowed.contains(client))
}

/// Whom a connection is counted for; none for a hop in front, and for clients that are allowed all.
fn of_connection(settings: &Settings, peer: IpAddr) -> Option<ClientKey> {
    (!is_hop(settings, peer) && !is_allowed(settings, peer)).then(|| ClientKey::of(peer))
}

/// Whom a request is counted for, which has come over a connection of a peer; none for those that are exempt.
#[inline]
pub(crate) fn of_request(settings: &Settings, client: IpAddr, peer: IpAddr) -> Option<ClientKey> {
    if is_allowed(settings, client) {
        return None;
    }
    // A hop that asks for itself, such as for its health check.
    let is_own = client == peer && is_hop(settings, client);
    (!is_own).then(|| ClientKey::of(client))
}

/// Notes that a client was too slow, if that is the reason of a fault.
#[cold]
pub(crate) fn note_fault(worker: &Worker, settings: &Settings, client: IpAddr, reason: Reason) {
    let is_slow = matches!(
        reason,
        Reason::HeadTimeout
            | Reason::HeadRate
            | Reason::BodyTimeout
            | Reason::BodyRate
            | Reason::SendTimeout
            | Reason::SendRate
            | Reason::HandshakeTimeout
    );
    if is_slow
        && settings.abuse.mode != AbuseMode::Off
        && let Some(client) = of_connection(settings, client)
    {
        worker.abuse.count(client, Signal::Slow);
    }
}

/// Counts a request of which not even the head could be used.
#[cold]
pub(crate) fn note_refused(worker: &Worker, settings: &Settings, peer: IpAddr, reason: Reason) {
    if settings.abuse.mode != AbuseMode::Off
        && let Some(client) = of_connection(settings, peer)
    {
        worker.abuse.count_requests(client, [1, 1]);
    }
    note_fault(worker, settings, peer, reason);
}

/// Notes that a connection has ended without a request, after a handshake or before.
#[cold]
pub(crate) fn note_unused(worker: &Worker, listener: ListenerId, peer: IpAddr, has_begun_handshake: bool) {
    let config = worker.config();
    let settings = config.settings();
    // Those that we close are nobody's fault.
    if settings.abuse.mode == AbuseMode::Off || worker.is_closing(listener) {
        return;
    }
    if let Some(client) = of_connection(settings, peer) {
        let signal = if has_begun_handshake { Signal::Handshakes } else { Signal::Unused };
        worker.abuse.count(client, signal);
    }
}

/// Lets a connection in, or says why not. Where its client has as many as it may, the one goes that has been idle for longest.
pub(crate) fn admit(worker: &Worker, peer: IpAddr) -> Result<Option<ClientPlace>, Reason> {
    let config = worker.config();
    let settings = config.settings();
    let max = settings.client.bounds.connections_per_client;
    if worker.abuse.is_quiet() && max.is_none() {
        return Ok(None);
    }
    let Some(client) = of_connection(settings, peer) else { return Ok(None) };
    if settings.abuse.mode != AbuseMode::Off
        && let Some(Verdict::Refuse { closes_connections: true, .. }) = worker.abuse.verdict(client)
    {
        let is_enforced = settings.abuse.mode == AbuseMode::Enforce;
        let counter = if is_enforced { Counter::AbuseClosed } else { Counter::AbuseWouldClose };
        worker.recorder.borrow().count(counter);
        if is_enforced {
            // Who goes on is not forgiven meanwhile.
            worker.abuse.count(client, Signal::Unused);
            return Err(Reason::AbusiveClient);
        }
    }
    let Some(max) = max.map(u32::from) else { return Ok(None) };
    let connections = &worker.clients.connections;
    if let Some(place) = connections.enter(client, max) {
        return Ok(Some(place));
    }
    if worker.deadlines.fire_idlest_of(client.bits()) {
        // Beside the one that is about to go.
        return Ok(connections.enter(client, u32::MAX));
    }
    connections.want(client, worker.workers());
    if worker.is_to_tell_of_client_connections() {
        tracing::warn!(%client, max, "a client has as many connections as it may; told once a minute");
    }
    Err(Reason::ClientConnections)
}

/// Closes idle connections of clients that want to open others at other workers.
pub(crate) fn close_wanted(worker: &Worker) {
    let connections = Arc::clone(&worker.clients.connections);
    connections.close_wanted(|client| worker.deadlines.fire_idlest_of(client.bits()));
}
