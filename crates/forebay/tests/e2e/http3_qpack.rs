//! The dynamic tables of QPACK (RFC 9204), over real streams.

use std::net::SocketAddr;

use testkit::{Canned, Forebay, QuicClient, QuicStream, Setup, TlsClient, Upstream};

use crate::failures::awaits_fault;
use crate::setup;

// Error codes (RFC 9114 section 8.1, RFC 9204 section 6).
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const EXCESSIVE_LOAD: u64 = 0x107;
const REQUEST_INCOMPLETE: u64 = 0x10d;
const DECOMPRESSION_FAILED: u64 = 0x200;
const ENCODER_STREAM_ERROR: u64 = 0x201;
const DECODER_STREAM_ERROR: u64 = 0x202;

/// The control stream of a client without a table, and that of one with 4096 bytes.
const CONTROL: &[u8] = &[0, 4, 0];
const CONTROL_WITH_TABLE: &[u8] = &[0, 4, 3, 1, 0x50, 0];
/// The beginning of an encoder stream: a capacity of 4096.
const ENCODER: &[u8] = &[2, 0x3f, 0xe1, 0x1f];
/// "Insert With Literal Name" of `x-own: abc`.
const INSERT: &[u8] = b"\x45x-own\x03abc";

fn http3() -> Setup {
    setup().tls("web.test").setting("forebay-http3", "on")
}

fn serving(address: SocketAddr) -> Forebay {
    http3().endpoint(address).start()
}

fn quic(forebay: &Forebay) -> QuicClient {
    QuicClient::connect(forebay.https_address(), &TlsClient::new("web.test"))
}

/// A HEADERS frame: GET with the first entry of the table, which may not have come, in every field line.
fn with_entry() -> Vec<u8> {
    // One insertion is needed; then `:method: GET`, `:scheme: https`, `:path: /`, `:authority`, entry 0.
    let block = [&[0x02, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 8][..], b"web.test", &[0x80]].concat();
    [&[1, block.len() as u8][..], &block].concat()
}

fn get() -> Vec<u8> {
    let block = [&[0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 8][..], b"web.test"].concat();
    [&[1, block.len() as u8][..], &block].concat()
}

/// Sends a head that waits for its entry.
fn waiting(quic: &QuicClient) -> QuicStream {
    quic.send_bi(&with_entry(), true)
}

#[test]
fn a_request_waits_for_the_entries_that_it_refers_to() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL);
    let mut early = waiting(&quic);
    // Another request, that needs none, is served meanwhile.
    assert!(quic.send_bi(&get(), true).read_to_end().ends_with(b"hello"));
    assert_eq!(upstream.heads().len(), 1);
    let _encoder = quic.send_uni(&[ENCODER, INSERT].concat());
    assert!(early.read_to_end().ends_with(b"hello"));
    assert!(waiting(&quic).read_to_end().ends_with(b"hello"));
    let heads = upstream.heads();
    assert!(heads[1..].iter().all(|head| head.contains("x-own: abc\r\n")), "{heads:?}");
    // Control, then our decoder stream: one acknowledgment of each block on streams 0 and 8.
    let mut control = quic.accept_uni();
    assert_eq!(control.read_exactly(1), [0]);
    let mut decoder = quic.accept_uni();
    let answers = decoder.read_exactly(3);
    assert!(answers[0] == 3 && answers[1..].contains(&0x80), "{answers:x?}");
}

#[test]
fn trailers_wait_for_their_entries_too() {
    let upstream = Upstream::new();
    let forebay = http3().annotation("proxy-request-buffering", "off").endpoint(upstream.address()).start();
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL);
    let block = [&[0x00, 0x00, 0xd4, 0xd7, 0xc1, 0x50, 8][..], b"web.test"].concat();
    let head = [&[1, block.len() as u8][..], &block].concat();
    let mut stream = quic.send_bi(&[&head[..], &[0, 4], b"body", &[1, 3, 0x02, 0x00, 0x80]].concat(), true);
    let (mut peer, _) = upstream.accept_request();
    let _encoder = quic.send_uni(&[ENCODER, INSERT].concat());
    let body = peer.read_raw_chunks();
    assert!(body.contains("body") && body.contains("x-own: abc"), "{body}");
    peer.send(crate::OK);
    assert!(stream.read_to_end().ends_with(b"ok"));
}

/// Responses refer to entries that the client has acknowledged, and to no others.
#[test]
fn fields_of_responses_that_come_again_are_sent_by_index() {
    let value = "v".repeat(100);
    let upstream =
        Canned::answering(format!("HTTP/1.1 200 OK\r\nX-Own: {value}\r\nContent-Length: 5\r\n\r\nhello"));
    let forebay = serving(upstream.address());
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL_WITH_TABLE);
    let ask = || quic.send_bi(&get(), true).read_to_end();
    let has_value = |response: &[u8]| response.windows(100).any(|window| window == value.as_bytes());
    for _ in 0..4 {
        let response = ask();
        assert!(has_value(&response) && response.ends_with(b"hello"));
    }
    let mut control = quic.accept_uni();
    assert_eq!(control.read_exactly(1), [0]);
    let mut encoder = quic.accept_uni();
    // The kind of the stream, and a capacity of 4096.
    assert_eq!(encoder.read_exactly(4), ENCODER);
    // Our decoder has taken one insertion: whichever field was the first, later ones may be more.
    let _decoder = quic.send_uni(&[3, 0x01]);
    forebay.await_that("a shorter response", || ask().len() < 100 || !has_value(&ask()));
}

#[test]
fn clients_that_break_a_rule_of_the_table_are_closed() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let mut count = 0;
    for (uni, bi, code) in [
        // A capacity above our setting (RFC 9204 section 4.3.1).
        (&[2, 0x3f, 0xe2, 0x1f][..], &[][..], ENCODER_STREAM_ERROR),
        // An insertion without a capacity (section 3.2.2).
        (&[2, 0x41, b'a', 1, b'b'], &[], ENCODER_STREAM_ERROR),
        // An entry that does not exist (section 4.3.4).
        (&[2, 0x3f, 0xe1, 0x1f, 0x00], &[], ENCODER_STREAM_ERROR),
        // Acknowledgments of nothing (sections 4.4.1 and 4.4.3).
        (&[3, 0x80], &[], DECODER_STREAM_ERROR),
        (&[3, 0x00], &[], DECODER_STREAM_ERROR),
        (&[3, 0x01], &[], DECODER_STREAM_ERROR),
        // A count of insertions that no encoder can mean (section 4.5.1.1).
        (&[2, 0x3f, 0xe1, 0x1f], &[1, 3, 0xff, 0x02, 0x00], DECOMPRESSION_FAILED),
        // A base below 0 (section 4.5.1.2).
        (&[2, 0x3f, 0xe1, 0x1f], &[1, 3, 0x02, 0x81, 0x80], DECOMPRESSION_FAILED),
    ] {
        let broken = quic(&forebay);
        let streams = [CONTROL, uni].map(|bytes| broken.send_uni(bytes));
        let stream = if bi.is_empty() { None } else { broken.try_send_bi(bi, true).ok() };
        assert_eq!(broken.closing_code(), code, "{uni:x?} {bi:x?}");
        drop((streams, stream));
        count += 1;
        awaits_fault(&forebay, "client", "http3_error", count);
    }
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL);
    assert!(quic.send_bi(&get(), true).read_to_end().ends_with(b"hello"));
}

#[test]
fn the_streams_of_qpack_must_not_end() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    for kind in [2, 3] {
        let broken = quic(&forebay);
        let _control = broken.send_uni(CONTROL);
        let mut stream = broken.send_uni(&[kind]);
        stream.finish().expect("it is open");
        assert_eq!(broken.closing_code(), CLOSED_CRITICAL_STREAM);
    }
}

#[test]
fn more_streams_than_allowed_must_not_wait() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let broken = quic(&forebay);
    let _control = broken.send_uni(CONTROL);
    let _streams: Vec<_> = (0..17).map_while(|_| broken.try_send_bi(&with_entry(), true).ok()).collect();
    assert_eq!(broken.closing_code(), DECOMPRESSION_FAILED);
}

#[test]
fn a_request_does_not_wait_for_ever() {
    let upstream = Canned::saying("hello");
    let forebay = http3().setting("client-header-timeout", "1").endpoint(upstream.address()).start();
    let slow = quic(&forebay);
    let _control = slow.send_uni(CONTROL);
    let _stream = waiting(&slow);
    assert_eq!(slow.closing_code(), REQUEST_INCOMPLETE);
    awaits_fault(&forebay, "client", "head_timeout", 1);
}

/// Each instruction of one byte copies an entry.
#[test]
fn a_flood_of_instructions_ends_the_connection() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let flooding = quic(&forebay);
    let _control = flooding.send_uni(CONTROL);
    let _encoder = flooding.send_uni(&[ENCODER, INSERT, &[0; 5000]].concat());
    assert_eq!(flooding.closing_code(), EXCESSIVE_LOAD);
    awaits_fault(&forebay, "client", "http3_flood", 1);
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL);
    assert!(quic.send_bi(&get(), true).read_to_end().ends_with(b"hello"));
}

/// A client that cancels requests which wait gets their places back, and is told that they were given up.
#[test]
fn cancelled_requests_wait_no_more() {
    let upstream = Canned::saying("hello");
    let forebay = serving(upstream.address());
    let quic = quic(&forebay);
    let _control = quic.send_uni(CONTROL);
    for _ in 0..40 {
        let mut stream = quic.send_bi(&with_entry(), false);
        stream.cancel();
    }
    let _encoder = quic.send_uni(&[ENCODER, INSERT].concat());
    assert!(waiting(&quic).read_to_end().ends_with(b"hello"));
}
