//! How many connections each client has, for all workers together; counted only where there is a bound.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::abuse::ClientKey;
use crate::limits::{CLIENT_CONNECTIONS_SHARDS, CLIENT_EVICTIONS_MAX};

/// Connections by client.
pub(crate) struct ClientConnections {
    shards: Box<[Mutex<HashMap<ClientKey, u32>>]>,
    hasher: RandomState,
    /// Clients that have too many, and of whom an idle one is to be closed by whichever worker has one; and how many workers may still look.
    wanted: Mutex<Vec<(ClientKey, u32)>>,
    is_any_wanted: AtomicBool,
}

/// A connection that is counted, until it is dropped.
pub(crate) struct ClientPlace {
    connections: Arc<ClientConnections>,
    client: ClientKey,
}

impl Default for ClientConnections {
    fn default() -> Self {
        let shards = (0..CLIENT_CONNECTIONS_SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            hasher: RandomState::new(),
            wanted: Mutex::default(),
            is_any_wanted: AtomicBool::new(false),
        }
    }
}

impl ClientConnections {
    fn shard(&self, client: ClientKey) -> &Mutex<HashMap<ClientKey, u32>> {
        &self.shards[self.hasher.hash_one(client) as usize % CLIENT_CONNECTIONS_SHARDS]
    }

    /// Counts another connection of a client that may have so many; none where it has.
    pub(crate) fn enter(self: &Arc<Self>, client: ClientKey, max: u32) -> Option<ClientPlace> {
        let mut open = self.shard(client).lock();
        let count = open.entry(client).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(ClientPlace { connections: Arc::clone(self), client })
    }

    /// Has another worker close an idle connection of a client, at its next tick.
    pub(crate) fn want(&self, client: ClientKey, workers: u32) {
        let mut wanted = self.wanted.lock();
        if wanted.len() < CLIENT_EVICTIONS_MAX && !wanted.iter().any(|(known, _)| *known == client) {
            wanted.push((client, workers));
            self.is_any_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Closes idle connections of a worker that are wanted; `close` says whether there was one of a client.
    pub(crate) fn close_wanted(&self, close: impl Fn(ClientKey) -> bool) {
        if !self.is_any_wanted.load(Ordering::Relaxed) {
            return;
        }
        // Other workers wait for this lock, so that nothing is looked for under it.
        let mut clients: Vec<ClientKey> = Vec::new();
        self.keep_wanted(|client, looks| {
            clients.push(*client);
            *looks = looks.saturating_sub(1);
            *looks > 0
        });
        clients.retain(|client| close(*client));
        if !clients.is_empty() {
            let closed: HashSet<_> = clients.into_iter().collect();
            self.keep_wanted(|client, _| !closed.contains(client));
        }
    }

    fn keep_wanted(&self, mut keep: impl FnMut(&ClientKey, &mut u32) -> bool) {
        let mut wanted = self.wanted.lock();
        wanted.retain_mut(|(client, looks)| keep(client, looks));
        self.is_any_wanted.store(!wanted.is_empty(), Ordering::Relaxed);
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut open = self.connections.shard(self.client).lock();
        if let Some(count) = open.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn each_client_has_so_many_places() {
        let connections = Arc::new(ClientConnections::default());
        let [one, other] = [1, 2].map(|bits| ClientKey::of(IpAddr::V4(Ipv4Addr::from_bits(bits))));
        let places = [connections.enter(one, 2).unwrap(), connections.enter(one, 2).unwrap()];
        assert!(connections.enter(one, 2).is_none() && connections.enter(other, 2).is_some());
        drop(places);
        assert!(connections.enter(one, 2).is_some());
        assert!(connections.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn workers_are_asked_in_turn_until_one_has_an_idle_connection() {
        let connections = ClientConnections::default();
        let client = ClientKey::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let asked = Cell::new(0);
        let has = |found: bool| {
            connections.close_wanted(|wanted| {
                asked.set(asked.get() + 1);
                assert_eq!(wanted, client);
                found
            });
        };
        has(true);
        assert_eq!(asked.get(), 0, "nobody is wanted");
        connections.want(client, 3);
        connections.want(client, 3);
        [false, true, true].into_iter().for_each(has);
        assert_eq!(asked.get(), 2);
        connections.want(client, 3);
        [false; 5].into_iter().for_each(has);
        assert_eq!(asked.get(), 5, "each worker once");
    }

    #[test]
    fn no_worker_waits_while_another_looks() {
        let connections = ClientConnections::default();
        let [one, other] = [1, 2].map(|bits| ClientKey::of(IpAddr::V4(Ipv4Addr::from_bits(bits))));
        connections.want(one, 2);
        connections.close_wanted(|client| {
            assert!(connections.wanted.try_lock().is_some());
            connections.want(other, 1);
            client == one
        });
        let left: Vec<_> = connections.wanted.lock().clone();
        assert_eq!(left, [(other, 1)], "one that is wanted meanwhile");
    }
}
