//! The proxy on Pingora that is in `xtask/peers/pingora`, a package of its own: built into the user's cache, in the clear only.
//!
//! Must not be in here: what the other peers are told.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Clients, Setup, Upstream};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pingora");
const LOCK: &str = include_str!("../../../peers/pingora/Cargo.lock");

/// Builds it. Cargo makes this a matter of a second where nothing has changed.
pub(super) fn prepare() -> Result<()> {
    let target = target()?;
    let program = program()?;
    if !program.is_file() {
        eprintln!("building Pingora's proxy into {}, which takes some minutes", target.display());
    }
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
        .arg(target)
        .arg("--manifest-path")
        .arg(Path::new(PACKAGE).join("Cargo.toml"))
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo ended with {}: {}", output.status, reason(&said));
    Ok(())
}

/// The program itself.
pub(super) fn program() -> Result<PathBuf> {
    Ok(target()?.join("release/pingora-peer"))
}

/// What was built, as its lock file has it.
pub(super) fn version() -> Option<String> {
    let (_, rest) = LOCK.split_once("name = \"pingora-proxy\"\nversion = \"")?;
    Some(format!("Pingora {}", rest.split('"').next()?))
}

pub(super) fn command(setup: &Setup, address: SocketAddr) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.args(arguments(setup, address)?);
    Ok(command)
}

fn arguments(setup: &Setup, address: SocketAddr) -> Result<Vec<String>> {
    let clients = match setup.clients {
        Clients::Clear => "http1",
        Clients::ClearH2 => "h2c",
        Clients::Tls(_) => bail!("the proxy on Pingora is built without TLS"),
    };
    let protocol = match setup.upstream {
        Upstream::Http1 => "http1",
        Upstream::H2c | Upstream::Grpc => "h2c",
        Upstream::Tcp => bail!("the proxy on Pingora is one of HTTP"),
    };
    let idle = setup.keepalive.unwrap_or(super::KEEPALIVE);
    let all = [address.to_string(), setup.workers.to_string(), idle.to_string()];
    let all = all.into_iter().chain([clients, protocol].map(str::to_owned));
    Ok(all.chain(setup.upstreams.iter().map(SocketAddr::to_string)).collect())
}

/// Why Cargo failed, in one line: what a build script said about a program that it lacks, or the first error.
fn reason(said: &str) -> &str {
    let lines = || said.lines().map(str::trim);
    let lacks = lines().find(|line| line.contains("is `cmake` not installed"));
    let error = || lines().find(|line| line.starts_with("error"));
    lacks.or_else(error).or_else(|| lines().next_back()).unwrap_or_default()
}

fn target() -> Result<PathBuf> {
    Ok(cluster::cache()?.join("tools/pingora"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::certificate::Certificate;

    fn of(setup: &Setup) -> Result<String> {
        Ok(arguments(setup, ([127, 0, 0, 1], 8000).into())?.join(" "))
    }

    #[test]
    fn it_is_told_what_the_others_are_told() {
        let upstreams = [([127, 0, 0, 1], 9001).into(), ([127, 0, 0, 1], 9002).into()];
        let plain = Setup::plain(&upstreams);
        let told = of(&plain).expect("arguments");
        assert_eq!(told, "127.0.0.1:8000 1 512 http1 http1 127.0.0.1:9001 127.0.0.1:9002");
        let grpc = Setup {
            clients: Clients::ClearH2,
            upstream: Upstream::Grpc,
            workers: 2,
            keepalive: Some(8),
            ..Setup::plain(&upstreams[..1])
        };
        assert_eq!(of(&grpc).expect("arguments"), "127.0.0.1:8000 2 8 h2c h2c 127.0.0.1:9001");
    }

    #[test]
    fn what_it_cannot_do_is_an_error() {
        let certificate = Certificate::at("/c");
        assert!(of(&Setup { clients: Clients::Tls(&certificate), ..Setup::plain(&[]) }).is_err());
        assert!(of(&Setup { upstream: Upstream::Tcp, ..Setup::plain(&[]) }).is_err());
    }

    #[test]
    fn its_version_is_that_of_the_manifest() {
        let manifest = include_str!("../../../peers/pingora/Cargo.toml");
        let version = version().expect("Pingora in the lock file");
        let number = version.strip_prefix("Pingora ").expect("a name");
        assert!(manifest.contains(&format!("pingora-proxy = \"={number}\"")), "{version}");
    }

    #[test]
    fn why_it_was_not_built_is_told_in_a_line() {
        let said =
            "error: failed to run custom build command for `libz-ng-sys v1`\n  is `cmake` not installed?\n";
        assert_eq!(reason(said), "is `cmake` not installed?");
        assert_eq!(reason("warning: x\nerror: no matching package\n  note\n"), "error: no matching package");
    }
}
