//! Active health checks: an endpoint that fails them gets no requests until it passes them again.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use testkit::manifest::{self, service};
use testkit::{
    Authority, Canned, Connection, Forebay, H2Upstream, Moody, PATIENCE, Setup, TlsServer, Upstream,
};

use crate::{GET, OK, setup};

const CHECKS: &str = "forebay_health_checks_total";
const FAILED: &str = "forebay_health_checks_failed_total";
const FAILING: &str = "forebay_health_check_failing";
const PANIC: &str = "forebay_health_check_panic";
const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";

/// Checks `/healthz` of all endpoints, every so often. No check fails because the machine is busy: none has
/// to end soon.
fn checking(interval: &str) -> Setup {
    setup()
        .annotation("forebay.io/health-check", "http")
        .annotation("forebay.io/health-check-path", "/healthz")
        .annotation("forebay.io/health-check-interval", interval)
        .annotation("forebay.io/health-check-timeout", "60s")
        .setting("keep-alive-requests", "1000000")
}

/// In front of three endpoints that are well, and of this one.
fn start(setup: Setup, moody: SocketAddr, others: &[Canned; 3]) -> Forebay {
    let [a, b, c] = others.each_ref().map(Canned::address);
    [a, moody, b, c].into_iter().fold(setup, Setup::endpoint).start()
}

fn others() -> [Canned; 3] {
    [(); 3].map(|()| Canned::saying("ok"))
}

fn is_failing(forebay: &Forebay, endpoint: SocketAddr) -> bool {
    forebay.metrics().sum(FAILING, &[("endpoint", &endpoint.to_string())]) == 1
}

/// Sends so many requests one after the other; returns how many failed.
fn ask(client: &mut Connection, count: usize) -> usize {
    (0..count).filter(|_| client.ask(GET).status != 200).count()
}

/// Requests of clients, without checks.
fn requests(canned: &Canned) -> usize {
    canned.heads().iter().filter(|head| head.starts_with("GET / ")).count()
}

#[test]
fn one_that_fails_gets_no_requests_until_it_passes_again() {
    let (is_well, others) = (Arc::new(AtomicBool::new(false)), others());
    let of_endpoint = Arc::clone(&is_well);
    let moody = Canned::choosing(move |_| {
        let is_well = of_endpoint.load(Ordering::SeqCst);
        if is_well { OK.into() } else { ERROR.into() }
    });
    let forebay = start(checking("100ms"), moody.address(), &others);
    // No request has been sent: the checks alone find it.
    forebay.await_that("the endpoint to fail", || is_failing(&forebay, moody.address()));
    let line = forebay.await_log("an endpoint fails its health check");
    assert!(line.contains(&moody.address().to_string()) && line.contains("status 500"), "{line}");
    let mut client = forebay.client();
    assert_eq!((ask(&mut client, 40), requests(&moody)), (0, 0));
    let head = moody.heads()[0].clone();
    assert!(head.starts_with("GET /healthz HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nHost: {}\r\n", moody.address())), "{head}");
    let address = moody.address().to_string();
    let failed = forebay.metrics().sum(FAILED, &[("endpoint", &address)]);
    assert!(failed >= 2, "{failed}");
    let traffic: serde_json::Value =
        serde_json::from_str(forebay.admin("/console/traffic").text()).expect("JSON");
    let shown = traffic["endpoints"].as_array().into_iter().flatten().find(|one| one["address"] == address);
    if let Some(shown) = shown {
        assert_eq!(shown["checkFault"], "status 500", "{shown}");
    }
    is_well.store(true, Ordering::SeqCst);
    forebay.await_that("the endpoint to pass", || !is_failing(&forebay, moody.address()));
    forebay.await_log("an endpoint passes its health check again");
    forebay.await_that("the endpoint to get requests", || {
        ask(&mut client, 4);
        requests(&moody) > 0
    });
    assert_eq!(
        forebay.metrics().sum("forebay_upstream_requests_total", &[("endpoint", &address)]) as usize,
        requests(&moody)
    );
}

#[test]
fn all_are_used_while_more_than_half_fail() {
    let (ill, well) = ([(); 2].map(|()| Moody::saying(ERROR)), Canned::saying("ok"));
    let addresses = [ill[0].address(), ill[1].address(), well.address()];
    let forebay = addresses.into_iter().fold(checking("100ms"), Setup::endpoint).start();
    forebay.await_log("more than half of the endpoints fail their health checks");
    forebay.await_that("both to be used all the same", || forebay.metrics().sum(PANIC, &[]) == 2);
    let mut client = forebay.client();
    forebay.await_that("all endpoints to get requests", || ask(&mut client, 30) == 20);
    ill[0].become_well();
    forebay.await_log("half of the endpoints pass their health checks again");
    forebay.await_that("one to be left out", || {
        ask(&mut client, 30) == 0 && forebay.metrics().sum(PANIC, &[]) == 0
    });
    assert!(is_failing(&forebay, ill[1].address()));
}

#[test]
fn a_change_of_the_configuration_keeps_what_is_known() {
    let (moody, others) = (Moody::saying(ERROR), others());
    let forebay = start(checking("100ms"), moody.address(), &others);
    forebay.await_that("the endpoint to fail", || is_failing(&forebay, moody.address()));
    // It is well now, but is not checked again within this test.
    let endpoints = [others[0].address(), moody.address(), others[1].address(), others[2].address()];
    let ingress = manifest::Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("forebay.io/health-check", "http")
        .annotation("forebay.io/health-check-interval", "1h");
    let before = forebay.configuration()["generation"].clone();
    forebay.replace("web.yaml", &(ingress.document() + &service("web", &endpoints)));
    forebay.await_that("the change to be in force", || {
        let configuration = forebay.configuration();
        configuration["generation"].as_u64() > before.as_u64()
            && configuration["generation"] == configuration["acknowledged"]
    });
    assert!(is_failing(&forebay, moody.address()));
    moody.become_well();
    let before = moody.requests();
    assert_eq!(ask(&mut forebay.client(), 40), 0);
    assert!(moody.requests() - before <= 1, "{} requests", moody.requests() - before);
}

#[test]
fn an_endpoint_that_is_removed_is_forgotten_and_its_successor_is_checked() {
    let (first, second) = (Moody::saying(ERROR), Moody::saying(ERROR));
    let others = others();
    let forebay = start(checking("100ms"), first.address(), &others);
    forebay.await_that("the endpoint to fail", || is_failing(&forebay, first.address()));
    let [a, b, c] = others.each_ref().map(Canned::address);
    forebay.set_endpoints(&[a, second.address(), b, c]);
    forebay.await_that("the successor to fail", || is_failing(&forebay, second.address()));
    assert!(!is_failing(&forebay, first.address()));
    assert_eq!(ask(&mut forebay.client(), 40), 0);
    forebay.set_endpoints(&[a, b]);
    forebay.await_that("nothing to fail", || forebay.metrics().sum(FAILING, &[]) == 0);
    assert_eq!(ask(&mut forebay.client(), 10), 0);
}

/// Time from the begin of an illness under traffic to the end of the endpoint's use.
fn time_until_out(forebay: &Forebay, endpoint: SocketAddr, begin: impl FnOnce()) -> Duration {
    let mut client = forebay.client();
    assert_eq!(ask(&mut client, 40), 0);
    let mut waiting = Vec::new();
    begin();
    let since = Instant::now();
    forebay.await_that("the endpoint to be out of use", || {
        let mut client = forebay.client();
        client.send(GET);
        if client.is_quiet_for(Duration::from_millis(20)) {
            waiting.push(client);
        }
        is_failing(forebay, endpoint)
    });
    let took = since.elapsed();
    assert_eq!(ask(&mut client, 40), 0, "none is sent there any more");
    took
}

/// No check is due within the hour: requests that fail or wait prompt one.
#[test]
fn requests_that_fail_or_wait_prompt_a_check() {
    let setup = || checking("1h").annotation("forebay.io/health-check-timeout", "500ms");
    let others = others();
    let hanging = Moody::hanging();
    hanging.become_well();
    let forebay = start(setup(), hanging.address(), &others);
    let hangs = time_until_out(&forebay, hanging.address(), || hanging.become_ill());

    let failing = Moody::saying(ERROR);
    failing.become_well();
    let forebay = start(setup(), failing.address(), &others);
    let fails = time_until_out(&forebay, failing.address(), || failing.become_ill());

    let ends = Canned::saying("ok");
    let address = ends.address();
    let forebay = start(setup(), address, &others);
    let refuses = time_until_out(&forebay, address, || drop(ends));
    println!("out of use: {hangs:?} after it hangs, {refuses:?} after it refuses, {fails:?} after it fails");
}

/// A connection that is kept open goes on to answer checks: one that a failed request prompts is made over a
/// new connection.
#[test]
fn an_endpoint_that_accepts_no_connections_fails_although_an_old_one_answers() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, others) = (listener.local_addr().unwrap(), others());
    let serving = thread::spawn(move || {
        let (mut kept, _) = listener.accept().unwrap();
        drop(listener);
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = kept.read(&mut buffer) {
            let answer = if buffer[..read].starts_with(b"GET /fails ") { ERROR } else { OK };
            kept.write_all(answer.as_bytes()).unwrap();
        }
    });
    let forebay = start(checking("1h").arguments(["--workers=1"]), address, &others);
    let mut client = forebay.client();
    assert_eq!(ask(&mut client, 40), 0, "one connection is enough for requests one after the other");
    assert!(!is_failing(&forebay, address));
    let fails = "GET /fails HTTP/1.1\r\nHost: web.test\r\n\r\n";
    while client.ask(fails).status != 500 {}
    forebay.await_that("the endpoint to fail", || is_failing(&forebay, address));
    forebay.await_log("no connection");
    drop(forebay);
    serving.join().unwrap();
}

#[test]
fn checks_of_https_use_the_tls_of_requests() {
    let server = TlsServer::new(&Authority::new("unknown").expired_server(&["other.test"]));
    let (first, second) = (Upstream::new(), Upstream::new());
    let forebay = checking("1s")
        .annotation("backend-protocol", "HTTPS")
        .annotation("forebay.io/health-check-fall", "1")
        .annotation("forebay.io/health-check-host", "inner.test")
        .endpoint(first.address())
        .endpoint(second.address())
        .start();
    let mut peer = second.accept_tls(&server);
    let head = peer.read_head();
    assert!(head.starts_with("GET /healthz HTTP/1.1\r\nHost: inner.test\r\n"), "{head}");
    peer.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    forebay.await_that("the endpoint to fail", || is_failing(&forebay, second.address()));
    forebay.await_log("status 503");
    // The next check uses the connection again.
    assert!(peer.read_head().starts_with("GET /healthz "));
    assert!(!is_failing(&forebay, first.address()));
}

#[test]
fn an_endpoint_with_a_wrong_certificate_fails() {
    let authority = Authority::new("right");
    let right = TlsServer::new(&authority.server(&["inner.test"]));
    let wrong = TlsServer::new(&Authority::new("wrong").server(&["inner.test"]));
    let (first, second) = (Upstream::new(), Upstream::new());
    let forebay = checking("1s")
        .annotation("backend-protocol", "HTTPS")
        .annotation("proxy-ssl-secret", "default/proxy")
        .annotation("proxy-ssl-verify", "on")
        .annotation("proxy-ssl-name", "inner.test")
        .annotation("forebay.io/health-check", "tcp")
        .annotation("forebay.io/health-check-fall", "1")
        .manifest("proxy.yaml", manifest::authority_secret("proxy", &authority, None))
        .endpoint(first.address())
        .endpoint(second.address())
        .start();
    first.accept_tls(&right);
    assert!(second.try_accept_tls(&wrong).is_err());
    forebay.await_that("the endpoint to fail", || is_failing(&forebay, second.address()));
    forebay.await_log("TLS handshake failed");
    assert!(!is_failing(&forebay, first.address()));
}

#[test]
fn grpc_services_report_their_health() {
    let upstream = H2Upstream::clear();
    let (first, second) = (upstream.endpoint(1), upstream.endpoint(2));
    let forebay = checking("100ms")
        .annotation("backend-protocol", "GRPC")
        .annotation("forebay.io/health-check", "grpc")
        .annotation("forebay.io/health-check-service", "shop.Cart")
        .endpoint(first)
        .endpoint(second)
        .start();
    let is_out = || is_failing(&forebay, second);
    let answer = |status_of_second: u8| {
        let mut peer = upstream.accept_request();
        assert_eq!(peer.request.uri().path(), "/grpc.health.v1.Health/Check");
        assert_eq!(peer.header("content-type").as_deref(), Some("application/grpc"));
        assert_eq!(peer.body.read_to_end().0, [&[0, 0, 0, 0, 11, 0x0a, 9][..], b"shop.Cart"].concat());
        let authority = peer.request.uri().authority().map(ToString::to_string);
        let is_second = authority == Some(second.to_string());
        let status = if is_second { status_of_second } else { 1 };
        let mut sender = peer.respond(200, &[("content-type", "application/grpc")], false);
        sender.send(vec![0, 0, 0, 0, 2, 8, status], false);
        sender.send_trailers(&[("grpc-status", "0")]);
    };
    while !is_out() {
        answer(2);
    }
    forebay.await_log("gRPC service not serving");
    while is_out() {
        answer(1);
    }
    assert!(!is_failing(&forebay, first));
    // A server without the service ends the call with NOT_FOUND.
    while !is_failing(&forebay, first) {
        let mut peer = upstream.accept_request();
        let is_first = peer.request.uri().authority().map(ToString::to_string) == Some(first.to_string());
        if is_first {
            peer.respond(200, &[("content-type", "application/grpc"), ("grpc-status", "5")], true);
        } else {
            let mut sender = peer.respond(200, &[("content-type", "application/grpc")], false);
            sender.send(vec![0, 0, 0, 0, 2, 8, 1], false);
            sender.send_trailers(&[("grpc-status", "0")]);
        }
    }
    forebay.await_log("gRPC status 5");
}

/// Requests that are answered stand for checks, unless the route says otherwise; both proxies are asked as
/// often.
#[test]
fn an_endpoint_that_answers_requests_is_checked_less_often() {
    let [first, second] = [(); 2].map(|()| Canned::saying("ok"));
    let start = |canned: &Canned, always: &str| {
        checking("500ms")
            .annotation("forebay.io/health-check-always", always)
            .endpoint(canned.address())
            .arguments(["--workers=1"])
            .start()
    };
    let (sparing, always) = (start(&first, "false"), start(&second, "true"));
    let (mut of_sparing, mut of_always) = (sparing.client(), always.client());
    let checks = |canned: &Canned| canned.heads().len() - requests(canned);
    always.await_that("many checks", || {
        assert_eq!(ask(&mut of_sparing, 1) + ask(&mut of_always, 1), 0);
        checks(&second) >= 16
    });
    let made = checks(&first);
    println!("{made} checks in place of 16");
    assert!((1..=11).contains(&made), "{made} in place of 16");
    // Without requests, the next checks come one after the other again.
    let before = (checks(&first), checks(&second));
    always.await_that("four checks", || checks(&second) >= before.1 + 4);
    sparing.await_that("as many", || checks(&first) >= before.0 + 4);
}

/// The CPU time that checks of a thousand endpoints take, and that one failure among them is found.
#[test]
fn a_thousand_endpoints_are_checked() {
    let (checked, checks) = mpsc::channel();
    let well = Canned::choosing_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), move |_| {
        let _ = checked.send(());
        OK.into()
    });
    let ill = Moody::saying(ERROR);
    let endpoints = (0..1000_u16).map(|number| {
        let [high, low] = number.to_be_bytes();
        SocketAddr::from(([127, 1, high, low], well.address().port()))
    });
    let setup = endpoints.fold(checking("1s"), Setup::endpoint).endpoint(ill.address());
    let forebay = setup.arguments(["--workers=2"]).start();
    let await_checks = |count: u32| {
        for _ in 0..count {
            checks.recv_timeout(PATIENCE).expect("a check");
        }
    };
    await_checks(2000);
    forebay.await_that("one to fail", || is_failing(&forebay, ill.address()));
    let metrics = forebay.metrics();
    assert_eq!((metrics.count(CHECKS, &[]), metrics.sum(FAILING, &[])), (1001, 1));
    // From the first check after this on.
    checks.try_iter().for_each(drop);
    let before = forebay.cpu_time();
    await_checks(5000);
    let each = forebay.cpu_time().saturating_sub(before) / 5000;
    println!("{each:?} of CPU for a check");
    assert!(each < Duration::from_millis(2), "{each:?} of CPU for a check");
    assert_eq!(well.connections(), 1000, "each is checked over one connection");
}
