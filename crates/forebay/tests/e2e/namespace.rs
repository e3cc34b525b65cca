//! Running out of local ports, in a network namespace of the test's own.

use std::io;
use std::process::Command;

use rustix::thread::UnshareFlags;
use testkit::{Connection, Forebay, Upstream, left_out, this_test};

use crate::{GET, OK, serving};

const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Moves the calling thread, and whatever it starts, to a network of its own.
#[expect(deprecated, reason = "its successor is unsafe for the sake of flags other than this one")]
fn enter_own_network() -> io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWNET)?;
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("ip cannot bring up the loopback interface")) }
}

/// Runs a test in a network of its own, or records why it is left out.
pub(crate) fn in_own_network(test: fn()) {
    if !testkit::needs("ip") {
        return;
    }
    let run = move || match enter_own_network() {
        Ok(()) => test(),
        Err(why) => left_out(&this_test(), &format!("no network namespace can be made: {why}")),
    };
    let thread = std::thread::Builder::new().name(this_test()).spawn(run).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn without_a_free_port_a_request_waits_for_a_connection() {
    in_own_network(|| {
        let upstream = Upstream::new();
        let forebay = serving(&upstream);
        let mut clients = [(); 3].map(|()| forebay.client());
        let mut admin = Connection::to(forebay.admin_address());
        // From here on there are two ports towards any one destination.
        std::fs::write(PORT_RANGE, "61000 61001").expect("it is the namespace's own");
        for client in &mut clients {
            client.send(GET);
        }
        let mut peers: [Connection; 2] = [(); 2].map(|()| upstream.accept_request().0);
        forebay.await_that("a connection to fail for want of a port", || {
            Forebay::metrics_over(&mut admin).sum("forebay_upstream_ports_exhausted_total", &[]) >= 1
        });
        assert_eq!(Forebay::metrics_over(&mut admin).sum("forebay_upstream_ports_in_use", &[]), 2);
        assert!(upstream.is_left_alone());
        let [first, second] = &mut peers;
        first.send(OK);
        assert!(first.read_head().starts_with("GET / "), "the third goes over the connection that came free");
        first.send(OK);
        second.send(OK);
        for client in &mut clients {
            assert_eq!(client.read_response().said(), (200, "ok"));
        }
    });
}

#[test]
fn a_request_for_which_no_port_comes_free_is_answered_in_the_end() {
    in_own_network(|| {
        let upstream = Upstream::new();
        let forebay =
            crate::setup().endpoint(upstream.address()).annotation("proxy-connect-timeout", "1").start();
        let mut clients = [(); 2].map(|()| forebay.client());
        std::fs::write(PORT_RANGE, "61000 61000").expect("it is the namespace's own");
        clients[0].send(GET);
        let (mut peer, _) = upstream.accept_request();
        assert_eq!(clients[1].ask(GET).status, 502);
        forebay.await_metric("forebay_faults_total", &[("reason", "ports_exhausted")], 1);
        peer.send(OK);
        assert_eq!(clients[0].read_response().said(), (200, "ok"));
    });
}

#[test]
fn a_connection_that_was_waited_for_and_is_dead_is_replaced() {
    in_own_network(|| {
        let upstream = Upstream::new();
        let forebay = serving(&upstream);
        let mut clients = [(); 2].map(|()| forebay.client());
        let mut admin = Connection::to(forebay.admin_address());
        std::fs::write(PORT_RANGE, "61000 61000").expect("it is the namespace's own");
        clients[0].send(GET);
        let (mut peer, _) = upstream.accept_request();
        clients[1].send(GET);
        forebay.await_that("a connection to fail for want of a port", || {
            Forebay::metrics_over(&mut admin).sum("forebay_upstream_ports_exhausted_total", &[]) >= 1
        });
        peer.send(OK);
        assert!(peer.read_head().starts_with("GET / "), "the second goes over the connection that came free");
        peer.reset();
        let (mut peer, _) = upstream.accept_request();
        peer.send(OK);
        for client in &mut clients {
            assert_eq!(client.read_response().said(), (200, "ok"));
        }
    });
}
