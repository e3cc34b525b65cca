//! What who measures has of a running proxy: how late its loops are, and the order to relieve them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::ListenerId;
use model::overload::Mode;
use observe::Registry;
use tokio::sync::watch;

use super::Relief;
use crate::clock::{Clock, Start};
use crate::ticker::Tick;
use crate::worker::{Notices, Published};

/// What who measures has of a running proxy.
#[derive(Clone)]
pub struct GuardHandle {
    /// Of each worker.
    ticks: Vec<Arc<Tick>>,
    clock: Clock,
    relief: watch::Sender<Relief>,
    published: watch::Receiver<Published>,
    registry: Arc<Registry>,
    /// Ports that were chosen when the proxy was started.
    first_ports: Vec<u16>,
    /// What the log has been told.
    notices: Arc<Notices>,
}

impl GuardHandle {
    pub(crate) fn new(
        workers: usize,
        start: Start,
        registry: &Arc<Registry>,
        (published, addresses): (watch::Receiver<Published>, &[(ListenerId, SocketAddr)]),
    ) -> Self {
        Self {
            ticks: (0..workers).map(|_| Arc::default()).collect(),
            clock: Clock::new(start),
            relief: watch::Sender::default(),
            published,
            registry: Arc::clone(registry),
            first_ports: addresses.iter().map(|(_, address)| address.port()).collect(),
            notices: Arc::default(),
        }
    }

    /// How late the latest loop has been since this was asked last: the time from a tick to its turn.
    pub fn worst_lag(&self) -> Duration {
        self.clock.update();
        let now = self.clock.now();
        self.ticks.iter().map(|tick| tick.take_lag(now)).max().unwrap_or_default()
    }

    /// What workers are to do from now on.
    pub fn order(&self, relief: Relief) {
        // Workers are woken by a change alone.
        self.relief.send_if_modified(|now| std::mem::replace(now, relief) != relief);
    }

    /// Whether anything is measured, and done.
    pub fn mode(&self) -> Mode {
        self.published.borrow().snapshot.settings.guard
    }

    /// Ports that are listened at.
    pub fn ports(&self) -> Vec<u16> {
        let snapshot = Arc::clone(&self.published.borrow().snapshot);
        let configured = snapshot.listeners().iter().map(|listener| listener.id.port);
        self.first_ports.iter().copied().chain(configured).filter(|port| *port > 0).collect()
    }

    /// Where what was found is shown.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether all workers have ended.
    pub fn is_over(&self) -> bool {
        self.relief.is_closed()
    }

    // For workers.

    pub(crate) fn orders(&self) -> watch::Receiver<Relief> {
        self.relief.subscribe()
    }

    pub(crate) fn ticks(&self) -> Vec<Arc<Tick>> {
        self.ticks.clone()
    }

    pub(crate) fn tick(&self, worker: usize) -> Arc<Tick> {
        Arc::clone(&self.ticks[worker])
    }

    pub(crate) fn notices(&self) -> Arc<Notices> {
        Arc::clone(&self.notices)
    }
}
