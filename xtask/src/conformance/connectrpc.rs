//! connectrpc's conformance suite: Connect, gRPC and gRPC-Web over HTTP/1.1, HTTP/2 and HTTP/3. The suite's
//! clients talk to its reference server through a Forebay for each configuration, which
//! `testing/connectrpc/main.go` starts.
//!
//! Must not be in here: cases; they are the suite's. What may fail stands in
//! `testing/connectrpc/exceptions.txt`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::exceptions::exceptions;
use super::stage::Stage;
use crate::proxies::forebay_of;

const LIMIT: Duration = Duration::from_mins(10);

/// A run of the suite.
struct Run {
    name: &'static str,
    /// The version of HTTP of the reference server, where it is not that of the client.
    behind: Option<&'static str>,
    /// Patterns of cases that run, and of those that do not.
    only: &'static [&'static str],
    skip: &'static [&'static str],
    /// Cases that it has at least.
    least: usize,
}

const RUNS: [Run; 3] = [
    Run { name: "the same HTTP on both sides", behind: None, only: &[], skip: &[], least: 13_000 },
    Run {
        name: "HTTP/1.1 to HTTP/2",
        behind: Some("2"),
        only: &["**/HTTPVersion:1/**"],
        skip: &[],
        least: 4_000,
    },
    Run {
        name: "HTTP/2 to HTTP/1.1",
        behind: Some("1"),
        only: &["**/HTTPVersion:2/**"],
        // Without HTTP/2 to the end there is no gRPC, and no stream in both directions at once.
        skip: &[
            "**/Protocol:PROTOCOL_GRPC/**",
            "gRPC Unexpected Requests/**",
            "gRPC Proto Sub-Format Requests/**",
            "**/full-duplex/**",
        ],
        least: 4_000,
    },
];

pub(super) fn run(stage: &Stage) -> Result<String> {
    let testing = stage.tools.testing.join("connectrpc");
    let list = fs::read_to_string(testing.join("exceptions.txt"))?;
    let known = stage.folder.join("connectrpc-known.txt");
    fs::write(&known, exceptions(&list)?.into_iter().collect::<Vec<_>>().join("\n"))?;
    let mut said = Vec::new();
    for run in RUNS {
        let mut command = stage.tools.go_program("connectconformance");
        command.arg("--conf").arg(testing.join("config.yaml")).args(["--mode", "server"]);
        // A case that is known to fail and passes is a failure to the suite.
        command.arg("--known-failing").arg(format!("@{}", known.display()));
        for (flag, patterns) in [("--run", run.only), ("--skip", run.skip)] {
            for pattern in patterns {
                command.args([flag, pattern]);
            }
        }
        command.arg("--").arg(stage.tools.go_program("connectrpc-server").get_program());
        command.arg(forebay_of("debug")?).arg(stage.tools.go_program("referenceserver").get_program());
        command.args(run.behind);
        let output = stage.output("connectrpc", command, LIMIT).with_context(|| run.name)?;
        let cases = total(&output).with_context(|| output.clone())?;
        ensure!(cases >= run.least, "{}: {cases} cases, and there are {} at least", run.name, run.least);
        said.push(format!("{cases} cases, {}", run.name));
    }
    Ok(said.join("; "))
}

/// The number of cases in the suite's summary.
fn total(output: &str) -> Option<usize> {
    output.lines().find_map(|line| line.strip_prefix("Total cases: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_number_of_cases() {
        assert_eq!(total("FAILED: x\n\nTotal cases: 602\n598 passed, 0 failed\n"), Some(602));
        assert_eq!(total("nothing has run"), None);
    }
}
