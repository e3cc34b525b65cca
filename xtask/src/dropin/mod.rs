//! `cargo xtask dropin`: what the documentation and the end-to-end tests of ingress-nginx say that it does,
//! in our words, asked of Forebay and of Traefik's provider for the Ingresses of ingress-nginx.
//!
//! Both follow one cluster. Must not be in here: cases (`xtask/dropin/cases`).

mod case;
mod endpoint;
mod judge;
mod stage;

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::panic;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use lab::inside;
use serde_json::json;

use crate::child::{output, root};
use crate::interrupt::Interrupt;
use crate::machine;
use crate::proxies::forebay_of;
use crate::template::render_file;
use case::{Case, Names, Topic};
use judge::judge;
use stage::{FOREBAY, Stage, TRAEFIK};

const PAGE: &str = "docs/dropin.md";
/// The part of the cases, in percent, that Forebay has to answer as ingress-nginx does.
const GOAL_PERCENT: usize = 99;
/// A case that fails is asked again after this time: a controller may have been late.
const SECOND_THOUGHT: Duration = Duration::from_secs(1);

/// Options of `cargo xtask dropin`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only the topics whose names have this in them.
    #[arg(long)]
    only: Option<String>,
    /// Write the score and the cases that were missed into docs/dropin.md.
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// The namespaces have been entered.
    #[arg(long, hide = true)]
    inside: bool,
}

/// A case, and how each controller did; an error says what was different.
struct Outcome<'a> {
    topic: &'a Topic,
    case: &'a Case,
    forebay: Result<()>,
    traefik: Result<()>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let traefik = stage::traefik()?;
    if !arguments.inside {
        forebay_of("debug")?;
        traefik.prepare()?;
        ::cluster::binary()?;
        let ours: Vec<OsString> = env::args_os().skip(1).chain(["--inside".into()]).collect();
        return inside::enter(&ours);
    }
    inside::prepare()?;
    inside::cover_run()?;
    machine::raise_descriptor_limit();
    let interrupt = Interrupt::install()?;
    let mut topics = case::topics()?;
    if let Some(only) = &arguments.only {
        topics.retain(|topic| topic.name.contains(only));
    }
    let cases: Vec<_> =
        topics.iter().flat_map(|topic| topic.cases.iter().map(move |case| (topic, case))).collect();
    ensure!(!cases.is_empty(), "no topic has that name");
    let mut stage = Stage::set(&interrupt)?;
    stage.add(cases.iter().map(|(_, case)| *case))?;
    stage.start(&traefik)?;
    // The client of tests panics where a connection breaks, which is in the outcome.
    panic::set_hook(Box::new(|_| {}));
    let mut outcomes = Vec::new();
    for (number, &(topic, case)) in cases.iter().enumerate() {
        interrupt.check()?;
        let names = stage.names(number);
        let ask = |controller| ask(case, &names, controller);
        outcomes.push(Outcome { topic, case, forebay: ask(FOREBAY), traefik: ask(TRAEFIK) });
    }
    drop(panic::take_hook());
    let version = output(&mut traefik.version_command().expect("it is fetched"))?;
    let version = version.lines().find_map(|line| line.strip_prefix("Version:")).unwrap_or_default().trim();
    print!("{}", tell(&outcomes));
    if arguments.write {
        fs::write(root().join(PAGE), page(&topics, &outcomes, version)?)?;
    }
    let good = outcomes.iter().filter(|outcome| outcome.forebay.is_ok()).count();
    ensure!(good * 100 >= outcomes.len() * GOAL_PERCENT, "Forebay answers {good} of {}", outcomes.len());
    Ok(ExitCode::SUCCESS)
}

/// The task of the endpoints' Pods.
pub(crate) fn serve_endpoint(service: &str, listen: SocketAddr) -> Result<()> {
    endpoint::serve_forever(service, listen)
}

fn ask(case: &Case, names: &Names, controller: IpAddr) -> Result<()> {
    judge(&case.ask, names, controller).or_else(|_| {
        thread::sleep(SECOND_THOUGHT);
        judge(&case.ask, names, controller)
    })
}

/// Each case that one of them answers otherwise, and the score.
fn tell(outcomes: &[Outcome<'_>]) -> String {
    let mut text = String::new();
    for Outcome { topic, case, forebay, traefik } in outcomes {
        for (name, outcome) in [("Forebay", forebay), ("Traefik", traefik)] {
            if let Err(error) = outcome {
                writeln!(text, "{name}: {}: {}: {error:#}", topic.name, case.what).expect("a string");
            }
        }
    }
    let count = |good: fn(&Outcome<'_>) -> bool| outcomes.iter().filter(|outcome| good(outcome)).count();
    let (forebay, traefik) = (count(|one| one.forebay.is_ok()), count(|one| one.traefik.is_ok()));
    writeln!(text, "of {} cases: Forebay {forebay}, Traefik {traefik}", outcomes.len()).expect("a string");
    text
}

/// The page of the score.
fn page(topics: &[Topic], outcomes: &[Outcome<'_>], version: &str) -> Result<String> {
    let rows: Vec<_> = topics
        .iter()
        .map(|topic| {
            let ours = outcomes.iter().filter(|outcome| outcome.topic.name == topic.name);
            let ours: Vec<_> = ours.collect();
            json!({
                "topic": topic.name,
                "source": topic.source,
                "cases": ours.len(),
                "forebay": ours.iter().filter(|one| one.forebay.is_ok()).count(),
                "traefik": ours.iter().filter(|one| one.traefik.is_ok()).count(),
            })
        })
        .collect();
    let missed = |is_missed: fn(&Outcome<'_>) -> bool| -> Vec<_> {
        let missed = outcomes.iter().filter(|outcome| is_missed(outcome));
        missed.map(|one| format!("{}: {}", one.topic.name, one.case.what)).collect()
    };
    let count = |good: fn(&Outcome<'_>) -> bool| outcomes.iter().filter(|outcome| good(outcome)).count();
    let values = json!({
        "version": version,
        "machine": machine::describe(),
        "rows": rows,
        "cases": outcomes.len(),
        "forebay": count(|one| one.forebay.is_ok()),
        "traefik": count(|one| one.traefik.is_ok()),
        "forebay_missed": missed(|one| one.forebay.is_err()),
        "traefik_missed": missed(|one| one.traefik.is_err()),
    });
    render_file("dropin/page.md", values)
}
