//! The admin port and the webhook: access to data, and resources that strangers can occupy.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use adversary::{Attack, Run, binary};
use tempfile::TempDir;
use testkit::{Authority, Canned, Connection, Forebay, Response, Setup, TlsClient};

use crate::tenants::own_address;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "admin-idle", cases: 0, play: idle_connections_end },
    Attack { name: "admin-hosts", cases: 0, play: names_that_are_not_ours },
    Attack { name: "admin-host-flag", cases: 0, play: names_that_are_added },
    Attack { name: "admin-methods", cases: 0, play: methods_that_change_something },
    Attack { name: "admin-pages", cases: 0, play: pages_of_other_sites },
    Attack { name: "admin-peers", cases: 0, play: what_only_this_machine_is_told },
    Attack { name: "admin-allowed-peers", cases: 0, play: peers_that_are_allowed },
    Attack { name: "webhook-load", cases: 0, play: reviews_beside_those_who_say_nothing },
    Attack { name: "webhook-bodies", cases: 0, play: bodies_that_are_too_long_or_too_slow },
];

/// Paths that show data of tenants.
const PRIVATE: [&str; 14] = [
    "/status",
    "/configuration",
    "/overload",
    "/doctor",
    "/record",
    "/explain?url=http://web.test/",
    "/console/",
    "/console/state",
    "/console/events",
    "/console/objects",
    "/console/requests",
    "/console/firewall",
    "/console/replicas",
    "/console/past",
];
/// Paths that every client may see.
const PUBLIC: [&str; 4] = ["/metrics", "/healthz", "/readyz", "/livez"];

fn ask(address: SocketAddr, method: &str, path: &str, host: &str) -> Response {
    Connection::to(address)
        .ask(&format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

/// A page of another site that makes a browser ask: nothing is done for it, and it may have no answer, on
/// whatever path.
fn pages_of_other_sites(_: &Run) {
    let forebay = binary::setup().start();
    let admin = forebay.admin_address();
    let ask = |path: &str, site: &str| {
        Connection::to(admin).ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: {site}\r\nConnection: close\r\n\r\n"
        ))
    };
    for path in PRIVATE.iter().chain(&PUBLIC) {
        for site in ["cross-site", "same-site"] {
            // A link may lead to the console's page, which shows nothing to the page that it is on.
            let status = if *path == "/console/" { 200 } else { 403 };
            assert_eq!(ask(path, site).status, status, "{path} for {site}");
        }
        // An endless response has no end to wait for.
        if matches!(*path, "/console/events" | "/console/requests") {
            continue;
        }
        let response = ask(path, "none");
        assert_ne!(response.status, 403, "{path}");
        assert_eq!(response.header("X-Content-Type-Options").as_deref(), Some("nosniff"), "{path}");
        assert_eq!(response.header("Cross-Origin-Resource-Policy").as_deref(), Some("same-origin"), "{path}");
    }
}

/// A page of a browser whose owner was sent to a name that then became this address (DNS rebinding).
fn names_that_are_not_ours(_: &Run) {
    let setup = binary::setup().variable("POD_NAME", "forebay-1").variable("POD_NAMESPACE", "ingress");
    let forebay = setup.start();
    let admin = forebay.admin_address();
    for host in [
        "evil.test",
        "evil.test:10254",
        "localhost.evil.test",
        "127.0.0.1.evil.test",
        "web.test",
        "forebay-1.evil.test",
    ] {
        for path in ["/metrics", "/configuration"] {
            assert_eq!(ask(admin, "GET", path, host).status, 421, "{path} for {host}");
        }
    }
    let own = admin.to_string();
    for host in [
        own.as_str(),
        "127.0.0.1",
        "localhost",
        "localhost:10254",
        "[::1]:10254",
        "forebay-1",
        "192.0.2.9:10254",
    ] {
        assert_eq!(ask(admin, "GET", "/metrics", host).status, 200, "for {host}");
    }
}

fn names_that_are_added(_: &Run) {
    let forebay = binary::setup().arguments(["--admin-host=watch.test"]).start();
    let status = |host| ask(forebay.admin_address(), "GET", "/metrics", host).status;
    assert_eq!((status("watch.test"), status("evil.test")), (200, 421));
}

fn methods_that_change_something(_: &Run) {
    let forebay = binary::setup().start();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "MADEUP"] {
        for path in PUBLIC.iter().chain(&PRIVATE) {
            // A question may have a body, which changes nothing.
            let takes_body = path.starts_with("/explain");
            let allowed = if takes_body { "GET, HEAD, POST" } else { "GET, HEAD" };
            if takes_body && method == "POST" {
                continue;
            }
            let response = ask(forebay.admin_address(), method, path, "localhost");
            assert_eq!(response.status, 405, "{method} {path}");
            assert_eq!(response.header("allow").as_deref(), Some(allowed), "{method} {path}");
        }
    }
}

/// Statuses of paths for a peer that is not this machine itself, or `None` where it has no other address.
fn seen_from_outside(run: &Run, setup: Setup, paths: &[&str]) -> Option<Vec<u16>> {
    let Some(address) = own_address() else {
        run.pass_over("this machine has no address but loopback's");
        return None;
    };
    let forebay = setup.start();
    let admin = SocketAddr::new(address, forebay.admin_address().port());
    let status = |path: &&str| {
        let mut peer = Connection::from_to(address, admin);
        peer.ask(&format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")).status
    };
    Some(paths.iter().map(status).collect())
}

fn what_only_this_machine_is_told(run: &Run) {
    if let Some(statuses) = seen_from_outside(run, binary::setup(), &PRIVATE) {
        assert_eq!(statuses, [403; PRIVATE.len()], "{PRIVATE:?} for a peer that is not of loopback");
    }
    if let Some(statuses) = seen_from_outside(run, binary::setup(), &PUBLIC[..3]) {
        assert_eq!(statuses, [200, 200, 200], "{PUBLIC:?} for anybody");
    }
    let forebay = binary::setup().start();
    let status = |path: &str| ask(forebay.admin_address(), "GET", path, "localhost").status;
    assert_eq!(status("/configuration"), 200, "for loopback");
}

fn peers_that_are_allowed(run: &Run) {
    let Some(address) = own_address() else {
        return run.pass_over("this machine has no address but loopback's");
    };
    let prefix = if address.is_ipv4() { 32 } else { 128 };
    let setup = binary::setup().arguments([format!("--admin-allow={address}/{prefix}")]);
    assert_eq!(seen_from_outside(run, setup, &PRIVATE[..1]), Some(vec![200]));
}

/// A connection without a request ends after some ten seconds.
fn idle_connections_end(_: &Run) {
    const LONGEST_LIFE: Duration = Duration::from_secs(40);
    let (setup, _files) = webhook(binary::setup());
    let forebay = setup.start();
    let admin = || Connection::to(forebay.admin_address());
    // With TLS 1.2, in which nothing follows a handshake that would look like an answer.
    let webhook = || TlsClient::new("webhook.test").only_12().connect(webhook_address(&forebay));
    let asked = |mut connection: Connection| {
        connection.ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection
    };
    let head = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(1000));
    let lasting: Vec<&str> = thread::scope(|scope| {
        let ways = [
            ("nothing", scope.spawn(|| lives(admin(), b"", LONGEST_LIFE))),
            ("a head byte by byte", scope.spawn(|| lives(admin(), head.as_bytes(), LONGEST_LIFE))),
            ("nothing after an answer", scope.spawn(|| lives(asked(admin()), b"", LONGEST_LIFE))),
            (
                "nothing to the webhook",
                scope.spawn(|| lives(Connection::to(webhook_address(&forebay)), b"", LONGEST_LIFE)),
            ),
            ("nothing over TLS to the webhook", scope.spawn(|| lives(webhook(), b"", LONGEST_LIFE))),
            ("a head to the webhook", scope.spawn(|| lives(webhook(), head.as_bytes(), LONGEST_LIFE))),
            (
                "a body to the webhook",
                scope.spawn(|| lives(webhook(), slow_review().as_bytes(), LONGEST_LIFE)),
            ),
        ];
        ways.into_iter().filter_map(|(name, way)| way.join().expect("no panic").then_some(name)).collect()
    });
    assert!(lasting.is_empty(), "connections that live on by {lasting:?}");
}

fn slow_review() -> String {
    format!("POST / HTTP/1.1\r\nHost: webhook.test\r\nContent-Length: 9000\r\n\r\n{}", "{".repeat(1000))
}

/// Whether a connection is open after all that time in which it says a byte now and again. An answer is no
/// end.
pub(crate) fn lives(mut connection: Connection, bytes: &[u8], limit: Duration) -> bool {
    let end = Instant::now() + limit;
    let mut bytes = bytes.iter();
    while Instant::now() < end {
        if let Some(byte) = bytes.next()
            && connection.try_send([*byte]).is_err()
        {
            return false;
        }
        if !connection.is_quiet_for(Duration::from_millis(100)) {
            return false;
        }
    }
    true
}

// === The webhook ===

/// With a webhook, and the files that it needs for as long as it runs.
pub(crate) fn webhook(setup: Setup) -> (Setup, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = Authority::new("servers").server(&["webhook.test"]);
    let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&chain, certificate.chain_pem()).expect("a file");
    std::fs::write(&key, certificate.key_pem()).expect("a file");
    let arguments = [
        "--validating-webhook=127.0.0.1:0".to_owned(),
        format!("--validating-webhook-certificate={}", chain.display()),
        format!("--validating-webhook-key={}", key.display()),
    ];
    (setup.arguments(arguments), folder)
}

pub(crate) fn webhook_address(forebay: &Forebay) -> SocketAddr {
    let line = forebay.await_log("judging Ingresses");
    line.split("webhook=").nth(1).and_then(|text| text.trim().parse().ok()).expect("it tells where")
}

fn review() -> String {
    let object =
        r#"{"metadata":{"namespace":"default","name":"new"},"spec":{"rules":[{"host":"new.test"}]}}"#;
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"705ab4f5","kind":{{"group":"networking.k8s.io","version":"v1","kind":"Ingress"}},"operation":"CREATE","namespace":"default","object":{object}}}}}"#
    )
}

fn post(connection: &mut Connection, body: &str) -> Response {
    let length = body.len();
    connection.ask(&format!("POST / HTTP/1.1\r\nHost: webhook.test\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"))
}

/// The API server waits for its answer, and Ingresses with it.
fn reviews_beside_those_who_say_nothing(_: &Run) {
    const IDLE: usize = 200;
    const REVIEWS: usize = 20;
    let endpoint = Canned::saying("hello");
    let (setup, _files) = webhook(binary::setup());
    let forebay = setup.endpoint(endpoint.address()).start();
    let address = webhook_address(&forebay);
    let idle: Vec<Connection> = (0..IDLE).map(|_| Connection::to(address)).collect();
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..REVIEWS {
            scope.spawn(|| {
                let mut client = TlsClient::new("webhook.test").connect(address);
                let answer = post(&mut client, &review());
                assert!(answer.status == 200 && answer.text().contains("705ab4f5"), "{answer:?}");
            });
        }
    });
    let time = begun.elapsed();
    assert!(time < Duration::from_secs(8), "{REVIEWS} reviews beside {IDLE} idle connections take {time:?}");
    assert_eq!(forebay.get("/").said(), (200, "hello"));
    drop(idle);
}

fn bodies_that_are_too_long_or_too_slow(_: &Run) {
    let (setup, _files) = webhook(binary::setup());
    let forebay = setup.start();
    let address = webhook_address(&forebay);
    let before = forebay.resident_kib();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let mut client = TlsClient::new("webhook.test").connect(address);
        client.send("POST / HTTP/1.1\r\nHost: webhook.test\r\nContent-Length: 4000000000\r\n\r\n");
        // It is refused by its length, or when it gets too long.
        let piece = vec![b'{'; 1 << 20];
        for _ in 0..16 {
            if client.try_send(&piece).is_err() {
                break;
            }
        }
        kept.push(client);
    }
    let grown = forebay.resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for 20 bodies without end");
    drop(kept);
    let mut client = TlsClient::new("webhook.test").connect(address);
    assert_eq!(post(&mut client, &review()).status, 200);
}
