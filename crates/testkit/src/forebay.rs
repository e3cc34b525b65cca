//! The real binary, running.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::converter::Converter;
use crate::manifest::{Ingress, service, settings};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::{Connection, PATIENCE, Response, TlsClient};

/// A Forebay that is not started yet. Host `web.test` leads to Service `default/web` unless
/// [`manifest`](Self::manifest) adds something else.
#[derive(Debug)]
pub struct Setup {
    /// The binary, and before it the program that runs it, if there is one.
    command: Vec<OsString>,
    /// Of a cluster that is followed; without it there are manifests in files.
    kubeconfig: Option<PathBuf>,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, String)>,
    ingress: Ingress,
    endpoints: Vec<SocketAddr>,
    settings: Vec<(String, String)>,
    manifests: Vec<(String, String)>,
}

/// Pause between two looks at a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A running `forebay serve`. Killed when dropped.
#[derive(Debug)]
pub struct Forebay {
    child: Child,
    ingress: Ingress,
    converter: Option<Converter>,
    folder: TempDir,
    log: Output,
    access_log: Output,
    http: SocketAddr,
    https: SocketAddr,
    admin: SocketAddr,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// Its whole standard output.
    pub stdout: String,
    /// Its whole standard error.
    pub stderr: String,
}

impl Setup {
    /// Runs this program with one worker, so that results do not depend on which worker accepted a
    /// connection.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self::bare(program.into(), None).arguments(["--configmap=default/settings"])
    }

    /// Runs this program on the objects of a cluster, instead of on manifests.
    pub fn following(program: impl Into<PathBuf>, kubeconfig: &Path) -> Self {
        Self::bare(program.into(), Some(kubeconfig.into()))
    }

    fn bare(program: PathBuf, kubeconfig: Option<PathBuf>) -> Self {
        let arguments = ["--http-port=0", "--https-port=0", "--healthz-port=0", "--workers=1"];
        Self {
            command: vec![program.into()],
            kubeconfig,
            arguments: arguments.map(OsString::from).into(),
            environment: Vec::new(),
            ingress: Ingress::new("web").path("web.test", "Prefix", "/", "web"),
            endpoints: Vec::new(),
            settings: Vec::new(),
            manifests: Vec::new(),
        }
    }

    /// Adds an endpoint of Service `web`.
    #[must_use]
    pub fn endpoint(mut self, address: SocketAddr) -> Self {
        self.endpoints.push(address);
        self
    }

    /// Adds an annotation to the Ingress, without its prefix.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.ingress = self.ingress.annotation(name, value);
        self
    }

    /// Adds a host to the Ingress' `tls`, with the certificate of Secret `certificate`.
    #[must_use]
    pub fn tls(mut self, host: &str) -> Self {
        self.ingress = self.ingress.tls(host);
        self
    }

    /// Adds a key of the `ConfigMap`.
    #[must_use]
    pub fn setting(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds arguments to the command line.
    #[must_use]
    pub fn arguments<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs the program under another one, such as valgrind, whose command line goes before its own.
    #[must_use]
    pub fn under<A: Into<OsString>>(mut self, command: impl IntoIterator<Item = A>) -> Self {
        self.command.splice(..0, command.into_iter().map(Into::into));
        self
    }

    /// Adds a variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Adds a file of manifests. `web.yaml` replaces Ingress and Service `web`.
    #[must_use]
    pub fn manifest(mut self, file: &str, text: impl Into<String>) -> Self {
        self.manifests.push((file.to_owned(), text.into()));
        self
    }

    /// Starts it and waits until it serves.
    pub fn start(self) -> Forebay {
        let mut forebay = self.launch();
        forebay.await_serving();
        forebay
    }

    /// Starts it and waits for no more than its admin server.
    pub fn launch(self) -> Forebay {
        let folder = tempfile::tempdir().expect("a folder");
        let converter = Converter::new(&self.command, &self.arguments).filter(|_| self.kubeconfig.is_none());
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg("serve");
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        } else {
            let manifests = self.write_manifests(folder.path());
            if let Some(converter) = &converter {
                converter.convert(&manifests);
            }
            command.arg("--manifests").arg(manifests);
        }
        command.envs(self.environment.iter().cloned());
        command.args(&self.arguments).args(converter.iter().flat_map(|_| Converter::NO_INGRESS));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let log = Output::read(child.stderr.take().expect("it is piped"));
        let access_log = Output::read(child.stdout.take().expect("it is piped"));
        let unknown = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let ingress = self.ingress;
        let http = unknown;
        let https = unknown;
        let admin = unknown;
        let mut forebay = Forebay { child, ingress, converter, folder, log, access_log, http, https, admin };
        let line = forebay.await_log(" admin=");
        forebay.admin.set_port(port(&line, "admin="));
        forebay
    }

    fn write_manifests(&self, folder: &Path) -> PathBuf {
        let manifests = folder.join("manifests");
        std::fs::create_dir(&manifests).expect("a folder");
        let web = self.ingress.document() + &service("web", &self.endpoints);
        for (file, text) in [("web.yaml", web), ("settings.yaml", settings(&self.settings))] {
            write(&manifests.join(file), &text);
        }
        for (file, text) in &self.manifests {
            write(&manifests.join(file), text);
        }
        manifests
    }
}

impl Forebay {
    /// Waits until one that was [launched](Setup::launch) serves.
    pub fn await_serving(&mut self) {
        let line = self.await_log(" serving http=");
        self.http.set_port(port(&line, " http="));
        self.https.set_port(port(&line, " https="));
        self.await_that("every worker to begin", || self.admin("/readyz").status == 200);
    }

    // Talking to it.

    /// Connects as a client.
    pub fn client(&self) -> Connection {
        Connection::to(self.http)
    }

    /// Asks for a path of `web.test` on a connection of its own.
    pub fn get(&self, target: &str) -> Response {
        self.client().get("web.test", target)
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.http
    }

    /// Where clients connect to with TLS.
    pub fn https_address(&self) -> SocketAddr {
        self.https
    }

    /// Where its admin server is.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// Connects as a client with TLS.
    pub fn tls_client(&self, tls: &TlsClient) -> Connection {
        tls.connect(self.https)
    }

    /// Asks the admin server.
    pub fn admin(&self, path: &str) -> Response {
        Connection::to(self.admin)
            .ask(&format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n"))
    }

    /// Scrapes the metrics.
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(self.admin("/metrics").text())
    }

    /// Scrapes the metrics over an open connection to the admin server, which takes no port for itself.
    pub fn metrics_over(admin: &mut Connection) -> Metrics {
        Metrics::parse(admin.ask("GET /metrics HTTP/1.1\r\nHost: admin\r\n\r\n").text())
    }

    /// The configuration in force.
    pub fn configuration(&self) -> serde_json::Value {
        serde_json::from_slice(&self.admin("/configuration").body).expect("it is JSON")
    }

    /// Scrapes until a metric has this value.
    pub fn await_metric(&self, name: &str, labels: &[(&str, &str)], value: u64) {
        let sum = || self.metrics().sum(name, labels);
        self.await_that(&format!("{name}{labels:?} to be {value}"), || sum() == value);
    }

    /// Polls until a condition holds. For conditions without an event; the pauses leave the CPU to what is
    /// waited for.
    pub fn await_that(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < end, "waited in vain for {what}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    // === Queries ===

    /// Waits for a line on standard error that holds `text`.
    pub fn await_log(&self, text: &str) -> String {
        self.log
            .find(|line| line.contains(text))
            .unwrap_or_else(|| panic!("no line with {text:?} in {:#?}", self.log.so_far()))
    }

    /// The lines on standard error so far.
    pub fn log(&self) -> Vec<String> {
        self.log.so_far()
    }

    /// Waits for a line of the access log that holds `text`.
    pub fn await_access_log(&self, text: &str) -> String {
        self.access_log
            .find(|line| line.contains(text))
            .unwrap_or_else(|| panic!("no line with {text:?} in {:#?}", self.access_log.so_far()))
    }

    // === Manifests ===

    /// The folder with the manifests.
    pub fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    /// Replaces a file of manifests at one stroke.
    pub fn replace(&self, file: &str, text: &str) {
        let aside = self.folder.path().join("aside");
        write(&aside, text);
        std::fs::rename(&aside, self.manifests().join(file)).expect("a rename");
        if let Some(converter) = &self.converter {
            converter.convert(&self.manifests());
        }
    }

    /// Gives Service `web` other endpoints, and waits until they are served.
    pub fn set_endpoints(&self, endpoints: &[SocketAddr]) {
        let wanted: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        self.replace("web.yaml", &(self.ingress.document() + &service("web", endpoints)));
        self.await_that("the endpoints to be in force", || {
            let configuration = self.configuration();
            let clusters = configuration["clusters"].as_array().expect("a list");
            let web = clusters.iter().find(|one| one["name"] == "default-web-80").expect("the upstream");
            let addresses = web["endpoints"].as_array().expect("a list").iter().map(|one| &one["address"]);
            addresses.eq(&wanted) && configuration["generation"] == configuration["acknowledged"]
        });
    }

    // === Shutdown ===

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// Waits until it has ended by itself.
    pub fn wait(mut self) -> Ended {
        assert!(self.log.ends(), "still running: {:#?}", self.log.so_far());
        let status = self.child.wait().expect("it is our child");
        Ended { status, stdout: self.access_log.finish().join("\n"), stderr: self.log.finish().join("\n") }
    }

    /// Resident memory in KiB that it has allocated: pages of the binary come and go with the machine's load.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a process has memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// The CPU time that all its threads have used; the scheduler counts nanoseconds.
    pub fn cpu_time(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        // A thread that ends in the meantime has no file.
        let of_thread = |thread: std::fs::DirEntry| -> Option<u64> {
            std::fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(threads.flatten().filter_map(of_thread).sum())
    }

    /// Ends the processes that have succeeded it, which write to its log as well: reading that would not end
    /// before they do.
    fn end_successors(&self) {
        for line in self.log.so_far() {
            let number = line.split_once(" successor=").map(|(_, rest)| rest.trim());
            if let Some(successor) = number.and_then(|number| Pid::from_raw(number.parse().ok()?)) {
                // It may have ended already.
                let _ = kill_process(successor, Signal::KILL);
            }
        }
    }

    /// The id of its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Forebay {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.end_successors();
            eprintln!("forebay said: {:#?}", self.log.finish());
        }
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// The port of an address in a line of the log: `http="[::]:8080"`.
fn port(line: &str, name: &str) -> u16 {
    let value = line.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {line:?}"));
    let address = value.split(' ').next().unwrap_or_default().trim_matches('"');
    address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .unwrap_or_else(|| panic!("no port: {line:?}"))
}
