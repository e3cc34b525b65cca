//! The generator over HTTP/3, against a server that is another implementation of it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bench::generator::{self, Errors, Expect, GeneratorError, Outcome, Pace, Plan, Protocol, Status};
use bench::tls::{Tls, Trust};
use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::server::{Connection, RequestResolver, RequestStream};
use h3_quinn::BidiStream;
use http::Response;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::runtime::Builder;

const LONG: Duration = Duration::from_mins(1);
const NAME: &str = "web.test.com";

/// A server with a thread of its own.
struct Server {
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    seen: Arc<Seen>,
}

/// The counters of the server.
#[derive(Default)]
struct Seen {
    connections: AtomicU64,
    requests: AtomicU64,
    body_bytes: AtomicU64,
}

/// The behaviour of a connection.
#[derive(Clone, Copy)]
enum Manner {
    Ordinary,
    /// GOAWAY after so many requests.
    GoesAway(u64),
    /// The first request on each connection is rejected as one that was not processed.
    RejectsFirst,
}

impl Server {
    fn start(protocol: &str, manner: Manner) -> Server {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("a known version")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("they belong together");
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let crypto = QuicServerConfig::try_from(tls).expect("a suite for Initial packets");
        let config = ServerConfig::with_crypto(Arc::new(crypto));
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let entered = runtime.enter();
        let endpoint = Endpoint::server(config, ([127, 0, 0, 1], 0).into()).expect("a free port");
        drop(entered);
        let address = endpoint.local_addr().expect("bound");
        let seen = Arc::new(Seen::default());
        thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                runtime.block_on(async move {
                    while let Some(incoming) = endpoint.accept().await {
                        tokio::spawn(converse(incoming, manner, Arc::clone(&seen)));
                    }
                });
            }
        });
        Server { address, certificate: cert.der().clone(), seen }
    }

    fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::Relaxed)
    }

    fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::Relaxed)
    }

    fn plan(&self, path: &str, streams: usize) -> Plan {
        let tls = Some(Tls { server_name: NAME.into(), ..Tls::default() });
        let protocol = Protocol::Http3 { streams };
        Plan { tls, protocol, duration: LONG, host: NAME.into(), ..Plan::new(self.address, path) }
    }
}

async fn converse(incoming: Incoming, manner: Manner, seen: Arc<Seen>) -> Option<()> {
    let connection = incoming.await.ok()?;
    seen.connections.fetch_add(1, Ordering::Relaxed);
    let mut connection = Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection)).await.ok()?;
    let mut accepted = 0;
    while let Some(request) = connection.accept().await.ok()? {
        accepted += 1;
        let is_rejected = accepted == 1 && matches!(manner, Manner::RejectsFirst);
        tokio::spawn(answer(request, is_rejected, Arc::clone(&seen)));
        if matches!(manner, Manner::GoesAway(last) if accepted == last) {
            connection.shutdown(0).await.ok()?;
        }
    }
    Some(())
}

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// Answers `/body/N` with N bytes, `/status/N` with a status, `/short/N` with one byte less than it
/// says, and `/reset/N` with an error after N bytes.
async fn answer(
    request: RequestResolver<h3_quinn::Connection, Bytes>,
    is_rejected: bool,
    seen: Arc<Seen>,
) -> Option<()> {
    let (head, mut stream): (_, Stream) = request.resolve_request().await.ok()?;
    if is_rejected {
        stream.stop_stream(Code::H3_REQUEST_REJECTED);
        return None;
    }
    seen.requests.fetch_add(1, Ordering::Relaxed);
    while let Some(data) = stream.recv_data().await.ok()? {
        seen.body_bytes.fetch_add(data.remaining() as u64, Ordering::Relaxed);
    }
    let (kind, number) = head.uri().path()[1..].split_once('/')?;
    let number: usize = number.parse().ok()?;
    let status = if kind == "status" { number as u16 } else { 200 };
    let body = if kind == "status" { 0 } else { number };
    let length = body + usize::from(kind == "short");
    let response = Response::builder().status(status).header("content-length", length).body(()).ok()?;
    stream.send_response(response).await.ok()?;
    if body > 0 {
        stream.send_data(Bytes::from(vec![b'x'; body])).await.ok()?;
    }
    if kind == "reset" {
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
        return None;
    }
    stream.finish().await.ok()
}

fn run(plan: &Plan) -> Outcome {
    let outcome = generator::run(plan).expect("the server listens");
    assert_eq!(outcome.sent, outcome.answered + outcome.errors.total() + outcome.unfinished);
    outcome
}

#[test]
fn streams_beside_each_other_are_answered_and_counted() {
    let server = Server::start("h3", Manner::Ordinary);
    let mut before = 0;
    for body_bytes in [0, 1024, 3 << 20] {
        let plan = Plan {
            connections: 3,
            threads: 2,
            requests: Some(60),
            expect: Expect { status: Status::Is(200), body_bytes: Some(body_bytes) },
            ..server.plan(&format!("/body/{body_bytes}"), 5)
        };
        let outcome = run(&plan);
        assert_eq!((outcome.answered, outcome.errors), (60, Errors::default()), "{body_bytes}");
        assert_eq!((outcome.connections_opened, server.requests() - before), (3, 60));
        assert_eq!(outcome.body_bytes, 60 * body_bytes);
        assert!(outcome.bytes > outcome.body_bytes);
        assert!(!outcome.phases.connect.is_empty() && outcome.phases.tls.is_empty());
        before = server.requests();
    }
}

#[test]
fn an_open_loop_sends_all_that_is_due() {
    let server = Server::start("h3", Manner::Ordinary);
    let plan = Plan {
        // There are enough connections that one is always free, however slow the machine is.
        connections: 50,
        pace: Pace::Open { rate_per_second: 1000.0 },
        duration: Duration::from_millis(200),
        ..server.plan("/body/1024", 4)
    };
    let outcome = run(&plan);
    assert_eq!((outcome.answered, outcome.unsent, outcome.errors), (200, 0, Errors::default()));
}

#[test]
fn each_request_can_have_its_connection_and_resume_a_session() {
    let server = Server::start("h3", Manner::Ordinary);
    for resume in [false, true] {
        let before = server.connections();
        let mut plan = Plan {
            connections: 4,
            requests_per_connection: Some(1),
            requests: Some(40),
            ..server.plan("/body/10", 1)
        };
        plan.tls.as_mut().expect("it has TLS").resume = resume;
        let outcome = run(&plan);
        assert_eq!((outcome.answered, outcome.connections_opened), (40, 40), "{:?}", outcome.errors);
        assert_eq!(server.connections() - before, 40);
        assert_eq!(outcome.connections_resumed, if resume { 36 } else { 0 });
    }
}

#[test]
fn a_large_body_is_sent_whole() {
    let server = Server::start("h3", Manner::Ordinary);
    let plan = Plan {
        method: "POST".into(),
        body: vec![b'x'; 5 << 20],
        requests: Some(3),
        ..server.plan("/body/1", 2)
    };
    assert_eq!(run(&plan).answered, 3);
    assert_eq!(server.seen.body_bytes.load(Ordering::Relaxed), 3 * (5 << 20));
}

#[test]
fn an_answer_that_was_not_expected_is_an_error() {
    let server = Server::start("h3", Manner::Ordinary);
    let of = |path: &str| run(&Plan { requests: Some(4), ..server.plan(path, 2) });
    assert_eq!(of("/status/404").statuses, [(404, 4)].into());
    assert_eq!(of("/status/418").statuses, [(418, 4)].into());
    assert_eq!(of("/short/10").errors, Errors { malformed: 4, ..Errors::default() });
    assert_eq!(of("/reset/10").errors, Errors { closed: 4, ..Errors::default() });
}

#[test]
fn a_request_that_was_not_processed_is_sent_again() {
    let server = Server::start("h3", Manner::RejectsFirst);
    let outcome = run(&Plan { requests: Some(20), ..server.plan("/body/10", 2) });
    assert_eq!((outcome.answered, outcome.errors), (20, Errors::default()));
    assert_eq!((outcome.sent, server.requests()), (20, 20));
}

#[test]
fn a_server_that_goes_away_is_asked_on_the_next_connection() {
    let server = Server::start("h3", Manner::GoesAway(5));
    let outcome = run(&Plan { requests: Some(30), ..server.plan("/body/10", 1) });
    assert_eq!((outcome.answered, outcome.errors), (30, Errors::default()));
    // The server counts the last request of each connection, or leaves it for the next one.
    assert!((5..=8).contains(&outcome.connections_opened), "{}", outcome.connections_opened);
}

#[test]
fn a_closed_port_and_other_protocols_are_named() {
    let server = Server::start("hq-interop", Manner::Ordinary);
    let error = generator::run(&server.plan("/body/1", 1)).expect_err("no HTTP/3");
    assert!(matches!(error, GeneratorError::Handshake { .. }), "{error}");
    // A socket that has another peer gets none of these datagrams, and its port is nobody else's.
    let closed = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    closed.connect("127.0.0.1:1").expect("a route to this machine");
    let plan = Plan { targets: vec![closed.local_addr().expect("bound")], ..server.plan("/body/1", 1) };
    let error = generator::run(&plan).expect_err("nobody listens");
    assert!(matches!(error, GeneratorError::Unreachable { .. }), "{error}");
    let error = generator::run(&Plan { tls: None, ..plan }).expect_err("no TLS");
    assert!(matches!(error, GeneratorError::Clear), "{error}");
}

#[test]
fn a_certificate_is_trusted_by_its_authority_and_name_alone() {
    let server = Server::start("h3", Manner::Ordinary);
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone()).expect("a certificate");
    let trust = Trust::Authorities(Arc::new(roots));
    let plan = |name: &str| {
        let tls = Some(Tls { server_name: name.into(), trust: trust.clone(), ..Tls::default() });
        Plan { tls, ..server.plan("/body/1", 1) }
    };
    let error = generator::run(&plan("other.test.com")).expect_err("not to be trusted");
    assert_eq!(error.distrust(), Some("it is for another name"), "{error}");
    assert_eq!(server.requests(), 0);
    assert_eq!(run(&Plan { requests: Some(3), ..plan(NAME) }).answered, 3);
}
