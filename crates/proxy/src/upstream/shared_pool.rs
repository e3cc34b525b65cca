//! Idle connections to endpoints, in one list for each worker and endpoint. It is the only state of a worker
//! that other workers access.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clock::Moment;
use parking_lot::Mutex;

use super::checks::{Board, HealthNews};
use super::constraints::Constraints;
use super::protocol::Target;
use crate::io::connection::Connection;
use crate::io::tls::upstream::ConnectorConfigs;

/// The idle connections to all endpoints, shared by all workers.
pub(crate) struct SharedPool {
    workers: usize,
    endpoints: Mutex<HashMap<Target, Arc<IdleConnections>>>,
    /// TLS configurations towards endpoints.
    pub(crate) connector_configs: ConnectorConfigs,
    /// The verdicts of health checks.
    pub(crate) board: Board,
    /// The bounds of Services' retries.
    pub(crate) constraints: Constraints,
}

/// The idle connections to one endpoint.
pub(crate) struct IdleConnections {
    /// One list for each worker.
    by_worker: Box<[WorkerIdle]>,
}

/// The idle connections of one worker, on their own cache lines (two, since CPUs fetch them in pairs), so
/// that one worker's changes for each request do not slow down the others.
#[derive(Default)]
#[repr(align(128))]
struct WorkerIdle {
    /// The length of the list, so that another worker need not take the lock to find it empty. It is written
    /// with the lock held.
    len: AtomicUsize,
    /// The connections, with the one that was used last at the end. The lock is uncontended unless another
    /// worker steals.
    connections: Mutex<VecDeque<Connection>>,
}

impl SharedPool {
    /// The pool of this many workers, which tells `news` of changes by health checks.
    pub(crate) fn new(workers: usize, news: Arc<HealthNews>) -> Arc<Self> {
        Arc::new(Self {
            workers,
            endpoints: Mutex::default(),
            connector_configs: ConnectorConfigs::default(),
            board: Board::new(news),
            constraints: Constraints::default(),
        })
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The idle connections to an endpoint. It takes a lock, so do not call it for each request.
    pub(crate) fn idle(&self, target: &Target) -> Arc<IdleConnections> {
        let mut endpoints = self.endpoints.lock();
        let idle = endpoints.entry(target.clone()).or_insert_with(|| IdleConnections::new(self.workers));
        Arc::clone(idle)
    }

    /// Removes the endpoints that no worker uses.
    pub(crate) fn sweep(&self) {
        self.endpoints.lock().retain(|_, idle| Arc::strong_count(idle) > 1);
        self.connector_configs.sweep();
    }
}

impl IdleConnections {
    fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { by_worker: (0..workers).map(|_| WorkerIdle::default()).collect() })
    }

    /// Whether no worker has any connection.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_worker.iter().all(|list| list.len.load(Ordering::Relaxed) == 0)
    }

    /// Adds a connection to a worker's list. If that exceeds the cap, returns the connection to close for it.
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

    /// Takes the connection that the worker used last; none if its list is empty.
    pub(crate) fn take(&self, worker: usize) -> Option<Connection> {
        let list = &self.by_worker[worker];
        list.change(&mut list.connections.lock(), VecDeque::pop_back)
    }

    /// When the last connection of a worker's list was put back.
    pub(crate) fn last_return(&self, worker: usize) -> Option<Moment> {
        self.by_worker[worker].connections.lock().back().map(|connection| connection.idle_since)
    }

    /// Takes the connection that another worker has left idle for the longest time, since that worker is the
    /// least likely to need it.
    pub(crate) fn steal(&self, worker: usize) -> Option<Connection> {
        let count = self.by_worker.len();
        (1..count).map(|distance| &self.by_worker[(worker + distance) % count]).find_map(|list| {
            if list.len.load(Ordering::Relaxed) == 0 {
                return None;
            }
            list.change(&mut *list.connections.try_lock()?, VecDeque::pop_front)
        })
    }

    /// Keeps the connections of a worker that `keep` accepts; returns the others.
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
    /// Changes the list under its lock, and updates its length.
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
