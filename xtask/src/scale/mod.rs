//! `cargo xtask peers-kubernetes`: Forebay in a cluster, at scale, under change and in trouble.
//!
//! No peers are measured here: the goals are absolute. Must not be in here: how anything is measured.

mod change;
mod stage;
mod start;
mod traffic;

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use field_cases::inside;

use crate::machine;
use crate::peers::page::{self, Block};
use crate::peers::{PAGE, report};
use stage::Stage;

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
    /// Put the figures of what is measured, with machine and command, into docs/performance.md; others stay there.
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
    run: fn(&mut Stage) -> Result<Findings>,
}

/// All of them, in the order of the report. What wants an empty cluster comes before what fills it, and what wants no annotations
/// before what adds them.
const MEASURES: &[Measure] = &[
    Measure {
        name: "create-idle",
        what: "from an API call that creates an Ingress to its first 200 through a worker, nothing else going on",
        run: change::idle,
    },
    Measure {
        name: "rolling-restart",
        what: "a Deployment of 4 Pods restarted again and again, 2,000 requests/s: GET and POST, on kept connections and on new ones",
        run: traffic::rolling_restart,
    },
    Measure {
        name: "kill-pod",
        what: "kill -9 of the process of one Pod of 4 at 2,000 requests/s: GET and POST, on kept connections and on new ones",
        run: traffic::kill_pod,
    },
    Measure {
        name: "api-server-away",
        what: "the API server stopped for a minute at 1,000 requests/s, endpoints unchanged",
        run: traffic::api_server_away,
    },
    Measure {
        name: "start-5000",
        what: "start to ready with 5,000 Ingresses, 5,000 Services and 10,000 endpoints",
        run: start::plain,
    },
    Measure {
        name: "create-busy",
        what: "as create-idle, while there are 5,000 Ingresses and 100 objects change every second",
        run: change::busy,
    },
    Measure {
        name: "traffic-under-change",
        what: "5,000 requests/s with 5,000 Ingresses, quiet and while 100 objects change every second",
        run: traffic::under_change,
    },
    Measure {
        name: "start-annotated",
        what: "start to ready as in start-5000, with ten annotations on each of the 5,000 Ingresses",
        run: start::annotated,
    },
    Measure {
        name: "create-annotated",
        what: "as create-idle with ten annotations, while there are 5,000 Ingresses with as many",
        run: change::annotated,
    },
];

/// What came of a measure.
#[derive(Default)]
struct Findings {
    figures: Vec<(&'static str, String)>,
    goals: Vec<(String, bool)>,
}

impl Findings {
    fn figure(&mut self, heading: &'static str, value: String) {
        self.figures.push((heading, value));
    }

    fn goal(&mut self, what: impl Into<String>, met: bool) {
        self.goals.push((what.into(), met));
    }
}

/// Measures and prints. A goal that is not met is printed, not an error: machines differ.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let measures = arguments.measures()?;
    if !arguments.inside {
        crate::peers::forebay_binary()?;
        ::cluster::binary()?;
        let ours: Vec<OsString> = env::args_os().skip(1).chain(["--inside".into()]).collect();
        match inside::enter(&ours)? {}
    }
    inside::prepare()?;
    machine::raise_descriptor_limit();
    let mut stage = Stage::set(arguments.percent)?;
    let mut failed = Vec::new();
    for measure in measures {
        eprintln!("{}: {}", measure.name, measure.what);
        match (measure.run)(&mut stage) {
            Ok(findings) => {
                let section = section(measure, &findings, &arguments.source(measure));
                println!("{section}");
                if arguments.write {
                    block().write(Path::new(PAGE), measure.name, &section)?;
                }
            }
            Err(error) => {
                stage.interrupt.check()?;
                eprintln!("error: {}: {error:#}", measure.name);
                failed.push(measure.name);
            }
        }
    }
    if failed.is_empty() { Ok(ExitCode::SUCCESS) } else { bail!("not measured: {}", failed.join(", ")) }
}

fn block() -> Block {
    Block { command: NAME, groups: vec![(TITLE, MEASURES.iter().map(|measure| measure.name).collect())] }
}

/// A measure's table and goals, and where the figures come from.
fn section(measure: &Measure, findings: &Findings, source: &str) -> String {
    let (headings, values) =
        findings.figures.iter().map(|(heading, value)| ((*heading).to_owned(), value.clone())).unzip();
    let mut text = format!("{}{}\n\n{}\n\n", page::WORKLOAD, measure.name, measure.what);
    text.push_str(&report::table(&[headings, values]));
    text.push('\n');
    for (what, met) in &findings.goals {
        let _ = writeln!(text, "- {what}: {}", if *met { "met" } else { "NOT MET" });
    }
    let _ = writeln!(text, "- {source}");
    text
}

impl Arguments {
    fn measures(&self) -> Result<Vec<&'static Measure>> {
        if let Some(unknown) = self.only.iter().find(|name| !MEASURES.iter().any(|one| one.name == **name)) {
            let names: Vec<_> = MEASURES.iter().map(|measure| measure.name).collect();
            bail!("there is no {unknown}; there are: {}", names.join(", "));
        }
        let is_wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|wanted| wanted == name);
        Ok(MEASURES.iter().filter(|measure| is_wanted(measure.name)).collect())
    }

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
        let text = section(&MEASURES[0], &findings, "here");
        let expected = format!(
            "#### create-idle\n\n{}\n\n| failed |\n| -----: |\n|      3 |\n\n- 0 failed: NOT MET\n- here\n",
            MEASURES[0].what
        );
        assert_eq!(text, expected);
    }
}
