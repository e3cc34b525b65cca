//! Open connections by client, for all workers together; counted only where they are bounded.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::abuse::ClientKey;
use crate::limits::{CLIENT_CONNECTIONS_SHARDS, CLIENT_EVICTIONS_MAX};

/// Open connections by client.
pub struct ClientConnections {
    shards: Box<[Mutex<HashMap<ClientKey, u32>>]>,
    hasher: RandomState,
    /// Clients at their bound, of which an idle connection is to be closed, each with the number of workers
    /// that have yet to look for one.
    evictions: Mutex<Vec<(ClientKey, u32)>>,
    /// There are evictions: a look without the lock.
    has_evictions: AtomicBool,
}

/// One of the open connections of a client, until this is dropped.
pub struct ClientConnection {
    connections: Arc<ClientConnections>,
    client: ClientKey,
}

impl Default for ClientConnections {
    fn default() -> Self {
        let shards = (0..CLIENT_CONNECTIONS_SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            hasher: RandomState::new(),
            evictions: Mutex::default(),
            has_evictions: AtomicBool::new(false),
        }
    }
}

impl ClientConnections {
    fn shard(&self, client: ClientKey) -> &Mutex<HashMap<ClientKey, u32>> {
        &self.shards[self.hasher.hash_one(client) as usize % CLIENT_CONNECTIONS_SHARDS]
    }

    /// Counts a connection of a client; none if it has `max` already.
    pub fn open(self: &Arc<Self>, client: ClientKey, max: u32) -> Option<ClientConnection> {
        let mut open = self.shard(client).lock();
        let count = open.entry(client).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(ClientConnection { connections: Arc::clone(self), client })
    }

    /// Requests that any of so many workers closes an idle connection of a client at its next tick.
    pub fn request_eviction(&self, client: ClientKey, workers: u32) {
        let mut evictions = self.evictions.lock();
        if evictions.len() < CLIENT_EVICTIONS_MAX && !evictions.iter().any(|(known, _)| *known == client) {
            evictions.push((client, workers));
            self.has_evictions.store(true, Ordering::Relaxed);
        }
    }

    /// Carries out the evictions that were requested, for one worker: `close` closes an idle connection of a
    /// client, and returns false if the worker has none.
    pub fn evict(&self, close: impl Fn(ClientKey) -> bool) {
        if !self.has_evictions.load(Ordering::Relaxed) {
            return;
        }
        // Workers contend for the lock: it is not held while `close` searches.
        let mut clients: Vec<ClientKey> = Vec::new();
        self.retain_evictions(|client, workers| {
            clients.push(*client);
            *workers = workers.saturating_sub(1);
            *workers > 0
        });
        clients.retain(|client| close(*client));
        if !clients.is_empty() {
            let closed: HashSet<_> = clients.into_iter().collect();
            self.retain_evictions(|client, _| !closed.contains(client));
        }
    }

    fn retain_evictions(&self, mut keep: impl FnMut(&ClientKey, &mut u32) -> bool) {
        let mut evictions = self.evictions.lock();
        evictions.retain_mut(|(client, workers)| keep(client, workers));
        self.has_evictions.store(!evictions.is_empty(), Ordering::Relaxed);
    }
}

impl Drop for ClientConnection {
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
    fn connections_of_each_client_are_bounded() {
        let connections = Arc::new(ClientConnections::default());
        let [one, other] = [1, 2].map(|bits| ClientKey::of(IpAddr::V4(Ipv4Addr::from_bits(bits))));
        let open = [connections.open(one, 2).unwrap(), connections.open(one, 2).unwrap()];
        assert!(connections.open(one, 2).is_none() && connections.open(other, 2).is_some());
        drop(open);
        assert!(connections.open(one, 2).is_some());
        assert!(connections.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn workers_are_asked_in_turn_until_one_has_an_idle_connection() {
        let connections = ClientConnections::default();
        let client = ClientKey::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let asked = Cell::new(0);
        let has = |found: bool| {
            connections.evict(|wanted| {
                asked.set(asked.get() + 1);
                assert_eq!(wanted, client);
                found
            });
        };
        has(true);
        assert_eq!(asked.get(), 0, "no eviction is requested");
        connections.request_eviction(client, 3);
        connections.request_eviction(client, 3);
        [false, true, true].into_iter().for_each(has);
        assert_eq!(asked.get(), 2);
        connections.request_eviction(client, 3);
        [false; 5].into_iter().for_each(has);
        assert_eq!(asked.get(), 5, "each worker once");
    }

    #[test]
    fn no_worker_waits_while_another_looks() {
        let connections = ClientConnections::default();
        let [one, other] = [1, 2].map(|bits| ClientKey::of(IpAddr::V4(Ipv4Addr::from_bits(bits))));
        connections.request_eviction(one, 2);
        connections.evict(|client| {
            assert!(connections.evictions.try_lock().is_some());
            connections.request_eviction(other, 1);
            client == one
        });
        let left: Vec<_> = connections.evictions.lock().clone();
        assert_eq!(left, [(other, 1)], "one that is requested meanwhile");
    }
}
