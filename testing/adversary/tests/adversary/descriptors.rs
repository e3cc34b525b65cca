//! Few descriptors, and those who would like to have them all.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use adversary::http1::answer::Answers;
use adversary::{Attack, Run, binary};
use testkit::manifest::{config_map, service};
use testkit::{Canned, Connection, Forebay, Port};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "descriptors-idle", cases: 0, play: idle_clients_make_room },
    Attack { name: "descriptors-busy", cases: 0, play: who_cannot_be_served_is_told },
    Attack { name: "descriptors-udp", cases: 0, play: datagrams_leave_room_for_http },
    Attack { name: "descriptors-admin", cases: 0, play: admin_clients_leave_room },
];

/// For an answer that ought to come at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks on a connection of its own; the status, or `None` for silence, and the connection.
fn ask(address: SocketAddr, host: &str, path: &str) -> (Option<u16>, TcpStream) {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the kernel takes it");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    let mut answers = Answers::of(stream.try_clone().expect("a descriptor"));
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answers.next("GET")));
    (answer.ok().and_then(Result::ok).map(|answer| answer.status), stream)
}

fn get(forebay: &Forebay) -> (Option<u16>, TcpStream) {
    ask(forebay.address(), "web.test", "/")
}

fn complaints(forebay: &Forebay) -> Vec<String> {
    let is_complaint = |line: &String| {
        let line = line.to_lowercase();
        line.contains("descriptor") || line.contains("open files")
    };
    forebay.log().into_iter().filter(is_complaint).collect()
}

/// Idle connections are closed in favour of requests, and the log has the problem once.
fn idle_clients_make_room(run: &Run) {
    for descriptors in [64, 128, 256, 1024] {
        let clients = descriptors as usize + 40;
        if crate::descriptors_left() < clients {
            run.pass_over(format!(
                "{descriptors} descriptors are not tried: this program may not have {clients}"
            ));
            continue;
        }
        let endpoint = Canned::saying("hello");
        let forebay = binary::setup_with_descriptors(descriptors).endpoint(endpoint.address()).start();
        let mut idle = Vec::new();
        for number in 0..clients {
            let (status, stream) = get(&forebay);
            assert_eq!(status, Some(200), "client {number} of a proxy with {descriptors} descriptors");
            idle.push(stream);
        }
        let said = complaints(&forebay);
        assert!(said.len() <= 3, "with {descriptors} descriptors it says {said:#?}");
        assert!(descriptors > 256 || !said.is_empty(), "with {descriptors} descriptors it says nothing");
        drop(idle);
        assert_eq!(get(&forebay).0, Some(200));
    }
}

/// Where nobody is idle, one more client gets 503 and not silence.
fn who_cannot_be_served_is_told(_: &Run) {
    for descriptors in [64, 256] {
        let silent = Canned::answering("");
        let forebay = binary::setup_with_descriptors(descriptors).endpoint(silent.address()).start();
        let mut busy = Vec::new();
        for _ in 0..descriptors {
            let mut client = Connection::to(forebay.address());
            let _ = client.try_send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
            busy.push(client);
        }
        for _ in 0..3 {
            assert_eq!(
                get(&forebay).0,
                Some(503),
                "one client more than a proxy with {descriptors} descriptors can serve"
            );
        }
        let said = complaints(&forebay);
        assert!(said.len() <= 3, "with {descriptors} descriptors it says {said:#?}");
        let (probe, _) = ask(forebay.admin_address(), "localhost", "/healthz");
        assert_eq!(probe, Some(200), "a probe of a proxy whose {descriptors} descriptors are in use");
        drop(busy);
    }
}

/// Datagrams have made-up senders, and cost nothing.
fn datagrams_leave_room_for_http(_: &Run) {
    const SENDERS: u16 = 2000;
    const CLIENTS: usize = 200;
    let (port, endpoint) = (Port::udp(), Canned::saying("hello"));
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let of_tcp = service("echo", &[silent.local_addr().expect("it is bound")]);
    let forebay = binary::setup_with_descriptors(1024)
        .arguments(["--udp-services-configmap=default/udp"])
        .endpoint(endpoint.address())
        .manifest("udp.yaml", config_map("udp", &[(&port.number().to_string(), "default/echo:80")]))
        .manifest("echo.yaml", of_tcp.replace("\"port\":", "\"protocol\": \"UDP\", \"port\":"))
        .start();
    for number in 0..SENDERS {
        let [high, low] = number.to_be_bytes();
        let sender =
            UdpSocket::bind((Ipv4Addr::new(127, 77, high, low), 0)).expect("an address of this machine");
        sender.send_to(b"?", port.address()).expect("the kernel takes it");
    }
    let mut kept = Vec::new();
    for number in 0..CLIENTS {
        let (status, stream) = get(&forebay);
        assert_eq!(status, Some(200), "client {number} after datagrams of {SENDERS} senders");
        kept.push(stream);
    }
}

/// Neither the data plane nor probes are kept out by those who connect to the admin port and say nothing.
fn admin_clients_leave_room(_: &Run) {
    const IDLE: usize = 200;
    const CLIENTS: usize = 60;
    let endpoint = Canned::saying("hello");
    let forebay = binary::setup_with_descriptors(256).endpoint(endpoint.address()).start();
    let idle: Vec<Connection> = (0..IDLE).map(|_| Connection::to(forebay.admin_address())).collect();
    let mut kept = Vec::new();
    for number in 0..CLIENTS {
        let (status, stream) = get(&forebay);
        assert_eq!(status, Some(200), "client {number} beside {IDLE} idle connections to the admin port");
        kept.push(stream);
    }
    let (probe, _) = ask(forebay.admin_address(), "localhost", "/healthz");
    assert_eq!(probe, Some(200), "a probe beside {IDLE} idle connections to the admin port");
    drop(idle);
}
