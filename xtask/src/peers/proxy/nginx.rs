//! nginx as ingress-nginx configures it, but for its buffers, which are at nginx's own defaults: nginx at its best.
//!
//! Must not be in here: what the other peers are told.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Result, bail};

use super::{Clients, HOST, Peer, Setup, Upstream, write};

pub(super) fn command(peer: Peer, setup: &Setup, address: SocketAddr) -> Result<Command> {
    let folder = setup.folder.display();
    let servers: String = setup.upstreams.iter().fold(String::new(), |mut servers, upstream| {
        let _ = writeln!(servers, "    server {upstream};");
        servers
    });
    let log = if setup.logs {
        // Buffered, which ingress-nginx does not do: nginx at its best.
        format!("{folder}/nginx-access.log upstreaminfo buffer=64k flush=1s")
    } else {
        "off".into()
    };
    let (listen, tls) = listen(peer, setup);
    let (module, pass) = pass(setup.upstream)?;
    let config = format!(
        include_str!("nginx.conf"),
        HOST = HOST,
        address = address,
        folder = folder,
        log = log,
        listen = listen,
        tls = tls,
        module = module,
        pass = pass,
        servers = servers,
        workers = setup.workers,
        keepalive = setup.keepalive.unwrap_or(512),
    );
    let file = write(setup, "nginx.conf", &config)?;
    let mut command = peer.command()?;
    command.arg("-c").arg(file).arg("-p").arg(setup.folder);
    Ok(command)
}

/// Parameters of `listen`, and what belongs to them. HTTP/2 is a directive of its own since nginx 1.25.1.
fn listen(peer: Peer, setup: &Setup) -> (&'static str, String) {
    let (parameter, directive) = if peer.is_of_unstable() { ("", "    http2 on;\n") } else { (" http2", "") };
    match setup.clients {
        Clients::Clear => ("", String::new()),
        Clients::ClearH2 => (parameter, directive.into()),
        Clients::Tls(certificate) => {
            let tls = format!(
                "{directive}    ssl_certificate {}; ssl_certificate_key {};\n    ssl_protocols TLSv1.2 TLSv1.3; \
                 ssl_prefer_server_ciphers on;\n    ssl_session_tickets off; ssl_session_cache shared:SSL:10m; \
                 ssl_session_timeout 10m;\n",
                certificate.chain_file.display(),
                certificate.key_file.display()
            );
            (if peer.is_of_unstable() { " ssl" } else { " ssl http2" }, tls)
        }
    }
}

/// The module that passes requests on, and what it is told besides headers.
fn pass(upstream: Upstream) -> Result<(&'static str, &'static str)> {
    match upstream {
        Upstream::Http1 => Ok((
            "proxy",
            "      proxy_pass http://web; proxy_http_version 1.1; proxy_buffering off;\n      \
             proxy_set_header Connection \"\";",
        )),
        Upstream::Grpc => Ok(("grpc", "      grpc_pass grpc://web;")),
        Upstream::H2c => bail!("nginx 1.22 has HTTP/2 to upstreams for gRPC only"),
        Upstream::Tcp => bail!("Debian's nginx-light has no stream module"),
    }
}
