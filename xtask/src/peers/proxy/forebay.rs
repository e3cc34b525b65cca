//! Forebay as it ships, told by Kubernetes manifests what to do.
//!
//! Must not be in here: tuning. What is set is what the other peers do too.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Clients, HOST, Setup, Upstream, write};
use crate::peers::certificate::Certificate;

/// Where the certificate is, and in which `ConfigMap` the ports of TCP services are.
const SECRET: &str = "web-tls";
const STREAMS: &str = "bench/streams";

pub(super) fn command(setup: &Setup, address: SocketAddr, admin: SocketAddr) -> Result<Command> {
    let manifests = write(setup, "manifests.yaml", &manifests(setup, address.port()))?;
    let endpoints: Vec<_> = setup.upstreams.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(forebay_binary()?);
    command.arg("serve").arg("--manifests").arg(manifests);
    command.args(["--endpoints", &format!("default/web={}", endpoints.join(","))]);
    command.args(["--configmap", "bench/forebay", "--workers", &setup.workers.to_string()]);
    command.args(["--healthz-port", &admin.port().to_string()]);
    // 0 is any free port.
    let port = address.port().to_string();
    let (http, https) = match (setup.upstream, setup.clients) {
        (Upstream::Tcp, _) => ("0", "0"),
        (_, Clients::Tls(_)) => ("0", port.as_str()),
        (_, Clients::Clear | Clients::ClearH2) => (port.as_str(), "0"),
    };
    command.args(["--http-port", http, "--https-port", https]);
    if setup.upstream == Upstream::Tcp {
        command.args(["--tcp-services-configmap", STREAMS]);
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
    let protocol = if setup.upstream == Upstream::H2c { "\n    appProtocol: kubernetes.io/h2c" } else { "" };
    let mut yaml = config_map("forebay", &settings(setup));
    let _ = write!(
        yaml,
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: default\n\
         spec:\n  ports:\n  - port: 80\n    targetPort: 80{protocol}\n"
    );
    if setup.upstream == Upstream::Tcp {
        yaml.push_str(&config_map("streams", &format!("\n  \"{port}\": default/web:80")));
    }
    if let Clients::Tls(certificate) = setup.clients {
        yaml.push_str(&secret(certificate));
    }
    yaml.push_str(&ingress("web", HOST, setup));
    for index in 0..setup.other_ingresses {
        yaml.push_str(&ingress(&format!("other-{index}"), &format!("other-{index}.test.com"), setup));
    }
    yaml
}

fn settings(setup: &Setup) -> String {
    let mut settings = format!("\n  disable-access-log: \"{}\"", !setup.logs);
    // As the other peers have it: connections last for as long as the measurement.
    settings.push_str("\n  keep-alive-requests: \"100000000\"\n  upstream-keepalive-requests: \"100000000\"");
    if let Some(keepalive) = setup.keepalive {
        let _ = write!(settings, "\n  upstream-keepalive-connections: \"{keepalive}\"");
    }
    if matches!(setup.clients, Clients::Tls(_)) {
        // The other peers do not add this header.
        settings.push_str("\n  hsts: \"false\"");
    }
    settings
}

fn config_map(name: &str, data: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: bench\ndata:{data}\n"
    )
}

fn secret(certificate: &Certificate) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: {SECRET}\n  namespace: default\n\
         type: kubernetes.io/tls\ndata:\n  tls.crt: {}\n  tls.key: {}\n",
        STANDARD.encode(&certificate.chain),
        STANDARD.encode(&certificate.key)
    )
}

fn ingress(name: &str, host: &str, setup: &Setup) -> String {
    let annotations = if setup.upstream == Upstream::Grpc {
        "\n  annotations:\n    nginx.ingress.kubernetes.io/backend-protocol: GRPC"
    } else {
        ""
    };
    let tls = match setup.clients {
        Clients::Tls(_) if host == HOST => format!("\n  tls:\n  - hosts: [{host}]\n    secretName: {SECRET}"),
        _ => String::new(),
    };
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: default{annotations}\n\
         spec:{tls}\n  rules:\n  - host: {host}\n    http:\n      paths:\n      - path: /\n        pathType: Prefix\n\
         \x20       backend:\n          service:\n            name: web\n            port:\n              number: 80\n"
    )
}
