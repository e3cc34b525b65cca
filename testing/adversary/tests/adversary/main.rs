//! The attacks, played against the real binary.
//!
//! `cargo test -p adversary -- NAME` plays some of them; without options from the seed that is always the
//! same, and briefly. `cargo xtask adversary` plays them for longer. Nothing leaves this machine, and nothing
//! stays. Must not be in here: generators (`src/`).

mod admin;
mod cache_views;
mod decided;
mod descriptors;
mod endpoints;
mod http1;
mod http2;
mod measure;
mod options;
mod quic_acks;
mod quic_silence;
mod random_bytes;
mod slow;
mod tenants;
mod tls;
mod tokens;
mod websocket;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use adversary::attack::{Outcome, THREAD, keep_panics};
use adversary::{Attack, Options, binary};
use options::Arguments;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most attacks wait for something most of the time.
const ATTACKS_AT_ONCE: usize = 4;

/// All of them.
fn attacks() -> Vec<Attack> {
    [
        admin::ATTACKS,
        cache_views::ATTACKS,
        decided::ATTACKS,
        random_bytes::ATTACKS,
        descriptors::ATTACKS,
        slow::ATTACKS,
        http2::ATTACKS,
        http1::ATTACKS,
        endpoints::ATTACKS,
        tenants::ATTACKS,
        tls::ATTACKS,
        tokens::ATTACKS,
        quic_acks::ATTACKS,
        quic_silence::ATTACKS,
        websocket::ATTACKS,
    ]
    .concat()
}

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.measure {
        raise_descriptor_limit();
        binary::build()?;
        return measure::run(arguments);
    }
    let wanted: Vec<Attack> = attacks().into_iter().filter(|attack| arguments.wants(attack.name)).collect();
    if arguments.list {
        for attack in &wanted {
            println!("{}", attack.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if wanted.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    raise_descriptor_limit();
    binary::build()?;
    keep_panics();
    println!("adversary: {} attacks from seed {}", wanted.len(), arguments.options.seed);
    let begun = Instant::now();
    let outcomes = play(&wanted, arguments);
    Ok(tell(&outcomes, begun.elapsed()))
}

/// Runs the attacks, some concurrently; the longest come first in each group.
fn play(attacks: &[Attack], arguments: &Arguments) -> Vec<(&'static str, Outcome)> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(attack) = attacks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = play_one(*attack, &arguments.options);
            told(attack.name, &outcome, arguments.verbose);
            outcomes.lock().expect("no thread panics with it").push((attack.name, outcome));
        }
    };
    thread::scope(|scope| {
        (0..ATTACKS_AT_ONCE).for_each(|_| drop(scope.spawn(work)));
    });
    outcomes.into_inner().expect("no thread panics with it")
}

/// Runs an attack on a thread with its name, by which panics are assigned.
fn play_one(attack: Attack, options: &Options) -> Outcome {
    let builder = thread::Builder::new().name(format!("{THREAD}{}", attack.name));
    let playing = thread::scope(|scope| {
        let playing = builder.spawn_scoped(scope, || attack.run(options)).expect("a thread");
        playing.join()
    });
    playing.expect("panics are caught within")
}

fn told(name: &str, outcome: &Outcome, verbose: bool) {
    for find in &outcome.finds {
        println!("adversary: {name} FAILED ({:.1} s)\n{find}", outcome.time.as_secs_f64());
    }
    if verbose && outcome.finds.is_empty() {
        println!("adversary: {name} ... ok ({:.1} s, {} cases)", outcome.time.as_secs_f64(), outcome.cases);
    }
}

fn tell(outcomes: &[(&str, Outcome)], time: Duration) -> ExitCode {
    let mut failed: Vec<&str> =
        outcomes.iter().filter(|(_, outcome)| !outcome.finds.is_empty()).map(|(name, _)| *name).collect();
    failed.sort_unstable();
    let cases: u64 = outcomes.iter().map(|(_, outcome)| outcome.cases).sum();
    let held = outcomes.len() - failed.len();
    println!("adversary: {held} of {} held, {cases} cases, {:.0} s", outcomes.len(), time.as_secs_f64());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("adversary: failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// As many descriptors as this user may have.
fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Attacks that need many descriptors report a limit that is too low.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many more an attack may count on, beside others.
fn descriptors_left() -> usize {
    let all = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(all).unwrap_or(usize::MAX) / ATTACKS_AT_ONCE
}

/// Waits until a number has stopped growing.
fn await_standstill(number: &AtomicU64) {
    let (mut last, mut same) = (0, 0);
    while same < 5 {
        thread::sleep(Duration::from_millis(50));
        let now = number.load(Ordering::Relaxed);
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
    }
}
