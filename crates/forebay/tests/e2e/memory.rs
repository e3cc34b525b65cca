//! Memory in use stays the same however much has been served. Resident memory would not tell: it also has
//! free pages that the allocator keeps.

use std::net::UdpSocket;

use testkit::manifest::{config_map, service};
use testkit::{Forebay, PATIENCE, Port, UdpEcho};

use crate::setup;

/// The most by which pages in use may grow: thread caches of the allocator fill, and lines of logs wait.
const GROWTH_MAX: u64 = 2 << 20;

fn in_use(forebay: &Forebay) -> u64 {
    let bytes = forebay.metrics().sum("forebay_memory_active_bytes", &[]);
    assert!(bytes > 1 << 20, "the allocator tells what is in use, but not {bytes} bytes");
    bytes
}

/// A session that its answer had ended kept its 334 bytes, until a worker had 16,384 of them: 4 MB here.
#[test]
fn udp_sessions_that_have_ended_use_no_memory() {
    const WARM: u64 = 2500;
    const SESSIONS: u64 = 12_000;
    let (port, echo) = (Port::udp(), UdpEcho::default());
    let of_tcp = service("echo", &[echo.address()]);
    let forebay = setup()
        .arguments(["--udp-services-configmap=default/udp"])
        .manifest("udp.yaml", config_map("udp", &[(&port.number().to_string(), "default/echo:80")]))
        .manifest("echo.yaml", of_tcp.replace("\"port\":", "\"protocol\": \"UDP\", \"port\":"))
        .start();
    // Every session is one of the same worker, since the client's address is the same.
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(port.address()).unwrap();
    let sessions = |count: u64| {
        for number in 0..count {
            let question = number.to_be_bytes();
            client.send(&question).unwrap();
            let mut answer = [0; 16];
            let len = client.recv(&mut answer).unwrap();
            assert_eq!(answer[..len], question);
        }
    };
    sessions(WARM);
    let before = in_use(&forebay);
    sessions(SESSIONS);
    let after = in_use(&forebay);
    let ended = forebay.metrics().sum("forebay_stream_connections_total", &[("protocol", "UDP")]);
    assert!(ended > SESSIONS, "an answer ends a session, but there were {ended}");
    assert!(after < before + GROWTH_MAX, "{before} bytes became {after} by {SESSIONS} sessions");
}
