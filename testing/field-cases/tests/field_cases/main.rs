//! The field cases, made to happen: the misfortune, what `forebay doctor` says of it, the remedy, and Forebay
//! instead.
//!
//! `cargo test -p field-cases -- NAME` runs some of them. They run one after the other, since they measure,
//! in namespaces of their own that this program enters by itself. What this machine does not allow is left
//! out (`testkit::left_out`). Must not be in here: what the stage is built of (`src/`).

mod a;
mod b;
mod c;
mod chinese;
mod d;
mod doctor;
mod e_hops;
mod e_ports;
mod e_quota;
mod measure;
mod night;
mod page;
mod program;
mod redis;
mod stage;

use std::env;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Error, Result};
use lab::{Quota, inside};
use page::Section;
use testkit::{left_out, needs_for};

/// The argument of the program once it is inside.
const INSIDE: &str = "--inside";

/// A field case.
struct Case {
    name: &'static str,
    needs: &'static [Need],
    run: fn() -> Result<Section>,
}

/// Features that a machine may lack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Namespaces,
    Program(&'static str),
    Quota,
}

const NGINX: &[Need] = &[Need::Namespaces, Need::Program("nginx")];
const REDIS: &[Need] = &[Need::Namespaces, Need::Program("redis-server"), Need::Quota];

const NIGHT: &[Need] =
    &[Need::Namespaces, Need::Program("nginx"), Need::Program("redis-server"), Need::Quota];

const CASES: &[Case] = &[
    Case { name: "a", needs: NGINX, run: a::run },
    Case { name: "b", needs: &[], run: b::run },
    Case { name: "c", needs: &[], run: c::run },
    Case { name: "d", needs: NGINX, run: d::run },
    Case { name: "e-hops", needs: NGINX, run: e_hops::run },
    Case { name: "e-ports", needs: NGINX, run: e_ports::run },
    Case { name: "e-quota", needs: REDIS, run: e_quota::run },
    Case { name: "night", needs: NIGHT, run: night::run },
];

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[OsString]) -> Result<ExitCode> {
    let wanted = wanted(arguments);
    if arguments.first().is_some_and(|first| first == INSIDE) {
        if let Err(error) = inside::prepare() {
            return Ok(play_without_namespaces(wanted, &error));
        }
        let is_interrupted = inside::kill_others_on_interrupt()?;
        return Ok(play(&wanted, || is_interrupted.load(Ordering::Relaxed)));
    }
    if wanted.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    program::build()?;
    match inside::make() {
        Ok(inside) => inside.run([OsString::from(INSIDE)].iter().chain(arguments)),
        Err(error) => Ok(play_without_namespaces(wanted, &error)),
    }
}

fn play_without_namespaces(wanted: Vec<&'static Case>, error: &Error) -> ExitCode {
    let (cannot, can) =
        wanted.into_iter().partition::<Vec<_>, _>(|case| case.needs.contains(&Need::Namespaces));
    for case in cannot {
        left_out(&case.full_name(), &format!("no namespaces can be made: {error:#}"));
    }
    play(&can, || false)
}

/// The cases whose names begin as one of the arguments, or all. What `cargo test` may be given besides is
/// nothing to us.
fn wanted(arguments: &[OsString]) -> Vec<&'static Case> {
    let names = arguments.iter().filter_map(|argument| argument.to_str());
    let names: Vec<&str> = names.filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |case: &&Case| names.is_empty() || names.iter().any(|name| case.name.starts_with(name));
    CASES.iter().filter(is_wanted).collect()
}

fn play(cases: &[&Case], is_interrupted: impl Fn() -> bool) -> ExitCode {
    let mut failures = Vec::new();
    for case in cases {
        failures.extend(case.fault());
        if is_interrupted() {
            eprintln!("interrupted");
            return ExitCode::FAILURE;
        }
    }
    // Again at the end, where it is seen.
    for failure in &failures {
        eprintln!("{failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

// === impl Case ===

impl Case {
    fn full_name(&self) -> String {
        format!("field case {}", self.name)
    }

    /// Runs it and says in a line how that went. Returns that line if it failed.
    fn fault(&self) -> Option<String> {
        if !self.needs.iter().all(|need| need.is_met(&self.full_name())) {
            return None;
        }
        let begun = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let section = (self.run)()?;
            println!("{section}");
            page::write(self.name, &section)
        }));
        let seconds = begun.elapsed().as_secs_f64();
        let (outcome, why) = match &result {
            Ok(Ok(())) => ("ok", String::new()),
            Ok(Err(error)) => ("FAILED", format!(": {error:#}")),
            // The hook has said why.
            Err(_) => ("FAILED", String::new()),
        };
        let line = format!("{} ... {outcome} ({seconds:.0} s){why}", self.full_name());
        println!("{line}");
        (outcome != "ok").then_some(line)
    }
}

// === impl Need ===

impl Need {
    /// Whether it is; if not, that is recorded.
    fn is_met(&self, case: &str) -> bool {
        let (what, result) = match self {
            Need::Program(name) => return needs_for(case, name),
            Need::Namespaces => ("network namespaces", stage::is_possible()),
            Need::Quota => ("CPU quotas", Quota::is_possible()),
        };
        if let Err(error) = &result {
            left_out(case, &format!("no {what} can be made: {error:#}"));
        }
        result.is_ok()
    }
}
