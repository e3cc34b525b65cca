//! The endpoint that a request goes to, and its place there: where all endpoints have as many requests as they may, it waits.
//!
//! Never in here: how limits are found, and who is served next, which is `upstream::limit`'s.

use std::cell::{Cell, LazyCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use model::Forward;
use model::overload::{Concurrency, Mode, Overload, Priority};
use observe::{Reason, Wait};
use wire::h1::Response;

use crate::access::priority;
use crate::client::{self, Client};
use crate::deadline::Elapsed;
use crate::exchange::Exchange;
use crate::outbound::Outbound;
use crate::reply;
use crate::upstream::{
    Cluster, ClusterLimits, Endpoint, Excess, Member, NoPlace, Place, Queued, Wish, is_last,
};

/// Where a request goes.
pub(crate) enum Picked<'c> {
    /// To this endpoint, where it has a place if its route has limits.
    Member(&'c Rc<Member>),
    /// Nowhere: there is no endpoint.
    None,
    /// Nowhere yet: the endpoints have as many requests as they may, or the one has that the request itself decides on.
    Full(Option<SocketAddr>),
}

impl Exchange<'_> {
    /// Picks an endpoint, and takes a place there.
    pub(crate) fn pick<'c>(&self, cluster: &'c Cluster, forward: &Forward) -> Picked<'c> {
        let Some(overload) = &forward.overload else {
            return self.pick_any(cluster).map_or(Picked::None, Picked::Member);
        };
        let limits = cluster.limits();
        let is_enforced = overload.mode == Mode::Enforce;
        let rank = LazyCell::new(|| self.rank(limits, forward));
        let is_full = |member: &Member| {
            limits.is_full(&member.endpoint, overload.concurrency, || {
                let (priority, excess) = *rank;
                is_last(priority, excess)
            })
        };
        if is_enforced && self.report.tries_len() == 0 {
            limits.note_client(self.forwarded.client);
        }
        let member = if is_enforced {
            match self.pick_fit(cluster, overload, is_full) {
                Some(member) => member,
                None if self.has_open(cluster) => return Picked::Full(None),
                None => return Picked::None,
            }
        } else {
            let Some(member) = self.pick_any(cluster) else { return Picked::None };
            member
        };
        if is_full(member) {
            if is_enforced {
                return Picked::Full(Some(member.endpoint.address));
            }
            if cluster.keyed().is_some() || cluster.members().iter().all(|member| is_full(member)) {
                limits.count(Wait::Watched, rank.0);
            }
        }
        self.begin_at(member, forward, is_enforced);
        let (place, is_first) = limits.take(&member.endpoint, is_enforced);
        self.place.set(Some(place));
        if is_first {
            self.worker.watch_limits(limits);
        }
        Picked::Member(member)
    }

    /// How important it is, and what its client asks for beside others.
    fn rank(&self, limits: &ClusterLimits, forward: &Forward) -> (Priority, Excess) {
        (priority::of(self, forward.priority), limits.excess(self.forwarded.client))
    }

    /// The endpoints that a request does not wait for: those that it has tried, are left out or may not be connected to, if there are others.
    fn passed_by(&self, cluster: &Cluster, overload: &Overload) -> Vec<SocketAddr> {
        let addresses = |is_passed_by: &dyn Fn(&Member) -> bool| {
            let members = cluster.members().iter().filter(|member| is_passed_by(member));
            let passed_by: Vec<_> = members.map(|member| member.endpoint.address).collect();
            (passed_by.len() < cluster.len()).then_some(passed_by)
        };
        let was_tried = |member: &Member| self.report.was_tried(member.endpoint.address);
        let is_closed = |member: &Member| !self.is_open(member);
        let is_out = |member: &Member| overload.ejection && member.health.standing.is_out();
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
    ) -> Result<Rc<Member>, Reason> {
        let Some(overload) = &forward.overload else { return Err(Reason::NoEndpoints) };
        let limits = cluster.limits();
        let rank = self.rank(limits, forward);
        let (wait, result) = if overload.queue_timeout.is_zero() {
            (Wait::Refused, Err(Reason::ConcurrencyLimit))
        } else {
            let tried = if only.is_some() { Vec::new() } else { self.passed_by(cluster, overload) };
            let wish = Wish { concurrency: overload.concurrency, only, tried };
            let bytes = self.head.len() + outbound.bytes_held();
            match limits.wait(wish, rank, bytes, overload.queue_timeout) {
                Ok(queued) => self.wait_in(&queued, overload).await,
                Err(_) => (Wait::Full, Err(Reason::QueueFull)),
            }
        };
        let (priority, excess) = rank;
        limits.count(wait, priority);
        // Who asks for so much more than others has not been in the way of a service that is slow, but has made it so.
        let is_its_own = |reason| excess == Excess::Far && reply::is_overload(reason);
        let result = result.map_err(|reason| if is_its_own(reason) { Reason::ClientExcess } else { reason });
        result.map(|endpoint| cluster.member(&endpoint))
    }

    async fn wait_in(&self, queued: &Queued, overload: &Overload) -> (Wait, Result<Rc<Endpoint>, Reason>) {
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
            Ok(Some(Ok(place))) => {
                let endpoint = Rc::clone(place.endpoint());
                self.place.set(Some(place));
                (Wait::Served, Ok(endpoint))
            }
            Ok(Some(Err(NoPlace::Full))) => (Wait::Full, Err(Reason::QueueFull)),
            Ok(Some(Err(NoPlace::Late))) | Err(Elapsed) => (Wait::TimedOut, Err(Reason::QueueTimeout)),
            Ok(None) => (Wait::ClientGone, Err(Reason::ClientAborted)),
        }
    }

    /// Ends when the client has gone away.
    async fn client_gone(&self) {
        match self.client {
            Client::Http1(socket) => client::gone(socket, &self.worker.deadlines, || false).await,
            Client::Http2(stream) => poll_fn(|cx| stream.poll_gone(cx)).await,
        }
    }

    /// Notes for the limit of an endpoint that the head of a response has come. What stays, such as a stream of events, gives its place
    /// back: how long it stays says nothing about the endpoint.
    pub(crate) fn note_head_for_limits(
        &self,
        endpoint: &Endpoint,
        response: &Response,
        head: &[u8],
        took: Duration,
    ) {
        if response.status == 101 || is_stream(response, head) {
            drop(self.place.take());
            return;
        }
        // What a method does that changes something takes as long as that takes; a fault may come quickly, and be none the better.
        let is_sample = matches!(&self.head[self.request.method.clone()], b"GET" | b"HEAD");
        if is_sample && response.status < 500 {
            endpoint.limit.note_response(took);
        }
    }

    /// Gives the place back where the limit is found, since the endpoint waits for the client from now on: for the rest of its request, or
    /// until it has taken a long response. That says nothing of the endpoint, and slow clients would soon have all places. Returns the
    /// endpoint.
    #[cold]
    pub(crate) fn give_place_back(&self, forward: &Forward) -> Option<Rc<Endpoint>> {
        let is_found = forward.overload.as_ref().is_some_and(|it| it.concurrency == Concurrency::Auto);
        let place = if is_found { self.place.take() } else { None };
        place.map(|place| Rc::clone(place.endpoint()))
    }

    /// Takes the place again that was given back: the endpoint works at the request, whatever else it has to do.
    pub(crate) fn take_place_again(&self, endpoint: Option<Rc<Endpoint>>) {
        if let Some(endpoint) = endpoint {
            self.place.set(Some(Place::again(endpoint)));
        }
    }

    /// Notes for the limit of an endpoint that it has not answered in time.
    #[cold]
    pub(crate) fn note_timeout_for_limits(&self, endpoint: &Endpoint) {
        let place = self.place.take();
        if place.is_some() {
            endpoint.limit.note_timeout();
        }
        self.place.set(place);
    }
}

/// Whether a response goes on for as long as both sides like. What has a length does not.
fn is_stream(response: &Response, head: &[u8]) -> bool {
    if response.fields.content_length.is_some() {
        return false;
    }
    let media_type = response.fields.find_name(head, b"content-type").map(|field| field.value(head));
    media_type.is_some_and(|value| {
        value.starts_with(b"text/event-stream") || value.starts_with(b"application/grpc")
    })
}
