//! TCP and UDP services, as the `ConfigMap`s name them. What passes is tested in the proxy's own tests.

use std::net::{SocketAddr, UdpSocket};

use serde_json::json;
use testkit::manifest::service;
use testkit::{Connection, Ending, Forebay, PATIENCE, Port, Setup, Upstream};

use crate::setup;

const TCP: &str = "--tcp-services-configmap=default/tcp";
const UDP: &str = "--udp-services-configmap=default/udp";

/// A `ConfigMap` with one port, or none.
fn configmap(name: &str, port: Option<(&Port, &str)>) -> String {
    let data: serde_json::Map<_, _> =
        port.into_iter().map(|(port, target)| (port.number().to_string(), target.into())).collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name},
        "data": data,
    })
    .to_string()
}

fn tcp(port: &Port, target: &str, endpoint: SocketAddr) -> Setup {
    setup()
        .arguments([TCP])
        .manifest("tcp.yaml", configmap("tcp", Some((port, target))))
        .manifest("echo.yaml", service("echo", &[endpoint]))
}

fn ping_pong(client: &mut Connection, peer: &mut Connection) {
    client.send("ping");
    assert_eq!(peer.read_exactly(4), b"ping");
    peer.send("pong");
    assert_eq!(client.read_exactly(4), b"pong");
}

fn await_generation(forebay: &Forebay, streams: usize) {
    forebay.await_that("the ports to be in force", || {
        // The log first: what it tells of has been handed over when the generation is asked for.
        let applied = forebay.log().iter().filter(|line| line.contains("configuration applied")).count();
        let configuration = forebay.configuration();
        applied >= streams && configuration["generation"] == configuration["acknowledged"]
    });
}

#[test]
fn a_tcp_service_has_its_port_its_metrics_and_its_log() {
    let (port, upstream) = (Port::tcp(), Upstream::new());
    let forebay = tcp(&port, "default/echo:80", upstream.address()).start();
    let mut client = Connection::to(port.address());
    let mut peer = upstream.accept();
    ping_pong(&mut client, &mut peer);
    client.shutdown_write();
    assert_eq!(peer.ending(), Ending::Closed);
    drop(peer);
    assert_eq!(client.ending(), Ending::Closed);
    forebay.await_access_log("] TCP 200 4 4 0.");
    let number = port.number().to_string();
    let labels =
        [("namespace", "default"), ("service", "echo"), ("port", number.as_str()), ("protocol", "TCP")];
    assert_eq!(forebay.metrics().sum("forebay_stream_connections_total", &labels), 1);
    assert_eq!(forebay.metrics().sum("forebay_stream_response_seconds_count", &labels), 1);
}

#[test]
fn answers_are_slow_by_a_threshold() {
    for (threshold, share) in [("1h", 0), ("0s", 1)] {
        let (port, upstream) = (Port::tcp(), Upstream::new());
        let argument = format!("--stream-response-threshold={threshold}");
        let forebay = tcp(&port, "default/echo:80", upstream.address()).arguments([argument]).start();
        let mut client = Connection::to(port.address());
        let mut peer = upstream.accept();
        ping_pong(&mut client, &mut peer);
        forebay.await_metric("forebay_stream_response_seconds_count", &[("service", "echo")], 1);
        let slow =
            forebay.metrics().sum("forebay_stream_response_over_threshold_ratio", &[("service", "echo")]);
        assert_eq!(slow, share, "{threshold}");
    }
}

#[test]
fn proxy_headers_are_read_and_written_where_the_service_asks_for_it() {
    let (port, upstream) = (Port::tcp(), Upstream::new());
    let _forebay = tcp(&port, "default/echo:80:PROXY:PROXY", upstream.address()).start();
    let mut client = Connection::to(port.address());
    client.send("PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\nhello");
    let mut peer = upstream.accept();
    assert_eq!(peer.read_line(), format!("PROXY TCP4 192.0.2.7 127.0.0.1 4711 {}", port.number()));
    assert_eq!(peer.read_exactly(5), b"hello");
}

#[test]
fn a_change_of_the_configmap_opens_and_closes_ports() {
    let (port, upstream) = (Port::tcp(), Upstream::new());
    let forebay = tcp(&port, "default/echo:80", upstream.address()).start();
    let mut client = Connection::to(port.address());
    let mut peer = upstream.accept();
    forebay.replace("tcp.yaml", &configmap("tcp", None));
    await_generation(&forebay, 1);
    assert!(std::net::TcpStream::connect(port.address()).is_err(), "nobody listens any more");
    ping_pong(&mut client, &mut peer);
    forebay.replace("tcp.yaml", &configmap("tcp", Some((&port, "default/echo:80"))));
    await_generation(&forebay, 2);
    let mut second = Connection::to(port.address());
    ping_pong(&mut second, &mut upstream.accept());
    ping_pong(&mut client, &mut peer);
}

#[test]
fn a_udp_service_answers() {
    let socket = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let port = Port::udp();
    let upstream = socket();
    let client = socket();
    let of_tcp = service("echo", &[upstream.local_addr().unwrap()]);
    let forebay = setup()
        .arguments([UDP])
        .manifest("udp.yaml", configmap("udp", Some((&port, "default/echo:80"))))
        .manifest("echo.yaml", of_tcp.replace("\"port\":", "\"protocol\": \"UDP\", \"port\":"))
        .start();
    let mut bytes = [0; 100];
    client.send_to(b"question", port.address()).unwrap();
    let (len, from) = upstream.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..len], b"question");
    upstream.send_to(b"an answer", from).unwrap();
    let (len, from) = client.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..len], from), (&b"an answer"[..], port.address()));
    forebay.await_access_log("] UDP 200 9 8 0.");
}

#[test]
fn the_log_of_streams_can_be_turned_off_by_itself() {
    let (port, upstream) = (Port::tcp(), Upstream::new());
    let forebay = tcp(&port, "default/echo:80", upstream.address())
        .setting("disable-stream-access-log", "true")
        .start();
    let mut client = Connection::to(port.address());
    let mut peer = upstream.accept();
    ping_pong(&mut client, &mut peer);
    drop((client, peer));
    forebay.await_metric("forebay_stream_connections", &[], 0);
    assert_eq!(forebay.get("/").status, 503);
    // Lines are written in their order.
    forebay.await_access_log("GET / ");
    let ended = {
        forebay.signal(rustix::process::Signal::TERM);
        forebay.wait()
    };
    assert!(!ended.stdout.contains("TCP 200"), "{}", ended.stdout);
}
