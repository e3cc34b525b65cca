//! Idle connections to endpoints, in a list for each worker and endpoint. It is the one thing of a worker that other workers reach into.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::connect::Connection;
use super::protocol::Target;
use crate::tls::upstream::ConnectorConfigs;

/// The idle connections to all endpoints, shared by all workers.
pub(crate) struct SharedPool {
    workers: usize,
    endpoints: Mutex<HashMap<Target, Arc<IdleConnections>>>,
    /// What there is of TLS towards endpoints.
    pub(crate) profiles: ConnectorConfigs,
}

/// The idle connections to one endpoint.
pub(crate) struct IdleConnections {
    /// One per worker.
    by_worker: Box<[WorkerIdle]>,
}

/// The idle connections of one worker. On cache lines of its own (two, since CPUs fetch them in pairs), so that what a worker does for
/// each request is not felt by the others.
#[derive(Default)]
#[repr(align(128))]
struct WorkerIdle {
    /// How many there are, so that another worker need not lock to learn that there are none. Written with the lock held.
    len: AtomicUsize,
    /// The connection that was used last is the last. The lock is free unless somebody steals.
    connections: Mutex<VecDeque<Connection>>,
}

impl SharedPool {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { workers, endpoints: Mutex::default(), profiles: ConnectorConfigs::default() })
    }

    /// The idle connections to an endpoint. Not for the path of a request.
    pub(crate) fn idle(&self, target: &Target) -> Arc<IdleConnections> {
        let mut endpoints = self.endpoints.lock();
        let idle = endpoints.entry(target.clone()).or_insert_with(|| IdleConnections::new(self.workers));
        Arc::clone(idle)
    }

    /// Forgets endpoints that no worker knows any more.
    pub(crate) fn sweep(&self) {
        self.endpoints.lock().retain(|_, idle| Arc::strong_count(idle) > 1);
        self.profiles.sweep();
    }
}

impl IdleConnections {
    fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { by_worker: (0..workers).map(|_| WorkerIdle::default()).collect() })
    }

    /// Puts a connection into a worker's list; with a cap, returns what has to go for it.
    pub(crate) fn put(
        &self,
        worker: usize,
        connection: Connection,
        cap: Option<usize>,
    ) -> Option<Connection> {
        let list = &self.by_worker[worker];
        list.change(&mut list.connections.lock(), |connections| {
            connections.push_back(connection);
            let is_full = cap.is_some_and(|cap| connections.len() > cap);
            is_full.then(|| connections.pop_front()).flatten()
        })
    }

    /// Takes the connection that the worker used last.
    pub(crate) fn take(&self, worker: usize) -> Option<Connection> {
        let list = &self.by_worker[worker];
        list.change(&mut list.connections.lock(), VecDeque::pop_back)
    }

    /// Takes a connection that another worker has left idle the longest: it is the one that it will miss the least.
    pub(crate) fn steal(&self, worker: usize) -> Option<Connection> {
        let count = self.by_worker.len();
        (1..count).map(|distance| &self.by_worker[(worker + distance) % count]).find_map(|list| {
            if list.len.load(Ordering::Relaxed) == 0 {
                return None;
            }
            list.change(&mut *list.connections.try_lock()?, VecDeque::pop_front)
        })
    }

    /// Keeps only some of a worker's connections; returns the others.
    pub(crate) fn sweep(&self, worker: usize, keep: impl Fn(&Connection) -> bool) -> Vec<Connection> {
        let list = &self.by_worker[worker];
        if list.len.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        list.change(&mut list.connections.lock(), |connections| {
            let (kept, removed): (VecDeque<_>, VecDeque<_>) = connections.drain(..).partition(keep);
            *connections = kept;
            Vec::from(removed)
        })
    }
}

impl WorkerIdle {
    /// Changes the connections, which are locked, and notes how many there are then.
    fn change<T>(
        &self,
        connections: &mut VecDeque<Connection>,
        change: impl FnOnce(&mut VecDeque<Connection>) -> T,
    ) -> T {
        let changed = change(connections);
        self.len.store(connections.len(), Ordering::Relaxed);
        changed
    }
}
