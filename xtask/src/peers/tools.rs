//! The programs of others that measuring needs: whether they are there, and which version.
//!
//! Must not be in here: starting them for real.

use std::env;
use std::process::Command;

use anyhow::{Result, bail};

use super::proxy::Peer;
use super::workload::Workload;

/// A program, the flag that makes it tell its version, and Debian's package.
struct Tool {
    program: &'static str,
    version_flag: &'static str,
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "nginx", version_flag: "-v", package: "nginx-light" },
    Tool { program: "haproxy", version_flag: "-v", package: "haproxy" },
    Tool { program: "varnishd", version_flag: "-V", package: "varnish" },
    Tool { program: "wrk", version_flag: "-v", package: "wrk" },
    Tool { program: "h2load", version_flag: "--version", package: "nghttp2-client" },
    Tool { program: "redis-server", version_flag: "--version", package: "redis-server" },
    Tool { program: "redis-benchmark", version_flag: "--version", package: "redis-tools" },
];

/// An error that names every program that is missing for this.
pub(super) fn check(workloads: &[&Workload], peers: &[Peer]) -> Result<()> {
    let needed: Vec<_> = workloads.iter().flat_map(|workload| needs(workload, peers)).collect();
    let missing: Vec<_> = TOOLS
        .iter()
        .filter(|tool| needed.contains(&tool.program) && !is_installed(tool.program))
        .map(|tool| format!("{} (Debian's package {})", tool.program, tool.package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("not installed: {}; or leave out what needs them: --only, --without", missing.join(", "))
}

/// The versions of all that measures this workload.
pub(super) fn versions(workload: &Workload, peers: &[Peer]) -> String {
    let needed = needs(workload, peers);
    let fetched = workload.peers.iter().filter(|peer| peers.contains(peer));
    let fetched = fetched.filter_map(|peer| first_line(peer.command().ok()?, peer.version_flag()?));
    let installed = TOOLS
        .iter()
        .filter(|tool| needed.contains(&tool.program))
        .filter_map(|tool| first_line(Command::new(tool.program), tool.version_flag));
    fetched.chain(installed).collect::<Vec<_>>().join("; ")
}

fn needs(workload: &Workload, peers: &[Peer]) -> Vec<&'static str> {
    let measured = workload.peers.iter().filter(|peer| peers.contains(peer));
    measured.filter_map(|peer| peer.program()).chain(workload.tools.iter().copied()).collect()
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn first_line(mut program: Command, flag: &str) -> Option<String> {
    let output = program.arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&text).lines().next()?.to_owned();
    // HAProxy, wrk, Redis and Caddy add their home page, features, build and sum.
    let line = line.split(" - ").next()?.split(" [").next()?.split(" sha=").next()?.split(" h1:").next()?;
    Some(
        ["nginx version: ", "Server version: "]
            .iter()
            .fold(line, |line, it| line.trim_start_matches(it))
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::workload::GROUPS;
    use super::*;

    #[test]
    fn every_program_that_is_needed_is_known() {
        let workloads = GROUPS.iter().flat_map(|group| group.workloads);
        for program in workloads.flat_map(|workload| needs(workload, &Peer::ALL)) {
            assert!(TOOLS.iter().any(|tool| tool.program == program), "{program}");
        }
    }

    #[test]
    fn a_program_is_looked_for_in_the_path() {
        assert!(is_installed("cargo") && !is_installed("no-such-program-here"));
    }
}
