//! Which endpoint takes the next try of a request, whether there is another, and what becomes of it, told to those who judge endpoints.
//!
//! Never in here: what is concluded from that, which is `upstream`'s.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use model::overload::Mode;
use model::{Action, Forward, Overload, Route};
use observe::Reason;
use smallvec::SmallVec;

use crate::client::{self, Client};
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::limits::TICK;
use crate::upstream::{Cluster, Health, Member, Outcome, Place, Seen, Standing, slow_start};

impl Exchange<'_> {
    /// Picks any endpoint, tried ones only where there is no other.
    pub(crate) fn pick_any<'c>(&self, cluster: &'c Cluster) -> Option<&'c Rc<Member>> {
        let is_untried = |member: &Member| !self.report.was_tried(member.endpoint.address);
        let (random, now) = (&self.worker.random, self.worker.clock.now());
        match cluster.keyed() {
            None => cluster
                .pick_member(is_untried, random, now)
                .or_else(|| cluster.pick_member(|_| true, random, now)),
            Some(keyed) => self.pick_by_key(cluster, keyed, |_| true, |_, _| true),
        }
    }

    /// Picks an endpoint for a request that is made beside the client's own, such as the question to an auth service. Where the route goes by
    /// the health of endpoints, one comes first that is not left out, can be connected to and has a place, and the request counts there.
    pub(crate) fn pick_beside<'c>(
        &self,
        cluster: &'c Cluster,
        is_fit: impl Fn(&Member) -> bool,
    ) -> Option<(&'c Rc<Member>, Option<Place>)> {
        let (random, now) = (&self.worker.random, self.worker.clock.now());
        let overload = self.own_overload().filter(|overload| overload.mode == Mode::Enforce);
        let Some(overload) = overload else {
            return cluster.pick_member(is_fit, random, now).map(|member| (member, None));
        };
        let limits = cluster.limits();
        let is_out = |member: &Member| overload.ejection && member.health.standing.is_out();
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

    fn own_overload(&self) -> Option<&Overload> {
        match &self.route.get()?.action {
            Action::Forward(forward) => forward.overload.as_deref(),
            Action::Files(_) | Action::Respond(_) | Action::NotFound => None,
        }
    }

    /// Picks one that is not left out, answers, has its share, can be connected to and has a place. What is asked for first is given up first:
    /// the share and that it answers, then that it is not left out, then that it has not been tried. That others are busy is no reason to ask one that is worse:
    /// none is given then. One that the request itself decides on is given though it has no place.
    pub(crate) fn pick_fit<'c>(
        &self,
        cluster: &'c Cluster,
        overload: &Overload,
        is_full: impl Fn(&Member) -> bool,
    ) -> Option<&'c Rc<Member>> {
        let (random, now) = (&self.worker.random, self.worker.clock.now());
        // Who finds out whether an endpoint is well may have to be sent to another one.
        let may_probe = self.report.tries_len() == 0 && self.is_harmless();
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
            let standing = &health.standing;
            !overload.ejection || !standing.is_out() || (may_probe && standing.is_probe_due(now))
        };
        let takes = |member: &Member, draw: &dyn Fn() -> f64| {
            let ramp = overload.slow_start;
            let takes = |since| slow_start::takes(since, now, ramp, draw());
            ramp.is_zero() || member.health.ready_since.is_none_or(takes)
        };
        let has_share = |member: &Member| takes(member, &|| random.chance());
        let outliers = &cluster.state().outliers;
        // Who finds out whether one is well does not wait until it is.
        let is_heard_of = |Member { health, .. }: &Member| {
            !overload.ejection || health.standing.is_out() || !outliers.is_silent(&health.standing, now)
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
                pick(&|one| is_untried(one) && is_best(one) && is_open(one)).or_else(|| {
                    pick_of(&|one| is_untried(one) && is_in(one) && is_open(one))
                        .or_else(|()| pick_of(&|one| is_untried(one) && is_open(one)))
                        .or_else(|()| pick_of(&is_open))
                        .unwrap_or_default()
                })
            }
            Some(keyed) => {
                let picked = self.pick_by_key(cluster, keyed, |one| is_in(one) && is_open(one), takes);
                picked.filter(|one| is_open(one))
            }
        };
        if let Some(health) = paced.take() {
            note_paced(&health);
        }
        picked
    }

    /// Whether an endpoint needs no connection, or one may be opened.
    pub(crate) fn is_open(&self, member: &Member) -> bool {
        member.health.pacer.may_connect(self.worker.clock.now()) || !member.endpoint.must_connect()
    }

    /// Whether there is an endpoint that may be waited for.
    #[cold]
    pub(crate) fn has_open(&self, cluster: &Cluster) -> bool {
        cluster.keyed().is_none() && cluster.members().iter().any(|member| self.is_open(member))
    }

    /// Notes that an endpoint is going to be asked. Where connects are not paced, those are counted that would have been.
    #[inline]
    pub(crate) fn begin_at(&self, member: &Member, forward: &Forward, is_enforced: bool) {
        let Health { standing, pacer, .. } = &*member.health;
        if standing.is_out() || pacer.is_failing() {
            self.begin_at_doubtful(member, forward, is_enforced);
        }
    }

    #[cold]
    fn begin_at_doubtful(&self, member: &Member, forward: &Forward, is_enforced: bool) {
        let Health { standing, pacer, .. } = &*member.health;
        let now = self.worker.clock.now();
        if is_enforced && standing.is_out() && standing.is_probe_due(now) {
            standing.begin_probe(now);
        }
        if !pacer.is_failing() || !member.endpoint.must_connect() {
            return;
        }
        if pacer.may_connect(now) {
            pacer.begin(now, forward.timeouts.connect);
        } else if !is_enforced {
            note_paced(&member.health);
        }
    }

    /// Whether the request may be made twice without harm.
    fn is_harmless(&self) -> bool {
        !matches!(&self.head[self.request.method.clone()], b"POST" | b"LOCK" | b"PATCH")
    }

    /// Why no endpoint was picked for the first try.
    pub(crate) fn why_none_is_picked(cluster: &Cluster) -> Reason {
        if cluster.len() == 0 { Reason::NoEndpoints } else { Reason::ConnectPaced }
    }

    /// Whether the policy leaves room for a try after the next one. Where all endpoints have been tried, they are tried again, as in
    /// ingress-nginx; a policy without a number tries each of them once.
    pub(crate) fn has_another(&self, cluster: &Cluster, forward: &Forward) -> bool {
        let tries = self.report.tries_len() as u32 + 1;
        let elapsed = self.worker.clock.now().since(self.report.begin);
        forward.retry.tries.map_or_else(|| (tries as usize) < cluster.len(), |max| tries < max)
            && forward.retry.timeout.is_none_or(|max| elapsed < max)
    }

    /// Has the next try end after this time, or when the time of the whole request is up.
    #[cold]
    pub(crate) fn cap_try(&self, forward: &Forward, time: Duration) {
        let of_try = self.worker.clock.now().after(time);
        let of_request = forward.timeouts.request.map(|time| self.report.begin.after(time));
        self.deadline.cap(of_request.map_or(of_try, |of_request| of_request.min(of_try)));
    }

    /// Waits before another try where the route asks for that. It fails where the time of the whole request is up meanwhile, or the client has
    /// gone away.
    pub(crate) async fn back_off(&self, forward: &Forward) -> Result<(), Reason> {
        match forward.retry.backoff {
            Some(time) => Box::pin(self.wait_for(time, forward)).await,
            None => Ok(()),
        }
    }

    async fn wait_for(&self, time: Duration, forward: &Forward) -> Result<(), Reason> {
        match forward.timeouts.request {
            Some(time) => self.deadline.cap(self.report.begin.after(time)),
            None => self.deadline.uncap(),
        }
        let mut waited = pin!(self.deadline.within(time, |_| Poll::<()>::Pending));
        let mut gone = pin!(self.client_leaves());
        let is_gone = poll_fn(|cx| match gone.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => waited.as_mut().poll(cx).map(|_| false),
        });
        if is_gone.await {
            return Err(Reason::ClientAborted);
        }
        if self.is_late() { Err(Reason::UpstreamReadTimeout) } else { Ok(()) }
    }

    /// Lets no wait last longer than the route gives the request as a whole.
    #[inline]
    pub(crate) fn cap_request(&self, route: &Route) {
        if let Action::Forward(forward) = &route.action
            && let Some(timeout) = forward.timeouts.request
        {
            self.deadline.cap(self.report.begin.after(timeout));
        }
    }

    /// Whether the time is up that the route gives the request as a whole.
    pub(crate) fn is_late(&self) -> bool {
        let Some(Action::Forward(forward)) = self.route.get().map(|route| &route.action) else {
            return false;
        };
        let elapsed = self.worker.clock.now().since(self.report.begin);
        forward.timeouts.request.is_some_and(|max| elapsed >= max)
    }

    /// The reason of a failure before an endpoint was asked: this one, unless the time of the whole request is up.
    pub(crate) fn late_or(&self, reason: Reason) -> Reason {
        if self.is_late() { Reason::UpstreamReadTimeout } else { reason }
    }

    /// Ends when the client has gone away without an answer.
    pub(crate) async fn client_leaves(&self) {
        match self.client {
            Client::Http1(socket) => client::gone(socket, &self.worker.deadlines, || false).await,
            Client::Http2(stream) => poll_fn(|cx| stream.poll_gone(cx)).await,
        }
    }

    /// nginx's `proxy_next_upstream`: whether the fault counts, and whether to repeat the request does no harm. There is no other try
    /// once the time of the whole request is up.
    pub(crate) fn may_retry(&self, fault: Fault, forward: &Forward) -> bool {
        let on = &forward.retry.on;
        let counts = match fault.reason {
            Reason::ConnectTimeout | Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => on.timeout,
            Reason::UpstreamBadResponse | Reason::UpstreamBadCoding | Reason::UpstreamHeadTooLarge => {
                on.invalid_header
            }
            Reason::UpstreamStatus => true,
            _ => on.error,
        };
        let is_in_time = |timeout| self.worker.clock.now().since(self.report.begin) < timeout;
        counts && forward.timeouts.request.is_none_or(is_in_time) && self.is_repeatable(forward, fault.retry)
    }

    /// Whether the retry budget allows another try after a fault. Because of a status, it has been asked before the response was given up.
    pub(crate) fn is_within_budget(&self, fault: Fault, forward: &Forward) -> bool {
        fault.reason == Reason::UpstreamStatus || self.take_retry(forward)
    }

    /// Whether the retry budget allows one more try, which is counted then.
    pub(crate) fn take_retry(&self, forward: &Forward) -> bool {
        let Some(overload) = forward.overload.as_deref() else { return true };
        let (Some(percent), Some(id)) = (overload.retry_budget, self.cluster.get()) else { return true };
        let (cluster, now) = (self.cluster_of(id), self.worker.clock.now());
        let retries = &cluster.state().retries;
        if !retries.allows(percent, now) {
            cluster.limits().count_denied_retry();
            if overload.mode == Mode::Enforce {
                return false;
            }
        }
        retries.note_retry(now);
        true
    }

    /// Notes that a try begins.
    #[inline]
    pub(crate) fn note_sent(&self, member: &Member, forward: &Forward) {
        let is_compared = forward.overload.as_deref().is_some_and(|overload| overload.ejection);
        if is_compared && self.has_comparable_latency() {
            member.health.standing.note_sent(self.worker.clock.now());
        }
    }

    /// Notes the head of a response, which took so long.
    #[inline]
    pub(crate) fn note_answer(&self, member: &Member, forward: &Forward, status: u16, took: Duration) {
        if !forward.overload.as_deref().is_some_and(|overload| overload.ejection) {
            return;
        }
        member.health.standing.note_heard();
        let is_comparable = status != 101 && self.has_comparable_latency();
        let seen = Seen { outcome: Outcome::of_status(status), took, is_comparable };
        if member.health.standing.note(seen, self.worker.clock.now()) {
            self.look(member, forward, seen);
        }
    }

    /// Notes that a try has failed.
    #[cold]
    pub(crate) fn note_failed_try(&self, member: &Member, forward: &Forward, reason: Reason) {
        let Some(overload) = forward.overload.as_deref() else { return };
        let (worker, health) = (self.worker, &member.health);
        let now = worker.clock.now();
        if is_about_connecting(reason) {
            health.pacer.note_failure(now, &worker.random);
        }
        if !overload.ejection {
            return;
        }
        let without_head = self.report.time_without_head(now);
        if without_head.is_some() && self.has_comparable_latency() {
            health.standing.note_left();
        }
        let is_fault = match reason {
            // Between two pieces of a response there may be any time.
            Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => without_head.is_some(),
            Reason::UpstreamReset | Reason::UpstreamBadResponse | Reason::UpstreamHeadTooLarge => true,
            reason => is_about_connecting(reason),
        };
        if is_fault {
            let took = self.report.try_time(now);
            let seen = Seen { outcome: Outcome::Fault, took, is_comparable: false };
            health.standing.note(seen, now);
            self.look(member, forward, seen);
        } else if let (Reason::ClientAborted, Some(took)) = (reason, without_head)
            && took >= TICK
            && self.has_comparable_latency()
            && health.standing.note_given_up(took, now)
        {
            self.look(member, forward, Seen { outcome: Outcome::Good, took, is_comparable: true });
        }
    }

    /// Whether how long a response takes says something of the endpoint: uploads and what changes something take as long as they do.
    fn has_comparable_latency(&self) -> bool {
        matches!(&self.head[self.request.method.clone()], b"GET" | b"HEAD") && !self.request.has_body()
    }

    #[cold]
    #[inline(never)]
    fn look(&self, member: &Member, forward: &Forward, seen: Seen) {
        let Some(id) = self.cluster.get() else { return };
        let (worker, cluster) = (self.worker, self.cluster_of(id));
        let all = cluster.members().iter().map(|member| &member.health.standing);
        let before: SmallVec<[bool; 16]> = all.clone().map(Standing::is_out).collect();
        let outliers = &cluster.state().outliers;
        outliers.look(&member.health.standing, seen, &all, worker.clock.now(), &worker.random);
        for (member, was_out) in cluster.members().iter().zip(before) {
            if member.health.standing.is_out() != was_out {
                tell(cluster, member, forward);
            }
        }
    }
}

/// Tells the log that an endpoint is left out from now on, or is no longer.
#[cold]
fn tell(cluster: &Cluster, member: &Member, forward: &Forward) {
    let (endpoint, upstream) = (member.endpoint.address, cluster.limits().name());
    let is_enforced = forward.overload.as_deref().is_some_and(|overload| overload.mode == Mode::Enforce);
    match (member.health.standing.is_out(), is_enforced) {
        (true, true) => {
            tracing::warn!(%endpoint, upstream, "an endpoint is ejected: it fails or is slower than the others");
        }
        (true, false) => {
            tracing::info!(%endpoint, upstream, "an endpoint fails or is slower than the others, and would be ejected");
        }
        (false, _) => tracing::info!(%endpoint, upstream, "an endpoint answers well again"),
    }
}

fn note_paced(health: &Health) {
    health.standing.cells().connects_paced.inc();
}

fn is_about_connecting(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ConnectRefused
            | Reason::ConnectFailed
            | Reason::ConnectTimeout
            | Reason::UpstreamHandshakeFailed
            | Reason::UpstreamCertificateBad
    )
}
