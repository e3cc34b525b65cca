//! Bytes that mean nothing, or nearly something, to every port: each connection ends, and the process goes on
//! as it was.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use adversary::hello::client_hello;
use adversary::mutate::mutate;
use adversary::{Attack, Random, Run, binary};
use testkit::frames::{flag, frame, head, header_block, kind};
use testkit::{Canned, PATIENCE};

use crate::admin::webhook;

pub(crate) const ATTACKS: &[Attack] = &[Attack { name: "random-bytes", cases: 2000, play }];

/// Variation of the memory of a process that has used all its buffers.
const KIB_MAX: u64 = 32 << 10;

fn play(run: &Run) {
    let endpoint = Canned::saying("hello");
    let (setup, _files) = webhook(binary::setup());
    let forebay =
        setup.endpoint(endpoint.address()).tls("web.test").setting("client-header-timeout", "2").start();
    let webhook = crate::admin::webhook_address(&forebay);
    let ports = [
        ("http", forebay.address()),
        ("https", forebay.https_address()),
        ("admin", forebay.admin_address()),
        ("webhook", webhook),
    ];
    let beginnings = beginnings();
    let mut before = None;
    run.each(|case| {
        let (name, address) = *case.random.pick(&ports);
        let bytes = bytes(&mut case.random, &beginnings);
        case.sends(&bytes);
        let pieces = case.random.pieces(&bytes, 3);
        ends(name, address, &pieces);
        // The first attack of each kind allocates memory that stays in use.
        if case.number == 100 {
            before = Some(forebay.resident_kib());
        }
    });
    let grown = before.map_or(0, |before| forebay.resident_kib().saturating_sub(before));
    assert!(grown < KIB_MAX, "{grown} KiB more than before");
    assert_eq!(forebay.client().get("web.test", "/none").status, 308, "web.test redirects to TLS, as before");
}

/// Sends, says that no more comes, and waits for the end.
fn ends(name: &str, address: SocketAddr, pieces: &[Vec<u8>]) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    for piece in pieces {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut sink = [0; 16 * 1024];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                panic!("a connection to port {name} does not end")
            }
            Err(_) => return,
        }
    }
}

fn bytes(random: &mut Random, beginnings: &[Vec<u8>]) -> Vec<u8> {
    if random.once_in(4) {
        let len = random.below(2000);
        return random.bytes(len);
    }
    let mut bytes = random.pick(beginnings).clone();
    if random.once_in(3) {
        bytes.extend_from_slice(&random.pick::<Vec<u8>>(beginnings)[..]);
    }
    mutate(random, &mut bytes, 6);
    bytes
}

/// Data that each port would understand.
fn beginnings() -> Vec<Vec<u8>> {
    let get = head("GET", "web.test", "/").map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let h2 = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(kind::SETTINGS, flag::NONE, 0, &[]),
        frame(kind::HEADERS, flag::END_HEADERS, 1, &header_block(&get)),
        frame(kind::DATA, flag::END_STREAM, 1, b"hello"),
        frame(kind::WINDOW_UPDATE, flag::NONE, 0, &[0, 0, 1, 0]),
        frame(kind::GOAWAY, flag::NONE, 0, &[0; 8]),
    ];
    vec![
        b"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n".to_vec(),
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(),
        b"POST /a HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            .to_vec(),
        b"POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: web.test\r\n\r\n".to_vec(),
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x01\0\x02".to_vec(),
        h2.concat(),
        client_hello("web.test"),
    ]
}
