//! The places at the endpoints of a cluster, as one worker has them: taken by requests, given back, and waited for.
//!
//! Never in here: what a request is, and what becomes of one that is not served.

use std::cell::{Cell, OnceCell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use model::overload::{Concurrency, Priority};
use observe::{EndpointOverload, OverloadCells, Registry, Wait};

use super::endpoint::{Served, Share};
use super::fair::{Excess, Fair};
use super::peers;
use super::queue::{Asking, Queue, Ticket};
use crate::clock::Clock;
use crate::upstream::pool::Endpoint;

/// What a worker knows of the places at the endpoints of a cluster. It stays while the endpoints come and go.
pub(crate) struct ClusterLimits {
    name: String,
    clock: Clock,
    registry: Arc<Registry>,
    share: Share,
    endpoints: RefCell<Vec<Rc<Endpoint>>>,
    queue: RefCell<Queue<Rc<Waiter>>>,
    /// What clients ask for, once a route keeps limits.
    fair: RefCell<Option<Fair>>,
    /// It is among those that are looked at on ticks.
    is_listed: Cell<bool>,
    /// A request has come since the last tick whose route keeps limits.
    is_enforced: Cell<bool>,
    /// Made when it is first of use: most clusters of a large installation are never asked of most workers.
    cells: OnceCell<Arc<OverloadCells>>,
}

/// A place at an endpoint, until it is dropped.
pub(crate) struct Place(Rc<Endpoint>);

/// A request that waits for a place.
pub(crate) struct Waiter {
    wish: Wish,
    is_last: bool,
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

/// Which places will do.
pub(crate) struct Wish {
    pub(crate) concurrency: Concurrency,
    /// The only endpoint that will do, where the request says itself which one it is.
    pub(crate) only: Option<SocketAddr>,
    /// Endpoints that will not do, since they have failed.
    pub(crate) tried: Vec<SocketAddr>,
}

/// What has become of one that waits.
#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Served(Place),
    Dropped(NoPlace),
    /// It has been told.
    Over,
}

/// Why one that has waited gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// Its time is up.
    Late,
    /// There is no room to wait.
    Full,
}

/// One in the queue, which it leaves when this is dropped.
pub(crate) struct Queued {
    cluster: Rc<ClusterLimits>,
    waiter: Rc<Waiter>,
    ticket: Ticket,
}

/// Whether a request is of those that are served last: it may be shed, or its client asks for far more than others.
pub(crate) fn is_last(priority: Priority, excess: Excess) -> bool {
    priority == Priority::Sheddable || (priority != Priority::Critical && excess == Excess::Far)
}

// === impl ClusterLimits ===

impl ClusterLimits {
    pub(crate) fn new(name: &str, clock: &Clock, registry: &Arc<Registry>, share: Share) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_owned(),
            clock: clock.clone(),
            registry: Arc::clone(registry),
            share,
            endpoints: RefCell::default(),
            queue: RefCell::new(Queue::new(clock.now())),
            fair: RefCell::default(),
            is_listed: Cell::new(false),
            is_enforced: Cell::new(false),
            cells: OnceCell::new(),
        })
    }

    /// Takes the endpoints that new requests go to.
    pub(crate) fn set_endpoints(self: &Rc<Self>, endpoints: &[Rc<Endpoint>]) {
        let served: Rc<dyn Served> = Rc::<Self>::clone(self);
        for endpoint in endpoints {
            endpoint.limit.join(Rc::downgrade(&served));
        }
        endpoints.clone_into(&mut self.endpoints.borrow_mut());
    }

    /// Whether an endpoint has as many requests as it may; `is_last` is asked whether the request is of those that are served last.
    #[inline]
    pub(crate) fn is_full(
        &self,
        endpoint: &Endpoint,
        concurrency: Concurrency,
        is_last: impl FnOnce() -> bool,
    ) -> bool {
        endpoint.limit.is_full(concurrency, self.share, is_last)
    }

    /// Takes a place at an endpoint, be it above the limit. True if the cluster is to be looked at on ticks from now on.
    #[inline]
    pub(crate) fn take(&self, endpoint: &Rc<Endpoint>, is_enforced: bool) -> (Place, bool) {
        endpoint.limit.begin();
        if is_enforced {
            self.is_enforced.set(true);
        }
        (Place(Rc::clone(endpoint)), !self.is_listed.replace(true))
    }

    /// Has a request wait.
    ///
    /// # Errors
    ///
    /// When there is no room for it.
    pub(crate) fn wait(
        self: &Rc<Self>,
        wish: Wish,
        (priority, excess): (Priority, Excess),
        bytes: usize,
        timeout: Duration,
    ) -> Result<Queued, NoPlace> {
        let is_last = is_last(priority, excess);
        let waiter = Rc::new(Waiter { wish, is_last, state: Cell::default(), waker: RefCell::default() });
        let now = self.clock.now();
        let asking = Asking { priority, excess, bytes, until: now.after(timeout) };
        let drop_one = |gone: Rc<Waiter>| gone.end(State::Dropped(NoPlace::Full));
        let ticket = self.queue.borrow_mut().push(Rc::clone(&waiter), asking, now, drop_one);
        let ticket = ticket.ok_or(NoPlace::Full)?;
        self.is_enforced.set(true);
        self.endpoints.borrow().iter().for_each(|endpoint| endpoint.limit.note_awaited());
        Ok(Queued { cluster: Rc::clone(self), waiter, ticket })
    }

    /// Notes that a client asks for something.
    pub(crate) fn note_client(&self, client: IpAddr) {
        let now = self.clock.now();
        let mut fair = self.fair.borrow_mut();
        fair.get_or_insert_with(|| Fair::new(RandomState::new().hash_one(0), now)).note(client, now);
    }

    /// What a client asks for beside others.
    pub(crate) fn excess(&self, client: IpAddr) -> Excess {
        self.fair.borrow().as_ref().map(|fair| fair.excess(client)).unwrap_or_default()
    }

    /// Counts what became of a request that had to wait, or would have had to.
    #[cold]
    pub(crate) fn count(&self, wait: Wait, priority: Priority) {
        self.cells().count(wait, priority);
    }

    /// Counts a try that the retry budget did not allow, or would not have.
    #[cold]
    pub(crate) fn count_denied_retry(&self) {
        self.cells().count_denied_retry();
    }

    /// What the cluster is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn cells(&self) -> &Arc<OverloadCells> {
        self.cells.get_or_init(|| self.registry.overload(&self.name))
    }

    /// Gives the free places of an endpoint to those who wait, one by one.
    fn serve(&self, endpoint: &Rc<Endpoint>) {
        if self.queue.borrow().is_empty() {
            return;
        }
        let now = self.clock.now();
        let suits = |waiter: &Rc<Waiter>| self.suits(waiter, endpoint);
        loop {
            let late = |gone: Rc<Waiter>| gone.end(State::Dropped(NoPlace::Late));
            let next = self.queue.borrow_mut().pop(now, suits, late);
            let Some(waiter) = next else { return };
            let (place, _) = self.take(endpoint, true);
            waiter.end(State::Served(place));
        }
    }

    fn suits(&self, waiter: &Waiter, endpoint: &Endpoint) -> bool {
        let Wish { concurrency, only, tried } = &waiter.wish;
        !self.is_full(endpoint, *concurrency, || waiter.is_last)
            && only.is_none_or(|only| only == endpoint.address)
            && !tried.contains(&endpoint.address)
    }

    /// What has to be done on ticks: limits are decided on, those are dropped who have waited for too long, and places are given out that
    /// there are now. False once there is nothing to do until the next request.
    pub(crate) fn tick(self: &Rc<Self>) -> bool {
        let now = self.clock.now();
        let endpoints = self.endpoints.borrow().clone();
        let peers = peers(endpoints.iter().map(|endpoint| endpoint.limit.known()));
        let is_enforced = self.is_enforced.replace(false) || !self.queue.borrow().is_empty();
        for endpoint in &endpoints {
            endpoint.limit.look(peers, is_enforced, now);
        }
        self.queue.borrow_mut().expire(now, |gone| gone.end(State::Dropped(NoPlace::Late)));
        for endpoint in &endpoints {
            self.serve(endpoint);
        }
        if !self.queue.borrow().is_empty() {
            // Some of them may be new.
            for endpoint in &endpoints {
                endpoint.limit.note_awaited();
            }
        }
        self.show(&endpoints);
        let is_busy = !self.queue.borrow().is_empty()
            || is_enforced
            || endpoints.iter().any(|endpoint| endpoint.limit.in_flight() > 0);
        self.is_listed.set(is_busy);
        is_busy
    }

    fn show(&self, endpoints: &[Rc<Endpoint>]) {
        let of_endpoint = |endpoint: &Rc<Endpoint>| EndpointOverload {
            address: endpoint.address,
            limit: endpoint.limit.found().map(u64::from),
            in_flight: endpoint.limit.in_flight().into(),
        };
        self.cells().show(self.queue.borrow().len() as u64, endpoints.iter().map(of_endpoint));
    }
}

impl Served for ClusterLimits {
    fn serve_at(self: Rc<Self>, address: SocketAddr) -> bool {
        let here = self.endpoints.borrow().iter().find(|endpoint| endpoint.address == address).cloned();
        if let Some(endpoint) = here {
            self.serve(&endpoint);
        }
        !self.queue.borrow().is_empty()
    }
}

// === impl Place ===

impl Place {
    /// The endpoint.
    pub(crate) fn endpoint(&self) -> &Rc<Endpoint> {
        &self.0
    }

    /// Takes it again, be it above the limit, after it was given back for a while.
    pub(crate) fn again(endpoint: Rc<Endpoint>) -> Self {
        endpoint.limit.begin();
        Self(endpoint)
    }
}

impl Drop for Place {
    #[inline]
    fn drop(&mut self) {
        self.0.limit.end(self.0.address);
    }
}

// === impl Waiter ===

impl Waiter {
    fn end(&self, state: State) {
        self.state.set(state);
        // A waker only queues its task; none of our code runs inside.
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Queued {
    /// Polls for a place.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Place, NoPlace>> {
        match self.waiter.state.replace(State::Over) {
            State::Waiting => {
                self.waiter.state.set(State::Waiting);
                self.waiter.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
            State::Served(place) => Poll::Ready(Ok(place)),
            State::Dropped(why) => Poll::Ready(Err(why)),
            State::Over => Poll::Ready(Err(NoPlace::Late)),
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // A place that nobody has asked for any more goes to the next one.
        drop(self.waiter.state.replace(State::Over));
        let _gone = self.cluster.queue.borrow_mut().remove(self.ticket);
    }
}
