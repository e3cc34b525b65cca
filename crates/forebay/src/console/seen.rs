//! The data that the console shows. The serving code hands it over; nothing is computed before a client asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use control::Condition;
use observe::Registry;
use proxy::Observer;

use crate::doctor::serving::Findings;
use crate::explain::Objects;

/// The parts of a running Forebay.
pub(super) struct Seen {
    pub(super) registry: Arc<Registry>,
    pub(super) findings: Arc<Findings>,
    pub(super) observer: OnceLock<Observer>,
    served: Mutex<Option<Objects>>,
    condition: Mutex<Condition>,
    revision: AtomicU64,
}

impl Seen {
    pub(super) fn new(registry: Arc<Registry>, findings: Arc<Findings>) -> Self {
        Self {
            registry,
            findings,
            observer: OnceLock::new(),
            served: Mutex::default(),
            condition: Mutex::default(),
            revision: AtomicU64::new(0),
        }
    }

    /// The served objects; none before the first configuration.
    pub(super) fn served(&self) -> Option<Objects> {
        lock(&self.served).clone()
    }

    /// Grows each time that something else is served.
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    pub(super) fn serves(&self, objects: Objects) {
        *lock(&self.served) = Some(objects);
        self.revision.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn condition(&self) -> Condition {
        lock(&self.condition).clone()
    }

    pub(super) fn note(&self, condition: &Condition) {
        lock(&self.condition).clone_from(condition);
    }
}

/// Locks without regard to poisoning: values are replaced as a whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
