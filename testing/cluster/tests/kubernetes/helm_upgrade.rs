//! `helm upgrade` of Forebay itself, under clients over TCP and HTTP/3 behind a balancer that hashes their
//! addresses and forgets them: after each change of the Pods, packets of a connection come to another Pod.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Connection, H3Client, SpreadingBalancer, TlsClient};

use crate::chart::{Release, serve_over_tls};
use crate::space::{Space, await_that};

const HOST: &str = "upgrade.test";
const REQUEST: &str = "GET /1k HTTP/1.1\r\nHost: upgrade.test\r\n\r\n";

/// The time after which the balancer has learnt of a change, at the latest.
const LEARNS_IN: Duration = Duration::from_millis(200);

/// The clients of a test.
#[derive(Default)]
struct Clients {
    is_over: AtomicBool,
    answered: AtomicUsize,
    /// Connections that the server has ended, announced by GOAWAY or by `Connection: close`.
    ended: AtomicUsize,
    /// Requests that have crossed the end of their connection, and were sent again on another one.
    crossed: AtomicUsize,
}

/// The end of a connection without a fault. A request that is sent before the client has seen the end has a
/// higher identifier than the last GOAWAY says, or comes in a handshake: it was not served, and a client
/// sends it again (RFC 9114 section 5.2). A client that gets no CPU for longer than the server waits does so.
const ENDS: [&str; 2] = ["ApplicationClose(H3_NO_ERROR)", "error_code: APPLICATION_ERROR"];

/// How often a request may be sent again.
const CROSSED_MAX: usize = 3;

/// Stops the clients, also where the test fails: they would be waited for.
struct Stops<'a>(&'a Clients);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Clients {
    fn go_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn note(&self, status: u16) {
        assert_eq!(status, 200);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks over HTTP/3 until it is over. Whatever is not answered with 200 is a panic.
    fn ask_over_http3(&self, server: SocketAddr, tls: &TlsClient, keeps_alive: bool) {
        let mut client = H3Client::connect(server, tls);
        let mut crossed = 0;
        while self.go_on() {
            let head = client.try_call("GET", HOST, "/1k", &[]).map(|mut call| {
                call.finish();
                (call.try_read_head(), call)
            });
            match head {
                Ok((Ok(head), mut call)) => {
                    while call.read().is_some() {}
                    self.note(head.status);
                    crossed = 0;
                    if keeps_alive {
                        continue;
                    }
                }
                Ok((Err(error), _)) => {
                    assert!(ENDS.iter().any(|end| error.contains(end)), "{error}");
                    crossed += 1;
                    assert!(crossed <= CROSSED_MAX, "{error}");
                    self.crossed.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => {
                    self.ended.fetch_add(1, Ordering::Relaxed);
                }
            }
            client = H3Client::connect(server, tls);
        }
    }

    /// The same over TLS.
    fn ask_over_tls(&self, server: SocketAddr, tls: &TlsClient, keeps_alive: bool) {
        let mut kept: Option<Connection> = None;
        while self.go_on() {
            let mut connection = kept.take().unwrap_or_else(|| tls.connect(server));
            let response = connection.ask(REQUEST);
            self.note(response.status);
            let is_ended = response.header("connection").as_deref() == Some("close");
            self.ended.fetch_add(usize::from(is_ended), Ordering::Relaxed);
            kept = (keeps_alive && !is_ended).then_some(connection);
        }
    }

    fn await_more(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        await_that("more requests", || self.answered.load(Ordering::Relaxed) > before + 100);
    }
}

/// The Pods that a load balancer leads to.
fn ready_pods(space: &Space) -> Vec<SocketAddr> {
    let endpoints = space.endpoints(&format!("{}-controller", space.name));
    let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] == true;
    let address = |endpoint: &Value| endpoint["addresses"][0].as_str()?.parse::<IpAddr>().ok();
    let mut ready: Vec<_> = endpoints.iter().filter(is_ready).filter_map(address).collect();
    ready.sort_unstable();
    ready.into_iter().map(|ip| (ip, 443).into()).collect()
}

/// The Pods of Forebay, also those that terminate.
fn pods(space: &Space) -> Vec<Value> {
    let pods = space.client.list("Pod", &space.name).expect("the API answers");
    let is_ours = |pod: &Value| pod["metadata"]["labels"]["app.kubernetes.io/component"] == "controller";
    pods.into_iter().filter(is_ours).map(|pod| pod["metadata"]["uid"].clone()).collect()
}

/// Upgrades the release, and waits until all Pods are new and the old ones have ended.
fn upgrade(space: &Space, release: &Release<'_>, settings: &[&str]) {
    let before = pods(space);
    release.upgrade(settings);
    space.await_rollout(&format!("{}-controller", space.name));
    await_that("the Pods from before to be gone", || !pods(space).iter().any(|pod| before.contains(pod)));
}

/// It takes two minutes.
#[test]
fn helm_upgrade_fails_no_request() {
    let space = Space::new("upgrade");
    let authority = serve_over_tls(&space, HOST);
    let secret = json!({"stringData": {"secret": "what all replicas know, and nobody else"}});
    space.apply("Secret", "replicas", secret);
    let settings = [
        "controller.replicaCount=3",
        "controller.service.enableHttp3=true",
        "controller.config.forebay-http3=on",
        "controller.replicas.enabled=true",
        "controller.replicas.existingSecret=replicas",
        "controller.readinessProbe.periodSeconds=1",
    ];
    // It becomes an argument of the container.
    let with_grace = |grace| [&settings[..], &[grace]].concat();
    let (longer, shorter) = ("controller.shutdownGracePeriod=11", "controller.shutdownGracePeriod=10");
    let release = Release::install(&space, &with_grace(longer));
    space.await_rollout(&format!("{}-controller", space.name));
    await_that("three Pods", || ready_pods(&space).len() == 3);
    let clients = &Clients::default();
    let balancer = &SpreadingBalancer::new(ready_pods(&space));
    let tls = &TlsClient::new(HOST).believing(&authority);
    let server = balancer.address();
    let space = &space;
    thread::scope(|scope| {
        let stops = Stops(clients);
        for keeps_alive in [true, true, true, true, false] {
            scope.spawn(move || clients.ask_over_http3(server, tls, keeps_alive));
        }
        for keeps_alive in [true, true, false] {
            scope.spawn(move || clients.ask_over_tls(server, tls, keeps_alive));
        }
        scope.spawn(move || {
            while clients.go_on() {
                balancer.set(ready_pods(space));
                thread::sleep(LEARNS_IN);
            }
        });
        for grace in [shorter, longer] {
            clients.await_more();
            upgrade(space, &release, &with_grace(grace));
        }
        clients.await_more();
        drop(stops);
    });
    let counts = [&clients.answered, &clients.ended, &clients.crossed];
    let [answered, ended, crossed] = counts.map(|count| count.load(Ordering::Relaxed));
    println!("{answered} requests were answered; the server ended {ended} connections");
    println!("{crossed} requests crossed the end of their connection, and were sent again");
    assert!(ended >= 2 * 6, "each Pod ends its connections before it ends itself: {ended}");
}
