//! Runs the fuzz targets for a moment: the corpus in `fuzz/corpus`, and mutations of it from a fixed seed, so
//! that a failure is reproducible.

mod checks;
mod conversation;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// The number of mutations of each entry of a corpus.
const ROUNDS: u64 = 20_000;

/// Pieces with a meaning for the parsers.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"0\r\n",
    b"ffffffffffffffff",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close, x\r\n",
    b"HTTP/1.0",
    b"http://a",
    b"%2e%2e",
    b"/../",
    b"%",
    b"\x16\x03\x01\x00\x01",
    b"\x00\x00\x00\x09\x00\x07\x00\x00\x04a.te",
    b"PROXY ",
    b"TCP6 ::1 ",
    b"UNKNOWN",
    b"65535",
    b"\r\n\r\n\x00\r\nQUIT\n",
    b"\x03\x00\x04",
    b"Cache-Control: max-age=\"9\", private=\"a\"\r\n",
    b"CDN-Cache-Control: max-age=9;a=(\r\n",
    b"Vary: a, *\r\n",
    b"ETag: W/\"a\"\r\n",
    b"Age: 1\r\n",
    b"Sunday, 06-Nov-94 08:49:37 GMT",
];

/// Operations of a conversation of HTTP/2: kind and side, then stream or amount.
const OPERATIONS: &[&[u8]] = &[
    b"\x00\x00",
    b"\x00\x07",
    b"\x01\x08",
    b"\x01\x18",
    b"\x02\xf0",
    b"\x82\xf1",
    b"\x42\x80",
    b"\xc2\x81",
    b"\x04\x00",
    b"\x84\x01",
    b"\x05\x10",
    b"\x85\x10",
    b"\x08\xff",
    b"\x88\xff",
    b"\x08\xff\x88\xff\x08\xff\x88\xff",
    b"\x0a\xf8",
    b"\x8a\xf9",
    b"\x4b\x00",
    b"\xcb\x01",
    b"\x0c\x00",
    b"\x8c\x01",
    b"\x0e\x01",
    b"\x8e\x01",
    b"\x7f\x00",
];

/// Frames of HTTP/2, which are whole or only begin.
const FRAMES: &[&[u8]] = &[
    b"\0\0\x01\0\x01\0\0\0\x01a",
    b"\0\0\x05\0\x08\0\0\0\x01\x02ab\0\0",
    b"\0\0\x06\x01\x05\0\0\0\x03\x83\x86\x84\x41\x01a",
    b"\0\0\x04\x01\0\0\0\0\x05\x83\x86\x84\x41",
    b"\0\0\x02\x09\x04\0\0\0\x05\x01a",
    b"\0\0\x07\x01\x05\0\0\0\x01\x40\x03x-a\x01b",
    b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\x03\x10",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\x05",
    b"\0\0\0\x04\x01\0\0\0\0",
    b"\0\0\x08\x06\0\0\0\0\x0012345678",
    b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0",
    b"\0\0\x04\x08\0\0\0\0\x01\x7f\xff\xff\xff",
    b"\0\0\x07\x10\0\0\0\0\0\0\0\0\x01u=5",
    b"\xff",
    b"\x01",
    b"\0",
];

fn smoke(target: &str, check: fn(&[u8])) {
    driver::smoke(target, ROUNDS, WORDS, check);
}

#[test]
fn request_heads() {
    smoke("request_head", checks::request_head);
}

#[test]
fn response_heads() {
    smoke("response_head", checks::response_head);
}

#[test]
fn chunked_bodies() {
    smoke("chunked", checks::chunked);
}

#[test]
fn paths() {
    smoke("path", checks::path);
}

#[test]
fn client_hellos() {
    smoke("client_hello", checks::client_hello);
}

#[test]
fn proxy_headers() {
    smoke("proxy_header", checks::proxy_header);
}

#[test]
fn http2_heads() {
    smoke("http2_head", checks::http2_head);
}

#[test]
fn http3_messages() {
    smoke("http3_message", checks::http3_message);
}

#[test]
fn http3_control_streams() {
    smoke("http3_control", checks::http3_control);
}

#[test]
fn quic_hellos() {
    smoke("quic_hello", checks::quic_hello);
}

#[test]
fn http3_tables() {
    smoke("http3_qpack", checks::http3_qpack);
}

#[test]
fn http2_frames() {
    driver::smoke("http2_frames", ROUNDS / 4, FRAMES, checks::http2_frames);
}

#[test]
fn http2_conversations() {
    driver::smoke("http2_conversation", ROUNDS / 200, OPERATIONS, conversation::http2_conversation);
}

#[test]
fn caches() {
    smoke("cache", checks::cache);
}
