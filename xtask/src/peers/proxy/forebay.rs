//! Forebay as it ships, told by Kubernetes manifests what to do.
//!
//! Must not be in here: tuning. What is set is what the other peers do too.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::manifests::{Ingress, Pairs, SETTINGS, config_map, secret, service};
use super::{Clients, HOST, Setup, Upstream, write};

/// Where the certificate is, and in which `ConfigMap` the ports of TCP services are.
const SECRET: &str = "web-tls";
const STREAMS: &str = "streams";

pub(super) fn command(setup: &Setup, address: SocketAddr, admin: SocketAddr) -> Result<Command> {
    let manifests = write(setup, "manifests.yaml", &manifests(setup, address.port()))?;
    let endpoints: Vec<_> = setup.upstreams.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(forebay_binary()?);
    command.arg("serve").arg("--manifests").arg(manifests);
    command.args(["--endpoints", &format!("default/web={}", endpoints.join(","))]);
    for (name, address) in &setup.services {
        command.args(["--endpoints", &format!("default/{name}={address}")]);
    }
    command.args(["--configmap", &format!("{SETTINGS}/forebay"), "--workers", &setup.workers.to_string()]);
    command.args(["--healthz-port", &admin.port().to_string()]);
    command.args(&setup.feature.manifests.arguments);
    // 0 is any free port.
    let port = address.port().to_string();
    let (http, https) = match (setup.upstream, setup.clients) {
        (Upstream::Tcp, _) => ("0", "0"),
        (_, Clients::Tls(_)) => ("0", port.as_str()),
        (_, Clients::Clear | Clients::ClearH2) => (port.as_str(), "0"),
    };
    command.args(["--http-port", http, "--https-port", https]);
    if setup.upstream == Upstream::Tcp {
        command.args(["--tcp-services-configmap", &format!("{SETTINGS}/{STREAMS}")]);
    }
    if matches!(setup.clients, Clients::Tls(_)) {
        // For wrk, which names an address and so no host.
        command.args(["--default-ssl-certificate", &format!("default/{SECRET}")]);
    }
    Ok(command)
}

/// The binary that ships, which must have been built.
pub(crate) fn forebay_binary() -> Result<PathBuf> {
    forebay_of("release")
}

/// The binary of a profile, which must have been built.
pub(crate) fn forebay_of(profile: &str) -> Result<PathBuf> {
    // This program is in the target folder too, in the one of its profile.
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is not in a target folder")?;
    let binary = target.join(profile).join("forebay");
    if !binary.is_file() {
        bail!(
            "{} is not there; build it first: cargo build --profile {profile} -p forebay",
            binary.display()
        );
    }
    Ok(binary)
}

fn manifests(setup: &Setup, port: u16) -> String {
    let protocol = (setup.upstream == Upstream::H2c).then_some("kubernetes.io/h2c");
    let mut yaml = config_map("forebay", &settings(setup)) + &service("web", protocol);
    setup.services.iter().for_each(|(name, _)| yaml.push_str(&service(name, None)));
    if setup.upstream == Upstream::Tcp {
        let port = port.to_string();
        yaml.push_str(&config_map(STREAMS, &[(port.as_str(), "default/web:80".to_owned())]));
    }
    if let Clients::Tls(certificate) = setup.clients {
        let files = [("tls.crt", certificate.chain.clone()), ("tls.key", certificate.key.clone())];
        yaml.push_str(&secret(SECRET, "kubernetes.io/tls", &files));
    }
    let feature = &setup.feature.manifests;
    yaml.push_str(&feature.objects);
    let plain: Pairs = match setup.upstream {
        Upstream::Grpc => vec![("backend-protocol", "GRPC".into())],
        _ => Vec::new(),
    };
    let annotations = [plain.as_slice(), &feature.annotations].concat();
    let web = Ingress {
        name: "web",
        host: HOST,
        service: "web",
        annotations: &annotations,
        expressions: &feature.expressions,
        secret: matches!(setup.clients, Clients::Tls(_)).then_some(SECRET),
    };
    web.write(&mut yaml);
    if !feature.canary.is_empty() {
        Ingress { name: "canary", service: "canary", annotations: &feature.canary, ..web }.write(&mut yaml);
    }
    for index in 0..setup.other_ingresses {
        let (name, host) = (format!("other-{index}"), other_host(index));
        let other = Ingress {
            name: &name,
            host: &host,
            service: "web",
            annotations: &plain,
            expressions: &[],
            secret: None,
        };
        other.write(&mut yaml);
    }
    yaml
}

/// The host of one of the other Ingresses.
pub(crate) fn other_host(index: usize) -> String {
    format!("other-{index}.test.com")
}

fn settings(setup: &Setup) -> Pairs {
    // As the other peers have it: connections last for as long as the measurement.
    let mut settings: Pairs = vec![
        ("disable-access-log", (!setup.logs).to_string()),
        ("keep-alive-requests", "100000000".into()),
        ("upstream-keepalive-requests", "100000000".into()),
    ];
    if let Some(keepalive) = setup.keepalive {
        settings.push(("upstream-keepalive-connections", keepalive.to_string()));
    }
    if matches!(setup.clients, Clients::Tls(_)) {
        // The other peers do not add this header.
        settings.push(("hsts", "false".into()));
    }
    settings.extend(setup.feature.manifests.settings.iter().cloned());
    settings
}
