//! The generator over TLS, against a server with one thread for each connection.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bench::generator::{self, Errors, Expect, GeneratorError, Outcome, Plan, Protocol, Status};
use bench::payload::Payload;
use bench::tls::{Tls, Trust, Version};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned, version};

const LONG: Duration = Duration::from_mins(1);
const NAME: &str = "web.test.com";

/// The counters of the server.
#[derive(Default)]
struct Seen {
    full: AtomicU64,
    resumed: AtomicU64,
    requests: AtomicU64,
}

fn server_config() -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .expect("known versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("they belong together");
    (Arc::new(config), cert.der().clone())
}

/// Answers every request with a body of `body_bytes`, and closes the connection if asked to.
fn serve(body_bytes: usize) -> (SocketAddr, Arc<Seen>) {
    serve_with(server_config().0, body_bytes)
}

fn serve_with(config: Arc<ServerConfig>, body_bytes: usize) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let seen = Arc::new(Seen::default());
    thread::spawn({
        let seen = Arc::clone(&seen);
        move || {
            for socket in listener.incoming().flatten() {
                let (config, seen) = (Arc::clone(&config), Arc::clone(&seen));
                thread::spawn(move || converse(config, socket, body_bytes, &seen));
            }
        }
    });
    (address, seen)
}

/// Serves a connection until its client has closed it or has sent `Connection: close`.
fn converse(config: Arc<ServerConfig>, socket: TcpStream, body_bytes: usize, seen: &Seen) -> Option<()> {
    let session = ServerConnection::new(config).ok()?;
    let mut reader = BufReader::new(StreamOwned::new(session, socket));
    loop {
        let mut close = false;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            close |= line == "Connection: close\r\n";
        }
        seen.requests.fetch_add(1, Ordering::Relaxed);
        if close {
            let resumed = reader.get_ref().conn.handshake_kind()? == HandshakeKind::Resumed;
            let counter = if resumed { &seen.resumed } else { &seen.full };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n");
        let stream = reader.get_mut();
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&vec![b'x'; body_bytes]).ok()?;
        stream.flush().ok()?;
        if close {
            stream.conn.send_close_notify();
            stream.flush().ok()?;
            return Some(());
        }
    }
}

fn run(target: SocketAddr, tls: Tls, adjust: impl FnOnce(&mut Plan)) -> Outcome {
    let tls = Some(Tls { server_name: NAME.into(), ..tls });
    let mut plan = Plan { tls, duration: LONG, requests: Some(50), ..Plan::new(target, "/") };
    adjust(&mut plan);
    let outcome = generator::run(&plan).expect("the server listens");
    assert!(outcome.is_clean(), "{:?}", outcome.errors);
    outcome
}

#[test]
fn bodies_of_many_records_come_whole() {
    for version in [Version::V1_2, Version::V1_3] {
        let size = 3 << 20;
        let (target, _) = serve(size);
        let outcome = run(target, Tls { version, ..Tls::default() }, |plan| {
            (plan.connections, plan.requests) = (4, Some(12));
            plan.expect = Expect { status: Status::Is(200), body_bytes: Some(size as u64) };
        });
        assert_eq!((outcome.answered, outcome.connections_opened), (12, 4), "{version:?}");
    }
}

#[test]
fn without_resumption_every_handshake_is_full() {
    for version in [Version::V1_2, Version::V1_3] {
        let (target, seen) = serve(0);
        let outcome = run(target, Tls { version, ..Tls::default() }, |plan| {
            (plan.connections, plan.requests_per_connection) = (5, Some(1));
        });
        assert_eq!((outcome.connections_opened, outcome.connections_resumed), (50, 0), "{version:?}");
        assert_eq!((seen.full.load(Ordering::Relaxed), seen.resumed.load(Ordering::Relaxed)), (50, 0));
    }
}

#[test]
fn each_connection_resumes_its_own_session() {
    for version in [Version::V1_2, Version::V1_3] {
        let (target, seen) = serve(0);
        let outcome = run(target, Tls { version, resume: true, ..Tls::default() }, |plan| {
            (plan.connections, plan.requests_per_connection) = (5, Some(1));
        });
        assert_eq!((outcome.connections_opened, outcome.connections_resumed), (50, 45), "{version:?}");
        assert_eq!(seen.resumed.load(Ordering::Relaxed), 45);
    }
}

#[test]
fn a_large_request_is_sent_whole() {
    let (target, seen) = serve(0);
    let outcome = run(target, Tls::default(), |plan| {
        // The server reads the long header as a part of the head.
        plan.headers = vec![("X-Large".into(), "x".repeat(1 << 20))];
        plan.requests = Some(3);
    });
    assert_eq!((outcome.answered, seen.requests.load(Ordering::Relaxed)), (3, 3));
}

#[test]
fn who_speaks_no_tls_is_no_server() {
    let payload = Payload::bind(([127, 0, 0, 1], 0).into(), 1).expect("a free port");
    let tls = Some(Tls { server_name: NAME.into(), ..Tls::default() });
    let plan = Plan { tls, duration: LONG, ..Plan::new(payload.local_addr(), "/") };
    assert!(matches!(generator::run(&plan), Err(GeneratorError::Handshake { .. })));
    let (target, _) = serve(0);
    let tls = Some(Tls { server_name: "no name".into(), ..Tls::default() });
    let plan = Plan { tls, duration: LONG, ..Plan::new(target, "/") };
    assert!(matches!(generator::run(&plan), Err(GeneratorError::Tls(_))));
}

#[test]
fn a_certificate_is_trusted_by_its_authority_and_name_alone() {
    let (config, certificate) = server_config();
    let trusting = |certificates: &[&CertificateDer<'static>]| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().map(|&one| one.clone()));
        Trust::Authorities(Arc::new(roots))
    };
    let (target, seen) = serve_with(config, 0);
    let tls = |name: &str, trust| Some(Tls { server_name: name.into(), trust, ..Tls::default() });
    let (_, other) = server_config();
    for (name, authority, why) in [
        (NAME, &other, "no authority that is trusted here has signed it"),
        ("other.test.com", &certificate, "it is for another name"),
    ] {
        let plan = Plan { tls: tls(name, trusting(&[authority])), duration: LONG, ..Plan::new(target, "/") };
        let error = generator::run(&plan).expect_err("not to be trusted");
        assert_eq!(error.distrust(), Some(why), "{error}");
    }
    assert_eq!(seen.requests.load(Ordering::Relaxed), 0);
    let outcome =
        run(target, tls(NAME, trusting(&[&certificate])).expect("some"), |plan| plan.requests = Some(3));
    assert_eq!((outcome.answered, outcome.phases.tls.is_empty()), (3, false));
}

#[test]
fn http2_is_not_spoken_to_who_does_not_offer_it() {
    let (target, _) = serve(0);
    let tls = Some(Tls { server_name: NAME.into(), ..Tls::default() });
    let protocol = Protocol::Http2 { streams: 1 };
    let plan = Plan { tls, protocol, duration: LONG, ..Plan::new(target, "/") };
    let error = generator::run(&plan).expect_err("no HTTP/2").to_string();
    assert!(error.ends_with("the server does not offer HTTP/2"), "{error}");
}

#[test]
fn a_yielding_generator_finishes_too() {
    let (target, _) = serve(10);
    let outcome = run(target, Tls::default(), |plan| plan.yielding = true);
    assert_eq!((outcome.answered, outcome.errors), (50, Errors::default()));
}
