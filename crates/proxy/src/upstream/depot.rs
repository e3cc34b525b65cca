//! Where idle connections wait: a shelf for each worker and endpoint. The one thing of a worker that others may reach into.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::connect::Connection;
use super::protocol::Target;
use crate::tls::upstream::Profiles;

/// The shelves of all endpoints, shared by all workers.
pub(crate) struct Depot {
    workers: usize,
    endpoints: Mutex<HashMap<Target, Arc<Shelves>>>,
    /// What there is of TLS towards endpoints.
    pub(crate) profiles: Profiles,
}

/// The idle connections to one endpoint.
pub(crate) struct Shelves {
    /// So that a worker that finds its own shelf empty need not lock the others' to learn that they are, too.
    idle: AtomicUsize,
    /// One per worker; the connection used last is the last. The lock is free unless somebody steals.
    by_worker: Box<[Mutex<Vec<Connection>>]>,
}

impl Depot {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { workers, endpoints: Mutex::default(), profiles: Profiles::default() })
    }

    /// The shelves of an endpoint. Not for the path of a request.
    pub(crate) fn shelves(&self, target: &Target) -> Arc<Shelves> {
        let mut endpoints = self.endpoints.lock();
        let shelves = endpoints.entry(target.clone()).or_insert_with(|| Shelves::new(self.workers));
        Arc::clone(shelves)
    }

    /// Forgets endpoints that no worker knows any more.
    pub(crate) fn sweep(&self) {
        self.endpoints.lock().retain(|_, shelves| Arc::strong_count(shelves) > 1);
        self.profiles.sweep();
    }
}

impl Shelves {
    fn new(workers: usize) -> Arc<Self> {
        let by_worker = (0..workers).map(|_| Mutex::default()).collect();
        Arc::new(Self { idle: AtomicUsize::new(0), by_worker })
    }

    /// Puts a connection on a worker's shelf; with a cap, returns what has to go for it.
    pub(crate) fn put(
        &self,
        worker: usize,
        connection: Connection,
        cap: Option<usize>,
    ) -> Option<Connection> {
        let mut shelf = self.by_worker[worker].lock();
        shelf.push(connection);
        let evicted = cap.filter(|&cap| shelf.len() > cap).map(|_| shelf.remove(0));
        if evicted.is_none() {
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
        evicted
    }

    /// Takes the connection that the worker used last.
    pub(crate) fn take(&self, worker: usize) -> Option<Connection> {
        self.counted(self.by_worker[worker].lock().pop())
    }

    /// Takes a connection that another worker has left idle the longest: it is the one that it will miss the least.
    pub(crate) fn steal(&self, worker: usize) -> Option<Connection> {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let count = self.by_worker.len();
        (1..count).map(|distance| (worker + distance) % count).find_map(|victim| {
            let mut shelf = self.by_worker[victim].try_lock()?;
            self.counted(if shelf.is_empty() { None } else { Some(shelf.remove(0)) })
        })
    }

    /// Keeps only some of a worker's connections; returns the others.
    pub(crate) fn sweep(&self, worker: usize, mut keep: impl FnMut(&Connection) -> bool) -> Vec<Connection> {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let removed: Vec<Connection> =
            self.by_worker[worker].lock().extract_if(.., |connection| !keep(connection)).collect();
        self.idle.fetch_sub(removed.len(), Ordering::Relaxed);
        removed
    }

    fn counted(&self, taken: Option<Connection>) -> Option<Connection> {
        if taken.is_some() {
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }
}
