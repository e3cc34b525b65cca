//! `HAProxy`, configured for the same job.
//!
//! Must not be in here: what the other peers are told.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;

use super::{Clients, Peer, Setup, Upstream, write};

pub(super) fn command(peer: Peer, setup: &Setup, address: SocketAddr) -> Result<Command> {
    let config = if setup.upstream == Upstream::Tcp { tcp(setup, address) } else { http(setup, address) };
    let mut command = peer.command()?;
    command.arg("-db").arg("-f").arg(write(setup, "haproxy.cfg", &config)?);
    Ok(command)
}

fn http(setup: &Setup, address: SocketAddr) -> String {
    let keepalive = setup.keepalive.map_or(-1, i64::from);
    let protocol = match setup.upstream {
        Upstream::H2c | Upstream::Grpc => " proto h2",
        Upstream::Http1 | Upstream::Tcp => "",
    };
    let log = if setup.logs { "  log stderr format raw local0\n  option httplog\n" } else { "" };
    let (bind, scheme) = match setup.clients {
        Clients::Clear => (String::new(), "http"),
        Clients::ClearH2 => (" proto h2".into(), "http"),
        Clients::Tls(certificate) => {
            (format!(" ssl crt {} alpn h2,http/1.1", certificate.both_file.display()), "https")
        }
    };
    format!(
        include_str!("haproxy.cfg"),
        address = address,
        bind = bind,
        scheme = scheme,
        log = log,
        servers = servers(setup, &format!("{protocol} pool-max-conn {keepalive}")),
        workers = setup.workers,
    )
}

fn tcp(setup: &Setup, address: SocketAddr) -> String {
    format!(
        include_str!("haproxy-tcp.cfg"),
        address = address,
        servers = servers(setup, ""),
        workers = setup.workers,
    )
}

fn servers(setup: &Setup, options: &str) -> String {
    setup.upstreams.iter().enumerate().fold(String::new(), |mut servers, (index, upstream)| {
        let _ = writeln!(servers, "  server s{index} {upstream}{options}");
        servers
    })
}
