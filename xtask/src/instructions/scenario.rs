//! The conversations that are counted: they pass one worker, and each end speaks only when the worker sleeps.
//!
//! Must not be in here: counting.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, bail};
use testkit::manifest::{Ingress, config_map, service, service_speaking, tls_secret};
use testkit::{Authority, Connection, Forebay, H2Client, H2Upstream, Port, Setup, TlsClient, Upstream};

use super::callgrind::{self, Callgrind, Counts};

/// A kind of request, or of what Forebay is told.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Starts Forebay, and tells how one request goes through it.
    start: fn(Setup) -> (Forebay, Conversation),
}

/// One request and its response, from the first byte to the last. The argument waits until the worker sleeps.
type Conversation = Box<dyn FnMut(&dyn Fn())>;

/// In the order in which they are counted and shown.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "http1", start: |setup| http1(unlogged(setup), GET) },
    Scenario { name: "http1-logged", start: |setup| http1(setup, GET) },
    Scenario {
        name: "http1-5000-ingresses",
        start: |setup| http1(with_5000_ingresses(unlogged(setup)), GET),
    },
    Scenario { name: "http1-post", start: |setup| http1(unlogged(setup), POST) },
    Scenario { name: "http1-regex", start: |setup| http1(unlogged(with_50_expressions(setup)), GET) },
    Scenario { name: "http1-networks", start: |setup| http1(unlogged(with_1000_networks(setup)), GET) },
    Scenario {
        name: "http1-cors",
        start: |setup| http1(unlogged(setup).annotation("enable-cors", "true"), FROM_PAGE),
    },
    Scenario {
        name: "http1-affinity",
        start: |setup| http1(unlogged(setup).annotation("affinity", "cookie"), WITH_COOKIE),
    },
    Scenario {
        name: "http1-limit-rps",
        start: |setup| http1(unlogged(setup).annotation("limit-rps", "1000000"), GET),
    },
    Scenario { name: "http1-new-connection", start: |setup| new_connections(unlogged(setup)) },
    Scenario { name: "https", start: |setup| https(unlogged(setup)) },
    Scenario { name: "h2-http1", start: |setup| h2_http1(unlogged(setup)) },
    Scenario { name: "h2-h2c", start: |setup| h2_h2c(unlogged(setup)) },
    Scenario { name: "tcp", start: |setup| tcp(unlogged(setup)) },
];

const HOST: &str = "web.test";
const BODY_BYTES: usize = 1024;
const GET: &str =
    "GET /path/to/page?query=1 HTTP/1.1\r\nHost: web.test\r\nUser-Agent: instructions\r\nAccept: */*\r\n";
const FROM_PAGE: &str = "GET /path/to/page HTTP/1.1\r\nHost: web.test\r\nUser-Agent: instructions\r\n\
    Origin: https://page.test\r\n";
/// It names no endpoint, so that the client is given a new one each time.
const WITH_COOKIE: &str = "GET /path/to/page HTTP/1.1\r\nHost: web.test\r\nUser-Agent: instructions\r\n\
    Cookie: theme=dark; INGRESSCOOKIE=1700000000.123.45.678901|0123456789abcdef0123456789abcdef\r\n";
const POST: &str = "POST /path/to/page HTTP/1.1\r\nHost: web.test\r\nUser-Agent: instructions\r\nAccept: */*\r\n\
    Content-Type: application/octet-stream\r\nContent-Length: 1024\r\n";

/// Before anything is counted: pools, tables and the allocator's lists fill.
const WARM_UP: usize = 100;
/// Enough that what is done once costs each of them nothing to speak of.
const REQUESTS: usize = 400;

/// Counts what a request costs the binary in a scenario. What callgrind writes is left below `keep`.
pub(super) fn count(scenario: &Scenario, binary: &Path, keep: Option<&Path>) -> Result<Counts> {
    let temporary = tempfile::tempdir()?;
    let folder = match keep {
        Some(keep) => keep.join(scenario.name),
        None => temporary.path().to_owned(),
    };
    fs::create_dir_all(&folder)?;
    callgrind::clear(&folder)?;
    // Connections last, whatever the number of requests on them.
    let setup = Setup::new(binary)
        .under(callgrind::command(&folder))
        .setting("keep-alive-requests", "1000000")
        .setting("upstream-keepalive-requests", "1000000");
    let (forebay, mut conversation) = (scenario.start)(setup);
    let pid = forebay.pid().as_raw_nonzero().get().cast_unsigned();
    let worker = Worker::of(pid)?;
    let callgrind = Callgrind::of(pid, &folder);
    let await_sleep = || worker.await_sleep();
    callgrind.begin()?;
    (0..WARM_UP).for_each(|_| conversation(&await_sleep));
    callgrind.forget()?;
    (0..REQUESTS).for_each(|_| conversation(&await_sleep));
    callgrind.counts(REQUESTS as u64)
}

// === The configurations of Forebay ===

/// As the other peers are measured.
fn unlogged(setup: Setup) -> Setup {
    setup.setting("disable-access-log", "true")
}

fn with_5000_ingresses(setup: Setup) -> Setup {
    let name = |index| format!("other-{index}");
    let ingress =
        |index| Ingress::new(&name(index)).path(&format!("{}.test", name(index)), "Prefix", "/", "web");
    setup.manifest("others.yaml", (0..5_000).map(|index| ingress(index).document()).collect::<String>())
}

/// The last of them takes the request.
fn with_50_expressions(setup: Setup) -> Setup {
    let ingress =
        Ingress::new("expressions").annotation("use-regex", "true").annotation("rewrite-target", "/$2");
    let number = |number| format!("/app-{number:02}/v([0-9]+)/(.*)");
    let ingress =
        (0..49).fold(ingress, |ingress, at| ingress.path(HOST, "ImplementationSpecific", &number(at), "web"));
    setup.manifest(
        "expressions.yaml",
        ingress.path(HOST, "ImplementationSpecific", "/(path)/(.*)", "web").document(),
    )
}

/// The client's is in the middle.
fn with_1000_networks(setup: Setup) -> Setup {
    let network = |number: u32| format!("{}.{}.0.0/16", 77 + number / 10, number % 10);
    let networks: Vec<_> = (0..1000).map(network).collect();
    setup.annotation("whitelist-source-range", &networks.join(","))
}

// === The conversations that are counted ===

fn http1(setup: Setup, head: &str) -> (Forebay, Conversation) {
    let (forebay, endpoint) = with_endpoint(setup);
    let client = forebay.client();
    (forebay, kept_alive(client, endpoint, head))
}

fn https(setup: Setup) -> (Forebay, Conversation) {
    let certificate = Authority::new("root").server(&[HOST]);
    let setup = setup.tls(HOST).manifest("certificate.yaml", tls_secret("certificate", &certificate));
    let (forebay, endpoint) = with_endpoint(setup);
    let client = forebay.tls_client(&TlsClient::new(HOST));
    (forebay, kept_alive(client, endpoint, GET))
}

fn kept_alive(mut client: Connection, mut endpoint: Endpoint, head: &str) -> Conversation {
    let request = with_body(head);
    Box::new(move |await_sleep| {
        client.send(&request);
        endpoint.answer(await_sleep);
        assert_eq!(client.read_response().body.len(), BODY_BYTES);
        await_sleep();
    })
}

fn new_connections(setup: Setup) -> (Forebay, Conversation) {
    let (forebay, mut endpoint) = with_endpoint(setup);
    let (address, request) = (forebay.address(), with_body(GET));
    let conversation = move |await_sleep: &dyn Fn()| {
        let mut client = Connection::to(address);
        await_sleep();
        client.send(&request);
        endpoint.answer(await_sleep);
        assert_eq!(client.read_response().body.len(), BODY_BYTES);
        await_sleep();
        drop(client);
        await_sleep();
    };
    (forebay, Box::new(conversation))
}

fn h2_http1(setup: Setup) -> (Forebay, Conversation) {
    let (forebay, mut endpoint) = with_endpoint(setup);
    let client = H2Client::clear(forebay.address());
    let conversation = move |await_sleep: &dyn Fn()| {
        let mut call = client.call("GET", HOST, "/path/to/page?query=1", &[], true);
        endpoint.answer(await_sleep);
        assert_eq!(call.read_response().body.len(), BODY_BYTES);
        await_sleep();
    };
    (forebay, Box::new(conversation))
}

fn h2_h2c(setup: Setup) -> (Forebay, Conversation) {
    let upstream = H2Upstream::clear();
    let web = Ingress::new("web").path(HOST, "Prefix", "/", "web").document()
        + &service_speaking("web", "kubernetes.io/h2c", &[upstream.address()]);
    let forebay = setup.manifest("web.yaml", web).start();
    let client = H2Client::clear(forebay.address());
    let conversation = move |await_sleep: &dyn Fn()| {
        let mut call = client.call("GET", HOST, "/path/to/page?query=1", &[], true);
        let mut peer = upstream.accept_request();
        await_sleep();
        peer.answer_at_once(200, &[("content-type", "text/plain")], &[b'x'; BODY_BYTES]);
        assert_eq!(call.read_response().body.len(), BODY_BYTES);
        await_sleep();
    };
    (forebay, Box::new(conversation))
}

fn tcp(setup: Setup) -> (Forebay, Conversation) {
    let (port, upstream) = (Port::tcp(), Upstream::new());
    let forebay = setup
        .arguments(["--tcp-services-configmap=default/tcp"])
        .manifest("tcp.yaml", config_map("tcp", &[(&port.number().to_string(), "default/echo:80")]))
        .manifest("echo.yaml", service("echo", &[upstream.address()]))
        .start();
    let mut client = Connection::to(port.address());
    client.send("hello");
    let mut peer = upstream.accept();
    peer.read_exactly(5);
    let conversation = move |await_sleep: &dyn Fn()| {
        let _held = &port;
        client.send([b'q'; 128]);
        peer.read_exactly(128);
        await_sleep();
        peer.send([b'x'; BODY_BYTES]);
        client.read_exactly(BODY_BYTES);
        await_sleep();
    };
    (forebay, Box::new(conversation))
}

fn with_body(head: &str) -> Vec<u8> {
    let body = if head.contains("Content-Length") { BODY_BYTES } else { 0 };
    [head.as_bytes(), b"\r\n", &vec![b'q'; body]].concat()
}

/// Starts Forebay in front of an endpoint that speaks HTTP/1.
fn with_endpoint(setup: Setup) -> (Forebay, Endpoint) {
    let upstream = Upstream::new();
    let forebay = setup.endpoint(upstream.address()).start();
    (forebay, Endpoint { upstream, connection: None })
}

/// Where requests of HTTP/1 arrive, on one connection that is kept.
struct Endpoint {
    upstream: Upstream,
    connection: Option<Connection>,
}

impl Endpoint {
    /// Takes a request and answers it once the worker waits for the answer.
    fn answer(&mut self, await_sleep: &dyn Fn()) {
        let connection = self.connection.get_or_insert_with(|| self.upstream.accept());
        let head = connection.read_head();
        if head.starts_with("POST") {
            connection.read_exactly(BODY_BYTES);
        }
        await_sleep();
        let head = "HTTP/1.1 200 OK\r\nServer: endpoint\r\nDate: Sun, 01 Nov 2026 00:00:00 GMT\r\n\
            Content-Type: text/plain\r\nContent-Length: 1024\r\n\r\n";
        connection.send([head.as_bytes(), &[b'x'; BODY_BYTES]].concat());
    }
}

/// The thread of the one worker.
struct Worker {
    status: PathBuf,
}

impl Worker {
    fn of(pid: u32) -> Result<Worker> {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let folder = thread?.path();
            if fs::read_to_string(folder.join("comm"))?.starts_with("worker") {
                return Ok(Worker { status: folder.join("stat") });
            }
        }
        bail!("process {pid} has no thread whose name begins with worker")
    }

    /// Waits until it waits. The kernel wakes it within the call by which somebody sends it something, so
    /// that it does not look asleep before it has seen that.
    fn await_sleep(&self) {
        // State is the first word after the name, which is in brackets (proc_pid_stat(5)).
        while fs::read_to_string(&self.status).is_ok_and(|status| !status.contains(") S ")) {
            thread::yield_now();
        }
    }
}
