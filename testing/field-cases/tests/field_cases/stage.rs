//! The stage that cases have in common: the network of [`lab`], and programs in it.
//!
//! Must not be in here: what a case configures, or expects.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench::generator::{self, Outcome, Plan};
use lab::counters::Connections;
use lab::{Namespace, Network, Program, link};
use tempfile::TempDir;
use testkit::manifest::{Ingress, service};
use testkit::{Connection, PATIENCE, Response};

use crate::doctor::{self, Diagnosis};
use crate::program::forebay;

/// Host of the requests.
pub(crate) const HOST: &str = "web.test";
/// Where the proxy is for the client.
pub(crate) const PROXY: SocketAddr = Network::PROXY;
/// Where the backend is for the client, without a proxy between.
pub(crate) const DIRECT: SocketAddr = Network::DIRECT;
/// The kernel parameter with the ports that connects may use.
pub(crate) const PORT_RANGE: &str = "ipv4/ip_local_port_range";
/// The port of everything that speaks HTTP.
pub(crate) const HTTP: u16 = Network::HTTP;
/// Forebay's admin server, in the proxy's namespace.
const LOOPBACK_ADMIN: SocketAddr = loopback(10254);
/// Its metrics, for those in the backend's namespace.
pub(crate) const METRICS: &str = "http://10.91.2.1:10254/metrics";
const LOOK: Duration = Duration::from_millis(5);

/// The network, and a folder for what runs in it. Fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Stage {
    network: Network,
    pub(crate) folder: TempDir,
}

impl Deref for Stage {
    type Target = Network;

    fn deref(&self) -> &Network {
        &self.network
    }
}

/// A running `forebay serve` in the proxy's namespace.
pub(crate) struct Forebay {
    program: Program,
}

/// One nginx of several in a row.
#[derive(Clone, Copy)]
pub(crate) struct Hop<'a> {
    pub(crate) name: &'a str,
    pub(crate) port: u16,
    /// Directives beside its server, and in its location.
    pub(crate) http: &'a str,
    pub(crate) location: &'a str,
}

/// The results of a load, and the kernel's counters in the proxy's namespace meanwhile.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) outcome: Outcome,
    pub(crate) connections: Connections,
}

/// The addresses that the backend has for the proxy.
pub(crate) fn backends() -> impl Iterator<Item = SocketAddr> {
    Network::backends()
}

/// Whether there are namespaces with cables between them; an error says why not.
pub(crate) fn is_possible() -> Result<()> {
    let (one, other) = (Namespace::create("one")?, Namespace::create("other")?);
    link(one.end(&["10.91.0.1/24"]), other.end(&["10.91.0.2/24"]))
}

impl Stage {
    pub(crate) fn set() -> Result<Stage> {
        Ok(Stage { network: Network::set_up()?, folder: tempfile::tempdir()? })
    }

    /// Starts Forebay's payload server at all addresses of the backend.
    pub(crate) fn payload(&self) -> Result<Program> {
        let mut command = forebay()?;
        command.args(["payload", "--host", "0.0.0.0", "--port", &HTTP.to_string()]);
        self.backend.enter(|| {
            let mut program = Program::start("payload", command, self.folder.path())?;
            program.wait_for(loopback(HTTP))?;
            Ok(program)
        })
    }

    /// Starts nginx with a file of 1 KB at all addresses of the backend, as case A's Pods run it: a
    /// connection costs it several times what a request does, as it does most servers.
    pub(crate) fn pod(&self) -> Result<Program> {
        let folder = self.folder.path();
        fs::write(folder.join("1k"), "x".repeat(1024))?;
        let config = format!(include_str!("pod.conf"), folder = folder.display());
        self.backend.enter(|| self.start_nginx("pod", &config))
    }

    /// Starts nginx as a proxy with `workers`, a number or `auto`. It sends an equal part of the requests to
    /// each backend, which has an upstream of its own with `upstream` in it; `location` stands beside
    /// `proxy_pass`.
    pub(crate) fn nginx(
        &self,
        workers: &str,
        backends: &[SocketAddr],
        upstream: &str,
        location: &str,
    ) -> Result<Program> {
        let folder = self.folder.path();
        let (mut upstreams, mut parts) = (String::new(), String::new());
        for (number, backend) in backends.iter().enumerate() {
            let _ = writeln!(upstreams, "  upstream u{number} {{ server {backend}; {upstream} }}");
            let part =
                if number + 1 == backends.len() { "*".into() } else { format!("{}%", 100 / backends.len()) };
            let _ = writeln!(parts, "    {part} u{number};");
        }
        let config = format!(
            include_str!("nginx.conf"),
            folder = folder.display(),
            upstreams = upstreams,
            parts = parts,
            workers = workers,
            location = location,
        );
        self.proxy.enter(|| self.start_nginx("nginx", &config))
    }

    /// Starts nginx with one worker as one of several in a row.
    pub(crate) fn hop(&self, at: &Namespace, hop: Hop<'_>) -> Result<Program> {
        let Hop { name, port, http, location } = hop;
        let config = format!(
            include_str!("hop.conf"),
            folder = self.folder.path().display(),
            name = name,
            port = port,
            http = http,
            location = location,
        );
        at.enter(|| self.start_nginx_at(name, &config, port))
    }

    fn start_nginx(&self, name: &str, config: &str) -> Result<Program> {
        self.start_nginx_at(name, config, HTTP)
    }

    fn start_nginx_at(&self, name: &str, config: &str, port: u16) -> Result<Program> {
        let folder = self.folder.path();
        let file = folder.join(name).with_extension("conf");
        fs::write(&file, config)?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(file).arg("-p").arg(folder);
        let mut program = Program::start(name, command, folder)?;
        program.wait_for(loopback(port))?;
        Ok(program)
    }

    /// Starts Forebay as the proxy in front of a Service with these endpoints, with no setting at all.
    pub(crate) fn forebay(&self, backends: &[SocketAddr]) -> Result<Forebay> {
        let ingress = Ingress::new("web").path(HOST, "Prefix", "/", "web");
        self.forebay_with(&(ingress.document() + &service("web", backends)), &[])
    }

    /// Starts Forebay as the proxy with these manifests and arguments besides its ports.
    pub(crate) fn forebay_with(&self, manifests: &str, arguments: &[&str]) -> Result<Forebay> {
        let folder = self.folder.path().join("manifests");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("all.yaml"), manifests)?;
        let mut command = forebay()?;
        command.arg("serve").arg("--manifests").arg(&folder).args(arguments);
        command.args(["--http-port", &HTTP.to_string(), "--https-port", "0"]);
        command.args(["--healthz-port", &LOOPBACK_ADMIN.port().to_string()]);
        self.proxy.enter(|| {
            let mut program = Program::start("forebay", command, self.folder.path())?;
            program.wait_for(LOOPBACK_ADMIN)?;
            let end = Instant::now() + PATIENCE;
            while admin("/readyz").status != 200 {
                ensure!(Instant::now() < end, "Forebay does not get ready:\n{}", program.output()?);
                thread::sleep(LOOK);
            }
            Ok(Forebay { program })
        })
    }

    /// Scrapes Forebay's metrics.
    pub(crate) fn metrics(&self) -> Result<String> {
        self.proxy.enter(|| Ok(admin("/metrics").text().to_owned()))
    }

    /// Loads the proxy from the client's namespace.
    pub(crate) fn load(&self, plan: &Plan) -> Result<Loaded> {
        let before = self.connections()?;
        let plan = Plan { host: HOST.into(), ..plan.clone() };
        let outcome = self.client.enter(|| Ok(generator::run(&plan)?))?;
        Ok(Loaded { outcome, connections: self.connections()?.since(before) })
    }

    /// Loads the proxy as [`Stage::load`] while the doctor watches the process `pid`, with arguments of its
    /// own.
    pub(crate) fn load_watched(
        &self,
        plan: &Plan,
        pid: u32,
        arguments: &[&str],
    ) -> Result<(Loaded, Diagnosis)> {
        let watching = Program::start("doctor", doctor::watch(pid, arguments)?, self.folder.path())?;
        let loaded = self.load(&Plan { duration: doctor::LOAD, ..plan.clone() })?;
        Ok((loaded, doctor::diagnosis(watching)?))
    }
}

// === impl Loaded ===

impl Loaded {
    /// Connections that the proxy opened for each request.
    pub(crate) fn opened_per_request(&self) -> f64 {
        self.connections.opened as f64 / self.outcome.sent.max(1) as f64
    }

    /// Requests that were not answered as expected.
    pub(crate) fn failed(&self) -> u64 {
        self.outcome.sent - self.outcome.answered
    }

    /// An error unless every request was answered as expected.
    pub(crate) fn all_answered(&self) -> Result<()> {
        ensure!(self.outcome.is_clean(), "not everything was answered: {:?}", self.outcome.errors);
        Ok(())
    }
}

// === impl Forebay ===

impl Forebay {
    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}

/// Asks Forebay's admin server, in the namespace that the thread is in.
fn admin(path: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
    Connection::to(LOOPBACK_ADMIN).ask(&request)
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
