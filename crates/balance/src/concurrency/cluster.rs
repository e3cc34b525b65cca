//! The slots at the endpoints of a cluster, as one worker has them: taken by requests, freed, and waited for.
//!
//! Must not be in here: the request, and the answer to one that gets no slot.

use std::cell::{Cell, OnceCell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clock::Clock;
use model::overload::{Concurrency, Priority};
use observe::{EndpointOverload, OverloadCells, Registry, Wait};

use super::endpoint::{EndpointLimit, FreedSlots, WorkerShare};
use super::fair::{Fairness, Overuse};
use super::peers;
use super::queue::{Entry, Queue, Ticket};

/// An endpoint at which requests take slots.
pub trait Limited {
    /// The endpoint's address, unique within a cluster.
    fn address(&self) -> SocketAddr;

    /// The requests in flight at the endpoint, and their limit.
    fn limit(&self) -> &EndpointLimit;
}

/// A worker's slots at the endpoints of a cluster, and the requests that wait for one. It stays while
/// endpoints come and go.
pub struct ClusterLimits<E: Limited + 'static> {
    name: String,
    clock: Clock,
    registry: Arc<Registry>,
    share: WorkerShare,
    endpoints: RefCell<Vec<Rc<E>>>,
    queue: RefCell<Queue<Rc<Waiter<E>>>>,
    /// Recent requests by client; none until a route enforces limits.
    fairness: RefCell<Option<Fairness>>,
    /// The owner calls [`tick`](Self::tick).
    is_listed: Cell<bool>,
    /// A request of a route that enforces limits has come since the last tick.
    is_enforced: Cell<bool>,
    /// Made at first use: in a large installation, most workers never send requests to most clusters.
    cells: OnceCell<Arc<OverloadCells>>,
}

/// A slot at an endpoint: a request in flight there, until this is dropped.
pub struct Slot<E: Limited>(Rc<E>);

/// A request that waits for a slot.
struct Waiter<E: Limited> {
    request: SlotRequest,
    is_served_last: bool,
    state: Cell<State<E>>,
    waker: RefCell<Option<Waker>>,
}

/// The slot that a request waits for, and how it is queued.
pub struct SlotRequest {
    /// How the limit of the endpoints is set.
    pub concurrency: Concurrency,
    /// The only endpoint that will do, where affinity decides; none for any.
    pub only: Option<SocketAddr>,
    /// Endpoints that will not do, such as those that have failed already.
    pub excluded: Vec<SocketAddr>,
    /// The request's priority.
    pub priority: Priority,
    /// Its client's load compared with the other clients'.
    pub overuse: Overuse,
    /// Bytes of memory that the request holds while it waits.
    pub bytes: usize,
    /// The longest time that it waits.
    pub timeout: Duration,
}

/// The state of a request that waits.
#[derive(Default)]
enum State<E: Limited> {
    #[default]
    Waiting,
    Served(Slot<E>),
    Dropped(NoSlot),
    /// The outcome has been taken.
    Over,
}

/// Why a request that has waited gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// It has waited for its timeout, or for less where the queue is overfull.
    TimedOut,
    /// The queue is full.
    QueueFull,
}

/// A request in the queue, which it leaves when this is dropped.
pub struct Queued<E: Limited + 'static> {
    cluster: Rc<ClusterLimits<E>>,
    waiter: Rc<Waiter<E>>,
    ticket: Ticket,
}

/// Whether a request is one of those that are served last: it is sheddable, or its client sends far more than
/// others.
#[inline]
pub fn is_served_last(priority: Priority, overuse: Overuse) -> bool {
    priority == Priority::Sheddable || (priority != Priority::Critical && overuse == Overuse::Far)
}

// === impl ClusterLimits ===

impl<E: Limited + 'static> ClusterLimits<E> {
    /// The limits of a cluster without endpoints; `name` is what the cluster is called in metrics.
    pub fn new(name: &str, clock: &Clock, registry: &Arc<Registry>, share: WorkerShare) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_owned(),
            clock: clock.clone(),
            registry: Arc::clone(registry),
            share,
            endpoints: RefCell::default(),
            queue: RefCell::new(Queue::new(clock.now())),
            fairness: RefCell::default(),
            is_listed: Cell::new(false),
            is_enforced: Cell::new(false),
            cells: OnceCell::new(),
        })
    }

    /// Replaces the endpoints that new requests go to.
    pub fn set_endpoints(self: &Rc<Self>, endpoints: &[Rc<E>]) {
        let queue: Rc<dyn FreedSlots> = Rc::<Self>::clone(self);
        for endpoint in endpoints {
            endpoint.limit().join(Rc::downgrade(&queue));
        }
        endpoints.clone_into(&mut self.endpoints.borrow_mut());
    }

    /// Whether an endpoint has as many requests in flight as it may. `is_served_last` is called where that
    /// depends on the request.
    #[inline]
    pub fn is_full(
        &self,
        endpoint: &E,
        concurrency: Concurrency,
        is_served_last: impl FnOnce() -> bool,
    ) -> bool {
        endpoint.limit().is_full(concurrency, self.share, is_served_last)
    }

    /// Takes a slot at an endpoint, even above the limit. True if [`tick`](Self::tick) is to be called from
    /// now on.
    #[inline]
    pub fn take(&self, endpoint: &Rc<E>, is_enforced: bool) -> (Slot<E>, bool) {
        endpoint.limit().begin();
        if is_enforced {
            self.is_enforced.set(true);
        }
        (Slot(Rc::clone(endpoint)), !self.is_listed.replace(true))
    }

    /// Queues a request for a slot.
    ///
    /// # Errors
    ///
    /// When the queue is full of requests that are served before it.
    pub fn wait(self: &Rc<Self>, request: SlotRequest) -> Result<Queued<E>, NoSlot> {
        let SlotRequest { priority, overuse, bytes, timeout, .. } = request;
        let is_served_last = is_served_last(priority, overuse);
        let waiter =
            Rc::new(Waiter { request, is_served_last, state: Cell::default(), waker: RefCell::default() });
        let now = self.clock.now();
        let entry = Entry { priority, overuse, bytes, deadline: now.after(timeout) };
        let drop_one = |gone: Rc<Waiter<E>>| gone.end(State::Dropped(NoSlot::QueueFull));
        let ticket = self.queue.borrow_mut().push(Rc::clone(&waiter), entry, now, drop_one);
        let ticket = ticket.ok_or(NoSlot::QueueFull)?;
        self.is_enforced.set(true);
        self.endpoints.borrow().iter().for_each(|endpoint| endpoint.limit().note_awaited());
        Ok(Queued { cluster: Rc::clone(self), waiter, ticket })
    }

    /// Counts a request of a client, for its [`overuse`](Self::overuse).
    pub fn note_client(&self, client: IpAddr) {
        let now = self.clock.now();
        let mut fairness = self.fairness.borrow_mut();
        fairness.get_or_insert_with(|| Fairness::new(RandomState::new().hash_one(0), now)).note(client, now);
    }

    /// A client's recent load compared with the other clients'.
    pub fn overuse(&self, client: IpAddr) -> Overuse {
        self.fairness.borrow().as_ref().map(|fairness| fairness.overuse(client)).unwrap_or_default()
    }

    /// Counts the outcome of a request that had to wait, or would have had to if limits were enforced.
    #[cold]
    pub fn count(&self, wait: Wait, priority: Priority) {
        self.cells().count(wait, priority);
    }

    /// Counts a try that the retry budget did not allow, or would not have if it were enforced.
    #[cold]
    pub fn count_denied_retry(&self) {
        self.cells().count_denied_retry();
    }

    /// The name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn cells(&self) -> &Arc<OverloadCells> {
        self.cells.get_or_init(|| self.registry.overload(&self.name))
    }

    /// Gives the free slots of an endpoint to requests that wait, one by one.
    fn serve(&self, endpoint: &Rc<E>) {
        if self.queue.borrow().is_empty() {
            return;
        }
        let now = self.clock.now();
        let suits = |waiter: &Rc<Waiter<E>>| self.suits(waiter, endpoint);
        loop {
            let late = |gone: Rc<Waiter<E>>| gone.end(State::Dropped(NoSlot::TimedOut));
            let next = self.queue.borrow_mut().pop(now, suits, late);
            let Some(waiter) = next else { return };
            let (slot, _) = self.take(endpoint, true);
            waiter.end(State::Served(slot));
        }
    }

    fn suits(&self, waiter: &Waiter<E>, endpoint: &E) -> bool {
        let SlotRequest { concurrency, only, excluded, .. } = &waiter.request;
        !self.is_full(endpoint, *concurrency, || waiter.is_served_last)
            && only.is_none_or(|only| only == endpoint.address())
            && !excluded.contains(&endpoint.address())
    }

    /// Updates the limits, drops requests that have timed out, and gives out the slots that are free. The
    /// owner calls it once a [`TICK`](clock::TICK). False once there is nothing to do until the next request.
    pub fn tick(self: &Rc<Self>) -> bool {
        let now = self.clock.now();
        let endpoints = self.endpoints.borrow().clone();
        let peers = peers(endpoints.iter().map(|endpoint| endpoint.limit().known()));
        let is_enforced = self.is_enforced.replace(false) || !self.queue.borrow().is_empty();
        for endpoint in &endpoints {
            endpoint.limit().update(peers, is_enforced, now);
        }
        self.queue.borrow_mut().expire(now, |gone| gone.end(State::Dropped(NoSlot::TimedOut)));
        for endpoint in &endpoints {
            self.serve(endpoint);
        }
        if !self.queue.borrow().is_empty() {
            // Endpoints may have been added since these requests were queued.
            for endpoint in &endpoints {
                endpoint.limit().note_awaited();
            }
        }
        self.publish(&endpoints);
        let is_busy = !self.queue.borrow().is_empty()
            || is_enforced
            || endpoints.iter().any(|endpoint| endpoint.limit().in_flight() > 0);
        self.is_listed.set(is_busy);
        is_busy
    }

    /// Writes the queue's length and the limits to the metrics.
    fn publish(&self, endpoints: &[Rc<E>]) {
        let of_endpoint = |endpoint: &Rc<E>| EndpointOverload {
            address: endpoint.address(),
            limit: endpoint.limit().found().map(u64::from),
            in_flight: endpoint.limit().in_flight().into(),
        };
        self.cells().show(self.queue.borrow().len() as u64, endpoints.iter().map(of_endpoint));
    }
}

impl<E: Limited + 'static> FreedSlots for ClusterLimits<E> {
    fn serve_at(self: Rc<Self>, address: SocketAddr) -> bool {
        let here = self.endpoints.borrow().iter().find(|endpoint| endpoint.address() == address).cloned();
        if let Some(endpoint) = here {
            self.serve(&endpoint);
        }
        !self.queue.borrow().is_empty()
    }
}

// === impl Slot ===

impl<E: Limited> Slot<E> {
    /// The endpoint at which the slot is.
    pub fn endpoint(&self) -> &Rc<E> {
        &self.0
    }

    /// Takes a slot again, even above the limit, after it was freed for a while.
    pub fn again(endpoint: Rc<E>) -> Self {
        endpoint.limit().begin();
        Self(endpoint)
    }
}

impl<E: Limited> Drop for Slot<E> {
    #[inline]
    fn drop(&mut self) {
        self.0.limit().end(self.0.address());
    }
}

// === impl Waiter ===

impl<E: Limited> Waiter<E> {
    fn end(&self, state: State<E>) {
        self.state.set(state);
        // A waker only queues its task; none of our code runs inside.
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl<E: Limited + 'static> Queued<E> {
    /// Polls for the slot.
    pub fn poll(&self, cx: &Context<'_>) -> Poll<Result<Slot<E>, NoSlot>> {
        match self.waiter.state.replace(State::Over) {
            State::Waiting => {
                self.waiter.state.set(State::Waiting);
                self.waiter.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
            State::Served(slot) => Poll::Ready(Ok(slot)),
            State::Dropped(why) => Poll::Ready(Err(why)),
            State::Over => Poll::Ready(Err(NoSlot::TimedOut)),
        }
    }
}

impl<E: Limited + 'static> Drop for Queued<E> {
    fn drop(&mut self) {
        // A slot that was granted and not taken goes to the next request.
        drop(self.waiter.state.replace(State::Over));
        let _gone = self.cluster.queue.borrow_mut().remove(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use observe::MetricsOptions;

    use super::*;

    struct Endpoint {
        address: SocketAddr,
        limit: EndpointLimit,
    }

    impl Limited for Endpoint {
        fn address(&self) -> SocketAddr {
            self.address
        }

        fn limit(&self) -> &EndpointLimit {
            &self.limit
        }
    }

    const TIMEOUT: Duration = Duration::from_secs(1);

    /// A cluster whose endpoints have a fixed limit of one request each.
    struct World {
        clock: Clock,
        cluster: Rc<ClusterLimits<Endpoint>>,
        endpoints: Vec<Rc<Endpoint>>,
    }

    impl World {
        fn new(endpoints: u8) -> Self {
            let clock = Clock::new(Clock::begin());
            let registry = Registry::new(MetricsOptions::default());
            let share = WorkerShare { worker: 0, workers: 1 };
            let cluster = ClusterLimits::new("web", &clock, &registry, share);
            let endpoint = |last| {
                let address = SocketAddr::from(([10, 0, 0, last], 80));
                Rc::new(Endpoint { address, limit: EndpointLimit::new(clock.now()) })
            };
            let endpoints: Vec<_> = (0..endpoints).map(endpoint).collect();
            cluster.set_endpoints(&endpoints);
            Self { clock, cluster, endpoints }
        }

        fn take(&self, at: usize) -> Slot<Endpoint> {
            self.cluster.take(&self.endpoints[at], true).0
        }

        fn wait(&self, change: impl FnOnce(&mut SlotRequest)) -> Queued<Endpoint> {
            let mut request = SlotRequest {
                concurrency: Concurrency::Fixed(NonZeroU32::MIN),
                only: None,
                excluded: Vec::new(),
                priority: Priority::Normal,
                overuse: Overuse::None,
                bytes: 0,
                timeout: TIMEOUT,
            };
            change(&mut request);
            self.cluster.wait(request).unwrap_or_else(|_| panic!("there is room in the queue"))
        }
    }

    fn poll(queued: &Queued<Endpoint>) -> Poll<Result<Slot<Endpoint>, NoSlot>> {
        queued.poll(&Context::from_waker(Waker::noop()))
    }

    fn last_byte(queued: &Queued<Endpoint>) -> Option<u8> {
        match poll(queued) {
            Poll::Ready(Ok(slot)) => match slot.endpoint().address.ip() {
                IpAddr::V4(address) => Some(address.octets()[3]),
                IpAddr::V6(_) => None,
            },
            _ => None,
        }
    }

    #[test]
    fn a_freed_slot_goes_to_the_request_that_waits_for_it() {
        let world = World::new(2);
        let slots = [world.take(0), world.take(1)];
        let second = world.wait(|request| request.only = Some(world.endpoints[1].address));
        let not_second = world.wait(|request| request.excluded.push(world.endpoints[1].address));
        assert!(poll(&second).is_pending() && poll(&not_second).is_pending());
        drop(slots);
        assert_eq!((last_byte(&second), last_byte(&not_second)), (Some(1), Some(0)));
        assert!(world.endpoints.iter().all(|endpoint| endpoint.limit.in_flight() == 0));
    }

    #[test]
    fn a_slot_that_is_not_taken_goes_to_the_next_request() {
        let world = World::new(1);
        let slot = world.take(0);
        let (first, next) = (world.wait(|_| ()), world.wait(|_| ()));
        drop(slot);
        assert!(poll(&next).is_pending(), "the first has it");
        drop(first);
        assert_eq!(last_byte(&next), Some(0));
    }

    #[test]
    fn requests_time_out_on_a_tick_and_new_endpoints_serve_the_others() {
        let world = World::new(1);
        let _slot = world.take(0);
        let short = world.wait(|request| request.timeout = TIMEOUT / 100);
        let long = world.wait(|_| ());
        world.clock.advance(TIMEOUT / 50);
        assert!(world.cluster.tick());
        assert!(matches!(poll(&short), Poll::Ready(Err(NoSlot::TimedOut))));
        let added = World::new(2).endpoints;
        world.cluster.set_endpoints(&[Rc::clone(&world.endpoints[0]), Rc::clone(&added[1])]);
        assert!(poll(&long).is_pending() && world.cluster.tick());
        assert_eq!(last_byte(&long), Some(1));
    }
}
