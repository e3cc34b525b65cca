//! The programs of others that measuring needs: whether they are there, and which version.
//!
//! Must not be in here: starting them for real.

use std::process::Command;

use anyhow::{Result, bail};

use super::proxy::Peer;
use super::workload::Workload;
use crate::child::is_installed;

/// A program, the flag that makes it tell its version, and Debian's package.
struct Tool {
    program: &'static str,
    version_flag: &'static str,
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "varnishd", version_flag: "-V", package: "varnish" },
    Tool { program: "nginx", version_flag: "-v", package: "libnginx-mod-http-modsecurity" },
    Tool { program: "wrk", version_flag: "-v", package: "wrk" },
    Tool { program: "h2load", version_flag: "--version", package: "nghttp2-client" },
    Tool { program: "perf", version_flag: "--version", package: "linux-perf" },
    Tool { program: "redis-server", version_flag: "--version", package: "redis-server" },
    Tool { program: "redis-benchmark", version_flag: "--version", package: "redis-tools" },
];

/// An error that names every program that is missing for these workloads, besides their peers.
pub(super) fn check(workloads: &[&Workload]) -> Result<()> {
    let needed: Vec<_> = workloads.iter().flat_map(|workload| &workload.tools).map(String::as_str).collect();
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
    let tool = TOOLS.iter().find(|tool| peer.definition().installed() == Some(tool.program));
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
        let definition = peer.definition();
        definition.version_built().or_else(|| first_line(definition.version_command()?))
    });
    let installed = TOOLS.iter().filter(|tool| needed.contains(&tool.program)).filter_map(|tool| {
        let mut command = Command::new(tool.program);
        command.arg(tool.version_flag);
        first_line(command)
    });
    fetched.chain(installed).collect::<Vec<_>>().join("; ")
}

fn needs<'a>(workload: &'a Workload, peers: &[Peer]) -> Vec<&'a str> {
    let measured = workload.peers.iter().filter(|peer| peers.contains(peer));
    let installed = measured.filter_map(|peer| peer.definition().installed());
    installed.chain(workload.tools.iter().map(String::as_str)).collect()
}

fn first_line(mut command: Command) -> Option<String> {
    let output = command.output().ok()?;
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
    // Traefik has its version in a table.
    if let Some(version) = line.strip_prefix("Version:") {
        return Some(format!("Traefik {}", version.trim()));
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
    use clap::ValueEnum as _;

    use super::super::workload;
    use super::*;

    #[test]
    fn every_program_that_is_needed_is_known() {
        for program in workload::all().flat_map(|workload| needs(workload, Peer::value_variants())) {
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
            ("Version:      3.7.15\nCodename:     reblochon\n", "Traefik 3.7.15"),
        ] {
            assert_eq!(version(said).as_deref(), Some(expected));
        }
        assert_eq!(version("\n"), None);
    }

    #[test]
    fn a_peer_that_is_not_installed_is_told_apart() {
        for peer in Peer::value_variants() {
            assert_eq!(
                check_peer(*peer).is_err(),
                peer.definition().installed().is_some_and(|program| !is_installed(program))
            );
        }
    }
}
