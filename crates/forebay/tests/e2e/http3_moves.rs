//! HTTP/3 connections whose clients change their addresses, or are sent to another replica, and addresses
//! that a client has shown that it receives at.

use std::fs::write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use rustix::process::Signal;
use tempfile::TempDir;
use testkit::manifest::{service, tls_secret};
use testkit::{
    Authority, Canned, Forebay, H3Client, QuicAttempt, QuicClient, QuicTokens, Setup, TlsClient, UdpBalancer,
    Upstream,
};

use crate::replicas::{SECRET, introduce};
use crate::setup;

const FORWARDED: &str = "forebay_http3_forwarded_packets_total";
const MOVES: usize = 100;
const PIECE: &[u8] = &[b'x'; 16 << 10];

fn http3() -> Setup {
    setup()
        .tls("web.test")
        .setting("forebay-http3", "on")
        .annotation("proxy-buffering", "off")
        .arguments(["--workers=4"])
}

pub(crate) fn connect(address: SocketAddr) -> H3Client {
    H3Client::connect(address, &TlsClient::new("web.test"))
}

/// Downloads a response of as many pieces as there are moves, and moves between each two. Each piece is sent
/// after the one before has come.
pub(crate) fn download(upstream: &Upstream, client: &H3Client, mut make_move: impl FnMut(usize)) {
    let mut call = client.call("GET", "web.test", "/", &[]);
    call.finish();
    let (mut peer, _) = upstream.accept_request();
    peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MOVES * PIECE.len()));
    assert_eq!(call.read_head().status, 200);
    for number in 0..MOVES {
        make_move(number);
        peer.send(PIECE);
        let mut len = 0;
        while len < PIECE.len() {
            let piece = call.read().expect("the response goes on");
            assert!(piece.iter().all(|byte| *byte == b'x'));
            len += piece.len();
        }
        assert_eq!(len, PIECE.len(), "after {number} moves");
    }
    assert_eq!(call.read(), None);
}

pub(crate) fn forwarded(forebay: &Forebay, result: &str) -> u64 {
    forebay.metrics().sum(FORWARDED, &[("result", result)])
}

#[test]
fn a_download_survives_a_hundred_changes_of_the_clients_port() {
    let upstream = Upstream::new();
    let forebay = http3().endpoint(upstream.address()).start();
    let balancer = UdpBalancer::new(forebay.https_address());
    let client = connect(balancer.address());
    download(&upstream, &client, |_| balancer.move_to(forebay.https_address()));
    // The kernel gives packets to the worker that their ids name; no worker has to hand them over.
    assert_eq!(forwarded(&forebay, "worker"), 0);
}

// === Replicas ===

/// Replicas on the addresses 127.0.0.1 and 127.0.0.2, with one port.
pub(crate) struct Replicas {
    folder: TempDir,
    pub(crate) all: Vec<Forebay>,
}

pub(crate) fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(number).unwrap())
}

impl Replicas {
    pub(crate) fn new(secrets: [&str; 2], endpoint: SocketAddr) -> Self {
        let mut replicas = Self { folder: tempfile::tempdir().unwrap(), all: Vec::new() };
        for secret in secrets {
            let port = replicas.all.first().map_or(0, |first| first.https_address().port());
            let one = replicas.setup(replicas.all.len(), secret, port).endpoint(endpoint).start();
            replicas.all.push(one);
        }
        let addresses: Vec<SocketAddr> =
            (0..2).map(|number| (address(number), replicas.all[number].address().port()).into()).collect();
        replicas.all.iter().for_each(|one| introduce(one, &addresses));
        replicas
    }

    pub(crate) fn setup(&self, number: usize, secret: &str, port: u16) -> Setup {
        let file = self.folder.path().join(format!("secret-{number}"));
        write(&file, secret).unwrap();
        http3()
            .setting("bind-address", &address(number).to_string())
            .setting("disable-ipv6", "true")
            .manifest("forebay.yaml", service("forebay", &[]))
            .arguments([
                format!("--replicas-secret={}", file.display()),
                format!("--replica-address={}", address(number)),
                format!("--https-port={port}"),
                "--replicas-service=default/forebay".to_owned(),
            ])
    }

    /// Where a replica serves HTTP/3.
    pub(crate) fn at(&self, number: usize) -> SocketAddr {
        (address(number), self.all[0].https_address().port()).into()
    }
}

#[test]
fn a_download_survives_a_hundred_changes_of_the_replica() {
    let upstream = Upstream::new();
    let replicas = Replicas::new([SECRET; 2], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let client = connect(balancer.address());
    download(&upstream, &client, |number| balancer.move_to(replicas.at((number + 1) % 2)));
    let [first, second] = &replicas.all[..] else { panic!("two") };
    assert!(forwarded(second, "replica") >= MOVES as u64 / 2, "each move to it sends packets");
    assert!(forwarded(second, "client") >= MOVES as u64 / 2, "and is answered through it");
    assert_eq!([forwarded(first, "replica"), forwarded(first, "refused")], [0, 0]);
    // A new connection is the second's own.
    balancer.move_to(replicas.at(1));
    let requests =
        |one: &Forebay| one.metrics().sum("nginx_ingress_controller_nginx_process_requests_total", &[]);
    let before = requests(second);
    let another = connect(balancer.address());
    let mut call = another.call("GET", "web.test", "/", &[]);
    call.finish();
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(call.read_response().said(), (200, "ok"));
    // A request is counted once its response has been sent.
    second.await_that("the request to be counted", || requests(second) > before);
}

#[test]
fn a_replica_that_stops_finishes_a_download_through_another_one() {
    let upstream = Upstream::new();
    let replicas = Replicas::new([SECRET; 2], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let client = connect(balancer.address());
    download(&upstream, &client, |number| {
        if number == 10 {
            balancer.move_to(replicas.at(1));
            replicas.all[0].signal(Signal::TERM);
        }
    });
    let mut all = replicas.all;
    assert_eq!(all.remove(0).wait().status.code(), Some(0));
}

#[test]
fn a_replica_that_does_not_know_the_secret_gets_nothing_forwarded() {
    let upstream = Canned::saying("hello");
    let other = "a secret that nobody else has, alas, but long";
    let replicas = Replicas::new([SECRET, other], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let client = connect(balancer.address());
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    balancer.move_to(replicas.at(1));
    let mut call = client.call("GET", "web.test", "/", &[]);
    call.finish();
    // Packets with a mark that nobody has signed.
    let socket = std::net::UdpSocket::bind((address(1), 0)).unwrap();
    socket.send_to(&[&[0x0e, 0xfb, 0x51, 1][..], &[0; 200]].concat(), replicas.at(0)).unwrap();
    replicas.all[0].await_metric(FORWARDED, &[("result", "refused")], 1);
    balancer.move_to(replicas.at(0));
    assert_eq!(call.read_response().said(), (200, "hello"));
    assert_eq!(forwarded(&replicas.all[1], "replica"), 0);
}

#[test]
fn after_a_restart_connections_are_reset_at_once() {
    let upstream = Canned::saying("hello");
    let mut replicas = Replicas::new([SECRET; 2], upstream.address());
    let client = connect(replicas.at(0));
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    let port = replicas.at(0).port();
    let first = replicas.all.remove(0);
    first.signal(Signal::KILL);
    first.wait();
    let again = replicas.setup(0, SECRET, port).endpoint(upstream.address()).start();
    // The client's next packet tells it that the connection is gone. It may have sent one by itself.
    let _ = client.try_call("GET", "web.test", "/", &[]);
    assert!(client.quic().ends_by_reset());
    let new = connect((address(0), port).into());
    assert_eq!(new.get("web.test", "/").said(), (200, "hello"));
    drop(again);
}

/// Tells the second replica that the first one is not listed any more.
fn forget_the_first(of: &Forebay) {
    introduce(of, &[(address(1), of.address().port()).into()]);
}

#[test]
fn connections_of_a_dead_replica_are_reset_by_another_one() {
    let upstream = Canned::saying("hello");
    let mut replicas = Replicas::new([SECRET; 2], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let client = connect(balancer.address());
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    let first = replicas.all.remove(0);
    first.signal(Signal::KILL);
    first.wait();
    let second = &replicas.all[0];
    forget_the_first(second);
    balancer.move_to((address(1), second.https_address().port()).into());
    // It is asked whether it is there before it is taken for gone: until then its packets are forwarded.
    let _ = client.try_call("GET", "web.test", "/", &[]);
    assert!(client.quic().ends_by_reset());
    assert!(forwarded(second, "replica") > 0);
    let new = connect(balancer.address());
    assert_eq!(new.get("web.test", "/").said(), (200, "hello"));
}

/// A Pod that stops fails its health check, and is not listed as serving although it finishes its requests.
#[test]
fn a_replica_that_is_listed_no_more_finishes_a_download() {
    let upstream = Upstream::new();
    let replicas = Replicas::new([SECRET; 2], upstream.address());
    let balancer = UdpBalancer::new(replicas.at(0));
    let client = connect(balancer.address());
    let mut begun = None;
    download(&upstream, &client, |number| match (number, begun) {
        (10, _) => {
            replicas.all[0].signal(Signal::TERM);
            forget_the_first(&replicas.all[1]);
            balancer.move_to(replicas.at(1));
            begun = Some(Instant::now());
        }
        // One that does not answer is taken for gone after three seconds.
        (50, Some(begun)) => {
            let seconds = |at: Instant| at.elapsed().as_secs();
            replicas.all[1].await_that("the time to be over", || seconds(begun) >= 4);
        }
        _ => {}
    });
    let mut all = replicas.all;
    assert_eq!(all.remove(0).wait().status.code(), Some(0));
}

// === Addresses of clients ===

#[test]
fn an_address_gets_three_times_its_bytes_unless_a_token_shows_that_it_receives_there() {
    let authority = Authority::new("authority");
    // The server has more to say than three packets hold.
    let names: Vec<String> = (0..400).map(|number| format!("name-{number}.web.test")).collect();
    let names: Vec<&str> = ["web.test"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let upstream = Canned::saying("hello");
    let forebay = http3()
        // Long enough for the handshakes that do not stall, on a busy machine.
        .setting("client-header-timeout", "4")
        .manifest("certificate.yaml", tls_secret("certificate", &authority.server(&names)))
        .endpoint(upstream.address())
        .start();
    let tls = TlsClient::new("web.test");
    // The bytes that the server sends, until it gives up, to a client of which one packet has come.
    let timed_out = || {
        forebay.metrics().sum("forebay_faults_total", &[("side", "client"), ("reason", "handshake_timeout")])
    };
    let factor = |tokens: &Arc<QuicTokens>| {
        let balancer = UdpBalancer::passing(forebay.https_address(), 1);
        let before = timed_out();
        let attempt = QuicAttempt::new(balancer.address(), &tls, tokens);
        forebay.await_that("the server to give up", || timed_out() > before);
        drop(attempt);
        balancer.bytes_to_client() as f64 / balancer.bytes_to_server() as f64
    };
    let tokens = Arc::<QuicTokens>::default();
    let unknown = factor(&tokens);
    assert!((1.5..=3.0).contains(&unknown), "{unknown} times");
    let known = QuicClient::with_tokens(forebay.https_address(), &tls, &tokens);
    forebay.await_that("a token", || !tokens.is_empty());
    drop(known);
    let returning = factor(&tokens);
    assert!(returning > 3.0, "{returning} times");
    let replayed = factor(&tokens);
    assert!(replayed <= 3.0, "{replayed} times: a token counts once");
}
