//! nginx as ingress-nginx configures it, but for its buffers, which are at nginx's own defaults: nginx at its best.
//!
//! Must not be in here: what the other peers are told.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Result, bail};

use super::{Clients, HOST, KEEPALIVE, Peer, Setup, Upstream, write};
use crate::peers::feature::Directives;
use crate::peers::unstable;

pub(super) fn command(peer: Peer, setup: &Setup, address: SocketAddr) -> Result<Command> {
    let folder = setup.folder.display();
    let log = if setup.logs {
        // Buffered, which ingress-nginx does not do: nginx at its best.
        format!("{folder}/nginx-access.log upstreaminfo buffer=64k flush=1s")
    } else {
        "off".into()
    };
    let (listen, tls) = listen(peer, setup);
    let (module, pass) = pass(setup.upstream)?;
    let Directives { modules, http, server, files, .. } = &setup.feature.directives;
    let config = format!(
        include_str!("nginx.conf"),
        modules = load(modules)?,
        HOST = HOST,
        address = address,
        folder = folder,
        log = log,
        listen = listen,
        tls = tls,
        module = module,
        pass = pass,
        upstreams = upstreams(setup),
        http = http,
        server = server,
        locations = locations(module, setup),
        workers = setup.workers,
    );
    for (name, text) in files {
        write(setup, name, text)?;
    }
    let file = write(setup, "nginx.conf", &config)?;
    let mut command = peer.command()?;
    command.arg("-c").arg(file).arg("-p").arg(setup.folder);
    Ok(command)
}

/// Lines that load modules.
fn load(modules: &[&str]) -> Result<String> {
    modules.iter().map(|name| Ok(format!("load_module {};\n", unstable::module(name)?.display()))).collect()
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

/// The groups of servers.
fn upstreams(setup: &Setup) -> String {
    let web = setup.upstreams.iter().map(|address| ("web", address));
    let others = setup.services.iter().map(|(name, address)| (*name, address));
    let groups = web.chain(others).fold(BTreeMap::<_, String>::new(), |mut groups, (name, address)| {
        let _ = writeln!(groups.entry(name).or_default(), "    server {address};");
        groups
    });
    let keepalive = setup.keepalive.unwrap_or(KEEPALIVE);
    groups.into_iter().fold(String::new(), |mut text, (name, servers)| {
        let choice = if name == "web" { &setup.feature.directives.upstream } else { "" };
        let _ = write!(
            text,
            "  upstream {name} {{\n{servers}{choice}    keepalive {keepalive}; keepalive_requests 100000000; \
             keepalive_timeout 60s;\n  }}\n"
        );
        text
    })
}

/// The locations whose requests are passed on.
fn locations(module: &str, setup: &Setup) -> String {
    let Directives { location, expressions, group, .. } = &setup.feature.directives;
    let scheme = if module == "grpc" { "grpc" } else { "http" };
    let group = group.unwrap_or("web");
    let one = |place: &str, rewrite: &str| {
        format!(
            "    location {place} {{\n{rewrite}{location}      {module}_pass {scheme}://{group};\n    }}\n"
        )
    };
    if expressions.is_empty() {
        return one("/", "");
    }
    let all = expressions.iter();
    all.map(|(expression, target)| {
        one(
            &format!("~* \"^{expression}\""),
            &format!("      rewrite \"(?i){expression}\" {target} break;\n"),
        )
    })
    .collect()
}

/// The module that passes requests on, and what it is told besides headers.
fn pass(upstream: Upstream) -> Result<(&'static str, &'static str)> {
    match upstream {
        Upstream::Http1 => Ok((
            "proxy",
            "    proxy_http_version 1.1; proxy_buffering off;\n    proxy_set_header Connection \"\";\n",
        )),
        Upstream::Grpc => Ok(("grpc", "")),
        Upstream::H2c => bail!("nginx 1.22 has HTTP/2 to upstreams for gRPC only"),
        Upstream::Tcp => bail!("Debian's nginx-light has no stream module"),
    }
}
