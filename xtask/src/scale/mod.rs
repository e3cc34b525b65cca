//! `cargo xtask peers-kubernetes`: Forebay in a cluster, at scale, under change and in trouble.
//!
//! No peers are measured here: the goals are absolute. Must not be in here: how anything is measured.

mod change;
mod console;
mod stage;
mod start;
mod traffic;
mod upgrade;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use lab::inside;

use crate::interrupt::Interrupt;
use crate::machine;
use crate::measured::{self, Goals, Measured, Section};
use crate::peers::page::Block;
use stage::{Kind, Stage};

const NAME: &str = "peers-kubernetes";
const TITLE: &str = "Scale, change and trouble";

/// Options of `cargo xtask peers-kubernetes`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// How many of everything, in percent of what the goals are about.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    percent: u32,
    /// Put the figures of what is measured, with machine and command, into docs/figures.md; others stay there.
    #[arg(long)]
    write: bool,
    /// The namespaces have been entered.
    #[arg(long, hide = true)]
    inside: bool,
}

/// One thing that is measured.
struct Measure {
    name: &'static str,
    what: &'static str,
    /// Of what there are many.
    kind: Kind,
    run: fn(&mut Stage) -> Result<Findings>,
}

/// All of them, in the order of the report. What wants an empty cluster comes before what fills it, and what wants no annotations
/// before what adds them.
const MEASURES: &[Measure] = &[
    Measure {
        name: "create-idle",
        what: "from an API call that creates an Ingress to its first 200 through a worker, nothing else going on",
        kind: Kind::Ingress,
        run: change::idle,
    },
    Measure {
        name: "rolling-restart",
        what: "a Deployment of 4 Pods restarted again and again, 2,000 requests/s: GET and POST, on kept connections and on new ones",
        kind: Kind::Ingress,
        run: traffic::rolling_restart,
    },
    Measure {
        name: "kill-pod",
        what: "kill -9 of the process of one Pod of 4 at 2,000 requests/s: GET and POST, on kept connections and on new ones",
        kind: Kind::Ingress,
        run: traffic::kill_pod,
    },
    Measure {
        name: "helm-upgrade",
        what: "helm upgrade of Forebay, two replicas, behind a balancer of connections at 2,000 requests/s: GET and POST, on kept connections and on new ones",
        kind: Kind::Ingress,
        run: upgrade::by_helm,
    },
    Measure {
        name: "api-server-away",
        what: "the API server stopped for a minute at 1,000 requests/s, endpoints unchanged",
        kind: Kind::Ingress,
        run: traffic::api_server_away,
    },
    Measure {
        name: "start-5000",
        what: "start to ready with 5,000 Ingresses, 5,000 Services and 10,000 endpoints",
        kind: Kind::Ingress,
        run: start::plain,
    },
    Measure {
        name: "create-busy",
        what: "as create-idle, while there are 5,000 Ingresses and 100 objects change every second",
        kind: Kind::Ingress,
        run: change::busy,
    },
    Measure {
        name: "traffic-under-change",
        what: "5,000 requests/s with 5,000 Ingresses, quiet and while 100 objects change every second",
        kind: Kind::Ingress,
        run: traffic::under_change,
    },
    Measure {
        name: "console",
        what: "Forebay with 5,000 Ingresses at 20,000 requests/s, with a console closed and open, and at none",
        kind: Kind::Ingress,
        run: console::cost,
    },
    Measure {
        name: "start-annotated",
        what: "start to ready as in start-5000, with ten annotations on each of the 5,000 Ingresses",
        kind: Kind::Ingress,
        run: start::annotated,
    },
    Measure {
        name: "create-annotated",
        what: "as create-idle with ten annotations, while there are 5,000 Ingresses with as many",
        kind: Kind::Ingress,
        run: change::annotated,
    },
    Measure {
        name: "route-create-idle",
        what: "from an API call that creates an HTTPRoute to its first 200 through a worker, nothing else going on",
        kind: Kind::HttpRoute,
        run: change::idle,
    },
    Measure {
        name: "route-start-5000",
        what: "start to ready with 5,000 HTTPRoutes of one Gateway, 5,000 Services and 10,000 endpoints, and the status of all",
        kind: Kind::HttpRoute,
        run: start::routes,
    },
    Measure {
        name: "route-create-busy",
        what: "as route-create-idle, while there are 5,000 HTTPRoutes and 100 objects change every second",
        kind: Kind::HttpRoute,
        run: change::busy,
    },
    Measure {
        name: "route-under-change",
        what: "5,000 requests/s for an HTTPRoute with shares of 3 to 1, a mirror, timeouts, and retries of which an endpoint that refuses makes use, while there are 5,000 others and 100 objects change every second",
        kind: Kind::HttpRoute,
        run: traffic::route_under_change,
    },
];

impl Measured for Measure {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }
}

/// What came of a measure.
#[derive(Default)]
struct Findings {
    figures: Vec<(&'static str, String)>,
    goals: Goals,
}

impl Findings {
    fn figure(&mut self, heading: &'static str, value: String) {
        self.figures.push((heading, value));
    }

    fn goal(&mut self, what: impl Into<String>, met: bool) {
        self.goals.push((what.into(), met));
    }

    fn section(self, source: String) -> Section {
        let (headings, values) =
            self.figures.into_iter().map(|(heading, value)| (heading.to_owned(), value)).unzip();
        Section { table: vec![headings, values], goals: self.goals, source }
    }
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let measures = measured::wanted(MEASURES, &arguments.only)?;
    if !arguments.inside {
        crate::peers::forebay_binary()?;
        ::cluster::binary()?;
        let ours: Vec<OsString> = env::args_os().skip(1).chain(["--inside".into()]).collect();
        return inside::enter(&ours);
    }
    inside::prepare()?;
    inside::cover_run()?;
    machine::raise_descriptor_limit();
    let interrupt = Interrupt::install()?;
    let mut stage: Option<Stage> = None;
    measured::run(&measures, &interrupt, arguments.write.then(block).as_ref(), |measure| {
        // One cluster ends before the next one begins.
        let mut fit = match stage.take().filter(|stage| stage.kind == measure.kind) {
            Some(fit) => fit,
            None => Stage::set(arguments.percent, measure.kind, &interrupt)?,
        };
        let findings = (measure.run)(&mut fit)?;
        stage = Some(fit);
        Ok(findings.section(arguments.source(measure)))
    })
}

fn block() -> Block {
    Block { command: NAME, groups: vec![(TITLE, MEASURES.iter().map(|measure| measure.name).collect())] }
}

impl Arguments {
    /// The command that measures it alone, and the machine.
    fn source(&self, measure: &Measure) -> String {
        let percent =
            if self.percent == 100 { String::new() } else { format!(" --percent {}", self.percent) };
        format!("`cargo xtask {NAME} --only {}{percent}`; {}", measure.name, machine::describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_says_what_was_found_and_whether_it_will_do() {
        let mut findings = Findings::default();
        findings.figure("failed", 3.to_string());
        findings.goal("0 failed", false);
        let text = findings.section("here".into()).text(&MEASURES[0]);
        let expected = format!(
            "#### create-idle\n\n{}\n\n| failed |\n|-------:|\n|      3 |\n\n- 0 failed: NOT MET\n- here\n",
            MEASURES[0].what
        );
        assert_eq!(text, expected);
    }
}
