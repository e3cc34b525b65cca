//! The proxies side by side: how each is configured for the same job, and started.
//!
//! All send the headers that ingress-nginx sends. Must not be in here: loads and figures.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::child::{Program, free_address, this_program};
use crate::interrupt::Interrupt;

/// The host that all load asks for.
pub(crate) const HOST: &str = "web.test.com";

/// Who stands between the load and the backend. The order is the tables'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// Nobody.
    Direct,
    /// `bench::relay`: the floor.
    Relay,
    Nginx,
    Haproxy,
    Forebay,
}

/// What a peer is to do.
#[derive(Clone)]
pub(crate) struct Setup<'a> {
    pub(crate) upstreams: &'a [SocketAddr],
    pub(crate) cpus: &'a [usize],
    pub(crate) workers: usize,
    pub(crate) logs: bool,
    /// The cap on idle upstream connections; `None` for Forebay's automatic one, and for 512 elsewhere.
    pub(crate) keepalive: Option<u32>,
    /// How many Ingresses there are besides the one that is asked for.
    pub(crate) other_ingresses: usize,
    pub(crate) folder: &'a Path,
}

/// A peer that listens.
pub(crate) struct Running {
    /// `None` for [`Peer::Direct`].
    pub(crate) program: Option<Program>,
    pub(crate) address: SocketAddr,
    /// Where Forebay's metrics are.
    pub(crate) admin: Option<SocketAddr>,
}

impl Peer {
    pub(crate) const ALL: [Peer; 5] = [Peer::Direct, Peer::Relay, Peer::Nginx, Peer::Haproxy, Peer::Forebay];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Direct => "direct",
            Peer::Relay => "relay",
            Peer::Nginx => "nginx",
            Peer::Haproxy => "haproxy",
            Peer::Forebay => "forebay",
        }
    }

    /// Starts it, and waits until it listens.
    pub(crate) fn start(self, setup: &Setup, interrupt: &Interrupt) -> Result<Running> {
        let address = free_address()?;
        let admin = free_address()?;
        let command = match self {
            Peer::Direct => return Ok(Running { program: None, address: setup.upstreams[0], admin: None }),
            Peer::Relay => this_program("relay", [address.to_string(), setup.upstreams[0].to_string()])?,
            Peer::Nginx => nginx(setup, address)?,
            Peer::Haproxy => haproxy(setup, address)?,
            Peer::Forebay => forebay(setup, address, admin)?,
        };
        let mut program = Program::start(self.name(), command, setup.cpus, setup.folder)?;
        program.wait_for(address, interrupt)?;
        Ok(Running { program: Some(program), address, admin: (self == Peer::Forebay).then_some(admin) })
    }
}

fn nginx(setup: &Setup, address: SocketAddr) -> Result<Command> {
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
    let config = format!(
        include_str!("nginx.conf"),
        HOST = HOST,
        address = address,
        folder = folder,
        log = log,
        servers = servers,
        workers = setup.workers,
        keepalive = setup.keepalive.unwrap_or(512),
    );
    let file = write(setup, "nginx.conf", &config)?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(file).arg("-p").arg(setup.folder);
    Ok(command)
}

fn haproxy(setup: &Setup, address: SocketAddr) -> Result<Command> {
    let keepalive = setup.keepalive.map_or(-1, i64::from);
    let servers = setup.upstreams.iter().enumerate().fold(String::new(), |mut servers, (index, upstream)| {
        let _ = writeln!(servers, "  server s{index} {upstream} pool-max-conn {keepalive}");
        servers
    });
    let log = if setup.logs { "  log stderr format raw local0\n  option httplog\n" } else { "" };
    let config = format!(
        include_str!("haproxy.cfg"),
        address = address,
        log = log,
        servers = servers,
        workers = setup.workers,
    );
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(write(setup, "haproxy.cfg", &config)?);
    Ok(command)
}

fn forebay(setup: &Setup, address: SocketAddr, admin: SocketAddr) -> Result<Command> {
    let manifests = write(setup, "manifests.yaml", &manifests(setup))?;
    let endpoints: Vec<_> = setup.upstreams.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(forebay_binary()?);
    command.arg("serve").arg("--manifests").arg(manifests);
    command.args(["--endpoints", &format!("default/web={}", endpoints.join(","))]);
    command.args(["--configmap", "bench/forebay", "--workers", &setup.workers.to_string()]);
    command.args(["--http-port", &address.port().to_string(), "--https-port", "0"]);
    command.args(["--healthz-port", &admin.port().to_string()]);
    Ok(command)
}

/// The binary that ships, which must have been built.
pub(crate) fn forebay_binary() -> Result<PathBuf> {
    // This program is in the target folder too, in the one of its profile.
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is not in a target folder")?;
    let binary = target.join("release/forebay");
    if !binary.is_file() {
        bail!("{} is not there; build it first: cargo build --release -p forebay", binary.display());
    }
    Ok(binary)
}

fn manifests(setup: &Setup) -> String {
    let mut settings = format!("\n  disable-access-log: \"{}\"", !setup.logs);
    if let Some(keepalive) = setup.keepalive {
        let _ = write!(settings, "\n  upstream-keepalive-connections: \"{keepalive}\"");
    }
    let mut yaml = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: forebay\n  namespace: bench\ndata:{settings}\n\
         ---\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: default\n\
         spec:\n  ports:\n  - port: 80\n    targetPort: 80\n"
    );
    yaml.push_str(&ingress("web", HOST));
    for index in 0..setup.other_ingresses {
        yaml.push_str(&ingress(&format!("other-{index}"), &format!("other-{index}.test.com")));
    }
    yaml
}

fn ingress(name: &str, host: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: default\n\
         spec:\n  rules:\n  - host: {host}\n    http:\n      paths:\n      - path: /\n        pathType: Prefix\n\
         \x20       backend:\n          service:\n            name: web\n            port:\n              number: 80\n"
    )
}

fn write(setup: &Setup, name: &str, text: &str) -> Result<PathBuf> {
    let path = setup.folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
