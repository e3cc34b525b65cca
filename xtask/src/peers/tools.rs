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

/// An error that names every program that is missing for these workloads, besides their peers.
pub(super) fn check(workloads: &[&Workload]) -> Result<()> {
    let needed: Vec<_> = workloads.iter().flat_map(|workload| workload.tools).copied().collect();
    let missing: Vec<_> = TOOLS
        .iter()
        .filter(|tool| needed.contains(&tool.program) && !is_installed(tool.program))
        .map(|tool| format!("{} (Debian's package {})", tool.program, tool.package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("not installed: {}; or leave out what needs them: --only", missing.join(", "))
}

/// An error where a peer is a program that has to be installed, and is not.
pub(super) fn check_peer(peer: Peer) -> Result<()> {
    let tool = TOOLS.iter().find(|tool| peer.program() == Some(tool.program));
    match tool.filter(|tool| !is_installed(tool.program)) {
        Some(tool) => bail!("not installed: Debian's package {}", tool.package),
        None => Ok(()),
    }
}

/// The versions of all that measures this workload.
pub(super) fn versions(workload: &Workload, peers: &[Peer]) -> String {
    let needed = needs(workload, peers);
    let fetched = workload.peers.iter().filter(|peer| peers.contains(peer));
    let fetched = fetched.filter_map(|peer| {
        peer.version_built().or_else(|| first_line(peer.command().ok()?, peer.version_flag()?))
    });
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
    version(&String::from_utf8_lossy(&text))
}

/// The version in what a program says of itself.
fn version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| !line.trim().is_empty())?.trim();
    // HAProxy, wrk, Redis and Caddy add their home page, features, build and sum.
    let line = line.split(" - ").next()?.split(" [").next()?.split(" sha=").next()?.split(" h1:").next()?;
    // Envoy says where it is, and of which commit, version and kind its build is.
    if let Some((_, build)) = line.split_once("envoy  version: ") {
        return Some(format!("Envoy {}", build.split('/').nth(1)?));
    }
    // Caddy says nothing but a number.
    if line.strip_prefix('v').is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit())) {
        return Some(format!("Caddy {line}"));
    }
    let names = ["nginx version: ", "Server version: "];
    Some(names.iter().fold(line, |line, name| line.trim_start_matches(name)).into())
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
    fn versions_are_told_without_what_comes_with_them() {
        for (said, expected) in [
            ("nginx version: nginx/1.30.6\n", "nginx/1.30.6"),
            ("HAProxy version 3.2.1 2026/01/02 - https://haproxy.org/\n", "HAProxy version 3.2.1 2026/01/02"),
            ("\n/a/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n\n", "Envoy 1.40.0"),
            ("v2.11.7 h1:abc=\n", "Caddy v2.11.7"),
        ] {
            assert_eq!(version(said).as_deref(), Some(expected));
        }
        assert_eq!(version("\n"), None);
    }

    #[test]
    fn a_peer_that_is_not_installed_is_told_apart() {
        for peer in Peer::ALL {
            assert_eq!(
                check_peer(peer).is_err(),
                peer.program().is_some_and(|program| !is_installed(program))
            );
        }
    }

    #[test]
    fn a_program_is_looked_for_in_the_path() {
        assert!(is_installed("cargo") && !is_installed("no-such-program-here"));
    }
}
