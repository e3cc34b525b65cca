//! What all situations have in common: CPUs, a folder, and the proxies as one would configure them for a service that can be overloaded.
//!
//! Must not be in here: loads and figures.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::ask::get;
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::machine::Cpus;
use crate::peers::manifests::{Ingress, Pairs, SETTINGS, config_map, service};
use crate::peers::{forebay_of, unstable};

/// The host that most load asks for.
pub(super) const HOST: &str = "web.test.com";

/// Where situations happen.
pub(super) struct Site {
    pub(super) interrupt: Interrupt,
    pub(super) cpus: Cpus,
    pub(super) folder: TempDir,
    /// How long the main part of a situation lasts.
    pub(super) time: Duration,
    /// The profile that the binary was built with.
    pub(super) profile: String,
}

/// Who stands between the load and the endpoints. The order is the tables'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Of Debian's unstable suite.
    Nginx,
    /// Likewise.
    Haproxy,
    /// Without limits, queues, ejection and shedding.
    ForebayOff,
    /// With `forebay.io/overload: enforce`.
    Forebay,
}

/// What a proxy is to do.
pub(super) struct Setup<'a> {
    pub(super) endpoints: &'a [SocketAddr],
    /// Requests that an endpoint works on at a time, which who configures `HAProxy` has to know.
    pub(super) parallel: usize,
    /// Hosts, each an Ingress with these annotations of Forebay's beside those of the peer.
    pub(super) hosts: Vec<(&'static str, Pairs)>,
    /// Keys of Forebay's `ConfigMap`.
    pub(super) settings: Pairs,
    /// Further objects, and arguments of Forebay.
    pub(super) objects: String,
    pub(super) arguments: Vec<String>,
}

/// A proxy that listens.
pub(super) struct Proxy {
    pub(super) program: Program,
    pub(super) address: SocketAddr,
    /// Where Forebay tells of itself; nobody listens there for others.
    admin: SocketAddr,
}

impl Proxy {
    /// The sum of a metric of Forebay's.
    pub(super) fn metric(&self, name: &str) -> Result<f64> {
        let page = get(self.admin, "/metrics")?;
        let values = page.lines().filter_map(|line| line.strip_prefix(name)).filter_map(|rest| {
            rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
        });
        values.reduce(|sum, value| sum + value).with_context(|| format!("there is no metric {name}"))
    }
}

impl Peer {
    pub(super) const ALL: [Peer; 4] = [Peer::Nginx, Peer::Haproxy, Peer::ForebayOff, Peer::Forebay];

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx",
            Peer::Haproxy => "haproxy",
            Peer::ForebayOff => "forebay-off",
            Peer::Forebay => "forebay",
        }
    }

    pub(super) fn is_of_unstable(self) -> bool {
        matches!(self, Peer::Nginx | Peer::Haproxy)
    }

    /// Starts it, and waits until it listens.
    pub(super) fn start(self, site: &Site, setup: &Setup) -> Result<Proxy> {
        self.start_as(site, setup, self.name(), free_address()?)
    }

    /// The same under a name of its own, for several at a time.
    pub(super) fn start_as(
        self,
        site: &Site,
        setup: &Setup,
        name: &str,
        address: SocketAddr,
    ) -> Result<Proxy> {
        let admin = free_address()?;
        let forebay = |mode| forebay(site, setup, name, [address, admin], mode);
        let command = match self {
            Peer::Nginx => nginx(site, setup, address)?,
            Peer::Haproxy => haproxy(site, setup, address)?,
            Peer::ForebayOff => forebay("off")?,
            Peer::Forebay => forebay("enforce")?,
        };
        let mut program = Program::start(name, command, &site.cpus.proxy, site.folder.path())?;
        program.wait_for(address, &site.interrupt)?;
        Ok(Proxy { program, address, admin })
    }
}

impl<'a> Setup<'a> {
    /// One host, which goes to these endpoints.
    pub(super) fn to(endpoints: &'a [SocketAddr], parallel: usize) -> Setup<'a> {
        Setup {
            endpoints,
            parallel,
            hosts: vec![(HOST, Pairs::new())],
            settings: Pairs::new(),
            objects: String::new(),
            arguments: Vec::new(),
        }
    }
}

/// A file of the situation's, gone when all are over.
pub(super) fn write(site: &Site, name: &str, text: &str) -> Result<PathBuf> {
    let path = site.folder.path().join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn nginx(site: &Site, setup: &Setup, address: SocketAddr) -> Result<Command> {
    let server = |endpoint: &SocketAddr| format!("    server {endpoint} max_fails=3 fail_timeout=5s;\n");
    let text = format!(
        include_str!("nginx.conf"),
        folder = site.folder.path().display(),
        address = address,
        servers = setup.endpoints.iter().map(server).collect::<String>(),
    );
    let mut command = unstable::command(unstable::Part::Proxies, "nginx")?;
    command.arg("-c").arg(write(site, "nginx.conf", &text)?).arg("-p").arg(site.folder.path());
    Ok(command)
}

fn haproxy(site: &Site, setup: &Setup, address: SocketAddr) -> Result<Command> {
    let server =
        |(number, endpoint): (usize, &SocketAddr)| format!("  server endpoint-{number} {endpoint}\n");
    let text = format!(
        include_str!("haproxy.cfg"),
        address = address,
        maxconn = setup.parallel,
        servers = setup.endpoints.iter().enumerate().map(server).collect::<String>(),
    );
    let mut command = unstable::command(unstable::Part::Proxies, "haproxy")?;
    command.arg("-f").arg(write(site, "haproxy.cfg", &text)?);
    Ok(command)
}

fn forebay(
    site: &Site,
    setup: &Setup,
    name: &str,
    [address, admin]: [SocketAddr; 2],
    mode: &str,
) -> Result<Command> {
    let mut settings: Pairs = vec![
        ("disable-access-log", "true".into()),
        // As nginx has it here: a timeout may not last longer than the client waits.
        ("proxy-connect-timeout", "1".into()),
        ("forebay-overload", mode.into()),
    ];
    for (key, value) in &setup.settings {
        settings.retain(|(one, _)| one != key);
        settings.push((*key, value.clone()));
    }
    let mut yaml = config_map("forebay", &settings) + &service("web", None) + &setup.objects;
    for (number, (host, annotations)) in setup.hosts.iter().enumerate() {
        let name = format!("web-{number}");
        let ingress =
            Ingress { name: &name, host, service: "web", annotations, expressions: &[], secret: None };
        ingress.write(&mut yaml);
    }
    let manifests = write(site, &format!("{name}.yaml"), &yaml)?;
    let endpoints: Vec<_> = setup.endpoints.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(forebay_of(&site.profile)?);
    command.arg("serve").arg("--manifests").arg(manifests);
    command.args(["--endpoints", &format!("default/web={}", endpoints.join(","))]);
    command.args(["--configmap", &format!("{SETTINGS}/forebay"), "--workers", "1"]);
    command.args(["--healthz-port", &admin.port().to_string()]);
    command.args(["--http-port", &address.port().to_string(), "--https-port", "0"]);
    command.args(&setup.arguments);
    Ok(command)
}

/// Loopback's clients are believed what they say of themselves: the load tells by `X-Forwarded-For` whom a request is of.
pub(super) fn believed() -> Pairs {
    vec![("use-forwarded-headers", "true".into()), ("proxy-real-ip-cidr", "127.0.0.0/8".into())]
}

/// An address of loopback with a number of its own, and a port where nobody listens.
pub(super) fn address_at(ip: IpAddr) -> Result<SocketAddr> {
    Ok(std::net::TcpListener::bind((ip, 0))?.local_addr()?)
}
