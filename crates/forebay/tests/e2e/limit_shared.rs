//! Limits that replicas keep together: what one has admitted, the others know.

use std::fs::write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use tempfile::TempDir;
use testkit::manifest::service;
use testkit::{Canned, Forebay, Port, Response};

use crate::setup;

const SECRET: &str = "a secret that all replicas have, and nobody else";
const DATAGRAMS: &str = "forebay_limit_shared_datagrams_total";

/// Replicas on the addresses 127.0.0.1, 127.0.0.2 and so on, with one UDP port.
struct Replicas {
    folder: TempDir,
    backend: Canned,
    port: Port,
    all: Vec<Forebay>,
}

impl Replicas {
    fn new(secrets: &[&str], limit: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut replicas = Self { folder, backend: Canned::saying("ok"), port: Port::udp(), all: Vec::new() };
        for secret in secrets {
            replicas.add(secret, limit);
        }
        let addresses: Vec<SocketAddr> = (0..replicas.all.len()).map(|at| (address(at), 80).into()).collect();
        for one in &replicas.all {
            one.replace("forebay.yaml", &service("forebay", &addresses));
        }
        replicas
    }

    fn add(&mut self, secret: &str, limit: &str) {
        let file = self.folder.path().join(format!("secret-{}", self.all.len()));
        write(&file, secret).unwrap();
        let forebay = setup()
            .setting("forebay-limit-requests", limit)
            .annotation("forebay.io/limit-shared", "true")
            .annotation("forebay.io/limit-key", "$http_x_key")
            .endpoint(self.backend.address())
            .manifest("forebay.yaml", service("forebay", &[]))
            .arguments([
                format!("--replicas-secret={}", file.display()),
                format!("--replica-address={}", address(self.all.len())),
                format!("--replicas-udp-port={}", self.port.number()),
                "--replicas-service=default/forebay".to_owned(),
            ])
            .start();
        self.all.push(forebay);
    }

    fn datagrams(&self, replica: usize, result: &str) -> u64 {
        self.all[replica].metrics().sum(DATAGRAMS, &[("result", result)])
    }

    /// Sends something to the socket of a replica from the address of another one.
    fn send(&self, to: usize, from: Ipv4Addr, datagram: &[u8]) {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.send_to(datagram, (address(to), self.port.number())).unwrap();
    }
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(number).unwrap())
}

fn ask(replica: &Forebay, key: &str) -> Response {
    let head = format!("GET / HTTP/1.1\r\nHost: web.test\r\nX-Key: {key}\r\nConnection: close\r\n\r\n");
    replica.client().ask(&head)
}

/// The remaining quota by a response's headers.
fn left(response: &Response) -> u32 {
    let field = response.header("ratelimit").expect("a limit");
    let left = field.split(';').find_map(|part| part.strip_prefix("r=")).expect("what is left");
    left.parse().expect("a number")
}

#[test]
fn what_one_replica_admits_is_taken_from_all() {
    let replicas = Replicas::new(&[SECRET; 3], "1000/1h");
    let [first, second, third] = &replicas.all[..] else { panic!("three") };
    assert_eq!(left(&ask(first, "a")), 999);
    // A change after the replicas know each other reaches them all.
    let asked = std::cell::Cell::new(1);
    second.await_that("the first to be heard by the second", || {
        ask(first, "a");
        asked.set(asked.get() + 1);
        left(&ask(second, "b")) < 1000 && replicas.datagrams(1, "taken") > 0
    });
    for one in [second, third] {
        one.await_that("all to be counted", || left(&ask(one, "a")) < 1000 - asked.get());
    }
    assert!(replicas.datagrams(0, "sent") > 0);
    assert_eq!(left(&ask(third, "c")), 999, "another key is another count");
}

#[test]
fn together_they_admit_what_the_limit_says() {
    let replicas = Replicas::new(&[SECRET; 2], "400/1h");
    let [first, second] = &replicas.all[..] else { panic!("two") };
    first.await_that("the second to be there", || {
        ask(second, "other");
        replicas.datagrams(0, "taken") > 0
    });
    assert!((0..300).all(|_| ask(first, "a").status == 200));
    // Until it hears of the first, which is told twenty times a second, the second may admit more than is
    // left.
    let admitted = std::cell::Cell::new(300);
    let is_exhausted = |one: &Forebay| {
        let response = ask(one, "a");
        admitted.set(admitted.get() + u32::from(response.status == 200));
        left(&response) == 0 && response.status == 429
    };
    // Each replica assumes requests of the other, and gives back those that the other did not admit.
    let are_exhausted = || is_exhausted(second) && is_exhausted(first) && admitted.get() >= 400;
    second.await_that("nothing to be left", are_exhausted);
    assert!(admitted.get() < 800, "each alone admits 400: {}", admitted.get());
    let refused = ask(second, "a");
    assert_eq!((refused.status, left(&refused)), (429, 0));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("ratelimit-policy").as_deref(), Some(r#""400/3600s";q=400;w=3600"#));
}

#[test]
fn what_is_not_of_a_replica_is_refused_and_counted() {
    let replicas = Replicas::new(&[SECRET, "a secret that nobody else has, alas, but long"], "1000/1h");
    let [first, second] = &replicas.all[..] else { panic!("two") };
    first.await_that("the second to be refused", || {
        ask(second, "a");
        replicas.datagrams(0, "forged") > 0
    });
    assert_eq!((left(&ask(first, "a")), replicas.datagrams(0, "taken")), (999, 0));
    // The second may have known of the first before the first knew of it.
    let strange = replicas.datagrams(0, "strange");
    replicas.send(0, address(1), b"nonsense");
    replicas.send(0, address(1), &[0xff; 1400]);
    replicas.send(0, address(200), b"FBQ1 from nobody");
    first.await_metric(DATAGRAMS, &[("result", "garbage")], 2);
    first.await_metric(DATAGRAMS, &[("result", "strange")], strange + 1);
    assert_eq!(left(&ask(first, "a")), 998);
}

#[test]
fn without_endpoints_of_their_service_each_counts_alone() {
    let mut replicas = Replicas::new(&[], "2/1h");
    replicas.add(SECRET, "2/1h");
    let statuses: Vec<_> = (0..4).map(|_| ask(&replicas.all[0], "a").status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(replicas.datagrams(0, "sent"), 0);
}

#[test]
fn without_a_port_each_counts_alone_and_it_is_told() {
    let backend = Canned::saying("ok");
    let forebay = setup()
        .setting("forebay-limit-requests", "2/1m")
        .setting("forebay-limit-key", "$http_x_key")
        .setting("forebay-limit-shared", "true")
        .endpoint(backend.address())
        .start();
    forebay.await_log("key forebay-limit-shared: there is nobody to count with");
    let statuses: Vec<_> = (0..3).map(|_| ask(&forebay, "a").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(ask(&forebay, "").header("ratelimit"), None, "who comes to nothing is not limited");
}
