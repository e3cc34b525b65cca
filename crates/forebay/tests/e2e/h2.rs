//! HTTP/2 towards clients: floods, malformed requests, limits and a clean end. What passes is in `matrix`.

use rustix::process::Signal;
use testkit::frames::{FrameClient, Outcome, flag, frame, head, header_block, kind, settings_payload};
use testkit::{Canned, Forebay, H2Client, Upstream};

use crate::failures::awaits_fault;
use crate::{OK, serving, setup, streaming};

// Error codes (RFC 9113 section 7).
pub(crate) const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const REFUSED_STREAM: u32 = 7;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

// Settings (RFC 9113 section 6.5.2).
const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(crate) const WHOLE: u8 = flag::END_HEADERS | flag::END_STREAM;

/// More than any connection may send in vain.
const MANY: u32 = 5000;

pub(crate) type Fields<'a> = Vec<(&'a [u8], &'a [u8])>;

pub(crate) fn frames(forebay: &Forebay) -> FrameClient {
    FrameClient::begin(forebay.client())
}

pub(crate) fn fields<'a>(method: &'a str, path: &'a str) -> Fields<'a> {
    head(method, "web.test", path).map(|(name, value)| (name.as_bytes(), value.as_bytes())).to_vec()
}

pub(crate) fn get_block() -> Vec<u8> {
    header_block(&fields("GET", "/"))
}

/// Sends `frames` after `first`, and sees that the connection ends, that this is counted, and that others are
/// served.
fn is_a_flood(first: &[Vec<u8>], frames: &[Vec<u8>]) {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = self::frames(&forebay);
    client.try_send_all(first);
    client.try_send_all(frames);
    let code = client.ending();
    assert!(matches!(code, Some(ENHANCE_YOUR_CALM) | None), "GOAWAY with {code:?}");
    awaits_fault(&forebay, "client", "http2_flood", 1);
    assert_eq!(H2Client::clear(forebay.address()).get("web.test", "/").said(), (200, "hello"));
}

/// An endpoint must not pay for requests that nobody wants (CVE-2023-44487).
#[test]
fn a_flood_of_resets_ends_the_connection() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = frames(&forebay);
    let pair = |number: u32| {
        let stream = 2 * number + 1;
        let cancel = frame(kind::RST_STREAM, flag::NONE, stream, &8_u32.to_be_bytes());
        [frame(kind::HEADERS, WHOLE, stream, &get_block()), cancel].concat()
    };
    client.try_send_all(&(0..MANY).map(pair).collect::<Vec<_>>());
    let code = client.ending();
    assert!(matches!(code, Some(ENHANCE_YOUR_CALM) | None), "GOAWAY with {code:?}");
    awaits_fault(&forebay, "client", "http2_flood", 1);
    assert!(upstream.heads().len() < 200, "{} requests went on", upstream.heads().len());
    assert_eq!(forebay.get("/").said(), (200, "hello"));
}

/// A head must not grow without end (CVE-2024-27316 and its kin).
#[test]
fn a_flood_of_continuations_ends_the_connection() {
    let more = header_block(&[(b"a", b"b")]);
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for more in [more, Vec::new()] {
        let mut client = frames(&forebay);
        client.send(kind::HEADERS, flag::END_STREAM, 1, &get_block());
        client.try_send_all(&vec![frame(kind::CONTINUATION, flag::NONE, 1, &more); MANY as usize]);
        let code = client.ending();
        assert!(matches!(code, Some(ENHANCE_YOUR_CALM) | None), "GOAWAY with {code:?}");
    }
    awaits_fault(&forebay, "client", "http2_flood", 2);
    assert!(upstream.is_left_alone());
}

#[test]
fn a_flood_of_settings_ends_the_connection() {
    let settings = settings_payload(&[(INITIAL_WINDOW_SIZE, 65_535)]);
    is_a_flood(&[], &vec![frame(kind::SETTINGS, flag::NONE, 0, &settings); MANY as usize]);
}

#[test]
fn a_flood_of_pings_ends_the_connection() {
    is_a_flood(&[], &vec![frame(kind::PING, flag::NONE, 0, &[0; 8]); MANY as usize]);
}

#[test]
fn a_flood_of_priorities_ends_the_connection() {
    is_a_flood(&[], &vec![frame(kind::PRIORITY, flag::NONE, 1, &[0, 0, 0, 0, 16]); MANY as usize]);
}

#[test]
fn a_flood_of_window_updates_ends_the_connection() {
    is_a_flood(&[], &vec![frame(kind::WINDOW_UPDATE, flag::NONE, 0, &[0, 0, 0, 1]); MANY as usize]);
}

#[test]
fn a_flood_of_unknown_frames_ends_the_connection() {
    is_a_flood(&[], &vec![frame(0xfa, flag::NONE, 0, b"?"); MANY as usize]);
}

#[test]
fn a_flood_of_empty_data_ends_the_connection() {
    let post = frame(kind::HEADERS, flag::END_HEADERS, 1, &header_block(&fields("POST", "/")));
    is_a_flood(&[post], &vec![frame(kind::DATA, flag::NONE, 1, b""); MANY as usize]);
}

#[test]
fn a_flood_of_malformed_requests_ends_the_connection() {
    let empty = |number: u32| frame(kind::HEADERS, WHOLE, 2 * number + 1, b"");
    is_a_flood(&[], &(0..MANY).map(empty).collect::<Vec<_>>());
}

#[test]
fn windows_may_not_overflow() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let most = 0x7fff_ffff_u32.to_be_bytes();
    let mut client = frames(&forebay);
    client.send(kind::WINDOW_UPDATE, flag::NONE, 0, &most);
    assert_eq!(client.ending(), Some(FLOW_CONTROL_ERROR));
    awaits_fault(&forebay, "client", "http2_error", 1);

    let mut client = frames(&forebay);
    client.get(1, "web.test", "/");
    let (_peer, _) = upstream.accept_request();
    client.send(kind::WINDOW_UPDATE, flag::NONE, 1, &most);
    assert_eq!(client.outcome(1), Outcome::Reset(FLOW_CONTROL_ERROR));
}

/// Data of an endpoint that a client does not take is not buffered without bound.
#[test]
fn a_client_that_opens_no_window_costs_little() {
    const BODY_BYTES: usize = 4 << 20;
    const STREAMS: u32 = 100;
    let answer = [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n").into_bytes(),
        vec![b'x'; BODY_BYTES],
    ];
    let upstream = Canned::answering(answer.concat());
    let forebay = setup().endpoint(upstream.address()).start();
    let before = forebay.resident_kib();
    let mut client = FrameClient::begin_with(forebay.client(), &[(INITIAL_WINDOW_SIZE, 0)]);
    for number in 0..STREAMS {
        client.get(2 * number + 1, "web.test", "/");
    }
    for _ in 0..STREAMS {
        client.await_frame(|frame| frame.kind == kind::HEADERS);
    }
    // An answer to a PING comes after what was read from endpoints in the same turn.
    client.send(kind::PING, flag::NONE, 0, &[0; 8]);
    client.await_frame(|frame| frame.kind == kind::PING);
    let grown = forebay.resident_kib().saturating_sub(before);
    assert!(grown < 40 << 10, "{grown} KiB for {STREAMS} responses of {BODY_BYTES} bytes");
    // Clients that open their windows get all of it.
    client.send(kind::WINDOW_UPDATE, flag::NONE, 1, &(BODY_BYTES as u32).to_be_bytes());
    client.send(kind::WINDOW_UPDATE, flag::NONE, 0, &(BODY_BYTES as u32).to_be_bytes());
    let mut received = 0;
    while received < BODY_BYTES {
        received += client.await_frame(|frame| frame.kind == kind::DATA && frame.stream == 1).payload.len();
    }
    assert_eq!(received, BODY_BYTES);
}

/// Sends a head with other fields than are allowed; returns what became of it. Nothing may reach the
/// endpoint.
fn refused(forebay: &Forebay, fields: &[(&[u8], &[u8])]) -> Outcome {
    let mut client = frames(forebay);
    client.send_head(1, fields, true);
    client.outcome(1)
}

fn with(name: &'static [u8], value: &'static [u8]) -> Fields<'static> {
    [fields("GET", "/"), vec![(name, value)]].concat()
}

fn with_pseudo(index: usize, name: &'static [u8], value: &'static [u8]) -> Fields<'static> {
    let mut fields = fields("GET", "/");
    fields[index] = (name, value);
    fields
}

fn without_pseudo(index: usize) -> Fields<'static> {
    let mut fields = fields("GET", "/");
    fields.remove(index);
    fields
}

fn malformed_heads() -> Vec<Fields<'static>> {
    vec![
        with(b"Upper", b"case"),
        with(b"te", b"gzip"),
        with(b"te", b"trailers, gzip"),
        with(b"connection", b"close"),
        with(b"connection", b"keep-alive"),
        with(b"keep-alive", b"timeout=5"),
        with(b"proxy-connection", b"keep-alive"),
        with(b"upgrade", b"websocket"),
        with(b"transfer-encoding", b"chunked"),
        with(b"transfer-encoding", b"identity"),
        with(b"", b"nameless"),
        with(b"sp ace", b"x"),
        with(b"new\r\nline", b"x"),
        with(b"colon:", b"x"),
        with(b"nul\0", b"x"),
        with(b"x", b"a\r\nsmuggled: yes"),
        with(b"x", b"a\nsmuggled: yes"),
        with(b"x", b"a\rb"),
        with(b"x", b"a\0b"),
        with(b"x", b"a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: web.test\r\n\r\n"),
        with(b":unknown", b"x"),
        with(b":status", b"200"),
        with(b":path", b"/again"),
        with(b":method", b"GET"),
        with(b":authority", b"web.test"),
        with(b"host", b"other.test"),
        with(b"content-length", b"5"),
        with(b"content-length", b"x"),
        with(b"content-length", b"-1"),
        with(b"expect", b"something"),
        without_pseudo(0),
        without_pseudo(1),
        without_pseudo(3),
        with_pseudo(0, b":method", b""),
        with_pseudo(0, b":method", b"GET / HTTP/1.1\r\n"),
        with_pseudo(0, b":method", b"G ET"),
        with_pseudo(2, b":authority", b"web.test\r\nx: y"),
        with_pseudo(2, b":authority", b"web.test/path"),
        with_pseudo(2, b":authority", b"user@web.test"),
        with_pseudo(2, b":authority", b"web .test"),
        with_pseudo(3, b":path", b""),
        with_pseudo(3, b":path", b"no-slash"),
        with_pseudo(3, b":path", b"/a b"),
        with_pseudo(3, b":path", b"/ HTTP/1.1\r\nx: y"),
        with_pseudo(3, b":path", b"/a\0"),
        with_pseudo(3, b":path", b"/%zz"),
        with_pseudo(3, b":path", b"*"),
    ]
}

#[test]
fn malformed_heads_are_refused_and_reach_no_endpoint() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for fields in malformed_heads() {
        let outcome = refused(&forebay, &fields);
        let is_refused = matches!(
            outcome,
            Outcome::Reset(PROTOCOL_ERROR) | Outcome::Status(400 | 417) | Outcome::GoAway(PROTOCOL_ERROR)
        );
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let told: Vec<_> = fields.iter().map(|(name, value)| (text(name), text(value))).collect();
        assert!(is_refused, "{outcome:?} for {told:?}");
        assert!(upstream.is_left_alone(), "{told:?}");
    }
}

#[test]
fn refused_heads_are_counted_by_what_is_wrong() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    assert_eq!(refused(&forebay, &with(b"host", b"other.test")), Outcome::Status(400));
    awaits_fault(&forebay, "client", "duplicate_host", 1);
    assert_eq!(refused(&forebay, &with(b"te", b"gzip")), Outcome::Reset(PROTOCOL_ERROR));
    awaits_fault(&forebay, "client", "http2_stream_error", 1);
}

#[test]
fn a_host_that_says_the_same_as_the_authority_is_one_host() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    for (index, name) in [(2, &b":authority"[..]), (2, b"host")] {
        let mut fields = fields("GET", "/");
        fields[index] = (name, b"web.test");
        // Pseudo-headers come first.
        fields.sort_by_key(|(name, _)| !name.starts_with(b":"));
        fields.push((b"host", b"WEB.test"));
        fields.dedup_by_key(|(name, _)| *name);
        let mut client = frames(&forebay);
        client.send_head(1, &fields, true);
        let (mut peer, head) = upstream.accept_request();
        assert_eq!(
            head.to_lowercase().matches("host: web.test\r\n").count(),
            2,
            "Host and X-Forwarded-Host: {head}"
        );
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.outcome(1), Outcome::Status(200));
    }
}

/// RFC 9113 section 8.1.1.
#[test]
fn content_of_another_length_than_told_is_never_taken_for_whole() {
    let upstream = Upstream::new();
    let forebay = streaming(&upstream);
    for (content, flags) in
        [(&b"our"[..], flag::END_STREAM), (b"oo long", flag::END_STREAM), (b"oo long", flag::NONE)]
    {
        let mut client = frames(&forebay);
        let fields = [fields("POST", "/"), vec![(b"content-length", b"5")]].concat();
        client.send_head(1, &fields, false);
        client.send(kind::DATA, flag::NONE, 1, b"x");
        let (mut peer, _) = upstream.accept_request();
        client.send(kind::DATA, flags, 1, content);
        assert_eq!(client.outcome(1), Outcome::Reset(PROTOCOL_ERROR), "{content:?}");
        let (seen, _) = peer.read_to_end();
        assert!(seen.len() < 5, "{content:?} became {seen:?}");
    }
}

#[test]
fn cookies_that_come_in_crumbs_go_on_whole() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut client = frames(&forebay);
    client.send_head(1, &[fields("GET", "/"), vec![(b"cookie", b"a=b"), (b"cookie", b"c=d")]].concat(), true);
    let (mut peer, head) = upstream.accept_request();
    assert!(head.contains("\r\ncookie: a=b; c=d\r\n"), "{head}");
    peer.send(OK);
    assert_eq!(client.outcome(1), Outcome::Status(200));
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let long = vec![b'x'; 12_000];
    let mut client = frames(&forebay);
    client.send_head(1, &[fields("GET", "/"), vec![(b"x", &long)]].concat(), true);
    assert!(matches!(client.outcome(1), Outcome::Status(400)));
    let mut client = frames(&forebay);
    let block = header_block(&[fields("GET", "/"), vec![(b"x", &long); 4]].concat());
    let mut pieces = block.chunks(16_000);
    client.send(kind::HEADERS, flag::END_STREAM, 1, pieces.next().expect("a piece"));
    for piece in pieces.clone().take(pieces.len() - 1) {
        client.send(kind::CONTINUATION, flag::NONE, 1, piece);
    }
    client.send(kind::CONTINUATION, flag::END_HEADERS, 1, pieces.next_back().expect("another"));
    assert_eq!(client.outcome(1), Outcome::Status(400));
    assert!(upstream.is_left_alone());
}

#[test]
fn streams_at_once_are_limited_as_told() {
    let upstream = Upstream::new();
    let forebay = setup().endpoint(upstream.address()).setting("http2-max-concurrent-streams", "3").start();
    let mut client = FrameClient::silent(forebay.client());
    client.send_bytes(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(kind::SETTINGS, flag::NONE, 0, &[]);
    let settings = client.await_frame(|frame| frame.kind == kind::SETTINGS);
    let told = settings.payload.chunks(6).find(|one| one[..2] == MAX_CONCURRENT_STREAMS.to_be_bytes());
    assert_eq!(told.expect("it is told")[2..], 3_u32.to_be_bytes());
    client.send(kind::SETTINGS, flag::ACK, 0, &[]);
    let mut peers = Vec::new();
    for stream in [1, 3, 5] {
        client.get(stream, "web.test", "/");
        peers.push(upstream.accept_request().0);
    }
    client.get(7, "web.test", "/");
    assert_eq!(client.outcome(7), Outcome::Reset(REFUSED_STREAM));
    peers[0].send(OK);
    client.await_frame(|frame| frame.stream == 1 && frame.flags & flag::END_STREAM != 0);
    client.get(9, "web.test", "/");
    peers[0].read_head();
    assert!(upstream.is_left_alone());
}

#[test]
fn a_stop_finishes_what_has_begun() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let mut idle = H2Client::clear(forebay.address());
    let mut busy = frames(&forebay);
    busy.get(1, "web.test", "/");
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfi");
    assert_eq!(busy.outcome(1), Outcome::Status(200));
    forebay.signal(Signal::TERM);
    idle.ending().expect("it is told in order");
    let goodbye = busy.await_frame(|frame| frame.kind == kind::GOAWAY);
    assert_eq!(goodbye.payload[4..8], NO_ERROR.to_be_bytes());
    peer.send("ne");
    busy.await_frame(|frame| frame.kind == kind::DATA && frame.flags & flag::END_STREAM != 0);
    assert!(matches!(busy.ending(), Some(NO_ERROR) | None));
    assert_eq!(forebay.wait().status.code(), Some(0));
}

#[test]
fn an_idle_connection_is_told_to_go() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).setting("keep-alive", "1").start();
    let mut client = frames(&forebay);
    client.get(1, "web.test", "/");
    assert_eq!(client.outcome(1), Outcome::Status(200));
    assert_eq!(client.ending(), Some(NO_ERROR));
}

#[test]
fn a_connection_has_so_many_requests() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).setting("keep-alive-requests", "3").start();
    let mut client = frames(&forebay);
    for stream in [1, 3, 5] {
        client.get(stream, "web.test", "/");
        assert_eq!(client.outcome(stream), Outcome::Status(200));
    }
    assert_eq!(client.ending(), Some(NO_ERROR));
}

#[test]
fn clients_may_know_beforehand_or_not() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    assert_eq!(H2Client::clear(forebay.address()).get("web.test", "/").version, "HTTP/2.0");
    assert_eq!(forebay.get("/").version, "HTTP/1.1");
    // The preface may come byte by byte.
    let mut client = FrameClient::silent(forebay.client());
    let preface =
        [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(kind::SETTINGS, flag::NONE, 0, &[])[..]].concat();
    for byte in preface {
        client.send_bytes(&[byte]);
    }
    client.get(1, "web.test", "/");
    assert_eq!(client.outcome(1), Outcome::Status(200));
    // Text with the same beginning is a bad request of HTTP/1.
    let mut other = forebay.client();
    other.send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    assert_eq!(other.read_response().status, 505);
}

#[test]
fn http2_can_be_turned_off() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).setting("use-http2", "false").start();
    let mut client = forebay.client();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(matches!(client.read_response().status, 400 | 505));
}

/// A preface has the time of a head; a head that stalls has that of a connection on which nothing begins.
#[test]
fn a_client_that_stalls_before_its_request_runs_out_of_time() {
    let forebay = setup().setting("client-header-timeout", "1").setting("keep-alive", "1").start();
    let mut silent = FrameClient::silent(forebay.client());
    silent.send_bytes(b"PRI * HTTP/2.0\r\n");
    assert_eq!(silent.ending(), None);
    let mut stalled = frames(&forebay);
    stalled.send(kind::HEADERS, flag::END_STREAM, 1, &get_block()[..5]);
    assert_eq!(stalled.ending(), Some(NO_ERROR));
}

#[test]
fn content_that_stalls_runs_out_of_time() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-request-buffering", "off")
        .setting("client-body-timeout", "1")
        .start();
    let mut client = frames(&forebay);
    client.send_head(1, &fields("POST", "/"), false);
    client.send(kind::DATA, flag::NONE, 1, b"some");
    let (mut peer, _) = upstream.accept_request();
    assert!(matches!(client.outcome(1), Outcome::Status(408) | Outcome::Reset(_)));
    let (seen, _) = peer.read_to_end();
    assert!(!String::from_utf8_lossy(&seen).ends_with("0\r\n\r\n"), "cut off, and not as if whole");
    awaits_fault(&forebay, "client", "body_timeout", 1);
}

#[test]
fn a_connection_that_stands_still_does_not_hold_up_another() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let held: Vec<FrameClient> = (0..50)
        .map(|_| {
            let mut client = FrameClient::begin_with(forebay.client(), &[(INITIAL_WINDOW_SIZE, 0)]);
            client.get(1, "web.test", "/");
            assert_eq!(client.outcome(1), Outcome::Status(200));
            client
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(forebay.get("/").said(), (200, "hello"));
    }
    drop(held);
    let active = || {
        forebay.metrics().sum("nginx_ingress_controller_nginx_process_connections", &[("state", "active")])
    };
    forebay.await_that("the connections to be gone", || active() == 0);
}
