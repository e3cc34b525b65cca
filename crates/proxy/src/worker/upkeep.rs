//! A worker's upkeep on ticks, and its relief from shortages.

use std::rc::Rc;
use std::time::Duration;

use super::Worker;
use crate::admit::guard::Relief;
use crate::limits::{GUARD_KEEP_ALIVE_MAX, HEALTH_CHECK_SILENCE, SHORTAGE_TOLD_INTERVAL};
use crate::upstream::{Cluster, ClusterLimits};

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
        self.abuse.tick();
        self.ease_compression();
        self.handshakes.refill();
    }

    /// Whether there is nothing that needs ticks. A request to a checked endpoint that hangs has to be
    /// noticed soon, and does not say when it begins.
    pub(crate) fn is_idle(&self) -> bool {
        self.deadlines.are_none() && self.limited.borrow().is_empty() && !self.config.borrow().has_checks()
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

    /// Looks at the endpoints that are checked and have requests. Returns the time after which one will have
    /// been silent for too long; none where none has requests without an answer.
    pub(crate) fn attend_checks(&self) -> Option<Duration> {
        let (config, now) = (self.config.borrow(), self.clock.now());
        let of = |cluster: &Cluster| cluster.attend_checks(HEALTH_CHECK_SILENCE, now);
        config.checked().filter_map(|(_, _, cluster)| of(cluster)).min()
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use model::{Endpoint, EndpointState, HealthCheck, HealthProbe, Model};

    use super::*;
    use crate::limits::TICK;
    use crate::testing::{TWO, World, model, route_to};

    /// A world in which the endpoints of [`TWO`] are checked.
    fn checked() -> World {
        let check = HealthCheck {
            probe: HealthProbe::Connect,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            rise: 2,
            fall: 2,
            always: false,
        };
        let address = SocketAddr::from(([10, 0, 0, 1], 8080));
        let cluster = model::Cluster {
            name: "two".to_owned(),
            endpoints: vec![Endpoint { address, state: EndpointState::Ready }],
            health_check: Some(Arc::new(check)),
            ..model::Cluster::default()
        };
        World::new(&Model { clusters: [cluster].into_iter().collect(), ..model([route_to(TWO)]) })
    }

    #[test]
    fn a_hang_is_noticed_when_the_silence_is_too_long_and_not_at_the_next_tick() {
        assert!(World::of(route_to(TWO)).worker.is_idle());
        let world = checked();
        assert!(!world.worker.is_idle(), "ten ticks a second for requests that may hang");
        world.admitted("GET /", |admitted, _| {
            let worker = admitted.worker;
            let record = &admitted.cluster_of(TWO).members()[0].health.record;
            assert_eq!(worker.attend_checks(), None);
            record.note_sent(worker.clock.now());
            assert_eq!(worker.attend_checks(), Some(HEALTH_CHECK_SILENCE));
            worker.clock.advance(2 * TICK);
            let rest = worker.attend_checks().unwrap();
            assert_eq!(rest + 2 * TICK, HEALTH_CHECK_SILENCE);
            worker.clock.advance(rest);
            assert_eq!(worker.attend_checks(), None, "its check has been prompted");
        });
    }
}
