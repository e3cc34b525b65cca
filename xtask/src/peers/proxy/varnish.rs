//! Varnish in front of one backend, with what it holds in memory.
//!
//! Must not be in here: what the other peers are told.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;

use super::{Setup, write};

pub(super) fn command(setup: &Setup, address: SocketAddr) -> Result<Command> {
    let backend = setup.upstreams[0];
    let vcl = format!(
        "vcl 4.1;\nbackend web {{ .host = \"{}\"; .port = \"{}\"; }}\n\
         sub vcl_backend_response {{ set beresp.ttl = 1h; }}\n",
        backend.ip(),
        backend.port()
    );
    let vcl = write(setup, "varnish.vcl", &vcl)?;
    let mut command = Command::new("varnishd");
    command.args(["-F", "-a", &address.to_string(), "-s", "malloc,1G"]).arg("-f").arg(vcl);
    command.arg("-n").arg(setup.folder.join("varnish"));
    // It makes a thread for each connection and keeps those that it has.
    command.args(["-p", "thread_pools=1", "-p", "thread_pool_min=200", "-p", "thread_pool_max=5000"]);
    Ok(command)
}
