//! Two network namespaces with a cable between them: a container in one; its clients, and the endpoints
//! behind it, in the other.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bench::payload::Payload;
use lab::{Namespace, link};
use testkit::manifest::{Ingress, service, tls_secret};
use testkit::{Authority, Certificate, Connection, TlsClient, Upstream};

use super::super::bundle::{Bundle, Confinement};
use super::super::container::{Container, Runtime};
use super::super::unpack::{Unpacked, unpack};
use super::preparation::Prepared;
use crate::interrupt::Interrupt;

const PATIENCE: Duration = Duration::from_secs(20);
const HOST: &str = "web.test";
/// A host behind the core rules.
const GUARDED: &str = "guarded.test";
/// For documentation (RFC 5737): nobody's.
const CLIENTS: &str = "192.0.2.1";
const CONTAINER: &str = "192.0.2.2";
/// Connections that wait for the endpoint to accept them.
const BACKLOG: i32 = 16;
/// `CAP_NET_BIND_SERVICE` in a mask of capabilities.
const NET_BIND_SERVICE: u64 = 1 << 10;
/// `PR_SET_SECCOMP` with a filter, as `/proc/PID/status` has it.
const FILTERED: u64 = 2;

/// Everything that the container's life goes through.
pub(super) struct Stage<'a> {
    prepared: &'a Prepared,
    runtime: Runtime,
    image: Unpacked,
    confinement: Confinement,
    pod: Namespace,
    clients: Namespace,
    authority: Authority,
    folder: PathBuf,
    interrupt: Interrupt,
}

impl Stage<'_> {
    /// Unpacks the image below a folder, and lays the cable.
    pub(super) fn new(prepared: &Prepared, folder: PathBuf) -> Result<Stage<'_>> {
        let interrupt = Interrupt::install()?;
        fs::create_dir(folder.join("root"))?;
        let image = unpack(&prepared.image, &folder.join("root"))?;
        let confinement = Confinement::of_deployment(&prepared.manifests)?;
        ensure!(image.user == confinement.user(), "the image's user {:?} is not the chart's", image.user);
        let (pod, clients) = (Namespace::create("pod")?, Namespace::create("clients")?);
        let (container, client) = (format!("{CONTAINER}/24"), format!("{CLIENTS}/24"));
        link(pod.end(&[&container]), clients.end(&[&client]))?;
        let authority = Authority::new("image-test");
        fs::create_dir(folder.join("manifests"))?;
        let runtime = Runtime::find()?;
        Ok(Stage { prepared, runtime, image, confinement, pod, clients, authority, folder, interrupt })
    }

    /// As a Pod of the chart: ports below 1024 are everybody's by its sysctl.
    pub(super) fn in_own_network(&self) -> Result<()> {
        self.clients.enter(|| {
            let payload = Payload::bind(SocketAddr::new(CLIENTS.parse()?, 0), 1)?;
            let held = Upstream::at(CLIENTS.parse()?, BACKLOG);
            self.write_routes(&[payload.local_addr()], &[held.address()])?;
            let first = self.write_certificate()?;
            let mut container = self.start("pod", &self.confinement)?;
            self.serves(&first)?;
            println!("serves HTTP and HTTPS at ports 80 and 443");
            refuses_by_the_core_rules()?;
            self.is_confined(&container)?;
            self.takes_up_a_new_certificate()?;
            self.ends_without_losing_a_request(&mut container, &held)
        })
    }

    /// With `hostNetwork`, where nothing but the file's capability opens port 80.
    pub(super) fn in_node_network(&self) -> Result<()> {
        self.pod.set("ipv4/ip_unprivileged_port_start", "1024")?;
        let confinement = self.confinement.clone().in_node_network();
        self.clients.enter(|| {
            let payload = Payload::bind(SocketAddr::new(CLIENTS.parse()?, 0), 1)?;
            self.write_routes(&[payload.local_addr()], &[])?;
            let certificate = self.write_certificate()?;
            let container = self.start("node", &confinement)?;
            self.serves(&certificate)?;
            println!("serves there by the capability of its file");
            self.is_confined(&container)
        })
    }

    /// Starts a container and waits until it is ready.
    fn start(&self, name: &str, confinement: &Confinement) -> Result<Container> {
        let arguments = ["serve", "--manifests=/manifests", "--workers=1"].map(String::from);
        let mut mounts = vec![(self.folder.join("manifests"), PathBuf::from("/manifests"))];
        if self.prepared.is_dynamic {
            println!("the binary is linked dynamically: this machine's libraries are mounted");
            let libraries = ["/lib", "/lib64", "/usr/lib"].map(PathBuf::from);
            mounts.extend(libraries.into_iter().filter(|it| it.is_dir()).map(|it| (it.clone(), it)));
        }
        let network = self.pod.path();
        let filter = &self.prepared.filter;
        let bundle = Bundle {
            image: &self.image,
            confinement,
            filter,
            arguments: &arguments,
            network: &network,
            mounts: &mounts,
        };
        let mut container = Container::start(self.runtime, name, &self.folder, &bundle)?;
        let ready = self.interrupt.poll(PATIENCE, || {
            if let Some(status) = container.ended()? {
                bail!("it ended with {status}:\n{}", container.log());
            }
            Ok(is_ready().then_some(()))
        })?;
        ready.with_context(|| format!("it is not ready:\n{}", container.log()))?;
        Ok(container)
    }

    fn write_routes(&self, web: &[SocketAddr], held: &[SocketAddr]) -> Result<()> {
        let ingress = Ingress::new("web")
            .path(HOST, "Prefix", "/", "web")
            .path(HOST, "Prefix", "/held", "held")
            .annotation("ssl-redirect", "false")
            .tls(HOST);
        let guarded = Ingress::new("guarded")
            .path(GUARDED, "Prefix", "/", "web")
            .annotation("forebay.io/waf-mode", "On")
            .annotation("enable-owasp-core-rules", "true");
        let services = service("web", web) + &service("held", held);
        self.write("routes.yaml", &(ingress.document() + &guarded.document() + &services))
    }

    fn write_certificate(&self) -> Result<Certificate> {
        let certificate = self.authority.server(&[HOST]);
        self.write("certificate.yaml", &tls_secret("certificate", &certificate))?;
        Ok(certificate)
    }

    /// Replaces a file of the manifests at one stroke.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let aside = self.folder.join("aside");
        fs::write(&aside, text)?;
        Ok(fs::rename(aside, self.folder.join("manifests").join(name))?)
    }

    fn serves(&self, certificate: &Certificate) -> Result<()> {
        let response = Connection::to(port(80)?).get(HOST, "/bytes/7/x");
        ensure!(response.status == 200 && response.body.len() == 7, "HTTP: {}", response.status);
        let mut connection = self.client().connect(port(443)?);
        ensure!(connection.tls_info().shows(certificate), "another certificate than that of the Secret");
        let status = connection.get(HOST, "/bytes/7/x").status;
        ensure!(status == 200, "HTTPS: {status}");
        Ok(())
    }

    /// Checks the process by what the kernel reports of it, not by what was requested.
    fn is_confined(&self, container: &Container) -> Result<()> {
        let pid = container.pid()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let (user, _) = self.confinement.user();
        for (key, radix, expected) in [
            ("Uid", 10, user.into()),
            ("Gid", 10, user.into()),
            ("CapEff", 16, NET_BIND_SERVICE),
            ("CapBnd", 16, NET_BIND_SERVICE),
            ("Seccomp", 10, if self.prepared.filter.is_null() { 0 } else { FILTERED }),
        ] {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            let word = line.and_then(|line| line.split_whitespace().next()).context(key)?;
            let value = u64::from_str_radix(word, radix)?;
            ensure!(value == expected, "{key} is {value:#x}, not {expected:#x}");
        }
        let written = File::create(format!("/proc/{pid}/root/written"));
        let error = written.err().context("its files can be written")?;
        ensure!(error.raw_os_error() == Some(rustix::io::Errno::ROFS.raw_os_error()), "written: {error}");
        println!("runs as user {user}, confined, on files that cannot be written");
        Ok(())
    }

    fn takes_up_a_new_certificate(&self) -> Result<()> {
        let new = self.write_certificate()?;
        let is_shown = || Ok(self.client().connect(port(443)?).tls_info().shows(&new));
        self.interrupt.await_that(PATIENCE, "the new certificate", is_shown)?;
        println!("takes up a new certificate");
        Ok(())
    }

    fn ends_without_losing_a_request(&self, container: &mut Container, held: &Upstream) -> Result<()> {
        let mut connection = Connection::to(port(80)?);
        connection.send(format!("GET /held HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
        let (mut endpoint, _) = held.accept_request();
        container.signal("TERM")?;
        self.interrupt.await_that(PATIENCE, "it to be unready by SIGTERM", || Ok(!is_ready()))?;
        ensure!(container.ended()?.is_none(), "it ended while a request was on its way");
        endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let status = connection.read_response().status;
        ensure!(status == 200, "the request on its way was answered {status}");
        let status = self.interrupt.poll(PATIENCE, || container.ended())?;
        let status = status.with_context(|| format!("it does not end:\n{}", container.log()))?;
        ensure!(status.success(), "it ended with {status}:\n{}", container.log());
        println!("ends at SIGTERM once the request on its way is answered");
        Ok(())
    }

    fn client(&self) -> TlsClient {
        TlsClient::new(HOST).believing(&self.authority)
    }
}

fn port(number: u16) -> Result<SocketAddr> {
    Ok(SocketAddr::new(CONTAINER.parse()?, number))
}

/// Checks that the image's core rules are found, and tell an attack from an ordinary request.
fn refuses_by_the_core_rules() -> Result<()> {
    let ask = |query: &str| -> Result<u16> {
        let request = format!(
            "GET /bytes/7/x?{query} HTTP/1.1\r\nHost: {GUARDED}\r\nUser-Agent: image-test\r\nAccept: */*\r\n\r\n"
        );
        Ok(Connection::to(port(80)?).ask(&request).status)
    };
    let (ordinary, attack) = (ask("q=shoes")?, ask("q=1%27%20OR%20%271%27=%271")?);
    ensure!((ordinary, attack) == (200, 403), "core rules: {ordinary} and {attack}");
    println!("refuses an attack by the core rules");
    Ok(())
}

/// Whether the probe of the chart would call it ready.
fn is_ready() -> bool {
    port(10254).is_ok_and(|address| crate::ask::get(address, "/readyz").is_ok())
}
