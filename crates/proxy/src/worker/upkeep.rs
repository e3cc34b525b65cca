//! A worker's upkeep on ticks, and its relief from shortages.

use std::rc::Rc;
use std::time::Duration;

use super::Worker;
use crate::admit::guard::Relief;
use crate::limits::{GUARD_KEEP_ALIVE_MAX, HEALTH_CHECK_SILENCE, SHORTAGE_TOLD_INTERVAL};
use crate::upstream::ClusterLimits;

impl Worker {
    /// Periodic work: deadlines, the log, room for metrics, old connections.
    pub(crate) fn tick(&self) {
        self.clock.update();
        self.deadlines.sweep();
        self.log.flush();
        self.recorder.borrow_mut().make_room();
        if let Some(cache) = &self.cache {
            self.recorder.borrow().cache(cache.store().figures());
        }
        self.look_at_limits();
        self.attend_checks();
        self.abuse.tick();
        self.ease_compression();
        self.handshakes.refill();
    }

    /// Whether there is nothing that needs ticks.
    pub(crate) fn is_idle(&self) -> bool {
        self.deadlines.are_none() && self.limited.borrow().is_empty()
    }

    /// Ticks a cluster's limits until they have nothing to do.
    #[cold]
    pub(crate) fn watch_limits(&self, limits: &Rc<ClusterLimits>) {
        self.limited.borrow_mut().push(Rc::clone(limits));
    }

    fn look_at_limits(&self) {
        let limited = self.limited.take();
        let busy: Vec<_> = limited.into_iter().filter(ClusterLimits::tick).collect();
        self.limited.borrow_mut().extend(busy);
    }

    /// Looks at the endpoints that are checked and have requests.
    fn attend_checks(&self) {
        let config = self.config.borrow();
        for (_, _, cluster) in config.checked() {
            cluster.attend_checks(HEALTH_CHECK_SILENCE, self.clock.now());
        }
    }

    /// Lowers compression levels while the worker is short of CPU, and raises them again.
    fn ease_compression(&self) {
        if !self.coders.are_used() {
            return;
        }
        if self.config.borrow().settings().keeps_compression_levels {
            self.load.forget();
            return self.coders.forget_load();
        }
        let Some(mut load) = self.load.measure(self.clock.now()) else { return };
        if self.relief.get().lowers_compression {
            load.busy_permille = 1000;
        }
        let Some(ease) = self.coders.note_load(load) else { return };
        if ease.steps() == 1 && self.is_to_tell(&self.told_of_ease, SHORTAGE_TOLD_INTERVAL) {
            tracing::info!(
                busy_permille = load.busy_permille,
                late_ms = load.late_ms,
                "levels of compression are lowered while a worker is short of cpu"
            );
        }
    }

    /// The present relief from shortages.
    #[inline]
    pub(crate) fn relief(&self) -> Relief {
        self.relief.get()
    }

    /// Applies relief from now on.
    pub(crate) fn relieve(&self, relief: Relief) {
        self.relief.set(relief);
        self.handshakes.pace(relief.paces_handshakes);
        if relief.shortens_keep_alive {
            self.deadlines.hasten_idle(GUARD_KEEP_ALIVE_MAX);
        }
    }

    /// Time to wait for a request on an idle connection, which may be less than configured.
    pub(crate) fn keep_alive_timeout(&self, configured: Duration) -> Duration {
        if self.relief.get().shortens_keep_alive { configured.min(GUARD_KEEP_ALIVE_MAX) } else { configured }
    }
}
