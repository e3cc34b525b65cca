//! Requirements on limits and the queue, checked in simulations, and the plots of these in docs/overload.md.

use super::plot::{Plot, Series};
use super::simulation::{Run, Scene};

/// Four endpoints with a capacity of 1,000 requests in a second together, and two workers in front of them.
fn usual() -> Scene {
    Scene {
        is_enforced: true,
        seconds: 20.0,
        workers: 2,
        endpoints: 4,
        servers: 10,
        service: 0.04,
        load: |_| 0.5,
        slowdown: |_, _| 1.0,
    }
}

/// Five times the capacity, for ten seconds.
fn rush() -> Scene {
    Scene { load: |at| if (5.0..15.0).contains(&at) { 5.0 } else { 0.5 }, ..usual() }
}

fn unloaded(scene: Scene) -> f64 {
    Scene { load: |_| 0.3, slowdown: |_, _| 1.0, seconds: 10.0, ..scene }.play(1).p99(1.0, 10.0)
}

#[test]
fn a_rush_is_answered_as_far_as_can_be_and_forgotten_at_once() {
    let few = Scene { workers: 1, servers: 4, service: 0.02, ..rush() };
    let many = Scene { workers: 1, servers: 30, service: 0.1, ..rush() };
    for (scene, seed) in [(rush(), 1), (rush(), 2), (few, 3), (many, 4)] {
        let run = scene.play(seed);
        let unloaded = unloaded(scene);
        let goodput = run.goodput(5.0, 15.0) / scene.capacity();
        let p99 = run.p99(5.0, 15.0) / unloaded;
        let after = run.p99(16.0, 20.0) / unloaded;
        assert!(goodput >= 0.95, "seed {seed}: goodput {goodput}");
        assert!(p99 <= 2.5, "seed {seed}: p99 {p99}");
        assert!(after <= 1.3, "seed {seed}: p99 after the rush {after}");
        assert!(run.failed(0.0, 5.0) == 0.0 && run.failed(16.0, 19.0) == 0.0, "seed {seed}");
    }
}

/// The reason for limits: in the unbounded queues of the endpoints, all requests wait until their clients
/// have given up.
#[test]
fn without_limits_a_rush_is_hardly_answered() {
    let scene = Scene { is_enforced: false, ..rush() };
    let goodput = scene.play(1).goodput(7.0, 15.0) / scene.capacity();
    assert!(goodput < 0.1, "{goodput}");
}

#[test]
fn an_endpoint_that_becomes_slow_is_left_alone_and_comes_back() {
    for seed in 1..=3 {
        let slow = |at: f64, endpoint| if endpoint == 0 && (5.0..12.0).contains(&at) { 20.0 } else { 1.0 };
        let run = Scene { slowdown: slow, seconds: 24.0, ..usual() }.play(seed);
        let (share, failed) = (run.share(0, 7.0, 12.0), run.failed(0.0, 24.0));
        let returned = run.share(0, 21.0, 24.0);
        assert!(share <= 0.03, "seed {seed}: share {share}");
        assert!(failed <= 0.02, "seed {seed}: failed {failed}");
        assert!(returned >= 0.15, "seed {seed}: share afterwards {returned}");
    }
}

/// A limit of one request grows again, too: an endpoint that has nothing more in flight looks as if it was
/// idle.
#[test]
fn endpoints_that_were_slow_together_under_light_load_are_all_used_again() {
    for seed in 1..=6 {
        let slow = |at: f64, _| if (5.0..10.0).contains(&at) && at.fract() < 0.4 { 4.0 } else { 1.0 };
        let scene = Scene {
            workers: 1,
            servers: 512,
            service: 0.02,
            load: |_| 0.005,
            slowdown: slow,
            seconds: 20.0,
            ..usual()
        };
        let run = scene.play(seed);
        let shares: Vec<_> = (0..4).map(|endpoint| run.share(endpoint, 12.0, 20.0)).collect();
        assert!(shares.iter().all(|share| *share >= 0.15), "seed {seed}: shares afterwards {shares:?}");
        let p99 = run.p99(12.0, 20.0) / run.p99(1.0, 5.0);
        assert!(p99 <= 1.2, "seed {seed}: p99 afterwards {p99}");
    }
}

/// Where all endpoints become slower, none is to blame: each is used to its capacity.
#[test]
fn a_cluster_that_becomes_slow_is_used_to_its_capacity() {
    for seed in 1..=3 {
        let slow = |at: f64, _| if at >= 5.0 { 2.0 } else { 1.0 };
        let scene = Scene { slowdown: slow, load: |_| 0.7, ..usual() };
        let run = scene.play(seed);
        let goodput = run.goodput(10.0, 19.0) / (scene.capacity() / 2.0);
        assert!(goodput >= 0.9, "seed {seed}: goodput {goodput}");
    }
}

#[test]
fn a_slow_leak_is_followed() {
    for seed in 1..=2 {
        let leaking = |at: f64, _| 1.0 + at / 60.0;
        let run = Scene { slowdown: leaking, seconds: 40.0, load: |_| 0.55, ..usual() }.play(seed);
        assert!(run.failed(0.0, 39.0) <= 0.001, "seed {seed}: {}", run.failed(0.0, 39.0));
    }
}

#[test]
fn a_ramp_is_followed_up_and_down() {
    for seed in 1..=2 {
        let scene = Scene { load: |at| 0.1 + 1.4 * (1.0 - (at / 10.0 - 1.0).abs()), ..usual() };
        let run = scene.play(seed);
        assert!(run.failed(0.0, 5.0) <= 0.001 && run.failed(15.0, 19.0) <= 0.001, "seed {seed}");
        let goodput = run.goodput(9.0, 11.0) / scene.capacity();
        assert!(goodput >= 0.93, "seed {seed}: goodput {goodput}");
    }
}

#[test]
fn an_endpoint_that_flaps_costs_few_requests() {
    for seed in 1..=2 {
        let flapping = |at: f64, endpoint| {
            if endpoint == 0 && at % 4.0 >= 2.0 { 10.0 } else { 1.0 }
        };
        let run = Scene { slowdown: flapping, ..usual() }.play(seed);
        assert!(run.failed(0.0, 19.0) <= 0.01, "seed {seed}: {}", run.failed(0.0, 19.0));
    }
}

/// Few requests are no overload, however much their latency varies.
#[test]
fn few_requests_are_never_limited() {
    for seed in 1..=2 {
        let wild =
            |at: f64, endpoint: usize| if (at.floor() + endpoint as f64) % 3.0 < 0.5 { 4.0 } else { 1.0 };
        let run = Scene { slowdown: wild, seconds: 60.0, load: |_| 0.005, ..usual() }.play(seed);
        assert!(run.failed(0.0, 58.0) <= 0.0, "seed {seed}");
        assert!(run.queued.iter().all(|&queued| queued == 0), "seed {seed}");
    }
}

// Plots of a run, to look at it by eye.

fn per_second(run: &Run, seconds: u32, of: impl Fn(&Run, f64, f64) -> f64) -> Vec<f64> {
    (0..seconds * 2).map(|half| of(run, f64::from(half) / 2.0, f64::from(half + 1) / 2.0)).collect()
}

fn plots() -> [(&'static str, Plot); 3] {
    let (kept, none) = (rush().play(1), Scene { is_enforced: false, ..rush() }.play(1));
    let goodput = |run: &Run| per_second(run, 20, Run::goodput);
    let p99 = |run: &Run| per_second(run, 20, |run, from, to| 1000.0 * run.p99(from, to));
    let slow = |at: f64, endpoint| if endpoint == 0 && (5.0..12.0).contains(&at) { 20.0 } else { 1.0 };
    let beside = Scene { slowdown: slow, ..usual() };
    let (held, free) = (beside.play(1), Scene { is_enforced: false, ..beside }.play(1));
    let share = |run: &Run| per_second(run, 20, |run, from, to| 100.0 * run.share(0, from, to));
    let two = |kept: Vec<f64>, none: Vec<f64>| {
        [Series { name: "with limits", values: kept }, Series { name: "without", values: none }]
    };
    [
        (
            "goodput",
            Plot {
                title: "Good answers a second; 5 times the capacity of 1,000 from 5 s to 15 s",
                seconds: 20,
                series: two(goodput(&kept), goodput(&none)),
            },
        ),
        (
            "latency",
            Plot {
                title: "p99 of good answers in milliseconds, in the same rush",
                seconds: 20,
                series: two(p99(&kept), p99(&none)),
            },
        ),
        (
            "slow-endpoint",
            Plot {
                title: "Requests in 100 for one of four endpoints, 20 times slower from 5 s to 12 s",
                seconds: 20,
                series: two(share(&held), share(&free)),
            },
        ),
    ]
}

#[test]
fn plots_are_those_of_the_simulation() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/overload");
    let writes = std::env::var_os("FOREBAY_WRITE_DOCS").is_some();
    for (name, plot) in plots() {
        let (path, svg) = (format!("{folder}/{name}.svg"), plot.svg());
        if writes {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(&path, &svg).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == svg,
            "{path} is stale: FOREBAY_WRITE_DOCS=1 cargo test -p balance plots writes it"
        );
    }
}
