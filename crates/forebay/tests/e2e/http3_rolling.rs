//! Clients of HTTP/3 that go on while what serves them is replaced: the endpoints of a Service, and the
//! replicas of Forebay behind a balancer that hashes addresses.

use std::collections::BTreeMap;
use std::fs::write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rustix::process::Signal;
use tempfile::TempDir;
use testkit::manifest::service;
use testkit::{Canned, Forebay, H3Client, TlsClient, UdpBalancer};

use crate::replicas::{SECRET, introduce};
use crate::setup;

/// A client that sends one request after the other until it is told to stop. Any fault ends the test; when
/// the server says that it takes no more requests, the client connects again.
pub(crate) struct H3Loop {
    is_over: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    again: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl H3Loop {
    /// A client of the server whose address is given at each connection.
    pub(crate) fn start(server: impl Fn() -> SocketAddr + Send + 'static) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let [asked, again] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
        let over = Arc::clone(&is_over);
        let (count, connected) = (Arc::clone(&asked), Arc::clone(&again));
        let thread = std::thread::spawn(move || {
            let tls = TlsClient::new("web.test");
            let mut client = H3Client::connect(server(), &tls);
            while !over.load(Ordering::Relaxed) {
                let Ok(mut call) = client.try_call("GET", "web.test", "/", &[]) else {
                    client = H3Client::connect(server(), &tls);
                    connected.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                call.finish();
                assert_eq!(call.read_response().said(), (200, "ok"));
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { is_over, asked, again, thread }
    }

    /// Stops it; returns how often it has connected again.
    pub(crate) fn stop(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no request fails");
        self.again.load(Ordering::Relaxed)
    }
}

/// Waits until each client has connected again, since the process before has said GOAWAY.
pub(crate) fn await_again(clients: &[H3Loop], forebay: &Forebay) {
    let have = || clients.iter().all(|client| client.again.load(Ordering::Relaxed) > 0);
    forebay.await_that("each client to connect again", have);
}

/// Waits for some more requests of each client.
pub(crate) fn await_more(clients: &[H3Loop], forebay: &Forebay) {
    for client in clients {
        let before = client.asked.load(Ordering::Relaxed);
        forebay.await_that("more requests", || client.asked.load(Ordering::Relaxed) > before + 20);
    }
}

#[test]
fn ten_restarts_of_endpoints_fail_no_request() {
    let first = Canned::saying("ok");
    let forebay = setup()
        .tls("web.test")
        .setting("forebay-http3", "on")
        .setting("keep-alive-requests", "1000000")
        .arguments(["--workers=2"])
        .endpoint(first.address())
        .start();
    let server = forebay.https_address();
    let clients = [(); 4].map(|()| H3Loop::start(move || server));
    let mut endpoints = vec![first, Canned::saying("ok")];
    for _ in 0..10 {
        // The new one is ready before the oldest one stops, and that stops once nobody sends to it.
        endpoints.push(Canned::saying("ok"));
        let addresses: Vec<_> = endpoints.iter().map(Canned::address).collect();
        forebay.set_endpoints(&addresses);
        await_more(&clients, &forebay);
        forebay.set_endpoints(&addresses[1..]);
        await_more(&clients, &forebay);
        endpoints.remove(0);
    }
    for client in clients {
        assert_eq!(client.stop(), 0, "connections stay");
    }
}

/// Replicas on the addresses 127.0.0.1, 127.0.0.2 and so on, with one port for HTTP/3.
struct Replicas {
    folder: TempDir,
    endpoint: SocketAddr,
    running: BTreeMap<u8, Forebay>,
    next: u8,
    port: u16,
}

impl Replicas {
    fn new(endpoint: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, endpoint, running: BTreeMap::new(), next: 1, port: 0 }
    }

    /// Starts another one, and has all know of it; returns its number.
    fn add(&mut self) -> u8 {
        let number = self.next;
        self.next += 1;
        let (own, secret) = (Ipv4Addr::new(127, 0, 0, number), self.folder.path().join("secret"));
        write(&secret, SECRET).unwrap();
        let arguments = [
            format!("--replicas-secret={}", secret.display()),
            format!("--replica-address={own}"),
            format!("--https-port={}", self.port),
            "--replicas-service=default/forebay".to_owned(),
            "--shutdown-grace-period=1".to_owned(),
            "--workers=2".to_owned(),
        ];
        let one = setup()
            .tls("web.test")
            .setting("forebay-http3", "on")
            .setting("keep-alive-requests", "1000000")
            .setting("bind-address", &own.to_string())
            .setting("disable-ipv6", "true")
            .manifest("forebay.yaml", service("forebay", &[]))
            .arguments(arguments)
            .endpoint(self.endpoint)
            .start();
        self.port = one.https_address().port();
        self.running.insert(number, one);
        self.introduce();
        number
    }

    /// Tells all of all.
    fn introduce(&self) {
        let at =
            |(number, one): (&u8, &Forebay)| (Ipv4Addr::new(127, 0, 0, *number), one.address().port()).into();
        let all: Vec<SocketAddr> = self.running.iter().map(at).collect();
        self.running.values().for_each(|one| introduce(one, &all));
    }

    /// Where a replica serves HTTP/3.
    fn at(&self, number: u8) -> SocketAddr {
        (Ipv4Addr::new(127, 0, 0, number), self.port).into()
    }

    /// Waits for the end of one that was told to stop, and has the others forget it.
    fn remove(&mut self, number: u8) {
        let ended = self.running.remove(&number).expect("it was started").wait();
        assert_eq!(ended.status.code(), Some(0));
        self.introduce();
    }
}

/// Replaces one of two replicas after the other, each by one at another address, as a Deployment does. Every
/// client has its own address at the balancer, which leads it to a replica that is there.
fn replace_replicas(times: u8) {
    let upstream = Canned::saying("ok");
    let mut replicas = Replicas::new(upstream.address());
    let mut newest = [(); 2].map(|()| replicas.add())[1];
    // Each client has a balancer of its own, and the replica to which that leads.
    let balancer = |number: u8| (UdpBalancer::new(replicas.at(1 + number % 2)), 1 + number % 2);
    let mut balancers: Vec<_> = (0..4).map(balancer).collect();
    let start = |(balancer, _): &(UdpBalancer, u8)| {
        let address = balancer.address();
        H3Loop::start(move || address)
    };
    let clients: Vec<_> = balancers.iter().map(start).collect();
    for oldest in 1..=times {
        newest = replicas.add();
        await_more(&clients, &replicas.running[&newest]);
        // The balancer leads nobody to a Pod that terminates, and spreads its clients over the others.
        for (number, (balancer, at)) in balancers.iter_mut().enumerate().filter(|(_, (_, at))| *at == oldest)
        {
            *at = if number.is_multiple_of(2) { newest } else { oldest + 1 };
            balancer.move_to(replicas.at(*at));
        }
        replicas.running[&oldest].signal(Signal::TERM);
        await_more(&clients, &replicas.running[&newest]);
        replicas.remove(oldest);
    }
    await_more(&clients, &replicas.running[&newest]);
    let again: usize = clients.into_iter().map(H3Loop::stop).sum();
    assert!(again >= usize::from(times), "old connections end by GOAWAY: {again}");
}

#[test]
fn replicas_that_are_replaced_behind_a_balancer_fail_no_request() {
    replace_replicas(3);
}

/// It takes a minute.
#[test]
#[ignore = "it is the size that docs/http3.md speaks of"]
fn ten_replacements_of_replicas_fail_no_request() {
    replace_replicas(10);
}
