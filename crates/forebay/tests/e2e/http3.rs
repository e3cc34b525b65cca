//! HTTP/3 towards clients: what passes, what a change of the configuration leaves alone, and violations.

use std::fs::{read_dir, read_link, read_to_string};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use testkit::manifest::{secret, tls_secret};
use testkit::{
    Authority, Canned, Certificate, Forebay, H3Client, QuicClient, Setup, TlsClient, Upstream, h3_head,
};

use crate::failures::awaits_fault;
use crate::{GET, OK, setup};

// Error codes (RFC 9114 section 8.1, RFC 9204 section 6).
const NO_ERROR: u64 = 0x100;
const STREAM_CREATION_ERROR: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const FRAME_UNEXPECTED: u64 = 0x105;
const EXCESSIVE_LOAD: u64 = 0x107;
const MISSING_SETTINGS: u64 = 0x10a;
const REQUEST_INCOMPLETE: u64 = 0x10d;
const MESSAGE_ERROR: u64 = 0x10e;
const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
const QPACK_ENCODER_STREAM_ERROR: u64 = 0x201;

fn http3() -> Setup {
    setup().tls("web.test").setting("forebay-http3", "on")
}

fn serving(address: SocketAddr) -> Forebay {
    http3().endpoint(address).start()
}

fn client(forebay: &Forebay) -> H3Client {
    H3Client::connect(forebay.https_address(), &TlsClient::new("web.test"))
}

fn quic(forebay: &Forebay) -> QuicClient {
    QuicClient::connect(forebay.https_address(), &TlsClient::new("web.test"))
}

/// A head with these fields after those of a GET.
fn head(more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let get: [(&[u8], &[u8]); 4] =
        [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"web.test"), (b":path", b"/")];
    h3_head(&[&get[..], more].concat())
}

// === What passes ===

#[test]
fn a_request_is_answered_and_logged_with_its_protocol() {
    let upstream = Canned::saying("hello");
    let forebay = http3()
        .setting("log-format-upstream", "line=$request. protocol=$server_protocol. status=$status.")
        .endpoint(upstream.address())
        .start();
    let client = client(&forebay);
    for _ in 0..3 {
        assert_eq!(client.get("web.test", "/path?query").said(), (200, "hello"));
    }
    assert_eq!(client.get("other.test", "/").status, 404);
    forebay.await_access_log("line=GET /path?query HTTP/3.0. protocol=HTTP/3.0. status=200.");
    let heads = upstream.heads();
    assert!(heads[0].starts_with("GET /path?query HTTP/1.1\r\nHost: web.test\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("\r\nX-Forwarded-Proto: https\r\n"), "{}", heads[0]);
}

#[test]
fn bodies_and_trailers_pass_both_ways() {
    let upstream = Upstream::new();
    let forebay = http3().annotation("proxy-request-buffering", "off").endpoint(upstream.address()).start();
    let client = client(&forebay);
    let mut call = client.call("POST", "web.test", "/", &[("te", "trailers")]);
    call.send(b"first ");
    let (mut peer, _) = upstream.accept_request();
    call.send(b"second");
    call.send_trailers(&[("checksum", "abc")]);
    let body = peer.read_raw_chunks();
    assert!(body.contains("first ") && body.contains("second"), "{body}");
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: sum\r\n\r\n4\r\nfine\r\n0\r\nsum: def\r\n\r\n");
    let response = call.read_response();
    assert_eq!(response.said(), (200, "fine"));
    assert_eq!(response.trailers, [("sum".to_owned(), "def".to_owned())]);
}

#[test]
fn many_streams_are_served_at_once() {
    let upstream = Canned::choosing(|head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len()).into()
    });
    let forebay = serving(upstream.address());
    let client = client(&forebay);
    let mut calls: Vec<_> = (0..100)
        .map(|number| {
            let mut call = client.call("GET", "web.test", &format!("/{number}"), &[]);
            call.finish();
            call
        })
        .collect();
    for (number, call) in calls.iter_mut().enumerate() {
        assert_eq!(call.read_response().said(), (200, format!("/{number}").as_str()));
    }
}

#[test]
fn ten_megabytes_pass_both_ways() {
    const LEN: usize = 10 << 20;
    let content: Vec<u8> = (0..LEN).map(|at| (at * 7 % 251) as u8).collect();
    let upstream = Upstream::new();
    let forebay = http3()
        .annotation("proxy-request-buffering", "off")
        .annotation("proxy-body-size", "0")
        .endpoint(upstream.address())
        .start();
    let client = client(&forebay);
    let expected = content.clone();
    let peer = std::thread::spawn(move || {
        let (mut peer, head) = upstream.accept_request();
        assert!(head.to_lowercase().contains(&format!("content-length: {LEN}")), "{head}");
        let received = peer.read_exactly(LEN);
        assert!(received == expected, "the endpoint got something else");
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
        peer.send(&received);
    });
    let response = client.post("web.test", "/", &[("content-length", &LEN.to_string())], &content);
    peer.join().expect("the endpoint is content");
    assert!(response.status == 200 && response.body == content, "{}", response.body.len());
}

#[test]
fn a_client_that_reads_nothing_costs_little_memory() {
    const LEN: usize = 256 << 20;
    let upstream = Upstream::new();
    let forebay = serving(upstream.address());
    let client = client(&forebay);
    let before = forebay.resident_kib();
    let mut call = client.call("GET", "web.test", "/", &[]);
    call.finish();
    let (mut peer, _) = upstream.accept_request();
    peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
    let sent = peer.send_until_blocked(Duration::from_secs(1), LEN);
    assert!(sent < LEN, "all of it was taken");
    let after = forebay.resident_kib();
    assert!(after < before + (32 << 10), "{before} KiB, then {after} KiB");
    // Others are served meanwhile.
    assert_eq!(call.read_head().status, 200);
}

#[test]
fn a_request_that_the_client_gives_up_is_given_up() {
    let upstream = Upstream::new();
    let forebay = serving(upstream.address());
    let client = client(&forebay);
    let mut call = client.call("GET", "web.test", "/", &[]);
    call.finish();
    let (mut peer, _) = upstream.accept_request();
    call.cancel();
    peer.ending();
    awaits_fault(&forebay, "client", "client_aborted", 1);
    let mut call = client.call("GET", "web.test", "/", &[]);
    call.finish();
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    assert_eq!(call.read_response().said(), (200, "ok"));
}

/// By extended CONNECT (RFC 9220).
#[test]
fn a_websocket_opens() {
    let upstream = Upstream::new();
    let forebay = serving(upstream.address());
    let quic = quic(&forebay);
    let _control = quic.send_uni(&[0, 4, 0]);
    let connect = h3_head(&[
        (b":method", b"CONNECT"),
        (b":protocol", b"websocket"),
        (b":scheme", b"https"),
        (b":authority", b"web.test"),
        (b":path", b"/chat"),
        (b"sec-websocket-version", b"13"),
    ]);
    let mut stream = quic.send_bi(&[&connect[..], &[0, 5], b"hello"].concat(), true);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.starts_with("GET /chat HTTP/1.1\r\n") && head.contains("pgrade: websocket\r\n"), "{head}");
    peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nwelcome");
    assert_eq!(peer.read_exactly(5), b"hello");
    peer.shutdown_write();
    let received = stream.read_to_end();
    assert!(received.ends_with(b"welcome"), "{received:?}");
}

#[test]
fn responses_over_tls_tell_of_it() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let port = forebay.https_address().port();
    let mut tls = forebay.tls_client(&TlsClient::new("web.test"));
    tls.send(GET);
    assert_eq!(tls.read_response().header("alt-svc").as_deref(), Some("h3=\":443\"; ma=86400"));
    tls.send(format!("GET / HTTP/1.1\r\nHost: web.test:{port}\r\n\r\n"));
    let expected = format!("h3=\":{port}\"; ma=86400");
    assert_eq!(tls.read_response().header("alt-svc"), Some(expected));
}

#[test]
fn by_itself_it_is_offered_to_all_once_a_client_has_come() {
    let upstream = Canned::saying("hello");
    let forebay = http3().setting("forebay-http3", "auto").endpoint(upstream.address()).start();
    let offered = |host: &str| {
        let mut tls = forebay.tls_client(&TlsClient::new("web.test"));
        tls.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        tls.read_response().header("alt-svc")
    };
    let offers = |host: &str| (0..32).filter_map(|_| offered(host)).collect::<Vec<_>>();
    let trial = "h3=\":443\"; ma=60";
    assert_eq!(offers("web.test"), [trial; 2]);
    assert_eq!(client(&forebay).get("web.test", "/").said(), (200, "hello"));
    assert_eq!(offers("web.test"), [trial; 32], "it is new");
    assert_eq!(offers("other.test").len(), 2, "nobody has come to this one");
}

#[test]
fn clients_forget_it_before_the_proxy_stops() {
    let upstream = Canned::saying("hello");
    let forebay = http3().arguments(["--shutdown-grace-period=20"]).endpoint(upstream.address()).start();
    let (client, mut tls) = (client(&forebay), forebay.tls_client(&TlsClient::new("web.test")));
    assert_eq!(client.get("web.test", "/").header("alt-svc").as_deref(), Some("h3=\":443\"; ma=86400"));
    forebay.signal(Signal::TERM);
    forebay.await_that("clients to be told", || {
        let over_quic = client.try_call("GET", "web.test", "/", &[]).map(|mut call| {
            call.finish();
            call.read_response().header("alt-svc")
        });
        over_quic.is_ok_and(|value| value.as_deref() == Some("clear"))
    });
    tls.send(GET);
    assert_eq!(tls.read_response().header("alt-svc").as_deref(), Some("clear"));
}

#[test]
fn a_host_that_is_passed_through_is_not_offered() {
    let upstream = Canned::saying("hello");
    let passed = testkit::manifest::Ingress::new("passed").annotation("ssl-passthrough", "true").path(
        "passed.test",
        "Prefix",
        "/",
        "web",
    );
    let forebay = http3()
        .arguments(["--enable-ssl-passthrough"])
        .manifest("passed.yaml", passed.document())
        .endpoint(upstream.address())
        .start();
    let mut tls = forebay.tls_client(&TlsClient::new("web.test"));
    for (host, is_offered) in [("web.test", true), ("passed.test", false)] {
        tls.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(tls.read_response().header("alt-svc").is_some(), is_offered, "{host}");
    }
}

#[test]
fn it_is_off_unless_it_is_asked_for() {
    let upstream = Canned::saying("hello");
    let forebay = setup().tls("web.test").endpoint(upstream.address()).start();
    let mut tls = forebay.tls_client(&TlsClient::new("web.test"));
    tls.send(GET);
    let response = tls.read_response();
    assert_eq!((response.said(), response.header("alt-svc")), ((200, "hello"), None));
    assert!(has_udp_port(&serving(upstream.address())) && !has_udp_port(&forebay));
}

/// Whether the process has a UDP socket with the port of HTTPS. One of another test may have the same port.
fn has_udp_port(forebay: &Forebay) -> bool {
    let port = format!(":{:04X}", forebay.https_address().port());
    let process = PathBuf::from(format!("/proc/{}", forebay.pid().as_raw_nonzero()));
    let descriptors = read_dir(process.join("fd")).expect("it runs").flatten();
    let own: Vec<_> = descriptors.filter_map(|one| read_link(one.path()).ok()).collect();
    ["net/udp", "net/udp6"].into_iter().any(|table| {
        let table = read_to_string(process.join(table)).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields[1].ends_with(&port) && own.contains(&PathBuf::from(format!("socket:[{}]", fields[9])))
        })
    })
}

#[test]
fn a_client_certificate_is_asked_for_as_over_tcp() {
    let authority = Authority::new("authority");
    let certificate = std::sync::Arc::new(authority.client("somebody"));
    let upstream = Canned::saying("hello");
    let pem = authority.pem();
    let forebay = http3()
        .annotation("auth-tls-secret", "default/authority")
        .manifest("authority.yaml", secret("authority", "Opaque", &[("ca.crt", pem.as_str())]))
        .endpoint(upstream.address())
        .start();
    let tls = TlsClient::new("web.test").certificate(&certificate);
    let with = H3Client::connect(forebay.https_address(), &tls);
    assert_eq!(with.get("web.test", "/").said(), (200, "hello"));
    assert_eq!(client(&forebay).get("web.test", "/").status, 400);
}

// === Changes ===

fn with_certificate(certificate: &Certificate) -> String {
    tls_secret("certificate", certificate)
}

#[test]
fn a_changed_certificate_is_for_new_connections_and_old_ones_go_on() {
    let authority = Authority::new("authority");
    let [first, second] = [0, 1].map(|_| authority.server(&["web.test"]));
    let upstream = Canned::saying("hello");
    let forebay =
        http3().manifest("certificate.yaml", with_certificate(&first)).endpoint(upstream.address()).start();
    let old = client(&forebay);
    assert!(old.quic().shows(&first));
    assert_eq!(old.get("web.test", "/").said(), (200, "hello"));
    forebay.replace("certificate.yaml", &with_certificate(&second));
    forebay.await_that("the new certificate", || quic(&forebay).shows(&second));
    assert_eq!(old.get("web.test", "/").said(), (200, "hello"));
}

#[test]
fn no_request_is_lost_while_the_configuration_changes() {
    let upstream = Canned::saying("hello");
    let authority = Authority::new("authority");
    let forebay = http3()
        .manifest("certificate.yaml", with_certificate(&authority.server(&["web.test"])))
        .endpoint(upstream.address())
        .start();
    let client = client(&forebay);
    for _ in 0..20 {
        forebay.replace("certificate.yaml", &with_certificate(&authority.server(&["web.test"])));
        for _ in 0..10 {
            assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
        }
    }
}

#[test]
fn a_client_that_sends_from_another_port_is_the_same() {
    let upstream = Canned::saying("hello");
    let forebay = http3().arguments(["--workers=4"]).endpoint(upstream.address()).start();
    let client = client(&forebay);
    for _ in 0..10 {
        assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
        client.quic().rebind();
    }
}

#[test]
fn a_request_in_flight_is_finished_before_the_end() {
    let upstream = Upstream::new();
    let forebay = serving(upstream.address());
    let (mut idle, mut busy) = (client(&forebay), client(&forebay));
    let mut call = busy.call("GET", "web.test", "/", &[]);
    call.finish();
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfi");
    assert_eq!(call.read_head().status, 200);
    forebay.signal(Signal::TERM);
    idle.ending();
    peer.send("ne");
    let mut body = Vec::new();
    while let Some(piece) = call.read() {
        body.extend(piece);
    }
    assert_eq!(body, b"fine");
    busy.ending();
    assert_eq!(forebay.wait().status.code(), Some(0));
}

#[test]
fn an_idle_connection_is_told_to_go() {
    let upstream = Canned::saying("hello");
    let forebay = http3().setting("keep-alive", "1").endpoint(upstream.address()).start();
    let client = client(&forebay);
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    assert_eq!(client.quic().closing_code(), NO_ERROR);
}

// === Violations ===

/// Sees that the connection ends with this code after the bytes of a unidirectional and a bidirectional
/// stream, that this is counted, and that others are served.
fn ends_with(uni: &[&[u8]], bi: &[u8], code: u64, reason: &str) {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let broken = quic(&forebay);
    let streams: Vec<_> = uni.iter().map(|bytes| broken.send_uni(bytes)).collect();
    let stream = if bi.is_empty() { None } else { broken.try_send_bi(bi, true).ok() };
    assert_eq!(broken.closing_code(), code);
    drop((streams, stream));
    awaits_fault(&forebay, "client", reason, 1);
    assert_eq!(client(&forebay).get("web.test", "/").said(), (200, "hello"));
}

const CONTROL: &[u8] = &[0, 4, 0];

#[test]
fn frames_out_of_place_end_the_connection() {
    for (uni, bi, code) in [
        (&[&[0, 7, 1, 0][..]][..], &[][..], MISSING_SETTINGS),
        (&[&[0, 4, 0, 4, 0]], &[], FRAME_UNEXPECTED),
        (&[CONTROL, CONTROL], &[], STREAM_CREATION_ERROR),
        (&[CONTROL, &[1, 0]], &[], STREAM_CREATION_ERROR),
        (&[CONTROL], &[0, 1, b'x'], FRAME_UNEXPECTED),
        (&[CONTROL], &[4, 0], FRAME_UNEXPECTED),
    ] {
        ends_with(uni, bi, code, "http3_error");
    }
}

#[test]
fn a_control_stream_must_not_end() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let broken = quic(&forebay);
    let mut control = broken.send_uni(CONTROL);
    control.finish().expect("it is open");
    assert_eq!(broken.closing_code(), CLOSED_CRITICAL_STREAM);
}

#[test]
fn header_blocks_that_cannot_be_decoded_end_the_connection() {
    for block in [
        &[1, 0, 0x80][..],
        &[0, 0, 0x80],
        &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0, 0, 0x21],
        // A base of 2^32, and a reference to the first entry after it.
        &[0, 0x7f, 0x81, 0xff, 0xff, 0xff, 0x0f, 0x10],
    ] {
        let frame = [&[1, block.len() as u8][..], block].concat();
        ends_with(&[CONTROL], &frame, QPACK_DECOMPRESSION_FAILED, "http3_error");
    }
    ends_with(&[CONTROL, &[2, 0x3f, 0xe2, 0x1f]], &[], QPACK_ENCODER_STREAM_ERROR, "http3_error");
}

#[test]
fn malformed_requests_reset_their_stream_only() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL);
    for (name, value) in [
        (&b"connection"[..], &b"close"[..]),
        (b"transfer-encoding", b"chunked"),
        (b"Upper", b"a"),
        (b"a", b"b\r\nc: d"),
        (b":path", b"/b"),
        (b"content-length", b"5"),
    ] {
        assert_eq!(quic.send_bi(&head(&[(name, value)]), true).reset_code(), MESSAGE_ERROR, "{name:?}");
    }
    awaits_fault(&forebay, "client", "http3_stream_error", 6);
    assert!(quic.send_bi(&head(&[]), true).read_to_end().ends_with(b"hello"));
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_giant_head_is_refused() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let client = client(&forebay);
    // The library itself would refuse what is above the server's setting.
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL);
    let giant = head(&[(b"x", &vec![b'a'; 200 << 10])]);
    let answer = quic.send_bi(&giant, true).read_to_end();
    assert!(!answer.is_empty());
    awaits_fault(&forebay, "client", "head_too_large", 1);
    assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
    assert_eq!(upstream.heads().len(), 1);
}

/// `forebay-client-min-rate` counts for heads, long before their timeout.
#[test]
fn a_head_that_trickles_in_ends_the_connection() {
    let upstream = Canned::saying("hello");
    let forebay = http3().setting("forebay-client-min-rate", "240:1s").endpoint(upstream.address()).start();
    let slow = quic(&forebay);
    let _control = slow.send_uni(CONTROL);
    let whole = head(&[]);
    let _stream = slow.send_bi(&whole[..whole.len() - 1], false);
    assert_eq!(slow.closing_code(), REQUEST_INCOMPLETE);
    awaits_fault(&forebay, "client", "head_rate", 1);
}

#[test]
fn a_flood_of_resets_ends_the_connection() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let flooding = quic(&forebay);
    let _control = flooding.send_uni(CONTROL);
    for _ in 0..2000 {
        let Ok(mut stream) = flooding.try_send_bi(&head(&[]), false) else { break };
        stream.cancel();
    }
    assert_eq!(flooding.closing_code(), EXCESSIVE_LOAD);
    awaits_fault(&forebay, "client", "http3_flood", 1);
    assert_eq!(client(&forebay).get("web.test", "/").said(), (200, "hello"));
}

/// A network whose connections end for floods begins few new ones, but does begin them: a first packet that
/// is dropped is sent again.
#[test]
fn an_address_that_has_flooded_is_served_in_its_turn() {
    const FLOODS: u64 = 12;
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    for _ in 0..FLOODS {
        let flooding = quic(&forebay);
        let _control = flooding.send_uni(CONTROL);
        // Instructions for a table of QPACK, each of which inserts a field, more than the budget has.
        let begin: &[u8] = &[2, 0x3f, 0xe1, 0x1f];
        let _encoder = flooding.send_uni(&[begin, &[0x41, b'a', 1, b'b'].repeat(2000)].concat());
        assert_eq!(flooding.closing_code(), EXCESSIVE_LOAD);
    }
    awaits_fault(&forebay, "client", "http3_flood", FLOODS);
    for _ in 0..3 {
        assert_eq!(client(&forebay).get("web.test", "/").said(), (200, "hello"));
    }
}

#[test]
fn a_flood_of_first_packets_leaves_others_alone() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let address = forebay.https_address();
    let client = client(&forebay);
    let before = forebay.resident_kib();
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a free port");
    let mut packet = vec![0; 1200];
    // An Initial packet of version 1, whose payload cannot be decrypted (RFC 9000 section 17.2.2).
    packet[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
    packet[15..18].copy_from_slice(&[0, 0x44, 0x9e]);
    for number in 0..50_000_u64 {
        packet[6..14].copy_from_slice(&number.to_be_bytes());
        // The kernel drops what is too much.
        let _ = socket.send_to(&packet, (address.ip(), address.port()));
        if number.is_multiple_of(10_000) {
            assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
        }
    }
    assert_eq!(self::client(&forebay).get("web.test", "/").said(), (200, "hello"));
    let after = forebay.resident_kib();
    assert!(after < before + (64 << 10), "{before} KiB, then {after} KiB");
}

/// The bound has room for memory of handshakes that the allocator has not given back yet; what a connection
/// keeps is measured by `testing/http3/idle.py`.
#[test]
fn four_hundred_idle_connections_need_little_memory() {
    const COUNT: u64 = 400;
    const KIB_EACH_MAX: u64 = 64;
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let idle = |count: u64| -> Vec<H3Client> {
        let connect = |_| {
            let client = client(&forebay);
            assert_eq!(client.get("web.test", "/").said(), (200, "hello"));
            client
        };
        (0..count).map(connect).collect()
    };
    // Tables and pools that every process has are filled first.
    let _first = idle(100);
    let before = forebay.resident_kib();
    let _clients = idle(COUNT);
    let grown = forebay.resident_kib().saturating_sub(before);
    assert!(grown <= COUNT * KIB_EACH_MAX, "{:.1} KiB each", grown as f64 / COUNT as f64);
}

#[test]
fn a_name_that_is_not_served_is_refused_where_that_is_asked_for() {
    let upstream = Canned::saying("hello");
    let forebay = http3().setting("ssl-reject-handshake", "true").endpoint(upstream.address()).start();
    let refused = QuicClient::try_connect(forebay.https_address(), &TlsClient::new("other.test"));
    // The alert `unrecognized_name` (RFC 6066 section 3).
    assert!(refused.is_err_and(|error| error.to_string().contains("112")));
    awaits_fault(&forebay, "client", "unknown_server_name", 1);
    assert_eq!(client(&forebay).get("web.test", "/").said(), (200, "hello"));
}
