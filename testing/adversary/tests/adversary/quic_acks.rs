//! Acknowledgements of packets that have not come, by which a client has a server send faster than the
//! network carries (RFC 9000 section 21.4): the connection ends.
//!
//! The server skips numbers now and then; a client that acknowledges more than it has received meets one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use adversary::endpoint::Endpoint;
use adversary::{Attack, Case, Run, binary};
use quinn_proto::{ConnectionError, TransportErrorCode};
use testkit::manifest::{Ingress, service};
use testkit::{Forebay, PATIENCE};

use crate::measure::quic::{Client, Way, client_config};

pub(crate) const ATTACKS: &[Attack] = &[Attack { name: "quic-optimistic-acks", cases: 6, play }];

/// A response of a thousand packets.
const BYTES: usize = 1 << 20;

fn play(run: &Run) {
    let endpoint = Endpoint::serving(answer);
    let forebay = forebay_before(&endpoint);
    run.each(|case| play_case(case, &forebay));
}

/// A Forebay with HTTP/3, which serves the host that [`Client`] asks for from this endpoint.
pub(crate) fn forebay_before(endpoint: &Endpoint) -> Forebay {
    let evil = Ingress::new("evil").path("evil.test", "Prefix", "/", "evil").document()
        + &service("evil", &[endpoint.address()]);
    let setup = binary::setup().endpoint(endpoint.address()).tls("web.test");
    setup.setting("forebay-http3", "on").manifest("evil.yaml", evil).start()
}

/// Reads one request, and responds to it.
pub(crate) fn answer(stream: &mut TcpStream) {
    let mut request = [0; 4096];
    let mut length = 0;
    while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut request[length..]) {
            Ok(read) if read > 0 => length += read,
            _ => return,
        }
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&vec![b'x'; BYTES]);
}

fn play_case(case: &mut Case, forebay: &Forebay) {
    let ahead = 1 + case.random.below(8) as u64;
    let config = client_config(Some(ahead));
    let mut client = Client::begin(&config, forebay.https_address(), [0, 0, 0, 0].into()).expect("a socket");
    let mut packet = vec![0; 1 << 16];
    let end = Instant::now() + PATIENCE;
    while client.act(Way::OptimisticAcks, &mut packet).is_some() {
        assert!(Instant::now() < end, "a client that acknowledges {ahead} packets more is served");
        client.await_packet();
    }
    match client.lost() {
        Some(ConnectionError::ConnectionClosed(close)) => {
            assert_eq!(close.error_code, TransportErrorCode::PROTOCOL_VIOLATION, "{close}");
        }
        other => panic!("the connection ended with {other:?}"),
    }
}
