//! Requests in which a front and a back might see different boundaries: plain ones for `web.test`, with a
//! trick or more each.

use std::fmt::Write;

use crate::Random;
use crate::mutate::mutate;

/// Headers for which two readers of a head may assume different lengths. `{}` is the length of the body that
/// follows.
const LENGTHS: &[&str] = &[
    "Content-Length: {}",
    "content-length:{}",
    "Content-Length: {} ",
    "Content-Length:\t{}",
    "Content-Length: 0{}",
    "Content-Length: +{}",
    "Content-Length: -{}",
    "Content-Length: {}, {}",
    "Content-Length: {};",
    "Content-Length: 0x{}",
    "Content-Length: {}\r\nContent-Length: {}",
    "Content-Length: 0\r\nContent-Length: {}",
    "Content-Length : {}",
    "Content-Length\t: {}",
    "Content-Length: {}\r\nTransfer-Encoding: chunked",
    "Content-Length: {}\r\nTransfer-Encoding: identity",
    "X: y\nContent-Length: {}",
    "X: y\rContent-Length: {}",
    "Content-Length:\r\n {}",
    "Content_Length: {}",
    "Content-Length: \x0b{}",
    "Content-Length: {}.0",
    "Content-Length: {}e0",
    "Content-Length: 18446744073709551616",
    "Content-Length: \0{}",
    " Content-Length: {}",
    "\tContent-Length: {}",
    "Content-Length: \"{}\"",
    "Content-Length: ",
    "Content-Length: 00",
    "\x00Content-Length: {}",
];

/// And for codings.
const CODINGS: &[&str] = &[
    "Transfer-Encoding: chunked",
    "transfer-encoding:chunked",
    "Transfer-Encoding: Chunked",
    "Transfer-Encoding: chunked ",
    "Transfer-Encoding:\tchunked",
    "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
    "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding:\r\n chunked",
    "X: y\nTransfer-Encoding: chunked",
    "X: y\rTransfer-Encoding: chunked",
    "Transfer_Encoding: chunked",
    "Transfer-Encoding: chunked\0",
    "Transfer-Encoding: \"chunked\"",
    " Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: ,chunked",
    "Transfer-Encoding:",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "TE: chunked",
    "Transfer-Encoding: chunk\u{e9}d",
    "\x00Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding",
    "Content-Length: 5\r\nConnection: Content-Length",
];

/// Sizes of a chunk of five bytes, and what follows them in the line.
const SIZES: &[&str] = &[
    "5\r\n",
    "5;a=b\r\n",
    "5;a=\"b\"\r\n",
    "05\r\n",
    "0000000000000005\r\n",
    "00000000000000005\r\n",
    "5 \r\n",
    " 5\r\n",
    "5\n",
    "5\r",
    "0x5\r\n",
    "+5\r\n",
    "5;\n\r\n",
    "5;a\rb\r\n",
    "5 ;a\r\n",
    "5;a=\"\r\n\r\n",
    "10000000000000005\r\n",
    "-5\r\n",
    "5;\x01\r\n",
    "5\t\r\n",
    "5\r\r\n",
    "4\r\n",
    "6\r\n",
    "\r\n5\r\n",
];

/// Text that may follow the last chunk's size.
const TRAILERS: &[&str] = &[
    "\r\n",
    "X: y\r\n\r\n",
    "Content-Length: 7\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n",
    "Host: other.test\r\n\r\n",
    "\n",
    "X: y\n\r\n",
    " X: y\r\n\r\n",
    "X\r\n\r\n",
    "X: y\r\n z\r\n\r\n",
    "\r",
    "GET /trailer HTTP/1.1\r\n\r\n",
    ": y\r\n\r\n",
];

const LINES: &[&str] = &[
    "GET {} HTTP/1.1",
    "POST {} HTTP/1.1",
    "PUT {} HTTP/1.1",
    "HEAD {} HTTP/1.1",
    "OPTIONS {} HTTP/1.1",
    "DELETE {} HTTP/1.1",
    "get {} HTTP/1.1",
    "M-SEARCH {} HTTP/1.1",
    "GET {} HTTP/1.0",
    "GET {} HTTP/1.2",
    "GET {} HTTP/2.0",
    "GET {} http/1.1",
    "GET  {} HTTP/1.1",
    "GET\t{} HTTP/1.1",
    "GET {} HTTP/1.1 ",
    " GET {} HTTP/1.1",
    "GET {}",
    "GET {} HTTP/1.1\r",
    "\r\nGET {} HTTP/1.1",
    "\nGET {} HTTP/1.1",
    "GET {} HTTP/01.1",
    "GET {} HTTP/1.10",
    "GET {} X HTTP/1.1",
    "TRACE {} HTTP/1.1",
    "CONNECT {} HTTP/1.1",
    "PRI * HTTP/2.0",
    "GE\0T {} HTTP/1.1",
];

const TARGETS: &[&str] = &[
    "/",
    "/a?b=c",
    "/a%20b",
    "/a/../b",
    "/%2e%2e/",
    "//a",
    "/a#b",
    "http://web.test/x",
    "http://other.test/x",
    "HTTP://web.test/",
    "*",
    "/\u{e9}",
    "/a\\b",
    "/%00",
    "/a;b",
    "/?GET / HTTP/1.1",
    "http://web.test",
    "http://web.test:80/x",
    "http://u@web.test/",
    "web.test:80",
    "/a\tb",
    "/%0d%0aX:%20y",
    "/\x7f",
    "http://web.test/x?Host:",
    "",
    "/%zz",
    "/.//./",
];

const HOSTS: &[&str] = &[
    "Host: web.test",
    "host:web.test",
    "Host: WEB.test",
    "Host: web.test:80",
    "Host: web.test ",
    "Host:\tweb.test",
    "Host: web.test.",
    "Host: web.test\r\nHost: web.test",
    "Host: web.test\r\nHost: other.test",
    "Host : web.test",
    "Host: web.test, other.test",
    "Host:",
    "X: y",
    "Host: other.test@web.test",
    "Host: web.test/x",
    "Host: web.test#",
    "Host: [::1]",
    "Host: web.test\0",
    "\tHost: web.test",
    "Host: web.test:99999",
    "Host: web.test\nX: y",
    "Host: \x0bweb.test",
    "Host: web.test:",
    "X: y\r\n Host: web.test",
];

const FIELDS: &[&str] = &[
    "X: y",
    "X:y",
    "X:",
    "X: \ty\t",
    "X : y",
    "X: y\r\n z",
    "X: y\r\n\tz",
    "X: a\0b",
    "X: a\x7fb",
    "X: \u{e9}",
    "X\r\nY: z",
    ": y",
    "X Y: z",
    "X: y\nZ: a",
    "X: y\rZ: a",
    "(X): y",
    "X@: y",
    "Expect: 100-continue",
    "Expect: 200-ok",
    "Connection: close",
    "Connection: keep-alive, X\r\nX: y",
    "Connection: Host",
    "Connection: Content-Length",
    "Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
    "Keep-Alive: 5",
    "Upgrade: websocket",
    "Connection: upgrade\r\nUpgrade: x",
    "TE: trailers",
    "Trailer: Content-Length",
    "Proxy-Connection: close",
    "X-Forwarded-For: 1.2.3.4",
    "X-Real-IP: 1.2.3.4",
    "Forwarded: for=1",
    "Max-Forwards: 0",
    "Range: bytes=0-1",
    "X_Y: z",
    "Content-Type: a/b",
    "X-HTTP-Method-Override: DELETE",
    "Transfer-Encoding: chunked",
    "Content-Length: 3",
    "Content-Length: 0",
    "Proxy: http://evil.test",
    "\0",
    "Set-Cookie: a",
    "X: \"a\r\nb\"",
    "X:\x0by",
    "\x0bX: y",
    "Connection: close, Transfer-Encoding",
    "If-None-Match: *",
];

const BODIES: &[&str] = &[
    "hello",
    "",
    "0\r\n\r\n",
    "GET /smuggled HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "5\r\nhello\r\n0\r\n\r\n",
    "\r\n",
    "0\r\n\r\nGET /smuggled HTTP/1.1\r\nX: ",
];

/// The bytes of a conversation's client side: a few requests, the last of which asks for an end.
pub fn conversation(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=random.below(3) {
        bytes.extend(request(random));
    }
    if random.once_in(5) {
        mutate(random, &mut bytes, 2);
    }
    bytes.extend_from_slice(b"GET /end HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
    bytes
}

/// A request. Most parts of it are plain, so that what is not gets its chance.
fn request(random: &mut Random) -> Vec<u8> {
    let line = part(random, LINES, 6).replace("{}", part(random, TARGETS, 4));
    let mut head = format!("{line}\r\n{}\r\n", part(random, HOSTS, 6));
    while random.once_in(3) {
        head += part(random, FIELDS, 1);
        head += "\r\n";
    }
    let body = framed(random, &mut head);
    head += "\r\n";
    let mut bytes = latin(&head);
    bytes.extend(body);
    bytes
}

/// Adds what frames a body; the body.
fn framed(random: &mut Random, head: &mut String) -> Vec<u8> {
    match random.below(4) {
        0 => Vec::new(),
        1 => chunked(random, head),
        2 => {
            let body = *random.pick(BODIES);
            let shift = if random.once_in(6) { random.below(4) } else { 0 };
            let len = (body.len() + shift).to_string();
            head.push_str(&part(random, LENGTHS, 2).replace("{}", &len));
            *head += "\r\n";
            body.as_bytes().to_vec()
        }
        _ => {
            let body = *random.pick(BODIES);
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
            body.as_bytes().to_vec()
        }
    }
}

fn chunked(random: &mut Random, head: &mut String) -> Vec<u8> {
    *head += part(random, CODINGS, 2);
    *head += "\r\n";
    let mut body = String::new();
    for _ in 0..random.below(3) {
        body += part(random, SIZES, 2);
        body += "hello\r\n";
    }
    body += "0\r\n";
    body += part(random, TRAILERS, 2);
    latin(&body)
}

/// The first of a list, but for once in so many times, when it is any.
fn part<'a>(random: &mut Random, list: &[&'a str], rare: usize) -> &'a str {
    if random.once_in(rare) { random.pick::<&'a str>(list) } else { list[0] }
}

/// Characters below 256 as a byte each, so that what is no UTF-8 is sent too.
fn latin(text: &str) -> Vec<u8> {
    text.chars().map(|char| char as u8).collect()
}
