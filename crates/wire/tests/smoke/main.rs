//! Runs the fuzz targets for a moment: the corpus in `fuzz/corpus`, and mutations of it from a fixed seed, so
//! that a failure is reproducible.

mod checks;
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
fn http2_frames() {
    smoke("http2_frames", checks::http2_frames);
}

#[test]
fn caches() {
    smoke("cache", checks::cache);
}
