//! The admission of connections, and the clients for which connections and requests are counted.
//!
//! Never in here: how clients are told from each other, and the table of them, which is `clients`.

use std::net::IpAddr;
use std::sync::Arc;

use clients::ClientConnection;
use clients::abuse::{ClientKey, Signal, Verdict};
use model::overload::Mode;
use model::{ListenerId, Settings};
use observe::{Counter, Reason};
use reactor::TcpStream;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::io::buffer::Buffer;
use crate::limits::REFUSED_BYTES_READ;
use crate::replicas;
use crate::request::conn::{Conn, Peer};
use crate::request::head::HeadEdits;
use crate::request::reply::Answer;
use crate::worker::Worker;

/// Whether a peer speaks for others: its connections are theirs. Who may send PROXY headers does, unless it
/// is one of them that names it.
fn is_hop(settings: &Settings, peer: Peer) -> bool {
    let forwarded = &settings.forwarded;
    let sends_proxy_headers = settings.client.proxy_header_timeout.is_some() && !peer.is_named;
    (forwarded.use_incoming || forwarded.real_ip || sends_proxy_headers)
        && forwarded.trusted.iter().any(|network| network.contains(&peer.address))
}

pub(crate) fn is_allowed(settings: &Settings, client: IpAddr) -> bool {
    settings.abuse.allowed.as_ref().is_some_and(|allowed| allowed.contains(client))
}

/// Whom a connection is counted for; none for a hop in front, and for clients that are allowed all.
fn of_connection(settings: &Settings, peer: Peer) -> Option<ClientKey> {
    (!is_hop(settings, peer) && !is_allowed(settings, peer.address)).then(|| ClientKey::of(peer.address))
}

/// Whom a request is counted for, which has come over a connection of a peer; none for those that are exempt.
#[inline]
pub(crate) fn of_request(settings: &Settings, client: IpAddr, peer: Peer) -> Option<ClientKey> {
    if is_allowed(settings, client) {
        return None;
    }
    // A hop that asks for itself, such as for its health check.
    let is_own = client == peer.address && is_hop(settings, peer);
    (!is_own).then(|| ClientKey::of(client))
}

/// Whether a fault is that the client was too slow.
pub(crate) fn is_slowness(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::HeadTimeout
            | Reason::HeadRate
            | Reason::BodyTimeout
            | Reason::BodyRate
            | Reason::SendTimeout
            | Reason::SendRate
            | Reason::HandshakeTimeout
    )
}

/// Counts a connection that has failed for this reason before there was a request.
#[cold]
pub(crate) fn note_failed(worker: &Worker, peer: Peer, reason: Reason) {
    worker.recorder.borrow().reason(reason);
    note_slowness(worker, worker.config().settings(), peer, reason);
}

/// Notes that a client was too slow, if that is the reason of a fault.
fn note_slowness(worker: &Worker, settings: &Settings, peer: Peer, reason: Reason) {
    if is_slowness(reason)
        && settings.abuse.general.mode != Mode::Off
        && let Some(client) = of_connection(settings, peer)
    {
        worker.abuse.count(client, Signal::Slow);
    }
}

/// Counts a request of which not even the head could be used.
#[cold]
pub(crate) fn note_refused(worker: &Worker, settings: &Settings, peer: Peer, reason: Reason) {
    note_broken_off(worker, settings, peer);
    note_slowness(worker, settings, peer, reason);
}

/// Counts a request that its client broke off before it was looked at.
#[cold]
pub(crate) fn note_broken_off(worker: &Worker, settings: &Settings, peer: Peer) {
    if settings.abuse.general.mode != Mode::Off
        && let Some(client) = of_connection(settings, peer)
    {
        worker.abuse.count_requests(client, [1, 1]);
    }
}

/// Notes that a connection has ended without a request, after a handshake or before.
#[cold]
pub(crate) fn note_unused(worker: &Worker, listener: ListenerId, peer: Peer, has_begun_handshake: bool) {
    let config = worker.config();
    let settings = config.settings();
    // Connections that Forebay closes are nobody's fault.
    if settings.abuse.general.mode == Mode::Off || worker.is_closing(listener) {
        return;
    }
    if let Some(client) = of_connection(settings, peer) {
        let signal = if has_begun_handshake { Signal::Handshakes } else { Signal::Unused };
        worker.abuse.count(client, signal);
    }
}

/// Lets a connection in, or says why not. Where its client has as many as it may, the one goes that has been
/// idle for longest.
pub(crate) fn admit(worker: &Worker, peer: Peer) -> Result<Option<ClientConnection>, Reason> {
    let config = worker.config();
    let settings = config.settings();
    let max = settings.client.bounds.connections_per_client;
    if worker.abuse.is_quiet() && max.is_none() {
        return Ok(None);
    }
    let client =
        of_connection(settings, peer).filter(|_| !replicas::is_other(&config.snapshot, peer.address));
    let Some(client) = client else { return Ok(None) };
    if settings.abuse.general.mode != Mode::Off
        && let Some(Verdict::Refuse { closes_connections: true, .. }) = worker.abuse.verdict(client)
    {
        let is_enforced = settings.abuse.general.mode == Mode::Enforce;
        let counter = if is_enforced { Counter::AbuseClosed } else { Counter::AbuseWouldClose };
        worker.recorder.borrow().count(counter);
        if is_enforced {
            // A client that goes on is not forgiven meanwhile.
            worker.abuse.count(client, Signal::Unused);
            return Err(Reason::AbusiveClient);
        }
    }
    let Some(max) = max.map(u32::from) else { return Ok(None) };
    let connections = &worker.clients.connections;
    if let Some(place) = connections.open(client, max) {
        return Ok(Some(place));
    }
    let makes_room = worker.deadlines.fire_idlest_of(client.bits());
    if worker.notices.client_connections.is_due(worker.clock.now()) {
        tracing::warn!(
            %client,
            max,
            refused = !makes_room,
            "a client has as many connections as it may (forebay-connections-per-client); told once a minute"
        );
    }
    if makes_room {
        // Beside the one that is about to go.
        return Ok(connections.open(client, u32::MAX));
    }
    connections.request_eviction(client, worker.workers());
    Err(Reason::ClientConnections)
}

/// The answer to a client that is about to speak TLS: a fatal alert in clear, `internal_error` (RFC 8446
/// sections 5.1 and 6.2), which says that it is not its fault.
const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Answers a client for which there is no room, without waiting for anything: it may not get to hear it. One
/// that is about to speak TLS could not read it, and gets an alert.
pub(crate) fn turn_away(worker: &Worker, listener: ListenerId, stream: &TcpStream, reason: Reason) {
    if listener.is_tls() {
        let _ = send(stream, &TLS_ALERT, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let _ = recv(stream, &mut [0; REFUSED_BYTES_READ], RecvFlags::DONTWAIT);
        return;
    }
    let answer = Answer::to(reason);
    let mut bytes = Buffer::small(&worker.buffers);
    answer.write_head(&mut bytes, &worker.date(), Some("close"), &HeadEdits::default());
    bytes.extend(answer.body());
    let _ = send(stream, bytes.data(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = recv(stream, &mut [0; REFUSED_BYTES_READ], RecvFlags::DONTWAIT);
}

/// Closes idle connections of clients that want to open others at other workers.
pub(crate) fn close_wanted(worker: &Worker) {
    let connections = Arc::clone(&worker.clients.connections);
    connections.evict(|client| worker.deadlines.fire_idlest_of(client.bits()));
}

// Counted here, so that a connection itself knows nothing of what is held against clients.
impl Drop for Conn {
    fn drop(&mut self) {
        self.worker.abuse.conclude(&self.tally);
        if self.requests.get() == 0 && !self.is_turned_away.get() {
            let has_begun_handshake = self.has_begun_handshake.get();
            note_unused(&self.worker, self.listener, self.counted_peer(), has_begun_handshake);
        }
    }
}
