//! The choice of the endpoint for the next try of a request, which waits where all endpoints have as many
//! requests as they may.
//!
//! Never in here: how limits are found, and the order of the queue, which are `balance`'s.

use std::cell::{Cell, LazyCell, RefCell};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use balance::{NoSlot, Overuse, SlotRequest, is_served_last, slow_start};
use model::Forward;
use model::overload::{Mode, Overload, Priority};
use observe::{Reason, Wait};

use crate::admit::Admitted;
use crate::admit::access::priority;
use crate::answer::attempted::CookieLine;
use crate::forward::affinity;
use crate::forward::health;
use crate::forward::outbound::Outbound;
use crate::forward::selected::Selected;
use crate::io::deadline::Elapsed;
use crate::request::reply;
use crate::route::Routed;
use crate::upstream::{Cluster, ClusterLimits, Member, Queued, Slot};

/// The result of a selection.
pub(crate) enum Picked<'c> {
    Member(Selected<'c>),
    /// There is no endpoint.
    None,
    /// All endpoints are at their limits, or the one is that the request itself decides on, for which it has
    /// a cookie.
    Full {
        only: Option<SocketAddr>,
        cookie: Option<Box<CookieLine>>,
    },
}

impl Admitted<'_> {
    /// Selects an endpoint, and takes a slot there.
    #[inline]
    pub(crate) fn pick<'c>(&self, cluster: &'c Cluster, forward: &Forward) -> Picked<'c> {
        match &forward.overload {
            None => self.pick_any(cluster).map_or(Picked::None, Picked::Member),
            Some(overload) => self.pick_within_limits(cluster, forward, overload),
        }
    }

    fn pick_within_limits<'c>(
        &self,
        cluster: &'c Cluster,
        forward: &Forward,
        overload: &Overload,
    ) -> Picked<'c> {
        let limits = cluster.limits();
        let is_enforced = overload.mode == Mode::Enforce;
        let rank = LazyCell::new(|| self.rank(limits, forward));
        let is_full = |member: &Member| {
            limits.is_full(&member.endpoint, overload.concurrency, || {
                let (priority, overuse) = *rank;
                is_served_last(priority, overuse)
            })
        };
        if is_enforced && self.report.tries_len() == 0 {
            limits.note_client(self.forwarded.client);
        }
        let mut selected = if is_enforced {
            match self.pick_fit(cluster, overload, is_full) {
                Some(selected) => selected,
                None if self.has_open(cluster) => return Picked::Full { only: None, cookie: None },
                None => return Picked::None,
            }
        } else {
            let Some(selected) = self.pick_any(cluster) else { return Picked::None };
            selected
        };
        let member = selected.member;
        if is_full(member) {
            if is_enforced {
                return Picked::Full { only: Some(member.endpoint.address), cookie: selected.cookie };
            }
            if cluster.keyed().is_some() || cluster.members().iter().all(|member| is_full(member)) {
                limits.count(Wait::Watched, rank.0);
            }
        }
        health::begin_at(self, member, forward, is_enforced);
        let (place, is_first) = limits.take(&member.endpoint, is_enforced);
        selected.place = Some(place);
        if is_first {
            self.worker.watch_limits(limits);
        }
        Picked::Member(selected)
    }

    /// Selects any endpoint, one that was tried only where there is no other.
    fn pick_any<'c>(&self, cluster: &'c Cluster) -> Option<Selected<'c>> {
        let is_untried = |member: &Member| !self.report.was_tried(member.endpoint.address);
        let (random, now) = (&self.worker.random, self.worker.clock.now());
        match cluster.keyed() {
            None => cluster
                .pick_member(is_untried, random, now)
                .or_else(|| cluster.pick_member(|_| true, random, now))
                .map(Selected::of),
            Some(keyed) => affinity::pick_by_key(self, cluster, keyed, |_| true, |_, _| true),
        }
    }

    /// Selects an endpoint that can be connected to and has a free slot. The best one answers, takes its
    /// share while it starts slowly, is not ejected, and has not been tried; without one, the first two
    /// conditions are dropped, then the third, then the last. Where endpoints meet the conditions and all of
    /// them are at their limits, none is selected, rather than a worse one. An endpoint that the request
    /// determines is selected even without a free slot.
    fn pick_fit<'c>(
        &self,
        cluster: &'c Cluster,
        overload: &Overload,
        is_full: impl Fn(&Member) -> bool,
    ) -> Option<Selected<'c>> {
        let (random, now) = (&self.worker.random, self.worker.clock.now());
        // A request that probes an ejected endpoint may have to be sent to another one.
        let may_probe = self.report.tries_len() == 0 && self.is_idempotent();
        let paced = RefCell::new(None);
        let is_untried = |member: &Member| !self.report.was_tried(member.endpoint.address);
        let is_open = |member: &Member| {
            let is_open = self.is_open(member);
            if !is_open {
                paced.replace(Some(Rc::clone(&member.health)));
            }
            is_open
        };
        let is_in = |Member { health, .. }: &Member| {
            let record = &health.record;
            !overload.ejection || !record.is_ejected() || (may_probe && record.is_probe_due(now))
        };
        let takes = |member: &Member, draw: &dyn Fn() -> f64| {
            let ramp = overload.slow_start;
            let takes = |since| slow_start::takes(since, now, ramp, draw());
            ramp.is_zero() || member.health.ready_since.is_none_or(takes)
        };
        let has_share = |member: &Member| takes(member, &|| random.chance());
        let outliers = &cluster.state().outliers;
        // A request that probes an endpoint does not wait until the endpoint is well.
        let is_heard_of = |Member { health, .. }: &Member| {
            !overload.ejection || health.record.is_ejected() || !outliers.is_silent(&health.record, now)
        };
        let pick = |is_fit: &dyn Fn(&Member) -> bool| {
            cluster.pick_member(|one| is_fit(one) && !is_full(one), random, now)
        };
        // One of these, or none if there are some and all of them are busy.
        let pick_of = |is_fit: &dyn Fn(&Member) -> bool| match pick(is_fit) {
            None if !cluster.members().iter().any(|one| is_fit(one)) => Err(()),
            picked => Ok(picked),
        };
        let picked = match cluster.keyed() {
            None => {
                let is_best = |one: &Member| is_in(one) && is_heard_of(one) && has_share(one);
                pick(&|one| is_untried(one) && is_best(one) && is_open(one))
                    .or_else(|| {
                        pick_of(&|one| is_untried(one) && is_in(one) && is_open(one))
                            .or_else(|()| pick_of(&|one| is_untried(one) && is_open(one)))
                            .or_else(|()| pick_of(&is_open))
                            .unwrap_or_default()
                    })
                    .map(Selected::of)
            }
            Some(keyed) => {
                let is_fit = |one: &Member| is_in(one) && is_open(one);
                let picked = affinity::pick_by_key(self, cluster, keyed, is_fit, takes);
                picked.filter(|one| is_open(one.member))
            }
        };
        if let Some(paced) = paced.take() {
            health::note_paced(&paced);
        }
        picked
    }

    /// The request's priority, and its client's share of the recent load.
    fn rank(&self, limits: &ClusterLimits, forward: &Forward) -> (Priority, Overuse) {
        (priority::of(self, forward.priority), limits.overuse(self.forwarded.client))
    }

    /// The endpoints that a request does not wait for, if there are others: those that it has tried, that are
    /// ejected, or that may not be connected to.
    fn passed_by(&self, cluster: &Cluster, overload: &Overload) -> Vec<SocketAddr> {
        let addresses = |is_passed_by: &dyn Fn(&Member) -> bool| {
            let members = cluster.members().iter().filter(|member| is_passed_by(member));
            let passed_by: Vec<_> = members.map(|member| member.endpoint.address).collect();
            (passed_by.len() < cluster.len()).then_some(passed_by)
        };
        let was_tried = |member: &Member| self.report.was_tried(member.endpoint.address);
        let is_closed = |member: &Member| !self.is_open(member);
        let is_out = |member: &Member| overload.ejection && member.health.record.is_ejected();
        addresses(&|member| was_tried(member) || is_closed(member) || is_out(member))
            .or_else(|| addresses(&|member| was_tried(member) || is_closed(member)))
            .or_else(|| addresses(&is_closed))
            .unwrap_or_default()
    }

    /// Waits for a place at an endpoint.
    ///
    /// # Errors
    ///
    /// Why there is none, or that the client has gone away.
    #[cold]
    pub(crate) async fn await_place(
        &self,
        cluster: &Cluster,
        forward: &Forward,
        only: Option<SocketAddr>,
        outbound: &Outbound<'_, '_>,
    ) -> Result<(Rc<Member>, Slot), Reason> {
        let Some(overload) = &forward.overload else { return Err(Reason::NoEndpoints) };
        let limits = cluster.limits();
        let (priority, overuse) = self.rank(limits, forward);
        let (wait, result) = if overload.queue_timeout.is_zero() {
            (Wait::Refused, Err(Reason::ConcurrencyLimit))
        } else {
            let tried = if only.is_some() { Vec::new() } else { self.passed_by(cluster, overload) };
            let request = SlotRequest {
                concurrency: overload.concurrency,
                only,
                excluded: tried,
                priority,
                overuse,
                bytes: self.head.len() + outbound.bytes_held(),
                timeout: overload.queue_timeout,
            };
            match limits.wait(request) {
                Ok(queued) => self.wait_in(&queued, overload).await,
                Err(_) => (Wait::Full, Err(Reason::QueueFull)),
            }
        };
        limits.count(wait, priority);
        // A client that sends far more than the others has caused the queue: it is refused for that.
        let is_its_own = |reason| overuse == Overuse::Far && reply::is_overload(reason);
        let result = result.map_err(|reason| if is_its_own(reason) { Reason::ClientExcess } else { reason });
        result.map(|place| (cluster.member(place.endpoint()), place))
    }

    async fn wait_in(&self, queued: &Queued, overload: &Overload) -> (Wait, Result<Slot, Reason>) {
        let mut gone = pin!(self.client_gone());
        let is_gone = Cell::new(false);
        let place = self.deadline.within(overload.queue_timeout, |cx| {
            if let Poll::Ready(place) = queued.poll(cx) {
                return Poll::Ready(Some(place));
            }
            is_gone.set(gone.as_mut().poll(cx).is_ready());
            if is_gone.get() { Poll::Ready(None) } else { Poll::Pending }
        });
        match place.await {
            Ok(Some(Ok(place))) => (Wait::Served, Ok(place)),
            Ok(Some(Err(NoSlot::QueueFull))) => (Wait::Full, Err(Reason::QueueFull)),
            Ok(Some(Err(NoSlot::TimedOut))) | Err(Elapsed) => (Wait::TimedOut, Err(Reason::QueueTimeout)),
            Ok(None) => (Wait::ClientGone, Err(Reason::ClientAborted)),
        }
    }

    /// Whether there is an endpoint that may be waited for.
    #[cold]
    pub(crate) fn has_open(&self, cluster: &Cluster) -> bool {
        cluster.keyed().is_none() && cluster.members().iter().any(|member| self.is_open(member))
    }
}

impl Routed<'_> {
    /// Picks an endpoint for a request that is made beside the client's own, such as the question to an
    /// auth service. Where the route goes by the health of endpoints, one comes first that is not left
    /// out, can be connected to and has a place, and the request counts there.
    pub(crate) fn pick_beside<'c>(
        &self,
        cluster: &'c Cluster,
        is_fit: impl Fn(&Member) -> bool,
    ) -> Option<(&'c Rc<Member>, Option<Slot>)> {
        let (random, now) = (&self.worker.random, self.worker.clock.now());
        let overload = self.own_overload().filter(|overload| overload.mode == Mode::Enforce);
        let Some(overload) = overload else {
            return cluster.pick_member(is_fit, random, now).map(|member| (member, None));
        };
        let limits = cluster.limits();
        let is_out = |member: &Member| overload.ejection && member.health.record.is_ejected();
        let is_well = |member: &Member| is_fit(member) && self.is_open(member) && !is_out(member);
        let has_room = |member: &Member| !limits.is_full(&member.endpoint, overload.concurrency, || false);
        let member = cluster
            .pick_member(|member| is_well(member) && has_room(member), random, now)
            .or_else(|| cluster.pick_member(is_well, random, now))
            .or_else(|| cluster.pick_member(&is_fit, random, now))?;
        let (place, is_first) = limits.take(&member.endpoint, true);
        if is_first {
            self.worker.watch_limits(limits);
        }
        Some((member, Some(place)))
    }

    /// Whether an endpoint needs no connection, or one may be opened.
    fn is_open(&self, member: &Member) -> bool {
        member.health.pacer.may_connect(self.worker.clock.now()) || !member.endpoint.must_connect()
    }
}

/// Why no endpoint was picked for the first try.
pub(crate) fn why_none_is_picked(cluster: &Cluster) -> Reason {
    if cluster.len() == 0 { Reason::NoEndpoints } else { Reason::ConnectPaced }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use model::overload::Concurrency;

    use super::*;
    use crate::testing::{EMPTY, TWO, World, forward, route_to};

    /// Limits of one request at a time at each endpoint.
    fn limited(mode: Mode) -> Forward {
        let concurrency = Concurrency::Fixed(NonZeroU32::MIN);
        let overload = Overload { mode, concurrency, ..Overload::default() };
        Forward { overload: Some(Arc::new(overload)), ..forward(TWO) }
    }

    fn note_try(admitted: &Admitted<'_>, address: SocketAddr) {
        admitted.report.begin_try(address, admitted.worker.clock.now());
    }

    fn address(picked: &Picked<'_>) -> Option<SocketAddr> {
        match picked {
            Picked::Member(selected) => Some(selected.member.endpoint.address),
            Picked::None | Picked::Full { .. } => None,
        }
    }

    #[test]
    fn an_endpoint_that_was_not_tried_comes_first() {
        for forward in [forward(TWO), limited(Mode::Watch), limited(Mode::Enforce)] {
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let cluster = admitted.cluster_of(TWO);
                let [tried, other] = [0, 1].map(|at| cluster.members()[at].endpoint.address);
                note_try(&admitted, tried);
                for _ in 0..4 {
                    assert_eq!(address(&admitted.pick(cluster, &forward)), Some(other));
                }
                note_try(&admitted, other);
                assert!(address(&admitted.pick(cluster, &forward)).is_some(), "all were tried");
            });
        }
    }

    #[test]
    fn a_cluster_without_endpoints_has_none_to_pick() {
        World::of(route_to(EMPTY)).admitted("GET /", |admitted, _| {
            let cluster = admitted.cluster_of(EMPTY);
            for forward in [forward(EMPTY), limited(Mode::Watch), limited(Mode::Enforce)] {
                assert!(matches!(admitted.pick(cluster, &forward), Picked::None));
            }
            assert_eq!(why_none_is_picked(cluster), Reason::NoEndpoints);
        });
    }

    #[test]
    fn endpoints_at_their_limits_are_full_only_where_these_are_enforced() {
        for (mode, is_full) in [(Mode::Enforce, true), (Mode::Watch, false)] {
            let forward = limited(mode);
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let cluster = admitted.cluster_of(TWO);
                let (first, second) = (admitted.pick(cluster, &forward), admitted.pick(cluster, &forward));
                assert_ne!(address(&first), address(&second));
                let third = admitted.pick(cluster, &forward);
                assert_eq!(matches!(third, Picked::Full { only: None, cookie: None }), is_full, "{mode:?}");
                drop((second, third));
                assert!(address(&admitted.pick(cluster, &forward)).is_some(), "a slot is free again");
                drop(first);
            });
        }
    }

    #[test]
    fn endpoints_that_cannot_be_connected_to_are_left_alone_for_a_while() {
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            let (cluster, worker) = (admitted.cluster_of(TWO), admitted.worker);
            let [failing, well] = [0, 1].map(|at| &cluster.members()[at]);
            let fail = |member: &Member| {
                (0..4).for_each(|_| member.health.pacer.note_failure(worker.clock.now(), &worker.random));
            };
            fail(failing);
            for _ in 0..4 {
                let picked = address(&admitted.pick(cluster, &limited(Mode::Enforce)));
                assert_eq!(picked, Some(well.endpoint.address));
            }
            fail(well);
            assert!(matches!(admitted.pick(cluster, &limited(Mode::Enforce)), Picked::None));
            assert_eq!(why_none_is_picked(cluster), Reason::ConnectPaced);
            assert!(address(&admitted.pick(cluster, &limited(Mode::Watch))).is_some());
        });
    }

    #[test]
    fn a_request_beside_the_client_s_counts_where_limits_are_enforced() {
        for (mode, has_slot) in [(Mode::Enforce, true), (Mode::Watch, false)] {
            let action = model::Action::Forward(limited(mode));
            World::of(crate::testing::route("/", action)).admitted("GET /", |admitted, _| {
                let (_, place) = admitted.pick_beside(admitted.cluster_of(TWO), |_| true).unwrap();
                assert_eq!(place.is_some(), has_slot, "{mode:?}");
                assert!(admitted.pick_beside(admitted.cluster_of(TWO), |_| false).is_none());
            });
        }
    }
}
