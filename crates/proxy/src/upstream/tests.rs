//! Pools and balancers under seeded schedules and a clock of the test's own. A seed replays a failure.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clock::{Clock, Random};
use model::{AppProtocol, Balance, EndpointState, PoolCap, UpstreamConnections};
use observe::{EndpointCells, MetricsOptions, Registry};
use wire::h1::Response;

use super::{
    Cluster, ClusterState, Endpoint, LivenessCheck, Pool, PooledConnection, Protocol, SharedPool, Sources,
};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadlines;
use crate::io::event_loop::EventLoop;
use crate::io::h2::HeadFault;
use crate::limits::{HTTP2_PING_AFTER, HTTP2_PING_TIMEOUT, REGRET_WINDOW};

const SECOND: Duration = Duration::from_secs(1);

/// Pools of several workers, and endpoints that accept connections and never answer.
struct World {
    clock: Clock,
    registry: Arc<Registry>,
    pools: Vec<Pool>,
    listeners: Vec<TcpListener>,
}

impl World {
    fn new(workers: usize, endpoints: usize) -> Self {
        let clock = Clock::new(Clock::begin());
        let registry = Registry::new(MetricsOptions::default());
        let shared_pool = SharedPool::new(workers, Arc::default());
        let pool = |worker| {
            let (shared_pool, registry) = (Arc::clone(&shared_pool), Arc::clone(&registry));
            let deadlines = Deadlines::new(clock.clone(), Arc::default());
            Pool::new(worker, &clock, &deadlines, shared_pool, registry, Sources::new(Vec::new()))
        };
        let pools = (0..workers).map(pool).collect();
        let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Self { clock, registry, pools, listeners: (0..endpoints).map(listen).collect() }
    }

    fn address(&self, index: usize) -> SocketAddr {
        self.listeners[index].local_addr().expect("it listens")
    }

    fn set(&self, settings: &UpstreamConnections) {
        self.pools.iter().for_each(|pool| pool.configure(settings));
    }

    fn cluster(&self, balance: Balance, seed: u64) -> Cluster {
        let endpoints = (0..self.listeners.len())
            .map(|index| model::Endpoint { address: self.address(index), state: EndpointState::Ready });
        let cluster = model::Cluster {
            name: "web".to_owned(),
            balance,
            endpoints: endpoints.collect(),
            ..model::Cluster::default()
        };
        Cluster::new(
            &cluster,
            &ClusterState::new(cluster.endpoints.len(), &Random::seeded(seed), self.clock.now()),
            &self.pools[0],
        )
    }

    fn ports_in_use(&self, address: SocketAddr) -> u64 {
        self.registry.ports(IpAddr::V4(Ipv4Addr::LOCALHOST), address).in_use()
    }
}

async fn open(pool: &Pool, endpoint: &Endpoint) -> PooledConnection {
    pool.open(endpoint, LivenessCheck::EventLoop).await.expect("it listens")
}

fn give_back(pool: &Pool, endpoint: &Endpoint, lease: PooledConnection) {
    let mut connection = lease.connection;
    connection.requests += 1;
    pool.put_back(endpoint, connection);
}

fn run(test: impl Future<Output = ()>) {
    EventLoop::new(|| ()).expect("an event loop").run(test);
}

// === liveness ===

/// A task may poll only so many sockets before it has to yield (`reactor::limits::BUDGET`); one sweep looks
/// at more connections than that.
#[test]
fn a_connection_that_has_ended_is_seen_however_much_the_task_has_done() {
    let world = World::new(1, 1);
    run(async {
        let endpoint = world.pools[0].endpoint(world.address(0), &Protocol::default());
        let lease = open(&world.pools[0], &endpoint).await;
        assert!(lease.connection.is_quiet());
        drop(world.listeners[0].accept().expect("a connection"));
        poll_fn(|cx| lease.connection.socket().poll_peek(cx)).await.expect("an end");
        let exhaust = poll_fn(|cx| {
            while lease.connection.socket().poll_peek(cx).is_ready() {}
            Poll::Ready(())
        });
        exhaust.await;
        assert!(!lease.connection.is_quiet());
    });
}

/// The endpoint accepts a session, and never says a word.
#[test]
fn a_session_on_which_an_endpoint_is_silent_for_long_is_asked_and_then_left() {
    let world = World::new(1, 1);
    run(async {
        let protocol = Protocol { version: AppProtocol::Http2, ..Protocol::default() };
        let endpoint = world.pools[0].endpoint(world.address(0), &protocol);
        let session = world.pools[0].session(&endpoint).await.expect("it listens");
        let head = b"GET /question HTTP/1.1\r\nHost: a.test\r\n\r\n";
        let call = session.call(head, false, true).expect("a session takes calls");
        let (mut peer, _) = world.listeners[0].accept().expect("a connection");
        peer.set_nonblocking(true).expect("a socket");
        let mut sent_with = async |what: &[u8]| {
            let mut sent = Vec::new();
            while !sent.windows(what.len()).any(|window| window == what) {
                let mut piece = [0; 1024];
                match peer.read(&mut piece) {
                    Ok(len) => sent.extend_from_slice(&piece[..len]),
                    Err(_) => reactor::yield_now().await,
                }
            }
        };
        sent_with(b"/question").await;
        world.clock.advance(HTTP2_PING_AFTER);
        world.pools[0].sweep();
        sent_with(b"forebay?").await;
        world.clock.advance(HTTP2_PING_TIMEOUT);
        world.pools[0].sweep();
        let (mut response, mut buffer) = (Response::default(), Buffer::empty(&Rc::default()));
        let head = poll_fn(|cx| call.stream().poll_head(cx, &mut response, &mut buffer)).await;
        assert_eq!(head, Err(HeadFault::Reset(None)));
        assert!(endpoint.must_connect(), "the session takes no more calls");
    });
}

// === balance ===

#[test]
fn a_round_gives_each_endpoint_its_turn_wherever_it_begins() {
    let world = World::new(1, 5);
    for seed in 0..20 {
        let (cluster, random) = (world.cluster(Balance::RoundRobin, seed), Random::seeded(seed));
        let mut counts = vec![0; 5];
        for _ in 0..5 * 7 {
            let picked = cluster.pick(|_| false, &random, world.clock.now()).expect("there are some");
            counts[(0..5).find(|&index| world.address(index) == picked.address).expect("one of them")] += 1;
        }
        assert_eq!(counts, [7; 5], "seed {seed}");
    }
}

#[test]
fn what_was_tried_is_not_picked_again_and_in_the_end_nothing_is() {
    let world = World::new(1, 4);
    for balance in [Balance::RoundRobin, Balance::Ewma] {
        for seed in 0..20 {
            let (cluster, random) = (world.cluster(balance.clone(), seed), Random::seeded(seed));
            let mut tried: Vec<SocketAddr> = Vec::new();
            while let Some(picked) =
                cluster.pick(|endpoint| tried.contains(&endpoint.address), &random, world.clock.now())
            {
                assert!(!tried.contains(&picked.address), "seed {seed}");
                tried.push(picked.address);
            }
            assert_eq!(tried.len(), 4, "seed {seed}");
        }
    }
}

#[test]
fn by_response_time_the_slowest_is_left_alone_and_tried_again_in_time() {
    let world = World::new(1, 3);
    for seed in 0..20 {
        let (cluster, random) = (world.cluster(Balance::Ewma, seed), Random::seeded(seed));
        let slow = world.address(0);
        for index in 0..3 {
            let took = if index == 0 { 100 } else { 10 };
            let endpoint = world.pools[0].endpoint(world.address(index), &Protocol::default());
            endpoint.note_response(Duration::from_millis(took), world.clock.now());
        }
        let picks_slow = |fast_ones_answer: bool| {
            let picked = cluster.pick(|_| false, &random, world.clock.now()).expect("there are some");
            if fast_ones_answer && picked.address != slow {
                picked.note_response(Duration::from_millis(10), world.clock.now());
            }
            picked.address == slow
        };
        assert!((0..50).all(|_| !picks_slow(true)), "seed {seed}");
        // The average fades below those of the others, which go on answering.
        let is_tried_again = (0..400).any(|_| {
            world.clock.advance(SECOND / 4);
            picks_slow(true)
        });
        assert!(is_tried_again, "seed {seed}");
    }
}

// === pool ===

#[test]
fn the_connection_used_last_is_used_next() {
    run(async {
        let world = World::new(1, 1);
        let (pool, endpoint) =
            (&world.pools[0], world.pools[0].endpoint(world.address(0), &Protocol::default()));
        let (first, second) = (open(pool, &endpoint).await, open(pool, &endpoint).await);
        let opened = world.clock.now();
        world.clock.advance(SECOND);
        give_back(pool, &endpoint, second);
        world.clock.advance(SECOND);
        give_back(pool, &endpoint, first);
        let lease = pool.take_idle(&endpoint, LivenessCheck::EventLoop).expect("two are idle");
        assert_eq!(lease.connection.idle_since.since(opened), 2 * SECOND);
    });
}

#[test]
fn a_cap_evicts_what_was_idle_longest_and_regrets_it_for_a_while() {
    run(async {
        let world = World::new(1, 1);
        world.pools[0].endpoint(world.address(0), &Protocol::default());
        world.set(&UpstreamConnections { cap: PoolCap::Fixed(2), ..UpstreamConnections::default() });
        let (pool, endpoint) =
            (&world.pools[0], world.pools[0].endpoint(world.address(0), &Protocol::default()));
        let burst = async || {
            let mut leases = Vec::new();
            for _ in 0..4 {
                let lease = pool.take_idle(&endpoint, LivenessCheck::EventLoop);
                leases.push(match lease {
                    Some(lease) => lease,
                    None => open(pool, &endpoint).await,
                });
            }
            for lease in leases {
                give_back(pool, &endpoint, lease);
            }
        };
        let counts = |cells: &EndpointCells| (cells.opened.get(), cells.evicted.get(), cells.regretted.get());
        burst().await;
        assert_eq!(counts(&endpoint.cells), (4, 2, 0));
        assert_eq!((endpoint.cells.idle.get(), world.ports_in_use(world.address(0))), (2, 2));
        burst().await;
        assert_eq!(counts(&endpoint.cells), (6, 4, 2), "two were missed at once");
        world.clock.advance(REGRET_WINDOW + SECOND);
        burst().await;
        assert_eq!(counts(&endpoint.cells), (8, 6, 2), "nobody regrets what is long past");
    });
}

#[test]
fn connections_are_given_up_by_age_use_and_hint() {
    run(async {
        let world = World::new(1, 1);
        let settings = UpstreamConnections {
            requests: 5,
            idle_timeout: 10 * SECOND,
            lifetime: 25 * SECOND,
            ..UpstreamConnections::default()
        };
        world.pools[0].endpoint(world.address(0), &Protocol::default());
        world.set(&settings);
        let (pool, endpoint) =
            (&world.pools[0], world.pools[0].endpoint(world.address(0), &Protocol::default()));
        for (what, uses, pause, hint) in [
            ("idle for too long", 1, 10, None),
            ("asked often enough", 5, 1, None),
            ("too old", 3, 9, None),
            ("not kept for longer by the endpoint", 1, 4, Some(4 * SECOND)),
        ] {
            let mut lease = Some(open(pool, &endpoint).await);
            for _ in 0..uses {
                let mut used = lease.take().unwrap_or_else(|| panic!("{what}: given up too early"));
                used.connection.idle_max = hint;
                give_back(pool, &endpoint, used);
                world.clock.advance(pause * SECOND);
                lease = pool.take_idle(&endpoint, LivenessCheck::EventLoop);
            }
            assert!(lease.is_none(), "{what}");
            assert_eq!(world.ports_in_use(world.address(0)), 0, "{what}");
        }
    });
}

#[test]
fn an_endpoint_that_is_gone_keeps_nothing() {
    run(async {
        let world = World::new(2, 1);
        let address = world.address(0);
        let endpoints =
            [0, 1].map(|worker: usize| world.pools[worker].endpoint(address, &Protocol::default()));
        let (busy, idle) =
            (open(&world.pools[0], &endpoints[0]).await, open(&world.pools[0], &endpoints[0]).await);
        let others = open(&world.pools[1], &endpoints[1]).await;
        give_back(&world.pools[0], &endpoints[0], idle);
        give_back(&world.pools[1], &endpoints[1], others);
        let leave = || world.pools.iter().zip(&endpoints).for_each(|(pool, endpoint)| pool.leave(endpoint));
        for endpoint in &endpoints {
            endpoint.join();
            endpoint.join();
        }
        leave();
        assert_eq!(world.ports_in_use(address), 3, "another cluster has it");
        leave();
        assert_eq!(world.ports_in_use(address), 1, "the one that is busy");
        give_back(&world.pools[0], &endpoints[0], busy);
        assert_eq!(world.ports_in_use(address), 0);
    });
}

/// Two workers take, open, give back, drop, sweep and wait at random. Whatever they do, every connection is
/// either in use, idle, or closed; none is handed out that is too old; and a worker with nothing idle opens
/// none while another has one.
#[test]
fn no_schedule_loses_a_connection_or_hands_out_an_old_one() {
    for seed in 0..30 {
        run(schedule(seed, if seed % 2 == 0 { PoolCap::Auto } else { PoolCap::Fixed(2) }));
    }
}

async fn schedule(seed: u64, cap: PoolCap) {
    let world = World::new(2, 1);
    let address = world.address(0);
    let endpoints: Vec<Rc<Endpoint>> =
        world.pools.iter().map(|pool| pool.endpoint(address, &Protocol::default())).collect();
    let settings = UpstreamConnections { cap, requests: 8, idle_timeout: 5 * SECOND, lifetime: 30 * SECOND };
    world.set(&settings);
    let (random, mut leases) = (Random::seeded(seed), Vec::new());
    let idle = || endpoints.iter().map(|endpoint| endpoint.cells.idle.get()).fold(0, u64::wrapping_add);
    let most_idle = Cell::new(0);
    for step in 0..300 {
        let worker = random.below(2);
        let (pool, endpoint) = (&world.pools[worker], &endpoints[worker]);
        match random.below(8) {
            0..3 => {
                let lease = if let Some(lease) = pool.take_idle(endpoint, LivenessCheck::EventLoop) {
                    lease
                } else {
                    assert_eq!(idle(), 0, "seed {seed}, step {step}: one was idle somewhere");
                    open(pool, endpoint).await
                };
                let connection = &lease.connection;
                let now = world.clock.now();
                let is_young = now.since(connection.opened) < settings.lifetime
                    && now.since(connection.idle_since) < settings.idle_timeout
                    && connection.requests < settings.requests;
                assert!(is_young, "seed {seed}, step {step}");
                leases.push(lease);
            }
            3..6 if !leases.is_empty() => {
                let lease = leases.swap_remove(random.below(leases.len()));
                give_back(pool, endpoint, lease);
            }
            6 if !leases.is_empty() => drop(leases.swap_remove(random.below(leases.len()))),
            7 => pool.sweep(),
            _ => world.clock.advance(SECOND / 2 * random.below(4) as u32),
        }
        most_idle.set(most_idle.get().max(idle()));
        let in_use = leases.len() as u64 + idle();
        assert_eq!(world.ports_in_use(address), in_use, "seed {seed}, step {step}");
    }
    if let PoolCap::Fixed(cap) = cap {
        assert!(most_idle.get() <= 2 * u64::from(cap), "seed {seed}");
    }
}
