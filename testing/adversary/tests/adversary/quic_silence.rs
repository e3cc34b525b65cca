//! Clients that ask for large responses and then receive nothing: what is written for them stays in memory
//! until it is acknowledged, and so it has to be little.
//!
//! Must not be in here: acknowledgements that are wrong (`quic_acks`).

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use adversary::endpoint::Endpoint;
use adversary::{Attack, Case, Run};
use testkit::{Forebay, PATIENCE};

use crate::measure::quic::{Client, Way, client_config};
use crate::quic_acks;

pub(crate) const ATTACKS: &[Attack] = &[Attack { name: "quic-silent-downloads", cases: 1, play }];

const CLIENTS: usize = 48;
/// Least windows, and some tens of KiB for each connection; each response is of 1 MiB.
const GROWTH_MAX_KIB: u64 = 20 << 10;
/// For so long after the last response has begun the memory is looked at.
const LOOKS: usize = 40;
const LOOK: Duration = Duration::from_millis(25);

fn play(run: &Run) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let endpoint = Endpoint::serving(move |stream: &mut TcpStream| {
        counted.fetch_add(1, Ordering::Relaxed);
        quic_acks::answer(stream);
    });
    let forebay = quic_acks::forebay_before(&endpoint);
    run.each(|case| play_case(case, &forebay, &asked));
}

fn play_case(_: &mut Case, forebay: &Forebay, asked: &AtomicUsize) {
    let before = forebay.resident_kib();
    let asked_before = asked.load(Ordering::Relaxed);
    let mut packet = vec![0; 1 << 16];
    let clients: Vec<Client> = (0..CLIENTS).map(|_| ask(forebay, &mut packet)).collect();
    let end = Instant::now() + PATIENCE;
    while asked.load(Ordering::Relaxed) < asked_before + CLIENTS {
        assert!(Instant::now() < end, "not all requests have come to the endpoint");
        thread::sleep(LOOK);
    }
    for _ in 0..LOOKS {
        let grown = forebay.resident_kib().saturating_sub(before);
        assert!(grown < GROWTH_MAX_KIB, "{grown} KiB more for {CLIENTS} clients that receive nothing");
        thread::sleep(LOOK);
    }
    drop(clients);
}

/// A client that has asked for a response.
fn ask(forebay: &Forebay, packet: &mut [u8]) -> Client {
    let config = client_config(None);
    let mut client = Client::begin(&config, forebay.https_address(), [0, 0, 0, 0].into()).expect("a socket");
    let end = Instant::now() + PATIENCE;
    while !client.has_asked() {
        assert!(Instant::now() < end, "no connection");
        assert!(client.act(Way::OptimisticAcks, packet).is_some(), "the connection has ended");
        client.await_packet();
    }
    client
}
